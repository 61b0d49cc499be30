"""How the members' answers become one: selection, stack or cascade. Each kind asks only the members
that it needs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import ScoreRequest
from medal_judges.models.hybrid.members import Member
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement, rescaled_details

# (member, requests, dimensions of the hybrid) -> the member's judgements
Ask = Callable[[Member, Sequence[ScoreRequest], Sequence[str]], list[Judgement]]
Members = Mapping[str, Member]
Answers = dict[str, Judgement]  # of one request: member -> its judgement
BLEND_PARTS = ("center", "spread", "weights", "intercept", "residual")


@dataclass(frozen=True, slots=True)
class Blend:
    """One dimension of a stack: value = intercept + weights . (unit scores - center) / spread, on
    the scale [0, 1].

    ``members`` names the judges in the order of the arrays, each of shape [members]. ``knots``
    [2, n] is a monotone map (x, y) of the value, for the isotonic kind. ``residual`` is the
    standard deviation of the error on the fitting rows, on [0, 1]; 0 if nothing was fitted.
    """

    members: tuple[str, ...]
    center: np.ndarray
    spread: np.ndarray
    weights: np.ndarray
    intercept: float
    residual: float = 0.0
    knots: np.ndarray | None = None

    def __call__(self, units: np.ndarray) -> np.ndarray:
        """Returns values [n], clipped to [0, 1], of the members' scores ``units`` [n, members]."""
        counted = self.weights != 0  # the others were not asked, and have no number
        z = (units[:, counted] - self.center[counted]) / self.spread[counted]
        value = self.intercept + z @ self.weights[counted]
        if self.knots is not None:
            value = np.interp(value, self.knots[0], self.knots[1])
        clipped: np.ndarray = np.clip(value, 0.0, 1.0)
        return clipped

    @classmethod
    def mean(cls, weights: dict[str, float]) -> Blend:
        """Returns the weighted mean of the members' unit scores, with nothing fitted."""
        values = np.array(list(weights.values()), dtype=np.float64)
        zeros, ones = np.zeros(len(values)), np.ones(len(values))
        return cls(tuple(weights), zeros, ones, values / values.sum(), 0.0)


class Combination(ABC):
    """A fitted way to combine members."""

    @abstractmethod
    def asked(self, dimension: str, members: Members) -> tuple[str, ...]:
        """Returns the members that ``dimension`` may need."""

    @abstractmethod
    def record(self) -> dict[str, object]:
        """Returns its part of config.json; the numbers of a stack are in the weights."""

    @abstractmethod
    def answer(self, dimension: Dimension, members: Members, answers: Answers) -> Judgement:
        """Returns the judgement of one request on ``dimension``, from the members' ``answers``."""

    def tensors(self) -> dict[str, np.ndarray]:
        """Returns weights by name; only a stack has some."""
        return {}

    def answers(
        self, members: Members, names: Sequence[str], requests: Sequence[ScoreRequest], ask: Ask
    ) -> list[Answers]:
        """Returns the members' answers to each request, on those dimensions ``names`` that need
        them."""
        answers: list[Answers] = [{} for _ in requests]
        for member in members.values():
            if own := [name for name in names if member.name in self.asked(name, members)]:
                for row, judgement in zip(answers, ask(member, requests, own), strict=True):
                    row[member.name] = judgement
        return answers


@dataclass(frozen=True, slots=True)
class MemberSelection(Combination):
    """``choices``: dimension -> the member that answers it."""

    choices: Mapping[str, str]

    def asked(self, dimension: str, members: Members) -> tuple[str, ...]:
        return (self.choices[dimension],)

    def record(self) -> dict[str, object]:
        return {"choices": dict(self.choices)}

    def answer(self, dimension: Dimension, members: Members, answers: Answers) -> Judgement:
        chosen = self.choices[dimension.name]
        return _answer_of(members[chosen], answers[chosen], dimension)


@dataclass(frozen=True, slots=True)
class Stack(Combination):
    """``blends``: dimension -> the line through its members' scores."""

    blends: Mapping[str, Blend]

    def asked(self, dimension: str, members: Members) -> tuple[str, ...]:
        blend = self.blends[dimension]  # a member with a weight of 0 is not asked
        return tuple(m for m, w in zip(blend.members, blend.weights, strict=True) if w != 0)

    def record(self) -> dict[str, object]:
        return {"blends": {name: list(blend.members) for name, blend in self.blends.items()}}

    def tensors(self) -> dict[str, np.ndarray]:
        arrays = {
            f"{name}.{part}": np.atleast_1d(getattr(blend, part))
            for name, blend in self.blends.items()
            for part in (*BLEND_PARTS, "knots")
            if getattr(blend, part) is not None
        }
        return {k: np.ascontiguousarray(v, dtype=np.float64) for k, v in arrays.items()}

    def answer(self, dimension: Dimension, members: Members, answers: Answers) -> Judgement:
        name, blend = dimension.name, self.blends[dimension.name]
        asked = self.asked(name, members)
        units = {m: members[m].unit(answers[m], name) for m in asked}
        scores = {m: None if u is None else dimension.from_unit(u) for m, u in units.items()}
        details = {name: {"members": scores}}
        if missing := [m for m, unit in units.items() if unit is None]:
            failure = "; ".join(f"{m}: {answers[m].failure or 'no score'}" for m in missing)
            return Judgement(scores={name: None}, failure=failure, details=details)
        unit = float(blend(np.array([[units.get(m) or 0.0 for m in blend.members]]))[0])
        chances = level_chances(dimension, unit, blend.residual)
        return Judgement(
            scores={name: dimension.from_unit(unit)},
            distributions={name: chances} if chances else {},
            details=details,
        )


@dataclass(frozen=True, slots=True)
class Cascade(Combination):
    """``thresholds``: dimension -> the uncertainty (Judgement.uncertainty) above which the second,
    strong member is asked. It is also asked if the first, weak one has no score. If the strong one
    has none, the weak one's score stays, and the explanation says so. ``members`` in a dimension's
    details names the members that were asked.
    """

    thresholds: Mapping[str, float]

    def asked(self, dimension: str, members: Members) -> tuple[str, ...]:
        return tuple(members)

    def record(self) -> dict[str, object]:
        return {"thresholds": dict(self.thresholds)}

    def answers(
        self, members: Members, names: Sequence[str], requests: Sequence[ScoreRequest], ask: Ask
    ) -> list[Answers]:
        weak, strong = members.values()
        answers = [{weak.name: judgement} for judgement in ask(weak, requests, names)]
        deferred = [
            i
            for i, row in enumerate(answers)
            # A list, so that a dimension without a distribution is always an error.
            if any([self._unsure(weak, row[weak.name], name) for name in names])
        ]
        if deferred:
            later = ask(strong, [requests[i] for i in deferred], names)
            for i, judgement in zip(deferred, later, strict=True):
                answers[i][strong.name] = judgement
        return answers

    def _unsure(self, weak: Member, judgement: Judgement, name: str) -> bool:
        doubt = uncertainty(weak, judgement, name)
        return doubt is None or doubt > self.thresholds[name]

    def answer(self, dimension: Dimension, members: Members, answers: Answers) -> Judgement:
        (weak, strong), name = members.values(), dimension.name
        own = _answer_of(weak, answers[weak.name], dimension)
        if strong.name not in answers or not self._unsure(weak, answers[weak.name], name):
            return own
        answer = _answer_of(strong, answers[strong.name], dimension)
        both = own.details[name]["members"] | answer.details[name]["members"]
        if answer.scores[name] is None and own.scores[name] is not None:
            note = f"{name}: {strong.name} has no score, {weak.name}'s is used"
            answer = replace(own, explanation=note)
        return replace(answer, details={name: answer.details[name] | {"members": both}})


def _answer_of(member: Member, judgement: Judgement, dimension: Dimension) -> Judgement:
    """The answer of ``member`` on ``dimension``, from its scale to the hybrid's."""
    name, own = dimension.name, member.own_name(dimension.name)
    unit, scale = member.unit(judgement, name), member.judge.dimension(own)
    score = None if unit is None else dimension.from_unit(unit)
    details = rescaled_details(judgement.details.get(own, {}), scale, dimension)
    answer = Judgement(
        scores={name: score}, details={name: details | {"members": {member.name: score}}}
    )
    if unit is None:
        return replace(answer, failure=f"{member.name}: {judgement.failure or 'no score'}")
    chances, account = judgement.distributions.get(own, ()), judgement.contributions.get(own)
    # Another number of levels would need probabilities that the member did not give.
    fits = chances and len(chances) == len(dimension.levels)
    return replace(
        answer,
        distributions={name: chances} if fits else {},
        contributions={name: account.rescaled(scale, dimension)} if account else {},
    )


def uncertainty(member: Member, judgement: Judgement, dimension: str) -> float | None:
    """Returns Judgement.uncertainty of the hybrid's ``dimension``; None without a score.

    Raises ConfigError for a score without a distribution: this judge cannot be the weak one.
    """
    if member.unit(judgement, dimension) is None:
        return None
    doubt = judgement.uncertainty(member.own_name(dimension))
    if doubt is None:
        raise ConfigError(
            f"member {member.name} gives no distribution of {dimension!r}, so a cascade cannot "
            "tell when it is unsure",
            hint="a weak judge needs an ordinal or binary dimension and a calibration or a "
            "probability per level: train an encoder on such a rubric, or use kind: stack",
        )
    return doubt


def level_chances(dimension: Dimension, unit: float, residual: float) -> list[float]:
    """Returns the probability per level of a score ``unit`` on [0, 1] with a normal error of
    ``residual``: a level has the probability of all values nearest to it.

    A binary dimension has the score itself. Empty for a continuous one, and for an unknown error.
    """
    levels = dimension.levels
    if dimension.kind == "binary":
        return [1 - unit, unit]
    if len(levels) < 2 or residual <= 0:
        return []
    cuts = [(a + b) / 2 for a, b in pairwise(dimension.to_unit(level) for level in levels)]
    below = [0.0, *(0.5 * math.erfc((unit - c) / residual / math.sqrt(2)) for c in cuts), 1.0]
    return [b - a for a, b in pairwise(below)]
