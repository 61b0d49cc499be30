"""Correlation of a judge with people, over all rows and within chatbots.

Each figure has two forms: for the rows themselves (by scipy), and as a function of a matrix of row
weights, which computes the figure of many selections of rows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from medal_judges.stats.estimate import Estimate

Floats = npt.NDArray[np.float64]
# Weights of shape (samples, rows) -> figures of shape (samples,); NaN where undefined.
Statistic = Callable[[Floats], dict[str, Floats]]

MIN_ROWS = 3  # two rows always correlate at 1 or -1
MIN_WITHIN = 5  # fewer rows of one chatbot say nothing about that chatbot
_KENDALL_MATRIX = 3000  # above, n x n matrices cost more memory than a sort costs time
_KENDALL_BLOCK = 500
_FLAT = 1e-20  # a variance below this share of the square of the largest value is rounding


def correlations(
    human: Floats, score: Floats, chatbots: Sequence[str | None] = ()
) -> dict[str, Estimate]:
    """Returns ``pearson``, ``spearman``, ``kendall`` (tau-b), and with ``chatbots`` also
    ``within_system`` and ``centred`` (see ``within_system_statistic``). intervals.py adds intervals
    and p-values.

    An undefined figure (fewer than 3 rows, one side constant) is None with its reason.
    """
    names = ("pearson", "spearman", "kendall", *(("within_system", "centred") if chatbots else ()))
    reason = undefined_reason(human, score)
    if reason is not None:
        return {name: Estimate(None, reason=reason) for name in names}
    from scipy import stats

    results = {
        "pearson": stats.pearsonr(human, score),
        "spearman": stats.spearmanr(human, score),
        "kendall": stats.kendalltau(human, score, variant="b"),
    }
    found = {name: Estimate(float(result.statistic)) for name, result in results.items()}
    if not chatbots:
        return found
    reasons = {
        "within_system": f"no chatbot with {MIN_WITHIN} rows on which people and judge both vary",
        "centred": "nothing varies within chatbots",
    }
    if all(bot is None for bot in chatbots):
        reasons = dict.fromkeys(reasons, "the set names no chatbots")
    within = within_system_statistic(human, score, chatbots)(np.ones((1, len(human))))
    for name, why in reasons.items():
        value = float(within[name][0])
        found[name] = Estimate(value) if np.isfinite(value) else Estimate(None, reason=why)
    return found


def undefined_reason(human: Floats, score: Floats) -> str | None:
    """Returns why no correlation is defined for these rows, or None."""
    if len(human) < MIN_ROWS:
        return f"{len(human)} rows, fewer than {MIN_ROWS}"
    if np.ptp(human) == 0:
        return "all labels are equal"
    if np.ptp(score) == 0:
        return "the judge gives every row the same score"
    return None


def correlation_statistic(
    human: Floats, score: Floats, chatbots: Sequence[str | None] = ()
) -> Statistic:
    """Returns the figures of ``correlations`` as a function of row weights."""
    kendall = _kendall_statistic(human, score)
    within = within_system_statistic(human, score, chatbots) if chatbots else None

    def statistic(weights: Floats) -> dict[str, Floats]:
        figures = {
            "pearson": weighted_pearson(human, score, weights),
            "spearman": weighted_spearman(human, score, weights),
            "kendall": kendall(weights),
        }
        return figures | (within(weights) if within is not None else {})

    return statistic


def spearman_statistic(human: Floats, score: Floats) -> Statistic:
    """Returns Spearman's correlation as a function of row weights; unlike Kendall's it is cheap."""
    return lambda weights: {"spearman": weighted_spearman(human, score, weights)}


def within_system_statistic(
    human: Floats, score: Floats, chatbots: Sequence[str | None]
) -> Statistic:
    """Returns two measures of agreement beyond differences between chatbots, as a function of row
    weights.

    ``within_system``: the mean of Spearman's correlation within each chatbot, weighted by rows,
    over chatbots with at least 5 rows on which neither side is constant. ``centred``: Pearson's
    correlation of ranks over all rows minus the chatbot's mean rank (the partial rank correlation
    given the chatbot). Rows without a chatbot are left out.
    """
    names = np.array([bot or "" for bot in chatbots])
    parts = [np.flatnonzero(names == name) for name in sorted(set(names) - {""})]

    def within(weights: Floats) -> Floats:
        total, size = np.zeros(len(weights)), np.zeros(len(weights))
        for rows in parts:
            mine = weights[:, rows]
            rho = weighted_spearman(human[rows], score[rows], mine)
            counts = np.isfinite(rho) & ((mine > 0).sum(axis=1) >= MIN_WITHIN)
            total += np.where(counts, rho * mine.sum(axis=1), 0.0)
            size += np.where(counts, mine.sum(axis=1), 0.0)
        return ratio(total, size, size > 0)

    def centred(weights: Floats) -> Floats:
        if not parts:
            return np.full(len(weights), np.nan)
        named = np.concatenate(parts)
        weights = weights[:, named]
        sides = [weighted_ranks(side[named], weights) for side in (human, score)]
        start = 0
        for rows in parts:
            mine = slice(start, start + len(rows))
            start += len(rows)
            drawn = _not_zero(weights[:, mine].sum(axis=1))
            for side in sides:
                side[:, mine] -= ((side[:, mine] * weights[:, mine]).sum(axis=1) / drawn)[:, None]
        return weighted_pearson(sides[0], sides[1], weights)

    return lambda weights: {"within_system": within(weights), "centred": centred(weights)}


def weighted_spearman(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Returns Spearman's correlation of each weighted sample, shape (samples,)."""
    return weighted_pearson(weighted_ranks(x, weights), weighted_ranks(y, weights), weights)


def weighted_ranks(values: Floats, weights: Floats) -> Floats:
    """Returns the ranks (mean ranks for ties) of ``values`` in each weighted sample, in the shape
    of ``weights``."""
    order = np.argsort(values, kind="stable")
    new = np.r_[True, np.diff(values[order]) > 0]
    tied = np.add.reduceat(weights[:, order], np.flatnonzero(new), axis=1)
    middle = np.cumsum(tied, axis=1) - (tied - 1) / 2
    place = np.empty(len(values), dtype=np.intp)
    place[order] = np.cumsum(new) - 1
    ranks: Floats = middle[:, place]
    return ranks


def weighted_pearson(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Returns Pearson's correlation of each weighted sample, shape (samples,).

    ``x`` and ``y`` have shape (rows,) or (samples, rows). NaN if a side is constant or fewer than 3
    rows have a weight above 0.
    """
    size = _not_zero(weights.sum(axis=1, keepdims=True))
    dx, dy = (v - (v * weights).sum(axis=1, keepdims=True) / size for v in (x, y))
    xx, yy, xy = ((weights * p).sum(axis=1) for p in (dx * dx, dy * dy, dx * dy))
    flat_x, flat_y = (_FLAT * size[:, 0] * float(np.max(v * v, initial=0.0)) for v in (x, y))
    varies = (xx > flat_x) & (yy > flat_y)
    enough = (weights > 0).sum(axis=1) >= MIN_ROWS
    return np.clip(ratio(xy, np.sqrt(xx * yy), varies & enough), -1.0, 1.0)


def _not_zero(total: Floats) -> Floats:
    out: Floats = np.where(total > 0, total, 1.0)
    return out


def _kendall_statistic(x: Floats, y: Floats) -> Callable[[Floats], Floats]:
    """Returns Kendall's tau-b as a function of row weights, by sums over pairs; a row drawn twice
    is a tie."""
    if len(x) > _KENDALL_MATRIX:
        from scipy.stats import kendalltau

        def large(weights: Floats) -> Floats:
            if (weights != np.floor(weights)).any():
                return _kendall_by_blocks(x, y, weights)
            drawn = (np.repeat(np.arange(len(x)), w.astype(int)) for w in weights)
            return np.array([float(kendalltau(x[i], y[i]).statistic) for i in drawn])

        return large
    sx, sy = (np.sign(v[:, None] - v[None, :]).astype(np.float32) for v in (x, y))
    products = (sx * sy, np.abs(sx), np.abs(sy))

    def statistic(weights: Floats) -> Floats:
        counts = weights.astype(np.float32)
        agree, nx, ny = (((counts @ m).astype(np.float64) * weights).sum(axis=1) for m in products)
        enough = (weights > 0).sum(axis=1) >= MIN_ROWS
        return ratio(agree, np.sqrt(nx * ny), (nx > 0) & (ny > 0) & enough)

    return statistic


def _kendall_by_blocks(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Returns tau-b for weights that are not whole numbers: the sums over pairs, a block of rows at
    a time."""
    agree, nx, ny = (np.zeros(len(weights)) for _ in range(3))
    for start in range(0, len(x), _KENDALL_BLOCK):
        rows = slice(start, start + _KENDALL_BLOCK)
        sx, sy = (np.sign(v[:, None] - v[None, rows]).astype(np.float32) for v in (x, y))
        counts, mine = weights.astype(np.float32), weights[:, rows]
        agree += ((counts @ (sx * sy)) * mine).sum(axis=1)
        nx += ((counts @ np.abs(sx)) * mine).sum(axis=1)
        ny += ((counts @ np.abs(sy)) * mine).sum(axis=1)
    enough = (weights > 0).sum(axis=1) >= MIN_ROWS
    return ratio(agree, np.sqrt(nx * ny), (nx > 0) & (ny > 0) & enough)


def weighted_auc(positive: Floats, score: Floats, weights: Floats) -> Floats:
    """Returns the area under the ROC curve of each weighted sample, shape (samples,): the chance
    that a positive row scores above a negative one, ties counting half (Mann and Whitney, 1947).

    ``positive`` is 1 or 0, shape (rows,). NaN for a sample of one class.
    """
    ranks = weighted_ranks(score, weights)
    high = (weights * positive).sum(axis=1)
    low = (weights * (1 - positive)).sum(axis=1)
    sums = (weights * positive * ranks).sum(axis=1)
    return ratio(sums - high * (high + 1) / 2, high * low)


def ratio(
    top: Floats, bottom: npt.NDArray[Any], defined: npt.NDArray[np.bool_] | None = None
) -> Floats:
    """Returns ``top / bottom``, NaN where it is not ``defined`` (by default: where ``bottom`` is
    not above 0)."""
    out: Floats = np.full(np.shape(top), np.nan)
    np.divide(top, bottom, out=out, where=bottom > 0 if defined is None else defined)
    return out
