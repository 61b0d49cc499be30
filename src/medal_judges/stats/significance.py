"""Significance: is one judge better than another on the same rows?"""

from __future__ import annotations

import numpy as np

from medal_judges.records.dimension import EQUAL
from medal_judges.stats.correlation import (
    Floats,
    Statistic,
    correlation_statistic,
    undefined_reason,
)
from medal_judges.stats.difference import Difference
from medal_judges.stats.equal import Values
from medal_judges.stats.intervals import (
    DIFFERENCE,
    Clusters,
    Student,
    jackknife,
    scale_of,
    too_few,
)


def paired_difference(
    first: Statistic, second: Statistic, metric: str, clusters: Clusters
) -> Difference:
    """Returns ``metric``, a correlation or a share, of the first judge minus that of the second on
    the same rows (the jackknife of intervals.py).

    Undefined if one of the figures is. Without an interval ``reason`` says why; two judges with the
    same figure in all selections of rows have a p-value of 1. ``beside`` has the other interval.
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
    """Returns ``paired_difference`` of two judges' agreement with people: ``spearman`` or a figure
    of ``pairs_statistic``."""
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
