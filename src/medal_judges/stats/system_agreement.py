"""Pairwise accuracy, with ties: does a judge order systems as people do?

It is the share of pairs of systems on which the judge's means agree with people's means (Kocmi et
al. 2021). A pair counts as right if both order the two systems in the same way, or if both tie
them. It counts as wrong if only one of them ties (acc_eq of Deutsch, Foster and Freitag 2023).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from medal_judges.stats.correlation import Floats
from medal_judges.stats.equal import Values, signs
from medal_judges.stats.intervals import (
    LOGIT,
    Estimate,
    add_interval,
    jackknife_variance,
    spread_of,
    wilson_interval,
)

MIN_SYSTEMS = 3  # two systems are one pair, right or wrong
MIN_SPREAD = 5  # of an interval; fewer systems left out in turn say next to nothing
MIN_ROWS = 5  # of a system; fewer say nothing of its mean


def pairwise_accuracy(
    people: Values, judge: Values, systems: npt.NDArray[np.intp]
) -> Estimate:
    """Returns the share of pairs of systems (such as chatbots) that judge and people
    order alike, or both tie.

    The judge orders systems by their mean scores, and people by their mean labels. The 95% interval
    generalizes to systems outside the data. With fewer than 5 systems, the Estimate has a reason
    instead of an interval. With fewer than 3, it has no value either.

    Args:
        people: People's labels [rows].
        judge: The judge's scores [rows].
        systems: System index of each row [rows], from 0.
    """
    count = int(systems.max(initial=-1)) + 1
    if count < MIN_SYSTEMS:
        return Estimate(None, reason=f"{count} systems, fewer than {MIN_SYSTEMS}")
    alike = _compare_means(people, systems) == _compare_means(judge, systems)
    sums = alike.sum(axis=1) - 1.0  # without the pair of a system with itself
    total = sums.sum() / 2
    value = float(total / (count * (count - 1) / 2))
    if count < MIN_SPREAD:
        reason = f"no interval: {count} systems, fewer than {MIN_SPREAD}"
        return Estimate(value, reason=reason)
    if value in (0.0, 1.0):  # all pairs right, or none; one trial a system
        low, high = wilson_interval(value * count, count)
        return Estimate(value, low, high)
    left: Floats = (total - sums) / ((count - 1) * (count - 2) / 2)
    spread = spread_of(
        left, float(jackknife_variance(left, np.array(value))), unit="chatbot"
    )
    return add_interval(Estimate(value), spread, LOGIT)


def _compare_means(values: Values, systems: npt.NDArray[np.intp]) -> Floats:
    """Returns which of every two systems has the higher mean, [systems, systems].

    Args:
        values: Labels or scores [rows].
        systems: System index of each row [rows].

    Returns:
        Element [i, j] is 1 if system i has the higher mean, -1 if system j has, and 0 for a tie.
    """
    means = np.bincount(systems, values.numbers) / np.bincount(systems)
    rounding = 1e-12 * float(np.abs(means).max())
    return signs(means[:, None] - means, max(values.tolerance, rounding))
