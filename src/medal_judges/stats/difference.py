"""A difference with its interval and p-value. Both come from one distribution, so they never
contradict each other.

Both are corrected for the number of comparisons by Holm's correction (1979). The correction
multiplies a p-value by a factor and widens the interval to a level of 1 - 5% / factor. So an
interval excludes 0 exactly if its p-value is below 0.05. Each interval covers the true difference
at least as often as a 95% interval would.
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
    StudentT,
    jackknife,
    too_few_reason,
    transform_of,
)

POWER = 0.8


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two statistics, such as the mean scores of two chatbots, with
    its interval and test.

    Attributes:
        value: First statistic minus the second, None if one of them is undefined.
        error: Standard error of ``value``.
        reference: Student's t distribution for the test of ``value / error``. None if there is no
            interval.
        reason: Why there is no value or no interval, such as ``no rows``.
        tolerance: Differences up to this size count as 0.
        span: Lowest and highest possible difference, to which the interval is clipped.
        equal: Whether the two statistics are equal, on all rows and after each cluster of rows is
            left out. The p-value is then 1.
        comparisons: Factor by which Holm's correction for multiple tests multiplies the p-value. 1
            for no correction.
        beside: The same difference, with an interval that generalizes to chatbots outside the data.
            None if there are too few chatbots.
    """

    value: float | None
    error: float = 0.0
    reference: StudentT | None = None
    reason: str | None = None
    tolerance: float = 0.0
    span: tuple[float, float] = (-math.inf, math.inf)
    equal: bool = False
    comparisons: float = 1.0
    beside: Difference | None = None

    @property
    def p_value(self) -> float | None:
        """Returns the two-sided p-value for the hypothesis of no difference,
        corrected for multiple tests.

        It is 1 if the two statistics are ``equal``. Otherwise it is None if there is no interval.
        """
        if self.equal:
            return 1.0
        if self.value is None or self.reference is None:
            return None
        # The interval is wider by the tolerance at both ends, so both agree.
        beyond = max(abs(self.value) - self.tolerance, 0.0)
        if not beyond:
            return 1.0
        distance = math.inf
        if self.error:
            distance = beyond / self.error
        return min(1.0, self.comparisons * self.reference.p_value(distance))

    @property
    def half_width(self) -> float | None:
        """Returns half the width of the 95% interval, which is corrected for multiple tests.
        Returns None if there is no interval."""
        if self.reference is None:
            return None
        critical = self.reference.critical_value(LEVEL / self.comparisons)
        if not math.isfinite(critical):
            return None
        return self.error * critical + self.tolerance

    @property
    def smallest_detectable(self) -> float | None:
        """Returns the smallest true difference that a test on these rows finds with a power of 0.8.
        Returns None if there is no interval."""
        if self.half_width is None or self.reference is None:
            return None
        return self.half_width + self.error * self.reference.critical_value(
            2 * (1 - POWER)
        )

    @property
    def estimate(self) -> Estimate:
        """Returns the value with its interval and p-value, both corrected for multiple tests."""
        beside = None if self.beside is None else self.beside.estimate
        value, half = self.value, self.half_width
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
        """Returns the difference in the other direction: the second statistic minus the first."""
        value = self.value
        if value is not None:
            value = -value
        beside = self.beside and -self.beside
        span = -self.span[1], -self.span[0]
        return replace(self, value=value, span=span, beside=beside)

    def correct_for(self, comparisons: float) -> Difference:
        """Returns a copy whose p-value is multiplied by ``comparisons``. Its interval becomes
        wider, so that it agrees with the p-value."""
        beside = self.beside and self.beside.correct_for(comparisons)
        return replace(self, comparisons=comparisons, beside=beside)


def holm_factors(p_values: Sequence[float | None]) -> list[float]:
    """Returns, for each of ``p_values``, the factor by which Holm's correction (1979) multiplies
    it. A p-value of None does not count as a test and gets the factor 1."""
    tested = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    factors = [1.0] * len(p_values)
    largest = 0.0
    for rank, (p, i) in enumerate(tested):
        factors[i] = float(len(tested) - rank)
        largest = max(largest, p * factors[i])
        if p:
            factors[i] = largest / p
    return factors


def holm_p_values(p_values: Sequence[float | None]) -> list[float | None]:
    """Returns ``p_values`` after Holm's correction for multiple tests. A p-value of None does not
    count as a test and stays None."""
    corrected: list[float | None] = []
    for p, factor in zip(p_values, holm_factors(p_values), strict=True):
        if p is not None:
            p = min(1.0, p * factor)
        corrected.append(p)
    return corrected


def correct_by_holm(differences: Sequence[Difference]) -> list[Difference]:
    """Returns ``differences`` with p-values and intervals after Holm's correction for multiple
    tests. Differences without a p-value do not count as tests."""
    factors = holm_factors([difference.p_value for difference in differences])
    pairs = zip(differences, factors, strict=True)
    return [difference.correct_for(factor) for difference, factor in pairs]


# -- is one judge better than another on the same rows? -------------------------------------------


def paired_difference(
    first: Statistic, second: Statistic, metric: str, clusters: Clusters
) -> Difference:
    """Returns one judge's ``metric`` minus another judge's, on the same rows.

    Args:
        first: Function that takes row weights [samples, rows] and returns the first judge's
            metrics, such as ``{"spearman": [samples]}``.
        second: Such a function for the second judge, whose metric is subtracted.
        metric: Name of a metric that both functions return, such as ``spearman``.
        clusters: Groups of rows that the jackknife leaves out in turn.

    Returns:
        The difference with its interval. If a value or an interval is missing, its ``reason`` says
        why.
    """
    beside = None
    if clusters.beside is not None:
        beside = paired_difference(first, second, metric, clusters.beside)

    def difference(weights: Floats) -> dict[str, Floats]:
        return {metric: first(weights)[metric] - second(weights)[metric]}

    value = float(difference(np.ones((1, len(clusters.names))))[metric][0])
    if not np.isfinite(value):
        return Difference(None, reason=f"{metric} is undefined for one of the judges")
    if reason := too_few_reason(clusters):
        return Difference(value, reason=reason, beside=beside)
    scale = transform_of(metric)
    width = scale.high - scale.low  # no two figures are further apart
    tolerance = EQUAL * width
    spread = jackknife(difference, clusters, DIFFERENCE)[metric]
    if spread.reason:
        equal = abs(value) <= tolerance and spread.error == 0
        return Difference(value, reason=spread.reason, equal=equal, beside=beside)
    return Difference(
        value,
        spread.error,
        StudentT(spread.degrees),
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
    """Returns one judge's correlation with people minus another judge's, on the same rows.

    Args:
        human: People's mean ratings [rows].
        first: The first judge's scores [rows].
        second: The second judge's scores [rows]. Its correlation is subtracted.
        clusters: Groups of rows that the jackknife leaves out in turn.
        metric: ``spearman``, ``pearson``, ``kendall`` or ``pairwise``.

    Returns:
        The difference with its interval. If a value or an interval is missing, its ``reason`` says
        why.
    """
    for score in (first, second):
        if reason := undefined_reason(human, score):
            return Difference(None, reason=reason)
    first_statistic = correlation_statistic(human, first, names=[metric])
    second_statistic = correlation_statistic(human, second, names=[metric])
    return paired_difference(first_statistic, second_statistic, metric, clusters)


def mcnemar_p_value(first_only: int, second_only: int) -> float | None:
    """Returns the two-sided p-value of McNemar's exact test. Its null hypothesis is that two judges
    are right equally often.

    Args:
        first_only: Number of rows on which only the first judge is right.
        second_only: Number of rows on which only the second judge is right.

    Returns:
        The p-value, None if both counts are 0.
    """
    from scipy.stats import binomtest

    if not first_only + second_only:
        return None
    return float(binomtest(first_only, first_only + second_only).pvalue)
