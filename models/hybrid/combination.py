"""How the members' answers become one: selection or stack. Each asks only the members that it
needs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from medal_judges.models.hybrid.members import Member
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement, rescaled_details

Members = Mapping[str, Member]
Answers = Mapping[str, Judgement]  # of one request: member -> its judgement
BLEND_PARTS = ("center", "spread", "weights", "intercept", "residual")


@dataclass(frozen=True, slots=True)
class Blend:
    """One dimension of a stack: value = intercept + weights . (unit scores - center) / spread, on
    the scale [0, 1].

    ``members`` names the judges in the order of the arrays, each of shape [members]. ``residual``
    is the standard deviation of the error on the fitting rows, on [0, 1]; 0 if nothing was fitted.
    """

    members: tuple[str, ...]
    center: np.ndarray
    spread: np.ndarray
    weights: np.ndarray
    intercept: float
    residual: float = 0.0

    def __call__(self, units: np.ndarray) -> np.ndarray:
        """Returns values [n], clipped to [0, 1], of the members' scores ``units`` [n, members]."""
        counted = self.weights != 0  # the others were not asked, and have no number
        z = (units[:, counted] - self.center[counted]) / self.spread[counted]
        clipped: np.ndarray = np.clip(self.intercept + z @ self.weights[counted], 0.0, 1.0)
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
    def asked(self, dimension: str) -> tuple[str, ...]:
        """Returns the members that ``dimension`` needs."""

    @abstractmethod
    def record(self) -> dict[str, object]:
        """Returns its part of config.json; the numbers of a stack are in the weights."""

    @abstractmethod
    def answer(self, dimension: Dimension, members: Members, answers: Answers) -> Judgement:
        """Returns the judgement of one request on ``dimension``, from the members' ``answers``."""

    def tensors(self) -> dict[str, np.ndarray]:
        """Returns weights by name; only a stack has some."""
        return {}


@dataclass(frozen=True, slots=True)
class MemberSelection(Combination):
    """``choices``: dimension -> the member that answers it."""

    choices: Mapping[str, str]

    def asked(self, dimension: str) -> tuple[str, ...]:
        return (self.choices[dimension],)

    def record(self) -> dict[str, object]:
        return {"choices": dict(self.choices)}

    def answer(self, dimension: Dimension, members: Members, answers: Answers) -> Judgement:
        """The chosen member's answer, from its scale to the hybrid's."""
        name, member = dimension.name, members[self.choices[dimension.name]]
        judgement, own = answers[member.name], member.own_name(name)
        unit, scale = member.unit(judgement, name), member.judge.dimension(own)
        score = None if unit is None else dimension.from_unit(unit)
        details = rescaled_details(judgement.details.get(own, {}), scale, dimension)
        details |= {"members": {member.name: score}}
        if unit is None:
            reason = f"{member.name}: {judgement.failure or 'no score'}"
            return Judgement(scores={name: None}, details={name: details}, failure=reason)
        chances, account = judgement.distributions.get(own, ()), judgement.contributions.get(own)
        # Another number of levels would need probabilities that the member did not give.
        fits = chances and len(chances) == len(dimension.levels)
        return Judgement(
            scores={name: score},
            details={name: details},
            distributions={name: chances} if fits else {},
            contributions={name: account.rescaled(scale, dimension)} if account else {},
        )


@dataclass(frozen=True, slots=True)
class Stack(Combination):
    """``blends``: dimension -> the line through its members' scores."""

    blends: Mapping[str, Blend]

    def asked(self, dimension: str) -> tuple[str, ...]:
        blend = self.blends[dimension]  # a member with a weight of 0 is not asked
        return tuple(m for m, w in zip(blend.members, blend.weights, strict=True) if w != 0)

    def record(self) -> dict[str, object]:
        return {"blends": {name: list(blend.members) for name, blend in self.blends.items()}}

    def tensors(self) -> dict[str, np.ndarray]:
        arrays = {
            f"{name}.{part}": np.atleast_1d(getattr(blend, part))
            for name, blend in self.blends.items()
            for part in BLEND_PARTS
        }
        return {k: np.ascontiguousarray(v, dtype=np.float64) for k, v in arrays.items()}

    def answer(self, dimension: Dimension, members: Members, answers: Answers) -> Judgement:
        name, blend = dimension.name, self.blends[dimension.name]
        units = {m: members[m].unit(answers[m], name) for m in self.asked(name)}
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
