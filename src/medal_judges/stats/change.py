"""Change-point detection of a mean over time."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from medal_judges.stats.correlation import Floats
from medal_judges.stats.difference import Difference, Orders
from medal_judges.stats.equal import Values
from medal_judges.stats.intervals import TINY
from medal_judges.stats.means import Sample, difference_of

# The cluster or period of each row, shape (rows,), from 0.
Codes = npt.NDArray[np.int64]

# Of a change-point: with fewer, orders of the periods are too few for a test.
MIN_PERIODS = 8
_PERMUTATIONS = 4999
_LEAST = 0.1  # of the rows on either side of a change-point
_CHUNK = 4_000_000  # numbers held at once
_ROUNDING = 1e-12  # of the squares: what a perfect step leaves


@dataclass(frozen=True, slots=True)
class Change:
    """How the mean of one dimension changes over time.

    ``start`` is the index of the first period after the change; ``difference`` is the mean from
    there on minus the mean before (``after`` and ``before``). ``searched``: the start was searched
    (the difference accounts for it); otherwise it halves the rows.
    """

    start: int | None
    difference: Difference
    searched: bool
    before: float | None = None
    after: float | None = None


def change(values: Values, periods: Codes, clusters: Codes, seed: int = 0) -> Change:
    """Returns the change of ``values``; ``periods`` numbers the period of each row from 0, in order
    of time. All arrays have shape (rows,).

    Errors are computed by cluster and by period, and the larger ones are used; by period alone if
    the search is by period and no cluster has rows of several. With 8 periods or
    more, the change is where the means before and after differ most in standard errors. How large
    such a step is by chance is seen in 4,999 random orders of the periods, which give both interval
    and p-value; with fewer periods, the rows are halved. Both assume that periods are exchangeable
    if nothing changes: a slow wave over many periods counts as a change.
    """
    present, period = np.unique(periods, return_inverse=True)
    if len(present) < 2:
        nothing = Difference(None, reason="fewer than 2 periods with scores")
        return Change(None, nothing, False)
    sizes = np.bincount(period).astype(np.float64)
    sums = np.bincount(period, values.numbers).astype(np.float64)
    searched = len(present) >= MIN_PERIODS
    if searched:
        boundary = _steps(sizes, sums).argmax()
    else:
        # The later half of the rows begins here.
        boundary = np.abs(np.cumsum(sizes)[:-1] - len(period) / 2).argmin()
    start = int(boundary) + 1
    later = period >= start
    before, after = values[~later], values[later]
    difference = difference_of(
        Sample(after, clusters[later]), Sample(before, clusters[~later])
    )
    if searched and not values.constant:
        error, orders = _searched(sizes, sums, start, seed)
        by_period = np.unique(clusters * len(sizes) + period)
        if len(by_period) > len(np.unique(clusters)):
            # The error by period does not have what a cluster shares across periods.
            error = max(error, difference.error)
        difference = replace(difference, error=error, reference=orders, reason=None)
    means = float(before.numbers.mean()), float(after.numbers.mean())
    return Change(int(present[start]), difference, searched, *means)


def _steps(sizes: Floats, sums: Floats) -> Floats:
    """Returns the difference of the means before and after each period boundary, in standard errors
    up to a factor, shape (..., periods - 1); 0 if a side has too few rows. ``sizes`` and ``sums``
    of the periods have shape (..., periods)."""
    sizes_upto = sizes.cumsum(axis=-1)
    sums_upto = sums.cumsum(axis=-1)
    size, before = sizes_upto[..., -1:], sizes_upto[..., :-1]
    sum_before = sums_upto[..., :-1]
    after, sum_after = size - before, sums_upto[..., -1:] - sum_before
    step = np.abs(sum_before / before - sum_after / after)
    step *= np.sqrt(before * after / size)
    return np.where(np.minimum(before, after) >= _LEAST * size, step, 0.0)


def _searched(
    sizes: Floats, sums: Floats, start: int, seed: int
) -> tuple[float, Orders]:
    """Returns the standard error of the step at ``start``, by period, and the largest steps of
    random orders of the periods in their standard errors."""
    periods = len(sizes)
    size = sizes.sum()
    # The squares around the mean are the same in every order; a step takes its own from them.
    squares = float((sizes * (sums / sizes - sums.sum() / size) ** 2).sum())
    least_squares = squares * _ROUNDING + TINY

    def variance_beside(step: Floats) -> Floats:
        """The variance between periods beside the step."""
        return np.maximum(squares - step**2, least_squares) / (periods - 2)

    rng = np.random.default_rng(seed)
    largest: list[Floats] = []
    remaining = _PERMUTATIONS
    while remaining:
        count = min(remaining, max(1, _CHUNK // periods))
        orders = rng.permuted(np.tile(np.arange(periods), (count, 1)), axis=1)
        largest.append(_steps(sizes[orders], sums[orders]).max(axis=1))
        remaining -= count
    steps = np.concatenate(largest)
    observed = _steps(sizes, sums)[start - 1]
    before = sizes[:start].sum()
    variance = variance_beside(observed) * (1 / before + 1 / (size - before))
    return math.sqrt(variance), Orders(np.sort(steps / np.sqrt(variance_beside(steps))))
