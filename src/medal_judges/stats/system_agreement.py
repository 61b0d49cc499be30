"""Pairwise accuracy, with ties: does a judge order systems as people do?

It is the share of pairs of systems that people's means and the judge's means order alike (Kocmi et
al. 2021). A pair counts as right if both sides tie it, as wrong if only one side does (acc_eq of
Deutsch, Foster and Freitag 2023).
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
    spread_of,
    variance,
    wilson,
)

MIN_SYSTEMS = 3  # two systems are one pair, right or wrong
MIN_SPREAD = 5  # of an interval; fewer systems left out in turn say next to nothing
MIN_ROWS = 5  # of a system; fewer say nothing of its mean


def pairwise_accuracy(
    people: Values, judge: Values, systems: npt.NDArray[np.intp]
) -> Estimate:
    """Returns the share of pairs of systems that both sides order or tie alike, with an interval
    about other systems like these (each is left out in turn).

    ``people`` and ``judge`` have shape (rows,); ``systems`` numbers the system of each row from 0.
    Undefined for fewer than 3 systems.
    """
    count = int(systems.max(initial=-1)) + 1
    if count < MIN_SYSTEMS:
        return Estimate(None, reason=f"{count} systems, fewer than {MIN_SYSTEMS}")
    alike = _orders(people, systems) == _orders(judge, systems)
    sums = alike.sum(axis=1) - 1.0  # without the pair of a system with itself
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
    return add_interval(Estimate(value), spread, LOGIT)


def _orders(values: Values, systems: npt.NDArray[np.intp]) -> Floats:
    """Returns 1, -1 or 0 (a tie) for the mean of each system against each other one, shape
    (systems, systems)."""
    means = np.bincount(systems, values.numbers) / np.bincount(systems)
    rounding = 1e-12 * float(np.abs(means).max())
    return signs(means[:, None] - means, max(values.tolerance, rounding))
