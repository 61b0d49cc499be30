"""Reference: how one judge scores other chats, by which a score is ordinary, low or high."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from medal_judges.records.dimension import EQUAL
from medal_judges.report.table import number

PERCENTS = np.arange(101)


@dataclass(frozen=True, slots=True)
class Reference:
    """``about`` says which chats were scored; ``judge`` is the signature without the version of the
    package, and ``unit`` is that of Scores. ``quantiles``: the percentiles from 0 to 100 of the
    scores of each graded dimension, on the judge's scale."""

    about: str
    judge: str
    unit: str
    quantiles: Mapping[str, list[float]]

    def is_like(self, other: Reference) -> bool:
        """Whether the scores of both can be compared."""
        return (self.judge, self.unit) == (other.judge, other.unit)

    def percentile(self, name: str, score: float) -> float:
        """Returns the percentage of the reference that scores lower; equal scores count half."""
        # Equal scores are equal quantiles: the middle between the first and the last of them.
        ends = [score - EQUAL, score + EQUAL]
        return float(np.interp(ends, self.quantiles[name], PERCENTS).mean())

    def sentence(self, name: str, mean: float) -> str:
        """Says whether a mean score is ordinary: among the middle half of the reference."""
        quarter, middle, last_quarter = np.take(self.quantiles[name], [25, 50, 75])
        word = "ordinary"
        if mean < quarter - EQUAL:
            word = "low"
        elif mean > last_quarter + EQUAL:
            word = "high"
        span = f"{number(quarter)} to {number(last_quarter)} (median {number(middle)})"
        return f"{name} {number(mean)} is {word}: half of {self.about} score {span}"
