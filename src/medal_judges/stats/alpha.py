"""Krippendorff's alpha as a function of row weights, for many samples at once.

The coincidences of each row are counted once; a sample is a weighted sum of them (Krippendorff
2011, "Computing Krippendorff's Alpha-Reliability", parts C to E). Tests compare it with the package
krippendorff, which has no row weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from medal_judges.stats.correlation import Floats

# Weights of shape (samples, rows) -> alpha, shape (samples,); NaN where undefined.
Alpha = Callable[[Floats], Floats]
_FLAT = 1e-20  # an expected disagreement below this share of the squares is rounding


def alpha_statistic(values: Floats, measurement: str) -> Alpha:
    """Returns alpha of ``values``, shape (rows, annotators), as a function of row weights. NaN in
    ``values`` is a missing answer.

    ``measurement`` is ``nominal``, ``ordinal`` or ``interval``. Alpha is NaN if all answers are
    equal or no row has two.
    """
    if measurement == "interval":
        return _interval(values)
    rows, levels, counts = _counts(values)
    row_coincidences = _coincidences(counts)
    size = len(levels)

    def alpha(weights: Floats) -> Floats:
        summed: Floats = np.asarray(row_coincidences.T @ weights[:, rows].T).T
        coincidences = summed.reshape(len(weights), size, size)
        totals = coincidences.sum(axis=2)
        delta = 1.0 - np.eye(size)
        if (
            measurement == "ordinal"
        ):  # answers from one level to the other, the ends counted half
            upto = np.cumsum(totals, axis=1) - totals / 2
            delta = (upto[:, :, None] - upto[:, None, :]) ** 2
        n = totals.sum(axis=1)
        expected = totals[:, :, None] * totals[:, None, :]  # delta is 0 on the diagonal
        observed = (coincidences * delta).sum(axis=(1, 2))
        return _alpha(observed, (expected * delta).sum(axis=(1, 2)), n)

    return alpha


def no_interval(values: Floats, measurement: str) -> str | None:
    """Returns why alpha of these answers has no interval, or None.

    If no row has the rarest answer twice, alpha is a little below 0 whichever row is left out: in
    simulations such an interval never contains the true value.
    """
    if measurement != "nominal":
        return None
    counts = _counts(values)[2]
    if counts.shape[1] < 2:
        return None
    rarest = counts[:, counts.sum(axis=0).argmin()]
    if (rarest > 1).any():
        return None
    return "no interval: no row has the rarest answer twice"


def _counts(values: Floats) -> tuple[npt.NDArray[np.intp], Floats, Floats]:
    """Returns the indices of the rows with two or more answers, the levels in them, and the count
    of each level by row, shape (rows, levels)."""
    rows = np.flatnonzero(np.isfinite(values).sum(axis=1) > 1)
    answers = values[rows]
    levels = np.unique(answers[np.isfinite(answers)])
    counts = (answers[:, :, None] == levels).sum(axis=1).astype(np.float64)
    return rows, levels, counts


def _coincidences(counts: Floats) -> Any:
    """Returns the pairs of answers by level of each row, weighted so that a row's pairs sum to its
    number of answers: a sparse matrix of shape (rows, levels * levels)."""
    from scipy import sparse

    size = counts.shape[1]
    row, first = np.nonzero(counts)
    pairs = counts[row, first, None] * counts[row]
    pairs[np.arange(len(row)), first] -= counts[row, first]
    pairs /= counts.sum(axis=1)[row, None] - 1
    columns = first[:, None] * size + np.arange(size)
    indices = (np.repeat(row, size), columns.ravel())
    return sparse.csr_matrix((pairs.ravel(), indices), shape=(len(counts), size * size))


def _interval(values: Floats) -> Alpha:
    is_answered = np.isfinite(values)
    answer_counts = is_answered.sum(axis=1)
    rows = np.flatnonzero(answer_counts > 1)
    size = answer_counts[rows].astype(np.float64)
    numbers = np.where(is_answered, values, 0.0)[rows]
    numbers -= np.where(
        is_answered[rows], numbers.sum() / max(size.sum(), 1), 0.0
    )  # squares stay small
    total, squares = numbers.sum(axis=1), (numbers * numbers).sum(axis=1)
    within = 2 * (size * squares - total * total) / np.maximum(size - 1, 1)

    def alpha(weights: Floats) -> Floats:
        drawn = weights[:, rows]
        n, first, second = drawn @ size, drawn @ total, drawn @ squares
        expected = 2 * (n * second - first * first)
        expected[expected <= _FLAT * n * second] = 0
        return _alpha(drawn @ within, expected, n)

    return alpha


def _alpha(observed: Floats, expected: Floats, n: Floats) -> Floats:
    out: Floats = np.full(len(n), np.nan)
    np.divide((n - 1) * observed, expected, out=out, where=expected > 0)
    return 1 - out
