"""A difference: its interval and its p-value come from one distribution, so they never contradict.

Both are corrected alike for the number of comparisons. Holm's correction (1979) raises a p-value by
a factor; the interval becomes as wide as its level, 5% divided by that factor, needs. An interval
then excludes 0 exactly if the p-value beside it is below 0.05. Each interval holds at least as
often as a 95% one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from medal_judges.records.dimension import EQUAL
from medal_judges.stats.correlation import (
    Floats,
    Statistic,
    correlation_statistic,
    undefined_reason,
)
from medal_judges.stats.equal import Values
from medal_judges.stats.intervals import (
    DIFFERENCE,
    LEVEL,
    Clusters,
    Estimate,
    Student,
    jackknife,
    scale_of,
    too_few,
)

POWER = 0.8


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure minus another.

    ``error`` is its standard error and ``reference`` the distribution of it; without them
    ``reason`` says why there is no interval. Differences up to ``tolerance`` are none: the interval
    is wider by it on both sides, and the p-value is of a difference beyond it. ``span``: the lowest
    and highest possible difference. ``equal``: all scores of both are equal, so the p-value is 1.
    ``comparisons``: the factor of the correction. ``beside``: the same for other chatbots (or, if
    those lead, for these).
    """

    value: float | None
    error: float = 0.0
    reference: Student | None = None
    reason: str | None = None
    tolerance: float = 0.0
    span: tuple[float, float] = (-math.inf, math.inf)
    equal: bool = False
    comparisons: float = 1.0
    beside: Difference | None = None

    @property
    def p_value(self) -> float | None:
        """Returns the two-sided p-value of no difference, corrected; None without an interval."""
        if self.equal:
            return 1.0
        if self.value is None or self.reference is None:
            return None
        beyond = max(abs(self.value) - self.tolerance, 0.0)
        if not beyond:
            return 1.0
        distance = math.inf
        if self.error:
            distance = beyond / self.error
        return min(1.0, self.comparisons * self.reference.p_value(distance))

    @property
    def half(self) -> float | None:
        """Returns half the width of the interval; None without one."""
        if self.reference is None:
            return None
        critical = self.reference.critical(LEVEL / self.comparisons)
        if not math.isfinite(critical):
            return None
        return self.error * critical + self.tolerance

    @property
    def smallest(self) -> float | None:
        """Returns the smallest difference that as many rows show with a power of 0.8; None without
        an interval."""
        if self.half is None or self.reference is None:
            return None
        return self.half + self.error * self.reference.critical(2 * (1 - POWER))

    @property
    def estimate(self) -> Estimate:
        """Returns the difference with its interval and its p-value, both corrected."""
        beside = None if self.beside is None else self.beside.estimate
        value, half = self.value, self.half
        if self.equal:
            value = 0.0
        low = high = None
        reason = self.reason
        if value is not None and half is not None:
            low = min(value, max(self.span[0], value - half))
            high = max(value, min(self.span[1], value + half))
            reason = None
        return Estimate(value, low, high, self.p_value, reason, beside)

    def __neg__(self) -> Difference:
        """Returns the other estimate minus this one."""
        value = self.value
        if value is not None:
            value = -value
        beside = self.beside and -self.beside
        span = -self.span[1], -self.span[0]
        return replace(self, value=value, span=span, beside=beside)

    def correct_for(self, comparisons: float) -> Difference:
        """Returns the difference corrected for a number of comparisons."""
        beside = self.beside and self.beside.correct_for(comparisons)
        return replace(self, comparisons=comparisons, beside=beside)


def holm_factors(p_values: Sequence[float | None]) -> list[float]:
    """Returns the factor by which Holm's correction (1979) raises each of ``p_values``. It is 1 for
    None, which is not a comparison."""
    tested = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    factors = [1.0] * len(p_values)
    largest = 0.0
    for rank, (p, i) in enumerate(tested):
        factors[i] = float(len(tested) - rank)
        largest = max(largest, p * factors[i])
        if p:
            factors[i] = largest / p
    return factors


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Returns ``p_values`` after Holm's correction over all that are not None."""
    corrected: list[float | None] = []
    for p, factor in zip(p_values, holm_factors(p_values), strict=True):
        if p is not None:
            p = min(1.0, p * factor)
        corrected.append(p)
    return corrected


def holm_corrected(differences: Sequence[Difference]) -> list[Difference]:
    """Returns ``differences``, corrected by Holm over all that have a p-value."""
    factors = holm_factors([difference.p_value for difference in differences])
    pairs = zip(differences, factors, strict=True)
    return [difference.correct_for(factor) for difference, factor in pairs]


# -- is one judge better than another on the same rows? -------------------------------------------


def paired_difference(
    first: Statistic, second: Statistic, metric: str, clusters: Clusters
) -> Difference:
    """Returns ``metric``, a correlation or a share, of the ``first`` judge minus the ``second`` on
    the same rows (the jackknife of intervals.py).

    ``clusters``: what is left out. The difference has no value if one of the two has none. Without
    an interval ``reason`` says why. Two judges with the same value in all selections of rows have a
    p-value of 1. ``beside`` has the other interval.
    """
    beside = None
    if clusters.beside is not None:
        beside = paired_difference(first, second, metric, clusters.beside)

    def difference(weights: Floats) -> dict[str, Floats]:
        return {metric: first(weights)[metric] - second(weights)[metric]}

    value = float(difference(np.ones((1, len(clusters.names))))[metric][0])
    if not np.isfinite(value):
        return Difference(None, reason=f"{metric} is undefined for one of the judges")
    if reason := too_few(clusters):
        return Difference(value, reason=reason, beside=beside)
    scale = scale_of(metric)
    width = scale.high - scale.low  # no two figures are further apart
    tolerance = EQUAL * width
    spread = jackknife(difference, clusters, DIFFERENCE)[metric]
    if spread.reason:
        equal = abs(value) <= tolerance and spread.error == 0
        return Difference(value, reason=spread.reason, equal=equal, beside=beside)
    return Difference(
        value,
        spread.error,
        Student(spread.degrees),
        tolerance=tolerance,
        span=(-width, width),
        beside=beside,
    )


def correlation_difference(
    human: Values,
    first: Values,
    second: Values,
    clusters: Clusters,
    metric: str = "spearman",
) -> Difference:
    """Returns ``paired_difference`` of two judges' agreement with people by ``metric``:
    ``spearman`` or a statistic of ``pairs_statistic``. ``human``: people's means, ``first`` and
    ``second``: the judges' scores, of shape (rows,). ``clusters``: what is left out."""
    for score in (first, second):
        if reason := undefined_reason(human, score):
            return Difference(None, reason=reason)
    first_statistic = correlation_statistic(human, first, names=[metric])
    second_statistic = correlation_statistic(human, second, names=[metric])
    return paired_difference(first_statistic, second_statistic, metric, clusters)


def mcnemar(first_only: int, second_only: int) -> float | None:
    """Returns the two-sided p-value of McNemar's exact test of two judges' right and wrong answers
    (MEDAL, Figure 5): binomial with chance 1/2 if the judges are equally good. None if they are
    right and wrong on the same rows.

    ``first_only`` and ``second_only`` count the rows on which only that judge is right.
    """
    from scipy.stats import binomtest

    if not first_only + second_only:
        return None
    return float(binomtest(first_only, first_only + second_only).pvalue)
