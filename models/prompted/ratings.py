"""The ratings that a model may give, distributions over them, and the judgement that results."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

from medal_judges.models.llm.protocol import Completion, TokenChoice
from medal_judges.models.prompted.answers import (
    Answer,
    AnswerField,
    AnswerShape,
    Scale,
    read_answers,
    shown,
)
from medal_judges.models.prompted.builder import PromptBuilder
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement, known_details
from medal_judges.records.labelled import rescale

SHAPE = AnswerShape(format="number", line="any")
MOST_LEVELS = 11  # more whole numbers than this are not one token each


@dataclass(frozen=True, slots=True)
class Ratings:
    """The ratings that the model may write (``texts``) and their ``values`` on the dimension's
    scale, both ascending."""

    texts: tuple[str, ...]
    values: tuple[float, ...]

    @classmethod
    def of(cls, dimension: Dimension, points: int) -> Ratings:
        """The whole numbers of the dimension's scale if there are two to eleven; else 1 to
        ``points``, spread evenly over it."""
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
    def on_scale(cls, dimension: Dimension, scale: Scale) -> Ratings:
        """All whole numbers of the requested ``scale``, or eleven evenly spread ones (0, 10, ...
        100) if there are more."""
        low, high = math.ceil(scale[0]), math.floor(scale[1])
        steps = min(high - low, MOST_LEVELS - 1)
        whole = [round(low + i * (high - low) / steps) for i in range(steps + 1)]
        own = (dimension.low, dimension.high)
        return cls(tuple(map(str, whole)), tuple(rescale(float(w), scale, own) for w in whole))

    @property
    def ambiguous(self) -> bool:
        """Whether one rating begins another, as 1 does 10."""
        return any(a != b and b.startswith(a) for a in self.texts for b in self.texts)

    def read(self, text: str) -> Answer:
        """The rating in ``text``: a line that is one of the ratings, alone or after ``Rating:``."""
        scale, binary = (float(self.texts[0]), float(self.texts[-1])), self.texts == ("0", "1")
        field = AnswerField("rating", "rating", "rating", scale, binary)
        answer = read_answers(Completion(text), [field], SHAPE)["rating"]
        if answer.value is None or f"{answer.value:g}" in self.texts:
            return answer
        return Answer(reason=f"{answer.value:g} is none of the ratings in {shown(text)}")

    def moments(self, chances: Sequence[float]) -> tuple[float, float]:
        """(expected value, standard deviation) of ``values`` under ``chances``."""
        mean = sum(c * v for c, v in zip(chances, self.values, strict=True))
        square = sum(c * (v - mean) ** 2 for c, v in zip(chances, self.values, strict=True))
        # Rounding must not leave the scale.
        return min(max(mean, self.values[0]), self.values[-1]), math.sqrt(square)


# -- distributions ---------------------------------------------------------------------------------


def from_logprobs(answer: Answer, logprobs: Sequence[float]) -> Answer:
    """``answer`` with the distribution from the log-probability of each rating's text."""
    top = max(logprobs)
    weights = [math.exp(value - top) for value in logprobs]
    total = sum(weights)
    chances = tuple(w / total for w in weights)
    return replace(answer, chances=chances, mass=total * math.exp(top))


def from_alternatives(completion: Completion, answer: Answer, ratings: Ratings) -> Answer:
    """``answer`` with the distribution from the alternatives to its number's token, if the backend
    reports them, one token is the whole number, and no rating begins another one (1 and 10)."""
    if answer.span is None or ratings.ambiguous:
        return answer
    start, text = answer.span[0], completion.text[: answer.span[1]]
    token, before = _token_at(completion, start)
    if token is None or not "".join(t.text for t in completion.tokens).startswith(text):
        return answer
    if token.text[before:] != text[start:]:
        return answer
    return _over_ratings(answer, token, token.text[:before].strip(), ratings)


def from_token(completion: Completion, ratings: Ratings) -> Answer | None:
    """The distribution from the alternatives to the token of the answer's rating; None if the
    backend reports none. Without a rating that is one token there is a reason instead."""
    text = "".join(token.text for token in completion.tokens)
    answer = ratings.read(text)
    token = None if answer.span is None else _token_at(completion, answer.span[0])[0]
    if answer.value is None or token is None or token.text.strip() != f"{answer.value:g}":
        return Answer(reason=answer.reason or f"no rating in {shown(text)}")
    found = _over_ratings(Answer(), token, "", ratings)
    return found if found.chances else None


def _token_at(completion: Completion, place: int) -> tuple[TokenChoice | None, int]:
    """The token with the character at ``place``, and the character's index in it."""
    for token in completion.tokens:
        if place < len(token.text):
            return token, place
        place -= len(token.text)
    return None, 0


def _over_ratings(answer: Answer, token: TokenChoice, mark: str, ratings: Ratings) -> Answer:
    """Adds to ``answer`` the probability of each rating (after the text ``mark``) in the place of
    ``token``, ignoring white space. Without alternatives the answer stays unchanged: the token
    would pass for certain."""
    known = {**token.alternatives, token.text: token.logprob}
    chances = [
        sum(math.exp(lp) for text, lp in known.items() if text.strip() == mark + rating)
        for rating in ratings.texts
    ]
    total = sum(chances)
    if not token.alternatives or total <= 0:
        return answer
    return replace(answer, chances=tuple(c / total for c in chances), mass=min(1.0, total))


def from_samples(completions: Sequence[Completion], ratings: Ratings) -> Answer:
    """Returns the share of each rating among the answers that have one; if none has, the first
    reason."""
    counts = [0] * len(ratings.texts)
    reasons: list[str] = []
    for completion in completions:
        answer = ratings.read(completion.text)
        if completion.failed or answer.value is None:
            reasons.append(completion.failure or answer.reason or "no rating")
        else:
            counts[ratings.texts.index(f"{answer.value:g}")] += 1
    total = sum(counts)
    if total == 0:
        return Answer(reason=f"no rating in {len(reasons)} answers: {reasons[0]}")
    chances = tuple(count / total for count in counts)
    return Answer(chances=chances, mass=total / len(completions), samples=total)


# -- from answers to a judgement -------------------------------------------------------------------


def to_judgement(
    answers: Mapping[str, Sequence[Answer]],
    dimensions: Sequence[Dimension],
    builder: PromptBuilder,
    ratings: Mapping[str, Ratings],
    *,
    score: Literal["said", "expected"] = "said",
) -> Judgement:
    """Returns the judgement from the repeated answers for each dimension. ``score``: the mean of
    the numbers in the answers, or the expected rating under the mean of their distributions."""
    scores: dict[str, float | None] = {}
    distributions: dict[str, Sequence[float]] = {}
    details: dict[str, dict[str, Any]] = {}
    reasons: dict[str, list[str]] = {}  # reason -> its dimensions
    for d in dimensions:
        each, scale = answers[d.name], ratings[d.name]
        values = [None if a.value is None else builder.own(a.value, d) for a in each]
        given = [v for v in values if v is not None]
        value = statistics.fmean(given) if given else None
        reason = None if given else "no answer has a score"
        weighed = [a for a in each if a.chances is not None]
        found: dict[str, Any] = {"value": value, "parsed": tuple(a.step for a in each)}
        found["comment"] = next((a.comment for a in each if a.comment), None)
        if weighed:
            columns = zip(*(a.chances or () for a in weighed), strict=True)
            chances = tuple(sum(column) / len(weighed) for column in columns)
            found["expected"], found["spread"] = scale.moments(chances)
            found["mass"] = sum(a.mass for a in weighed) / len(weighed)
            found["samples"] = sum(a.samples for a in weighed) or None
            if scale.values == d.levels:
                distributions[d.name] = chances
        if len(values) > 1:
            found |= {"repeats": tuple(values)} | self_agreement(values)
        details[d.name] = known_details(**found)
        if score == "expected":
            value = found.get("expected")
            reason = None if value is not None else reason or "no probabilities of the ratings"
        scores[d.name] = value
        if value is None:
            first = next((a.reason for a in each if a.reason), None)
            reasons.setdefault(first or reason or "no score", []).append(d.name)
    comments = [f"{n}: {each['comment']}" for n, each in details.items() if each.get("comment")]
    failures = [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
    return Judgement(
        scores=scores,
        distributions=distributions,
        explanation="\n".join(comments) or None,
        failure="; ".join(failures) or None,
        details=details,
    )


def self_agreement(values: Sequence[float | None]) -> dict[str, float]:
    """The standard deviation over the repeats (n - 1), as in MEDAL, Table 3, and the share of pairs
    of repeats with the same score. Empty with fewer than two scores."""
    given = [v for v in values if v is not None]
    if len(given) < 2:
        return {}
    pairs = [a == b for a, b in combinations(given, 2)]
    agreement = sum(pairs) / len(pairs)
    return {"repeats_std": statistics.stdev(given), "repeats_agreement": agreement}
