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

from medal_judges.stats.correlation import Floats, ratio

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
    rows, counts = _counts(values)
    row_coincidences = _coincidences(counts)
    size = counts.shape[1]

    def alpha(weights: Floats) -> Floats:
        # Levels by levels, of each sample.
        coincidences = (weights[:, rows] @ row_coincidences).reshape(-1, size, size)
        totals = coincidences.sum(axis=2)
        delta = 1.0 - np.eye(size)
        if measurement == "ordinal":
            # Answers from one level to the other; those of both ends count half.
            upto = np.cumsum(totals, axis=1) - totals / 2
            delta = (upto[:, :, None] - upto[:, None, :]) ** 2
        expected = totals[:, :, None] * totals[:, None, :]  # delta is 0 on the diagonal
        return _alpha(
            observed=(coincidences * delta).sum(axis=(1, 2)),
            expected=(expected * delta).sum(axis=(1, 2)),
            answers=totals.sum(axis=1),
        )

    return alpha


def no_interval(values: Floats, measurement: str) -> str | None:
    """Returns why alpha of these answers has no interval, or None.

    If no row has the rarest answer twice, alpha is a little below 0 whichever row is left out: in
    simulations such an interval never contains the true value.
    """
    if measurement != "nominal":
        return None
    _, counts = _counts(values)
    if counts.shape[1] < 2:
        return None
    rarest = counts[:, counts.sum(axis=0).argmin()]
    if (rarest > 1).any():
        return None
    return "no interval: no row has the rarest answer twice"


def _shared_rows(values: Floats) -> npt.NDArray[np.intp]:
    """Returns the indices of the rows with two or more answers."""
    return np.flatnonzero(np.isfinite(values).sum(axis=1) > 1)


def _counts(values: Floats) -> tuple[npt.NDArray[np.intp], Floats]:
    """Returns the indices of the rows with two or more answers, and the count of each level that
    some of them has, shape (rows, levels)."""
    rows = _shared_rows(values)
    answers = values[rows]
    levels = np.unique(answers[np.isfinite(answers)])
    return rows, (answers[:, :, None] == levels).sum(axis=1).astype(np.float64)


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
    """Returns alpha with squared distances, from sums over the answers of each row."""
    rows = _shared_rows(values)
    answers = values[rows]
    sizes = np.isfinite(answers).sum(axis=1).astype(np.float64)
    # Squares of centred answers stay small.
    centred = answers - np.nansum(answers) / max(sizes.sum(), 1)
    sums = np.nansum(centred, axis=1)
    squares = np.nansum(centred**2, axis=1)
    within = 2 * (sizes * squares - sums**2) / (sizes - 1)

    def alpha(weights: Floats) -> Floats:
        drawn = weights[:, rows]
        answer_count = drawn @ sizes
        sum_of_squares = answer_count * (drawn @ squares)
        expected = 2 * (sum_of_squares - (drawn @ sums) ** 2)
        expected[expected <= _FLAT * sum_of_squares] = 0
        return _alpha(drawn @ within, expected, answer_count)

    return alpha


def _alpha(observed: Floats, expected: Floats, answers: Floats) -> Floats:
    """Returns alpha of each sample, given its sums of observed and expected disagreements over all
    pairs, and its number of answers; each of shape (samples,)."""
    return 1 - ratio((answers - 1) * observed, expected)
