"""The figures of a thousand draws at once, whole and without each chatbot or row in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from interval_population import LEVELS, Rows, graded, present

from medal_judges.stats.correlation import Floats
from medal_judges.stats.intervals import (
    DIFFERENCE,
    FIGURE,
    PLAIN,
    degrees,
    scale_of,
    t_quantile,
    variance,
)

COMMON, RARE = 0.3, 0.05
LARGEST = 700  # rows; above, Kendall's pairs take too long
Columns = npt.NDArray[np.intp]
Figure = Callable[[Columns], Floats]  # of some of the rows, shape (draws,)


@dataclass(frozen=True)
class Left:
    """``whole``, shape (draws,), and without each cluster, shape (draws, clusters)."""

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
    first, second = (_left(_spearman(human, score), parts) for score in (one, two))
    yield "spearman", first
    yield "spearman difference", _minus(first, second)
    yield "pearson", _left(lambda c: _pearson(human[:, c], one[:, c]), parts)
    if human.shape[1] <= LARGEST:
        yield "kendall", _kendall(human, one, parts)
    if len(parts) < human.shape[1]:
        yield "within_system", _within(human, one, parts)
    for share in (COMMON, RARE):
        people, *judges = (present(values, share) for values in (human, one, two))
        found = [_left(_f1(people, judge), parts) for judge in judges]
        yield f"f1_present {share}", found[0]
        yield f"f1_present difference {share}", _minus(*found)
        yield f"f1_absent {share}", _left(_f1(1 - people, 1 - judges[0]), parts)
        yield f"alpha {share}", _nominal(people, judges[0], parts)
    yield "alpha 1-5", _left(_ordinal(graded(human), graded(one)), parts)


def spans(name: str, found: Left) -> Spans:
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
    error = np.sqrt(variance(left, whole)) * [scale.slope(value) for value in whole]
    half = error * t_quantile(degrees(left, DIFFERENCE if difference else FIGURE))
    centre = np.array([scale.to(value) for value in whole])
    own = scale_of(name.split()[0])
    most = own.high - own.low if difference else np.inf
    sides = (np.maximum(centre - half, -most), np.minimum(centre + half, most))
    ends = [[scale.back(value) for value in side] for side in sides]
    empty[:, defined] = [centre, half, *ends]
    return Spans(*empty)


def _left(figure: Figure, parts: list[Columns]) -> Left:
    every = np.sort(np.concatenate(parts))
    left = [figure(np.setdiff1d(every, part)) for part in parts]
    return Left(figure(every), np.stack(left, axis=1))


def _minus(one: Left, two: Left) -> Left:
    return Left(one.whole - two.whole, one.left - two.left)


def _ranks(values: Floats) -> Floats:
    order = np.argsort(values, axis=1)
    ranks = np.empty_like(values)
    np.put_along_axis(ranks, order, np.arange(values.shape[1], dtype=float)[None], axis=1)
    return ranks


def _pearson(x: Floats, y: Floats) -> Floats:
    dx, dy = (v - v.mean(axis=-1, keepdims=True) for v in (x, y))
    bottom = np.sqrt((dx * dx).sum(axis=-1) * (dy * dy).sum(axis=-1))
    return np.asarray((dx * dy).sum(axis=-1) / bottom)


def _spearman(human: Floats, score: Floats) -> Figure:
    return lambda c: _pearson(_ranks(human[:, c]), _ranks(score[:, c]))


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
        left.append((total - 2 * blocks.sum(axis=1) + np.diag(blocks)) / (rest * (rest - 1)))
    return Left(np.array(whole), np.array(left))


def _within(human: Floats, score: Floats, parts: list[Columns]) -> Left:
    rho = np.stack([_spearman(human, score)(part) for part in parts], axis=1)
    sizes = np.array([len(part) for part in parts], dtype=float)
    total = (rho * sizes).sum(axis=1)
    left = (total[:, None] - rho * sizes) / (sizes.sum() - sizes)
    return Left(total / sizes.sum(), left)


def _f1(people: Floats, judge: Floats) -> Figure:
    both, either = people * judge, people + judge

    def figure(c: Columns) -> Floats:
        top, bottom = 2 * both[:, c].sum(axis=1), either[:, c].sum(axis=1)
        # Nobody marks anything: undefined; the judge alone does: undefined where people never do.
        defined = people[:, c].any(axis=1) | judge[:, c].any(axis=1)
        return np.where(defined, top / np.maximum(bottom, 1), np.nan)

    return figure


def _nominal(one: Floats, two: Floats, parts: list[Columns]) -> Left:
    def figure(c: Columns) -> Floats:
        ones = (one[:, c] + two[:, c]).sum(axis=1)
        apart = np.abs(one[:, c] - two[:, c]).sum(axis=1)
        n = 2.0 * len(c)
        expected = ones * (n - ones)
        safe = np.maximum(expected, 1)
        return np.where(expected > 0, 1 - (n - 1) * apart / safe, np.nan)

    found = _left(figure, parts)
    few = np.where((one + two).mean(axis=1) <= 1, (one * two).sum(axis=1),
                   ((1 - one) * (1 - two)).sum(axis=1)) == 0  # fmt: skip
    return Left(np.where(few, np.nan, found.whole), np.where(few[:, None], np.nan, found.left))


def _ordinal(one: Floats, two: Floats) -> Figure:
    levels = len(LEVELS) + 1
    given = (one - 1) * levels + two - 1

    def figure(c: Columns) -> Floats:
        answers = given[:, c]
        counts = np.stack([(answers == k).sum(axis=1) for k in range(levels**2)], axis=1)
        table = counts.reshape(-1, levels, levels).astype(float)
        table += table.transpose(0, 2, 1)
        totals = table.sum(axis=1)
        middle = np.cumsum(totals, axis=1) - totals / 2
        delta = (middle[:, :, None] - middle[:, None, :]) ** 2
        expected = (totals[:, :, None] * totals[:, None, :] * delta).sum(axis=(1, 2))
        observed = (table * delta).sum(axis=(1, 2))
        return np.asarray(1 - (2 * len(c) - 1) * observed / expected)

    return figure
