"""Significance: is one judge better than another on the same rows?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from medal_judges.records.dimension import EQUAL
from medal_judges.stats.correlation import (
    MIN_ROWS,
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


@dataclass(frozen=True, slots=True)
class Test:
    """A test statistic and its two-sided p-value; both None with a reason if undefined."""

    statistic: float | None
    p_value: float | None
    reason: str | None = None


def williams(r_first: float, r_second: float, r_between: float, rows: int) -> Test:
    """Returns Williams' t-test of two correlations that share one variable (here: people's scores).

    ``r_first`` and ``r_second`` are the judges' correlations with people, ``r_between`` is that
    between the judges. The statistic has rows - 3 degrees of freedom and is positive if the first
    is higher (Williams 1959; Steiger 1980, equation 7). It assumes independent rows: if dialogues
    share a chatbot, use ``paired_difference``.
    """
    from scipy.stats import t

    if rows <= MIN_ROWS:
        return Test(None, None, f"{rows} rows, fewer than {MIN_ROWS + 1}")
    if abs(r_between) >= 1 - EQUAL:
        return Test(None, None, "the judges rank all rows alike")
    determinant = 1 - r_first**2 - r_second**2 - r_between**2
    determinant += 2 * r_first * r_second * r_between
    mean = (r_first + r_second) / 2
    below = 2 * determinant * (rows - 1) / (rows - 3) + mean**2 * (1 - r_between) ** 3
    if below <= 0:
        return Test(None, None, "the three correlations do not fit together")
    statistic = (r_first - r_second) * np.sqrt((rows - 1) * (1 + r_between) / below)
    return Test(float(statistic), float(2 * t.sf(abs(statistic), rows - 3)))


def mcnemar(first_only: int, second_only: int) -> Test:
    """Returns McNemar's exact test of two judges' right and wrong answers (MEDAL, Figure 5).

    ``first_only`` and ``second_only`` count the rows on which only that judge is right. The
    statistic is the smaller of the two, binomial with chance 1/2 if the judges are equally good.
    """
    from scipy.stats import binomtest

    if not first_only + second_only:
        return Test(None, None, "the judges are right and wrong on the same rows")
    smaller = min(first_only, second_only)
    return Test(
        float(smaller), float(binomtest(smaller, first_only + second_only).pvalue)
    )
