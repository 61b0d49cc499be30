"""Ratings that a model is offered, and the distribution over them that its answers give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from medal_judges.dimension import Dimension
from medal_judges.models.llm.protocol import Completion, Usage
from medal_judges.models.prompted.parsing.reading import Reading, read_number, shown
from medal_judges.models.prompted.parsing.thinking import after_thinking

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

    @property
    def ambiguous(self) -> bool:
        """Whether one rating begins another, as 1 does 10."""
        return any(a != b and b.startswith(a) for a in self.texts for b in self.texts)

    def read(self, answer: str) -> Reading:
        """The rating that ``answer`` gives; numbers between two ratings are none."""
        spoken = after_thinking(answer)
        if spoken is None:
            return Reading(None, "the reasoning did not come to an end")
        scale = (float(self.texts[0]), float(self.texts[-1]))
        said = read_number(spoken[0], scale, binary=self.texts == ("0", "1"))
        if said.start is not None and said.end is not None:
            said = replace(said, start=said.start + spoken[1], end=said.end + spoken[1])
        if said.value is None or f"{said.value:g}" in self.texts:
            return said
        return Reading(None, f"{said.value:g} is none of the ratings in {shown(answer)}")

    def moments(self, chances: Sequence[float]) -> tuple[float, float]:
        """(expected value, standard deviation) of ``values`` under ``chances``."""
        mean = sum(c * v for c, v in zip(chances, self.values, strict=True))
        square = sum(c * (v - mean) ** 2 for c, v in zip(chances, self.values, strict=True))
        # Rounding must not leave the scale.
        return min(max(mean, self.values[0]), self.values[-1]), math.sqrt(square)


@dataclass(frozen=True, slots=True)
class Found:
    """``chances`` [ratings] add up to one, None with a ``failure``. ``mass``: what they added up to
    before. ``samples``: how many answers they were counted from. ``transient``: an answer failed
    for a reason that passes by itself, and is missing here."""

    chances: tuple[float, ...] | None
    mass: float | None = None
    samples: int = 0
    failure: str | None = None
    usages: tuple[Usage, ...] = ()
    transient: bool = False


def from_logprobs(logprobs: Sequence[float]) -> Found:
    """From the natural-log probability of each rating's text."""
    top = max(logprobs)
    weights = [math.exp(value - top) for value in logprobs]
    total = sum(weights)
    return Found(tuple(w / total for w in weights), mass=total * math.exp(top))


def from_token(completion: Completion, ratings: Ratings) -> Found | None:
    """From the alternatives to the token that holds the answer's rating; None where none are told.

    Alternatives that differ in white space only are one rating. Without a rating that is one token
    (``4.5``, ``8/10``, ``four``) there are no chances, and a reason.
    """
    usages = (completion.usage,)
    text = "".join(token.text for token in completion.tokens)
    said = ratings.read(text)
    at = _token_at(completion, said.start) if said.start is not None else None
    token = None if at is None else completion.tokens[at]
    if said.value is None or token is None or token.text.strip() != f"{said.value:g}":
        return Found(None, failure=said.reason or f"no rating in {shown(text)}", usages=usages)
    if not token.alternatives:
        return None
    told = {**token.alternatives, token.text: token.logprob}
    mass = [
        sum(math.exp(lp) for alternative, lp in told.items() if alternative.strip() == wanted)
        for wanted in ratings.texts
    ]
    total = sum(mass)
    return Found(tuple(m / total for m in mass), mass=min(1.0, total), usages=usages)


def _token_at(completion: Completion, place: int) -> int | None:
    """Index of the token that the character at ``place`` belongs to."""
    end = 0
    for index, token in enumerate(completion.tokens):
        end += len(token.text)
        if place < end:
            return index
    return None


def from_samples(completions: Sequence[Completion], ratings: Ratings) -> Found:
    """The share of each rating among the answers that give one; where none does, the failure says
    why the first of them does not."""
    counts = [0] * len(ratings.texts)
    reasons: list[str] = []
    for completion in completions:
        said = ratings.read(completion.text)
        if completion.finish == "failed" or said.value is None:
            reasons.append(completion.failure or said.reason or "no rating")
        else:
            counts[ratings.texts.index(f"{said.value:g}")] += 1
    total = sum(counts)
    usages = tuple(c.usage for c in completions)
    missing = any(c.transient for c in completions)
    if total == 0:
        told = f"no rating in {len(reasons)} answers: {reasons[0]}"
        return Found(None, failure=told, usages=usages, transient=missing)
    chances = tuple(count / total for count in counts)
    return Found(chances, total / len(completions), total, usages=usages, transient=missing)
