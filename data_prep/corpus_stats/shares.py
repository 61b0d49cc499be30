"""Shares and means with 95% intervals, rows of one conversation left out together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from medal_judges.data_prep.corpus_stats.labels import Dimension, Floats, Ints, Labels
from medal_judges.data_prep.corpus_stats.part import Part
from medal_judges.stats.intervals import MIN_CLUSTERS, spanned, spread_of, variance
from medal_judges.stats.results import Estimate
from medal_judges.stats.scales import LOGIT, PLAIN
from medal_judges.stats.weights import effective_size
from medal_judges.stats.wilson import wilson

Method = Literal["Wilson", "Wilson over groups", "jackknife of groups", "none"]


@dataclass(frozen=True, slots=True)
class Figure:
    """Share of rows at 1 (0 to 1), or mean on the raw scale, of ``n`` rows in ``groups`` groups.

    ``method`` says how the interval was made.
    """

    estimate: Estimate
    n: int
    groups: int
    method: Method


@dataclass(frozen=True, slots=True)
class _Sums:
    """Per group, shape (groups, dimensions): the labelled ``rows``, what they count for, and the
    sum of their values."""

    rows: Floats
    counts: Floats
    totals: Floats


def figures(labels: Labels, part: Part) -> dict[Dimension, Figure]:
    """One figure a dimension, in the order of ``labels.dimensions()``.

    A share in rows that each are a conversation of their own has Wilson's interval; else groups
    are left out one by one (stats/intervals.py). A share of 0 or 1 stays so whichever is left out:
    there Wilson's interval stands, with one trial a group, which is too wide rather than too
    narrow. Rows count by their weights; where these differ, a share has the interval of groups
    left out, and at its ends Wilson's with as many trials as groups of one weight would tell as
    much.
    """
    member, names, values = labels.select(part)
    dimensions = labels.dimensions()
    sums = _grouped(member, len(names), values, labels.weights(part))
    return {
        dimension: _figure(sums, i, labels.is_share(dimension))
        for i, dimension in enumerate(dimensions)
    }


def _grouped(member: Ints, groups: int, values: Floats, weights: Floats) -> _Sums:
    given = ~np.isnan(values)
    shape = (groups, values.shape[1])
    rows, counts, totals = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for i in range(values.shape[1]):
        column = np.where(given[:, i], values[:, i], 0.0)
        rows[:, i] = np.bincount(member, weights=given[:, i], minlength=groups)
        counts[:, i] = np.bincount(member, weights=given[:, i] * weights, minlength=groups)
        totals[:, i] = np.bincount(member, weights=column * weights, minlength=groups)
    return _Sums(rows, counts, totals)


def _figure(sums: _Sums, i: int, is_share: bool) -> Figure:
    rows, counts, totals = sums.rows[:, i], sums.counts[:, i], sums.totals[:, i]
    n, groups = int(rows.sum()), int((rows > 0).sum())
    if not n:
        reason = "no dialogue" if not len(counts) else "no label"
        return Figure(Estimate(None, reason=reason), 0, 0, "none")
    value = float(totals.sum() / counts.sum())
    alike = bool((rows == counts).all())
    if is_share and ((alike and n == groups) or value in (0, 1)):
        trials = groups if alike else effective_size(counts.tolist())
        low, high = wilson(value * trials, trials)
        method: Method = "Wilson" if n == groups else "Wilson over groups"
        return Figure(Estimate(value, low, high), n, groups, method)
    if groups < MIN_CLUSTERS:
        return Figure(Estimate(value), n, groups, "none")
    counts, totals = counts[rows > 0], totals[rows > 0]
    left = (totals.sum() - totals) / (counts.sum() - counts)
    spread = spread_of(left, float(variance(left, np.array(value))))
    estimate = spanned(Estimate(value), spread, LOGIT if is_share else PLAIN)
    return Figure(estimate, n, groups, "none" if estimate.low is None else "jackknife of groups")
