"""Pairwise accuracy, with ties, and its soft form: does a judge order systems as people do?

Pairwise accuracy is the share of pairs of systems that people's means and the judge's means order
alike (Kocmi et al. 2021). A pair counts as right if both sides tie it, as wrong if only one side
does (acc_eq of Deutsch, Foster and Freitag 2023). Soft pairwise accuracy (Thompson et al. 2024) is
1 minus the mean distance between the two sides' p-values that the first system is better, here from
the t-test of means.py by context.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from medal_judges.stats.correlation import Floats
from medal_judges.stats.equal import Values, signs
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import LOGIT, spanned, spread_of, variance, wilson
from medal_judges.stats.means import (
    ClusterNames,
    Jackknifed,
    Sample,
    left_out_means,
)

MIN_SYSTEMS = 3  # two systems are one pair, right or wrong
MIN_SPREAD = 5  # of an interval; fewer systems left out in turn say next to nothing
MIN_ROWS = 5  # of a system; fewer say nothing of its mean


@dataclass(frozen=True, slots=True)
class SystemMeans:
    """The means of the systems by one side, shape (systems,), the ``tolerance`` up to which two are
    equal, and ``better``, shape (systems, systems): the one-sided p-value of the row's system not
    being better than the column's (near 0 if it surely is better, 0.5 on the diagonal)."""

    means: Floats
    better: Floats
    tolerance: float


def system_means(
    values: Values, systems: npt.NDArray[np.intp], groups: ClusterNames
) -> SystemMeans:
    """Returns means and p-values of ``values``, shape (rows,). ``systems`` numbers the system of
    each row from 0, ``groups`` names its context."""
    names = np.asarray(groups)
    samples = []
    for system in range(int(systems.max()) + 1):
        rows = systems == system
        samples.append(Sample(values[rows], names[rows]))
    return means_of_figures(left_out_means(samples))


def means_of_figures(figures: Sequence[Jackknifed]) -> SystemMeans:
    """Returns means and p-values of systems with one figure each, over the same clusters."""
    from scipy.stats import t

    count = len(figures)
    better = np.full((count, count), 0.5)
    for i, j in combinations(range(count), 2):
        difference = figures[i] - figures[j]
        if difference.varies:
            error = math.sqrt(difference.variance)
            better[i, j] = t.sf(difference.value / error, difference.degrees)
        elif abs(difference.value) > difference.finest:
            better[i, j] = difference.value < 0
        better[j, i] = 1 - better[i, j]
    finest = max(figure.finest for figure in figures)
    return SystemMeans(np.array([figure.value for figure in figures]), better, finest)


def pair_accuracy(people: SystemMeans, judge: SystemMeans) -> Floats:
    """Returns 1 for pairs of systems that both sides order or tie alike, else 0; shape (systems,
    systems)."""
    by_people, by_judge = (
        signs(side.means[:, None] - side.means, side.tolerance)
        for side in (people, judge)
    )
    return np.asarray((by_people == by_judge).astype(np.float64))


def soft_pair_accuracy(people: SystemMeans, judge: SystemMeans) -> Floats:
    """Returns 1 minus the distance of the two p-values of each pair, shape (systems, systems)."""
    return np.asarray(1 - np.abs(people.better - judge.better))


def system_agreement(people: SystemMeans, judge: SystemMeans) -> dict[str, Estimate]:
    """Returns ``pairwise_accuracy`` and ``soft_pairwise_accuracy`` with intervals about other
    systems like these (each system is left out in turn). Undefined for fewer than 3 systems."""
    return {
        "pairwise_accuracy": over_pairs(pair_accuracy(people, judge)),
        "soft_pairwise_accuracy": over_pairs(soft_pair_accuracy(people, judge)),
    }


def over_pairs(pairs: Floats) -> Estimate:
    """Returns the mean of a symmetric matrix over the pairs of systems, with its interval."""
    count = len(pairs)
    if count < MIN_SYSTEMS:
        return Estimate(None, reason=f"{count} systems, fewer than {MIN_SYSTEMS}")
    sums = pairs.sum(axis=1) - np.diag(pairs)
    total = sums.sum() / 2
    value = float(total / (count * (count - 1) / 2))
    if count < MIN_SPREAD:
        reason = f"no interval: {count} systems, fewer than {MIN_SPREAD}"
        return Estimate(value, reason=reason)
    if value in (0.0, 1.0):  # all pairs right, or none; one trial a system
        low, high = wilson(value * count, count)
        return Estimate(value, low, high)
    left: Floats = (total - sums) / ((count - 1) * (count - 2) / 2)
    spread = spread_of(left, float(variance(left, np.array(value))), unit="chatbot")
    return spanned(Estimate(value), spread, LOGIT)
