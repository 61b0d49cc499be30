"""Ratings that a model is offered, and the distribution over them that its answers give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from medal_judges.models.llm.cost import Usage
from medal_judges.models.llm.protocol import (
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
    Message,
    TokenChoice,
    likelihood_usage,
)
from medal_judges.models.prompted.parsing.answer import ParsedAnswer, RatingDistribution, Scale
from medal_judges.models.prompted.parsing.reading import read_number, shown
from medal_judges.models.prompted.parsing.thinking import after_thinking
from medal_judges.records.dimension import Dimension
from medal_judges.records.rating import rescale

MOST_LEVELS = 11  # more whole numbers than this are no rating that a token could be


@dataclass(frozen=True, slots=True)
class Ratings:
    """What the model may say (``texts``), and what each means on the dimension's scale
    (``values``), both rising."""

    texts: tuple[str, ...]
    values: tuple[float, ...]

    @classmethod
    def of(cls, dimension: Dimension, points: int) -> Ratings:
        """The whole numbers of the dimension's scale where it has two to eleven of them and they
        span it; else 1 to ``points``, spread evenly over it."""
        low, high = dimension.low, dimension.high
        whole = low % 1 == 0 and high % 1 == 0 and low >= 0
        # A continuous [0, 1] has just two whole numbers: too coarse to rate with.
        least = 1 if dimension.kind != "continuous" else 2
        if whole and least <= high - low < MOST_LEVELS:
            values = tuple(float(v) for v in range(int(low), int(high) + 1))
            return cls(tuple(str(int(v)) for v in values), values)
        texts = tuple(str(i) for i in range(1, points + 1))
        return cls(texts, tuple(dimension.from_unit(i / (points - 1)) for i in range(points)))

    @classmethod
    def on_scale(cls, dimension: Dimension, asked: Scale) -> Ratings:
        """All whole numbers of the scale ``asked`` for, or eleven of them, evenly spread (0, 10,
        ... 100), where there are more."""
        low, high = math.ceil(asked[0]), math.floor(asked[1])
        steps = min(high - low, MOST_LEVELS - 1)
        whole = [round(low + i * (high - low) / steps) for i in range(steps + 1)]
        own = (dimension.low, dimension.high)
        return cls(tuple(map(str, whole)), tuple(rescale(float(w), asked, own) for w in whole))

    @property
    def ambiguous(self) -> bool:
        """Whether one rating begins another, as 1 does 10."""
        return any(a != b and b.startswith(a) for a in self.texts for b in self.texts)

    def read(self, answer: str) -> ParsedAnswer:
        """The rating that ``answer`` gives; numbers between two ratings are none."""
        spoken = after_thinking(answer)
        if spoken is None:
            return ParsedAnswer(None, "the reasoning did not come to an end")
        scale = (float(self.texts[0]), float(self.texts[-1]))
        reading = read_number(spoken[0], scale, binary=self.texts == ("0", "1"))
        if reading.start is not None and reading.end is not None:
            start, end = reading.start + spoken[1], reading.end + spoken[1]
            reading = replace(reading, start=start, end=end)
        if reading.value is None or f"{reading.value:g}" in self.texts:
            return reading
        return ParsedAnswer(None, f"{reading.value:g} is none of the ratings in {shown(answer)}")

    def moments(self, chances: Sequence[float]) -> tuple[float, float]:
        """(expected value, standard deviation) of ``values`` under ``chances``."""
        mean = sum(c * v for c, v in zip(chances, self.values, strict=True))
        square = sum(c * (v - mean) ** 2 for c, v in zip(chances, self.values, strict=True))
        # Rounding must not leave the scale.
        return min(max(mean, self.values[0]), self.values[-1]), math.sqrt(square)


def from_logprobs(logprobs: Sequence[float]) -> RatingDistribution:
    """From the natural-log probability of each rating's text."""
    top = max(logprobs)
    weights = [math.exp(value - top) for value in logprobs]
    total = sum(weights)
    return RatingDistribution(tuple(w / total for w in weights), mass=total * math.exp(top))


def averaged(distributions: Sequence[RatingDistribution | None]) -> RatingDistribution | None:
    """The mean of those that there are."""
    known = [d for d in distributions if d is not None]
    if not known:
        return None
    columns = zip(*(d.chances for d in known), strict=True)
    chances = tuple(sum(column) / len(known) for column in columns)
    samples = sum(d.samples for d in known)
    return RatingDistribution(chances, sum(d.mass for d in known) / len(known), samples)


# -- from the alternatives to a token --------------------------------------------------------------


def from_alternatives(
    completion: Completion, parsed: ParsedAnswer, ratings: Ratings
) -> RatingDistribution | None:
    """From the alternatives to the token that says the number; None where that cannot be told.

    It can where the backend reports alternatives, one token is the whole number, and no rating
    begins another one (1 and 10).
    """
    if parsed.start is None or parsed.end is None or ratings.ambiguous:
        return None
    text = completion.text[: parsed.end]
    token, before = _token_at(completion, parsed.start)
    if token is None or not "".join(t.text for t in completion.tokens).startswith(text):
        return None
    if token.text[before:] != text[parsed.start :]:
        return None
    return _over_ratings(token, token.text[:before].strip(), ratings)


def from_token(completion: Completion, ratings: Ratings) -> ParsedAnswer | None:
    """From the alternatives to the token that holds the answer's rating; None where none are told.

    Alternatives that differ in white space only are one rating. Without a rating that is one token
    (``4.5``, ``8/10``, ``four``) there is a reason and no distribution.
    """
    text = "".join(token.text for token in completion.tokens)
    reading = ratings.read(text)
    token = None if reading.start is None else _token_at(completion, reading.start)[0]
    if reading.value is None or token is None or token.text.strip() != f"{reading.value:g}":
        return ParsedAnswer(None, reading.reason or f"no rating in {shown(text)}")
    distribution = _over_ratings(token, "", ratings)
    return None if distribution is None else ParsedAnswer(None, distribution=distribution)


def _token_at(completion: Completion, place: int) -> tuple[TokenChoice | None, int]:
    """The token that the character at ``place`` belongs to, and where it stands in it."""
    for token in completion.tokens:
        if place < len(token.text):
            return token, place
        place -= len(token.text)
    return None, 0


def _over_ratings(token: TokenChoice, mark: str, ratings: Ratings) -> RatingDistribution | None:
    """The chances of ``mark`` and each rating in the token's place; None where the backend tells no
    alternatives: a token that stands alone would pass for certain."""
    if not token.alternatives:
        return None
    known = {**token.alternatives, token.text: token.logprob}
    chances = [
        sum(math.exp(lp) for text, lp in known.items() if text.strip() == mark + rating)
        for rating in ratings.texts
    ]
    total = sum(chances)
    if total <= 0:
        return None
    return RatingDistribution(tuple(c / total for c in chances), mass=min(1.0, total))


# -- from samples and from likelihoods -------------------------------------------------------------


def from_samples(completions: Sequence[Completion], ratings: Ratings) -> ParsedAnswer:
    """The share of each rating among the answers that give one; where none does, the reason says
    why the first of them does not."""
    counts = [0] * len(ratings.texts)
    reasons: list[str] = []
    for completion in completions:
        reading = ratings.read(completion.text)
        if completion.finish == "failed" or reading.value is None:
            reasons.append(completion.failure or reading.reason or "no rating")
        else:
            counts[ratings.texts.index(f"{reading.value:g}")] += 1
    total = sum(counts)
    if total == 0:
        return ParsedAnswer(None, f"no rating in {len(reasons)} answers: {reasons[0]}")
    chances = tuple(count / total for count in counts)
    distribution = RatingDistribution(chances, total / len(completions), total)
    return ParsedAnswer(None, distribution=distribution)


def grouped_likelihoods(
    llm: LanguageModel, asked: Sequence[Sequence[Continuation]], owners: Sequence[object]
) -> list[tuple[list[Likelihood], Usage]]:
    """The likelihoods of each entry of ``asked``, and what they took.

    Entries of one owner (the dialogue they are about) go to the model as one group, so that what
    their prompts share is read once; the same prompt counts once.
    """
    groups: dict[object, list[Continuation]] = {}
    for each, owner in zip(asked, owners, strict=True):
        groups.setdefault(owner, []).extend(each)
    filled = {owner: group for owner, group in groups.items() if group}
    scored = llm.loglikelihood(list(filled.values())) if filled else []
    rest = {owner: iter(likelihoods) for owner, likelihoods in zip(filled, scored, strict=True)}
    prompts: set[tuple[object, tuple[Message, ...]]] = set()
    answered: list[tuple[list[Likelihood], Usage]] = []
    for each, owner in zip(asked, owners, strict=True):
        likelihoods = [next(rest[owner]) for _ in each]
        read = 0
        if each and (owner, each[0].messages) not in prompts:
            prompts.add((owner, each[0].messages))
            read = llm.count_tokens(each[0].messages)
        answered.append((likelihoods, likelihood_usage(read, likelihoods)))
    return answered
