"""The probability-weighted rating beside the one that was said."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from medal_judges.dimension import Dimension
from medal_judges.models.llm.amounts import likelihood_usage
from medal_judges.models.llm.protocol import (
    Completion,
    Continuation,
    LanguageModel,
    Message,
)
from medal_judges.models.prompted.geval_ratings import MOST_LEVELS, Found, Ratings, from_logprobs
from medal_judges.models.prompted.parsing.parser import Parsed
from medal_judges.models.prompted.prompt import Scale
from medal_judges.rating import rescale


def ratings_of(dimension: Dimension, asked: Scale) -> Ratings:
    """The ratings whose probabilities are weighed: all whole numbers of the scale asked for, or
    eleven of them, evenly spread (0, 10, ... 100), where there are more."""
    low, high = math.ceil(asked[0]), math.floor(asked[1])
    steps = min(high - low, MOST_LEVELS - 1)
    whole = [round(low + i * (high - low) / steps) for i in range(steps + 1)]
    own = (dimension.low, dimension.high)
    return Ratings(tuple(map(str, whole)), tuple(rescale(float(w), asked, own) for w in whole))


def from_alternatives(completion: Completion, parsed: Parsed, ratings: Ratings) -> Found | None:
    """From the alternatives to the token that says the number; None where that cannot be told.

    It can where the backend reports alternatives, one token is the whole number, and no rating
    begins another one (1 and 10).
    """
    if parsed.start is None or parsed.end is None or ratings.ambiguous:
        return None
    position = 0
    for token in completion.tokens:
        before = parsed.start - position
        if before < len(token.text):
            break
        position += len(token.text)
    else:
        return None
    said = completion.text[parsed.start : parsed.end]
    if "".join(t.text for t in completion.tokens)[: parsed.end] != completion.text[: parsed.end]:
        return None
    if token.text[before:] != said or not token.alternatives:
        return None  # a token that stands alone would pass for certain
    told = {**token.alternatives, token.text: token.logprob}
    mark = token.text[:before].strip()
    chances = [
        sum(math.exp(lp) for text, lp in told.items() if text.strip() == mark + rating)
        for rating in ratings.texts
    ]
    total = sum(chances)
    if total <= 0:
        return None
    return Found(tuple(c / total for c in chances), mass=min(1.0, total))


def continuations(
    messages: tuple[Message, ...],
    completion: Completion,
    parsed: Parsed,
    ratings: Ratings,
    *,
    bare: bool,
) -> list[Continuation]:
    """Every rating in the place where the answer says its number.

    What follows the number is scored with it where one rating begins another: it tells them apart.
    Where no number is found, a ``bare`` answer (a number and nothing before it) is weighed at its
    beginning; any other gives an empty list.
    """
    if parsed.start is None or parsed.end is None:
        if not bare or completion.finish == "failed":
            return []
        prefill, after = "", ""
    else:
        prefill = completion.text[: parsed.start]
        after = completion.text[parsed.end : parsed.end + 1].strip()
    tail = after if ratings.ambiguous else ""
    return [
        Continuation(
            messages, text + tail, prefill=prefill, score_eos=ratings.ambiguous and not tail
        )
        for text in ratings.texts
    ]


def by_likelihood(
    llm: LanguageModel, asked: Sequence[Sequence[Continuation]], owners: Sequence[int]
) -> list[Found | None]:
    """A distribution over the ratings for each entry of ``asked``, None for an empty one.

    Entries of one owner (the dialogue they are about) go to the model as one group, so that what
    their prompts share is read once.
    """
    groups: dict[int, list[Continuation]] = {}
    for each, owner in zip(asked, owners, strict=True):
        groups.setdefault(owner, []).extend(each)
    filled = {owner: group for owner, group in groups.items() if group}
    scored = llm.loglikelihood(list(filled.values())) if filled else []
    told = {owner: iter(likelihoods) for owner, likelihoods in zip(filled, scored, strict=True)}
    prompts: set[tuple[int, tuple[Message, ...]]] = set()  # each is read once
    found: list[Found | None] = []
    for each, owner in zip(asked, owners, strict=True):
        if not each:
            found.append(None)
            continue
        likelihoods = [next(told[owner]) for _ in each]
        messages = each[0].messages
        read = 0 if (owner, messages) in prompts else llm.count_tokens(messages)
        prompts.add((owner, messages))
        one = from_logprobs([likelihood.total for likelihood in likelihoods])
        found.append(replace(one, usages=(likelihood_usage(read, likelihoods),)))
    return found
