"""Contributions: what each turn of a dialogue added to one score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from medal_judges.records.dimension import Dimension
from medal_judges.records.validation import Number

# The quantity baseline + sum(turns), from which the score follows.
Unit = Literal[
    "score",  # the score before it is clipped to its scale
    "uncalibrated score",  # the same before calibration's monotone map
    "logit",  # its sigmoid is the score's place on its scale, from 0 to 1 (binary: P(label 1))
    "uncalibrated logit",  # the same before calibration's monotone map
    "mean logit",  # mean of an ordinal head's conditional logits, one for each step of the scale
    "logit per level",  # slope of a classification head's logits over the levels
]


@dataclass(frozen=True, slots=True)
class Contributions:
    """One dimension by turn: ``baseline`` + sum of ``turns`` is ``value``, in ``unit``.

    ``baseline`` is the value if each turn were an average turn of its speaker in the training data
    (without such data, the middle of the scale). So a turn above 0 raised the score and one below 0
    lowered it. ``turns`` has one number for each turn, 0 for turns that the judge did not see.
    """

    turns: tuple[Number, ...]
    baseline: Number
    unit: Unit = "score"

    @property
    def value(self) -> float:
        """``baseline`` + sum of ``turns``."""
        return self.baseline + math.fsum(self.turns)

    @property
    def finite(self) -> bool:
        """False if a number is NaN or infinite."""
        return math.isfinite(self.baseline) and all(map(math.isfinite, self.turns))

    def rescaled(self, scale: Dimension, other: Dimension) -> Contributions:
        """Returns the same on the scale of another dimension; logits do not change."""
        if self.unit not in ("score", "uncalibrated score"):
            return self
        ratio = (other.high - other.low) / (scale.high - scale.low)
        baseline = other.low + (self.baseline - scale.low) * ratio
        return Contributions(tuple(t * ratio for t in self.turns), baseline, self.unit)

    def to_record(self) -> dict[str, Any]:
        return {"baseline": self.baseline, "unit": self.unit, "turns": list(self.turns)}


def unit_of(unit: Unit, *, mapped: bool) -> Unit:
    """Returns ``unit``, or its uncalibrated form if a calibration maps the score afterwards."""
    known: dict[Unit, Unit] = {"score": "uncalibrated score", "logit": "uncalibrated logit"}
    return known.get(unit, unit) if mapped else unit


def centred(
    evidence: Sequence[float],
    weights: Sequence[float],
    means: Sequence[float],
    value: float,
    unit: Unit,
) -> Contributions:
    """Returns contributions around the average turn.

    ``evidence`` [T]: what each turn adds to ``value``. ``weights`` [T]: its share in the pooling.
    ``means`` [T]: what an average turn of its speaker adds for each unit of weight.
    """
    turns = tuple(e - w * m for e, w, m in zip(evidence, weights, means, strict=True))
    return Contributions(turns, value - math.fsum(turns), unit)
