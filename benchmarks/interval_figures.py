"""The figures of a thousand draws at once, whole and without each part of the rows in turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from interval_population import LEVELS, Rows, graded, present
from scipy import stats

from medal_judges.stats.correlation import MIN_WITHIN, Floats
from medal_judges.stats.intervals import (
    DIFFERENCE,
    FIGURE,
    PLAIN,
    Strata,
    degrees,
    scale_of,
    variance,
)

COMMON, RARE = 0.3, 0.05
Columns = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Left:
    """``whole``, shape (draws,), and without each part, shape (draws, parts)."""

    whole: Floats
    left: Floats


@dataclass(frozen=True)
class Spans:
    """On the figure's own scale: centres and half widths, shape (draws,), NaN for no interval."""

    centre: Floats
    half: Floats
    low: Floats
    high: Floats


def figures(rows: Rows, parts: list[Columns]) -> Iterator[tuple[str, Left]]:
    """Every figure of the first judge, and the differences of the two."""
    human, (one, two) = rows.human, rows.judges
    first, second = (_spearman(human, score, parts) for score in (one, two))
    yield "spearman", first
    yield "spearman difference", _minus(first, second)
    yield "pearson", _pearsons(human, one, parts)
    yield "kendall", _kendall(human, one, parts)
    if len(set(rows.chatbots)) > 1:
        yield "within_system", _within(rows, parts)
    for share in (COMMON, RARE):
        people, *judges = (present(values, share) for values in (human, one, two))
        found = [_f1(people, judge, parts) for judge in judges]
        yield f"f1_present {share}", found[0]
        yield f"f1_present difference {share}", _minus(*found)
        yield f"f1_absent {share}", _f1(1 - people, 1 - judges[0], parts)
        yield f"alpha {share}", _nominal(people, judges[0], parts)
    yield "alpha 1-5", _ordinal(graded(human), graded(one), parts)


def spans(name: str, found: Left, strata: Strata | None) -> Spans:
    """The intervals of src/medal_judges/stats/intervals.py, by its own functions."""
    difference = "difference" in name
    scale = PLAIN if difference else scale_of(name.split()[0])
    defined = np.isfinite(found.left).all(axis=1) & (np.ptp(found.left, axis=1) > 1e-12)
    with np.errstate(invalid="ignore"):
        defined &= (scale.low < found.whole) & (found.whole < scale.high)
    empty: Floats = np.full((4, len(found.whole)), np.nan)
    if not defined.any():
        return Spans(*empty)
    whole, left = found.whole[defined], found.left[defined]
    error = np.sqrt(variance(left, whole, strata)) * [
        scale.slope(value) for value in whole
    ]
    evenness = DIFFERENCE if difference else FIGURE
    half = error * stats.t.ppf(0.975, degrees(left, evenness, strata))
    centre = np.array([scale.to(value) for value in whole])
    own = scale_of(name.split()[0])
    most = own.high - own.low if difference else np.inf
    sides = (np.maximum(centre - half, -most), np.minimum(centre + half, most))
    ends = [[scale.back(value) for value in side] for side in sides]
    empty[:, defined] = [centre, half, *ends]
    return Spans(*empty)


def _sums(values: Floats, parts: list[Columns]) -> Floats:
    """Over all rows, and over those without each part; shape (draws, 1 + parts)."""
    whole = values.sum(axis=1)
    left = (whole - values[:, part].sum(axis=1) for part in parts)
    return np.stack([whole, *left], axis=1)


def _left(figure: Floats) -> Left:
    return Left(figure[:, 0], figure[:, 1:])


def _minus(one: Left, two: Left) -> Left:
    return Left(one.whole - two.whole, one.left - two.left)


def _ranks(values: Floats) -> Floats:
    order = np.argsort(values, axis=1)
    ranks = np.empty_like(values)
    np.put_along_axis(
        ranks, order, np.arange(values.shape[1], dtype=float)[None], axis=1
    )
    return ranks


def _pearson(x: Floats, y: Floats) -> Floats:
    dx, dy = (v - v.mean(axis=-1, keepdims=True) for v in (x, y))
    bottom = np.sqrt((dx * dx).sum(axis=-1) * (dy * dy).sum(axis=-1))
    return np.asarray((dx * dy).sum(axis=-1) / bottom)


def _pearsons(x: Floats, y: Floats, parts: list[Columns]) -> Left:
    n = _sums(np.ones((1, x.shape[1])), parts)
    sx, sy, xx, yy, xy = (
        _sums(values, parts) for values in (x, y, x * x, y * y, x * y)
    )
    return _left((n * xy - sx * sy) / np.sqrt((n * xx - sx * sx) * (n * yy - sy * sy)))


def _spearman(x: Floats, y: Floats, parts: list[Columns]) -> Left:
    """Without ties: a rank goes down by how many of the rows left out lie below."""
    sides = [_ranks(side) for side in (x, y)]
    left = []
    for part in parts:
        kept = [
            np.delete(side - sum(side > side[:, [j]] for j in part), part, axis=1)
            for side in sides
        ]
        left.append(_pearson(*kept))
    return Left(_pearson(*sides), np.stack(left, axis=1))


def _kendall(human: Floats, score: Floats, parts: list[Columns]) -> Left:
    """Without ties: the mean over pairs of rows, summed by pairs of clusters."""
    order = np.concatenate(parts)
    starts = np.cumsum([0, *(len(part) for part in parts[:-1])])
    sizes = np.array([len(part) for part in parts])
    whole, left = [], []
    for x, y in zip(human[:, order], score[:, order], strict=True):
        signs = np.sign(x[:, None] - x) * np.sign(y[:, None] - y)
        blocks = np.add.reduceat(np.add.reduceat(signs, starts, axis=0), starts, axis=1)
        total = blocks.sum()
        rest = len(x) - sizes
        whole.append(total / (len(x) * (len(x) - 1)))
        left.append(
            (total - 2 * blocks.sum(axis=1) + np.diag(blocks)) / (rest * (rest - 1))
        )
    return Left(np.array(whole), np.array(left))


def _within(rows: Rows, parts: list[Columns]) -> Left:
    names = np.array(rows.chatbots)
    bots = [np.flatnonzero(names == name) for name in dict.fromkeys(rows.chatbots)]

    def sums(columns: Columns) -> Floats:
        """Of one chatbot's rows: its correlation times their number, and that number."""
        size = len(columns) if len(columns) >= MIN_WITHIN else 0
        if not size:
            return np.zeros((2, len(rows.human)))
        rho = _pearson(
            _ranks(rows.human[:, columns]), _ranks(rows.judges[0][:, columns])
        )
        return np.stack([size * rho, np.full(len(rho), size)])

    each = [sums(columns) for columns in bots]
    total = np.sum(each, axis=0)
    left = []
    for part in parts:  # of one chatbot
        k = next(k for k, columns in enumerate(bots) if part[0] in columns)
        left.append(total - each[k] + sums(np.setdiff1d(bots[k], part)))
    return Left(
        total[0] / total[1], np.stack([top / size for top, size in left], axis=1)
    )


def _f1(people: Floats, judge: Floats, parts: list[Columns]) -> Left:
    top, bottom = (
        _sums(values, parts) for values in (2 * people * judge, people + judge)
    )
    # Nobody marks anything: undefined.
    return _left(np.where(bottom > 0, top / np.maximum(bottom, 1), np.nan))


def _nominal(one: Floats, two: Floats, parts: list[Columns]) -> Left:
    ones, apart = _sums(one + two, parts), _sums(np.abs(one - two), parts)
    n = 2 * _sums(np.ones((1, one.shape[1])), parts)
    expected = ones * (n - ones)
    found = np.where(
        expected > 0, 1 - (n - 1) * apart / np.maximum(expected, 1), np.nan
    )
    few = (
        np.where(
            (one + two).mean(axis=1) <= 1,
            (one * two).sum(axis=1),
            ((1 - one) * (1 - two)).sum(axis=1),
        )
        == 0
    )
    return _left(np.where(few[:, None], np.nan, found))


def _ordinal(one: Floats, two: Floats, parts: list[Columns]) -> Left:
    levels = len(LEVELS) + 1
    given = (one - 1) * levels + two - 1
    counts = [_sums((given == k).astype(np.float64), parts) for k in range(levels**2)]
    table = np.stack(counts, axis=-1).reshape(*counts[0].shape, levels, levels)
    table = table + table.swapaxes(-1, -2)
    totals = table.sum(axis=-2)
    middle = np.cumsum(totals, axis=-1) - totals / 2
    delta = (middle[..., None] - middle[..., None, :]) ** 2
    expected = (totals[..., None] * totals[..., None, :] * delta).sum(axis=(-2, -1))
    observed = (table * delta).sum(axis=(-2, -1))
    n = 2 * _sums(np.ones((1, one.shape[1])), parts)
    return _left(1 - (n - 1) * observed / expected)
