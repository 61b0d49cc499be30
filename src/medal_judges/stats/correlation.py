"""Correlation of a judge with people, over all rows and within chatbots.

Each correlation is a function of row weights, shape (samples, rows). One call computes the
correlation in every weighted sample of the rows. Values that differ by at most their tolerance
count as equal (equal.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from medal_judges.stats.equal import Floats as Floats
from medal_judges.stats.equal import Values, signs

Rows = npt.NDArray[np.intp]
# Weights of shape (samples, rows) -> figures of shape (samples,); NaN where undefined.
Statistic = Callable[[Floats], dict[str, Floats]]

CORRELATIONS = ("spearman", "pearson", "kendall", "pairwise", "within_system")
MIN_ROWS = 3  # two rows always correlate at 1 or -1
MIN_WITHIN = 5  # fewer rows of one chatbot say nothing about that chatbot
_PAIRS_HELD = 100_000  # at once: they stay in the processor's cache
_PAIRS_FITTED = 2000  # rows whose pairs choose the distance of a tie
# A variance below this share of the square of the largest value is rounding.
_FLAT = 1e-20


def undefined_reason(human: Values, score: Values) -> str | None:
    """Returns why the correlation of ``human`` and ``score`` is undefined, or
    None if it is defined.

    It is undefined with fewer than 3 rows, or if one of the two has equal numbers in all rows.

    Args:
        human: People's mean ratings [rows].
        score: The judge's scores [rows].
    """
    if len(human) < MIN_ROWS:
        return f"{len(human)} rows, fewer than {MIN_ROWS}"
    if human.is_constant:
        return "all labels are equal"
    if score.is_constant:
        return "the judge gives every row the same score"
    return None


def correlation_statistic(
    human: Values,
    score: Values,
    chatbots: Sequence[str | None] = (),
    names: Sequence[str] = CORRELATIONS[:4],
) -> Statistic:
    """Returns a function that computes a judge's correlations with people on weighted rows.

    Args:
        human: People's mean ratings [rows].
        score: The judge's scores [rows].
        chatbots: Name of each row's chatbot [rows]. Only ``within_system`` needs it.
        names: Correlations to compute: ``spearman``, ``pearson``, ``kendall``, ``pairwise`` (the
            share of pairs of rows that judge and people order alike, or both tie) and
            ``within_system`` (the mean of Spearman's correlations within each chatbot). The default
            is the first four.

    Returns:
        A function that takes row weights [samples, rows] and returns correlation -> values
            [samples], such as ``{"spearman": [samples], "pearson": [samples]}``. The result always
            has ``spearman``. It has both of ``kendall`` and ``pairwise`` if one of them is in
            ``names``.
    """
    pairs = None
    if "kendall" in names or "pairwise" in names:
        pairs = pair_order_statistic(human, score)
    bots = np.array([bot or "" for bot in chatbots])
    rows_by_bot = [np.flatnonzero(bots == bot) for bot in sorted(set(bots) - {""})]
    sides_by_bot = [(rows, human[rows], score[rows]) for rows in rows_by_bot]

    def statistic(weights: Floats) -> dict[str, Floats]:
        spearman = weighted_spearman(human, score, weights)
        values = {"spearman": spearman}
        if "pearson" in names:
            pearson = weighted_pearson(human.numbers, score.numbers, weights)
            # Where a side is constant there are no ranks, and only rounding to correlate.
            pearson[np.isnan(spearman)] = np.nan
            values["pearson"] = pearson
        if "within_system" in names:
            within = mean_spearman_of_groups(sides_by_bot, weights, MIN_WITHIN)
            values["within_system"] = within
        if pairs is not None:
            values |= pairs(weights)
        return values

    return statistic


def weighted_spearman(x: Values, y: Values, weights: Floats) -> Floats:
    """Returns Spearman's correlation of ``x`` and ``y`` in each weighted sample of
    the rows, [samples].

    It is NaN if ``x`` or ``y`` is constant, or if fewer than 3 rows have a weight above 0.

    Args:
        x: First variable [rows].
        y: Second variable [rows].
        weights: Row weights [samples, rows].
    """
    return weighted_pearson(x.ranks(weights), y.ranks(weights), weights)


def mean_spearman_of_groups(
    parts: Iterable[tuple[Rows, Values, Values]], weights: Floats, minimum: int
) -> Floats:
    """Returns the mean of Spearman's correlations within groups of rows, such as the rows of each
    chatbot, in each weighted sample of the rows, [samples].

    The weight of a group is the total weight of its rows. A group in which a variable is constant
    is left out. The mean is NaN if no group is left.

    Args:
        parts: One tuple for each group: the indices of its rows (columns of ``weights``), then two
            variables, each with one value for each of these rows.
        weights: Row weights [samples, rows].
        minimum: Groups with fewer rows of positive weight are left out.
    """
    total, size = np.zeros(len(weights)), np.zeros(len(weights))
    for rows, x, y in parts:
        drawn = weights[:, rows]
        rho = weighted_spearman(x, y, drawn)
        counts = np.isfinite(rho) & ((drawn > 0).sum(axis=1) >= minimum)
        total += np.where(counts, rho * drawn.sum(axis=1), 0.0)
        size += np.where(counts, drawn.sum(axis=1), 0.0)
    return ratio(total, size)


def weighted_pearson(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Returns Pearson's correlation of ``x`` and ``y`` in each weighted sample of
    the rows, [samples].

    It is NaN if ``x`` or ``y`` is constant, or if fewer than 3 rows have a weight above 0.

    Args:
        x: First variable, [rows] or [samples, rows].
        y: Second variable, [rows] or [samples, rows].
        weights: Row weights [samples, rows].
    """
    total = weights.sum(axis=1, keepdims=True)
    size = np.where(total > 0, total, 1.0)
    dx = x - (weights * x).sum(axis=1, keepdims=True) / size
    dy = y - (weights * y).sum(axis=1, keepdims=True) / size
    xx = (weights * dx**2).sum(axis=1)
    yy = (weights * dy**2).sum(axis=1)
    xy = (weights * dx * dy).sum(axis=1)
    flat = _FLAT * size[:, 0]
    is_defined = (weights > 0).sum(axis=1) >= MIN_ROWS
    is_defined &= xx > flat * np.max(x**2, initial=0)
    is_defined &= yy > flat * np.max(y**2, initial=0)
    return np.clip(ratio(xy, np.sqrt(xx * yy), is_defined), -1.0, 1.0)


def pair_order_statistic(human: Values, score: Values) -> Statistic:
    """Returns a function that computes Kendall's tau-b and the share of correctly ordered pairs.

    Args:
        human: People's mean ratings [rows].
        score: The judge's scores [rows].

    Returns:
        A function that takes row weights [samples, rows] and returns ``{"kendall": [samples],
            "pairwise": [samples]}``. ``pairwise`` is the share of pairs of rows that judge and
            people order alike, or both tie.
    """
    # Deutsch, Foster and Freitag 2023: scores that are this close are a tie of the judge.
    tie = fit_tie_distance(human, score)

    def compare(first: Rows, second: Rows) -> tuple[Floats, Floats]:
        """Compares each row of ``first`` with each row of ``second``, by people and by the judge.

        Args:
            first: Indices of rows.
            second: Indices of rows.

        Returns:
            Two arrays [first, second]: 1 if people and judge order two rows alike, -1 if not, 0 for
                a tie. And 1 if the judge orders, or ties, them as people do, otherwise 0.
        """
        x = human.numbers[first, None] - human.numbers[second]
        y = score.numbers[first, None] - score.numbers[second]
        people = signs(x, human.tolerance)
        is_right = people == signs(y, tie)
        return people * signs(y, score.tolerance), is_right.astype(np.float64)

    def sums(rows: Rows, weights: Floats) -> Floats:
        """Returns both results of ``compare`` for each row, summed over its comparisons with all
        ``rows``, [2, rows].

        Args:
            rows: Indices of rows.
            weights: Weight of each row's comparisons [rows].
        """
        count = math.ceil(len(rows) ** 2 / _PAIRS_HELD)
        blocks = []
        for part in np.array_split(rows, count):
            order, right = compare(part, rows)
            blocks.append([order @ weights, right @ weights])
        return np.concatenate(blocks, axis=1)

    @cache
    def sums_of_all(weights: bytes) -> Floats:
        return sums(np.arange(len(human)), np.frombuffer(weights))

    def totals(weights: Floats) -> Floats:
        # The jackknife leaves out few rows of many: their pairs are subtracted from all pairs.
        largest = weights.max(axis=0)
        all_sums = sums_of_all(largest.tobytes())
        left_out = largest - weights
        total: Floats = (all_sums @ largest)[:, None] - 2 * all_sums @ left_out.T
        for i, sample in enumerate(left_out):
            rows = np.flatnonzero(sample)
            if len(rows):
                total[:, i] += sums(rows, sample[rows]) @ sample[rows]
        return total

    def statistic(weights: Floats) -> dict[str, Floats]:
        agree, right = totals(weights)
        all_pairs, squares = weights.sum(axis=1) ** 2, (weights**2).sum(axis=1)
        untied = []  # the weight of all pairs that a side does not tie
        for side in (human, score):
            below, upto = side.cumulative_weights(weights)
            untied.append(all_pairs - (weights * (upto - below)).sum(axis=1))
        by_people, by_judge = untied
        is_defined = (weights > 0).sum(axis=1) >= MIN_ROWS
        is_defined &= np.minimum(by_people, by_judge) > 1e-12 * all_pairs
        # A row with a weight of 2 is two rows, which are not paired with each other.
        return {
            "kendall": ratio(agree, np.sqrt(by_people * by_judge), is_defined),
            "pairwise": ratio(right - squares, all_pairs - squares, is_defined),
        }

    return statistic


def fit_tie_distance(human: Values, score: Values) -> float:
    """Returns the distance up to which two scores of a judge should count as a tie.

    With this distance, the judge agrees with people on the most pairs of rows. They agree on a pair
    if they order it alike, or if both tie it.

    Args:
        human: People's mean ratings [rows].
        score: The judge's scores [rows]. At most 2,000 random rows are used.

    Returns:
        The distance, in units of ``score``.
    """
    rows = np.random.default_rng(0).permutation(len(human))[:_PAIRS_FITTED]
    first, second = rows[np.stack(np.triu_indices(len(rows), 1))]
    people = signs(human.numbers[first] - human.numbers[second], human.tolerance)
    differences = score.numbers[first] - score.numbers[second]
    judge = signs(differences, score.tolerance)
    # What a tie gains over the judge's order; scores that are equal are a tie anyway.
    gain = (people == 0).astype(int) - (people == judge)
    gain[judge == 0] = 0
    distance = np.abs(differences)
    order = np.argsort(distance)
    distance = distance[order]
    # Pairs of one distance are ties together.
    end = np.searchsorted(distance, distance + score.tolerance, side="right")
    gained = np.cumsum(gain[order])[end - 1]
    best = int(gained.argmax())
    if gained[best] <= 0:
        return score.tolerance
    return float(distance[best]) + score.tolerance


def weighted_auc(positive: Floats, score: Values, weights: Floats) -> Floats:
    """Returns the area under the ROC curve of a judge's scores in each weighted sample of
    the rows, [samples].

    It is NaN for a sample in which all rows have the same class.

    Args:
        positive: Class of each row, 1 or 0 [rows].
        score: The judge's scores [rows]. Higher scores speak for class 1.
        weights: Row weights [samples, rows].
    """
    # The chance that a positive row has the higher score; a tie counts half (Mann, Whitney 1947).
    ranks = score.ranks(weights)
    high = (weights * positive).sum(axis=1)
    low = (weights * (1 - positive)).sum(axis=1)
    sums = (weights * positive * ranks).sum(axis=1)
    return ratio(sums - high * (high + 1) / 2, high * low)


def ratio(
    top: Floats,
    bottom: npt.NDArray[Any],
    is_defined: npt.NDArray[np.bool_] | None = None,
) -> Floats:
    """Returns ``top / bottom`` by element, or NaN where it is undefined.

    Args:
        top: Numerators.
        bottom: Denominators.
        is_defined: Mask that is True where to divide. None to divide where ``bottom`` is above 0.
    """
    if is_defined is None:
        is_defined = bottom > 0
    quotient: Floats = np.full(np.shape(top), np.nan)
    np.divide(
        top,
        bottom,
        out=quotient,
        where=is_defined,
    )
    return quotient
