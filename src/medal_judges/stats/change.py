"""Change-point detection of a mean over time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from medal_judges.stats.correlation import Floats
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.means import Sample, difference_of

Codes = npt.NDArray[np.int64]  # the cluster or period of each row, shape (rows,), from 0

MIN_PERIODS = 8  # of a change-point: with fewer, orders of the periods are too few for a test
_PERMUTATIONS = 4999
_LEAST = 0.1  # of the rows on either side of a change-point
_CHUNK = 4_000_000  # numbers held at once


@dataclass(frozen=True, slots=True)
class Change:
    """How the mean of one dimension changes over time.

    ``start`` is the index of the first period after the change; ``difference`` is the mean from
    there on minus the mean before (``after`` and ``before``), with the p-value of no change.
    ``searched``: the start was searched (the p-value accounts for it); otherwise it halves the
    rows.
    """

    start: int | None
    difference: Estimate
    searched: bool
    before: float | None = None
    after: float | None = None


def change(values: Floats, periods: Codes, clusters: Codes, seed: int = 0) -> Change:
    """Returns the change of ``values``; ``periods`` numbers the period of each row from 0, in order
    of time. All arrays have shape (rows,).

    Errors are computed by cluster and by period, and the larger ones are used. With 8 periods or
    more, the change is where the means before and after differ most, and its p-value is from 4,999
    random orders of the periods; with fewer, the rows are halved. Both assume that periods are
    exchangeable if nothing changes: a slow wave over many periods counts as a change.
    """
    present, period = np.unique(periods, return_inverse=True)
    if len(present) < 2:
        nothing = Estimate(None, reason="fewer than 2 periods with scores")
        return Change(None, nothing, False)
    sizes: Floats = np.bincount(period).astype(np.float64)
    sums: Floats = np.bincount(period, weights=values).astype(np.float64)
    searched = len(present) >= MIN_PERIODS
    if searched:
        start = int(np.argmax(_steps(sizes[None], sums[None])[0])) + 1
    else:  # the first period of the later half of the rows
        start = int(np.argmin(np.abs(np.cumsum(sizes)[:-1] - sizes.sum() / 2))) + 1
    later = period >= start

    def step(units: Codes) -> Estimate:
        sides = [Sample(values[side], units[side]) for side in (later, ~later)]
        return difference_of(sides[0], sides[1])

    difference = step(clusters)
    if searched:
        difference = wider(difference, step(period))
        difference = replace(difference, p_value=_permuted(sizes, sums, seed))
    means = float(values[~later].mean()), float(values[later].mean())
    return Change(int(present[start]), difference, searched, *means)


def wider(first: Estimate, second: Estimate) -> Estimate:
    """Returns the one of two estimates of the same figure that has the wider interval; the first
    one if an interval is missing."""
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return first
    return second if second.high - second.low > first.high - first.low else first


def _steps(sizes: Floats, sums: Floats) -> Floats:
    """Returns the difference of the means before and after each period boundary, in standard errors
    up to a factor, shape (orders, periods - 1); 0 if a side has too few rows. ``sizes`` and
    ``sums`` have shape (orders, periods)."""
    n, total = sizes.sum(axis=1)[:, None], sums.sum(axis=1)[:, None]
    before = np.cumsum(sizes, axis=1)[:, :-1]
    total_before = np.cumsum(sums, axis=1)[:, :-1]
    after = n - before
    step = np.abs(total_before / before - (total - total_before) / after)
    weighed: Floats = step * np.sqrt(before * after / n)
    return np.where(np.minimum(before, after) >= _LEAST * n, weighed, 0.0)


def _permuted(sizes: Floats, sums: Floats, seed: int) -> float:
    """Returns the share of random orders of the periods with a step at least as large."""
    rng = np.random.default_rng(seed)
    largest = _steps(sizes[None], sums[None]).max() * (1 - 1e-9)
    left, beyond = _PERMUTATIONS, 0
    while left:
        orders: npt.NDArray[np.int64] = np.tile(
            np.arange(len(sizes)), (min(left, max(1, _CHUNK // len(sizes))), 1)
        )
        orders = rng.permuted(orders, axis=1)
        beyond += int((_steps(sizes[orders], sums[orders]).max(axis=1) >= largest).sum())
        left -= len(orders)
    return (1 + beyond) / (1 + _PERMUTATIONS)
