"""One dimension of a stack: a line through the members' standardised scores, and its spread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from medal_judges.records.dimension import Dimension

BLEND_PARTS = ("center", "spread", "weights", "intercept", "residual")


@dataclass(frozen=True, slots=True)
class Blend:
    """value = intercept + weights . (unit scores - center) / spread, on the scale [0, 1].

    ``members`` names the judges in the order of the arrays, each of shape [members]. ``knots``
    [2, n] is a monotone map (x, y) of the value, for the isotonic kind. ``residual`` is the
    standard deviation of the error on the fitting rows, on [0, 1]; 0 where nothing was fitted.
    """

    members: tuple[str, ...]
    center: np.ndarray
    spread: np.ndarray
    weights: np.ndarray
    intercept: float
    residual: float = 0.0
    knots: np.ndarray | None = None

    @property
    def asked(self) -> tuple[str, ...]:
        """Members whose score counts: nobody is asked for an answer of weight 0."""
        return tuple(m for m, w in zip(self.members, self.weights, strict=True) if w != 0)

    def __call__(self, units: np.ndarray) -> np.ndarray:
        """Values [n], clipped to [0, 1], of the members' scores ``units`` [n, members]."""
        counted = self.weights != 0  # the others were not asked, and hold no number
        z = (units[:, counted] - self.center[counted]) / self.spread[counted]
        value = self.intercept + z @ self.weights[counted]
        if self.knots is not None:
            value = np.interp(value, self.knots[0], self.knots[1])
        clipped: np.ndarray = np.clip(value, 0.0, 1.0)
        return clipped

    def tensors(self) -> dict[str, np.ndarray]:
        """The numbers as float64 arrays, for safetensors; ``of_tensors`` is the inverse."""
        arrays = {part: np.atleast_1d(getattr(self, part)) for part in BLEND_PARTS}
        if self.knots is not None:
            arrays["knots"] = self.knots
        return {k: np.ascontiguousarray(v, dtype=np.float64) for k, v in arrays.items()}

    @classmethod
    def of_tensors(cls, members: Sequence[str], tensors: dict[str, np.ndarray]) -> Blend:
        """Raises ValueError where the arrays are not of these members."""
        for name in ("center", "spread", "weights"):
            if tensors[name].shape != (len(members),):
                raise ValueError(f"{name} {tensors[name].shape} is not of {len(members)} members")
        return cls(
            tuple(members),
            tensors["center"],
            tensors["spread"],
            tensors["weights"],
            float(tensors["intercept"][0]),
            float(tensors["residual"][0]),
            tensors.get("knots"),
        )

    @classmethod
    def mean(cls, weights: dict[str, float]) -> Blend:
        """The weighted mean of the members' unit scores, with nothing fitted."""
        values = np.array(list(weights.values()), dtype=np.float64)
        zeros, ones = np.zeros(len(values)), np.ones(len(values))
        return cls(tuple(weights), zeros, ones, values / values.sum(), 0.0)


def level_chances(dimension: Dimension, unit: float, residual: float) -> list[float]:
    """Probability per level of a score ``unit`` on [0, 1] whose error is normal with ``residual``.

    A level has what lies nearer to it than to the next; binary: the score itself. Empty for a
    continuous dimension, and where the error is not known.
    """
    levels = dimension.levels
    if dimension.kind == "binary":
        return [1 - unit, unit]
    if len(levels) < 2 or residual <= 0:
        return []
    places = [dimension.to_unit(level) for level in levels]
    cuts = [(a + b) / 2 for a, b in pairwise(places)]
    below = [0.0, *(0.5 * math.erfc((unit - c) / residual / math.sqrt(2)) for c in cuts), 1.0]
    return [b - a for a, b in pairwise(below)]
