"""Figures of a body of scored chats: over all, by group and over time, with tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from medal_judges.eval.traffic.reading import ALWAYS, TrafficOptions
from medal_judges.eval.traffic.times import UNITS, Unit, period_starts
from medal_judges.eval.traffic.traffic import THRESHOLD, Codes, TextColumn, Traffic
from medal_judges.stats.change import Change, change
from medal_judges.stats.correlation import Floats
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import t_quantile, wilson
from medal_judges.stats.means import (
    MIN_FOR_MEAN,
    Sample,
    difference_of,
    mean_of,
    share_of,
    two_sided,
)
from medal_judges.stats.ppi import (
    LabelledSample,
    corrected_difference,
    corrected_mean,
    corrected_share,
)
from medal_judges.stats.significance import holm

MAX_GROUPS = 200  # the largest get a row each; what is beyond is counted together
MAX_PERIODS = 1000
LARGE = 50_000  # rows from which on groups are told apart by their sums
OTHERS = "others"


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """One value of a column: ``figures`` and ``differences`` from all other rows by dimension, the
    p-values of these after Holm over all values and dimensions of the column. Where people labelled
    a dimension, ``corrected`` has its figure, and the difference is corrected too."""

    name: str
    rows: int
    figures: Mapping[str, Estimate]
    differences: Mapping[str, Estimate]
    corrected: Mapping[str, Estimate] = field(default_factory=dict)

    def lead(self, name: str) -> Estimate:
        """The figure that comes first, see ``TrafficFigures.lead``."""
        return _first(self.corrected.get(name), self.figures[name])


@dataclass(frozen=True, slots=True)
class Timeline:
    """Figures by period, and what changed; p-values after Holm over the dimensions. ``starts``:
    the change as a place in ``periods``."""

    column: str
    unit: Unit
    periods: Sequence[str]
    counts: Sequence[int]
    figures: Mapping[str, Sequence[Estimate]]
    changes: Mapping[str, Change]


@dataclass(frozen=True, slots=True)
class TrafficFigures:
    """Everything that is told of the scores: ``overall`` has a figure a dimension (mean of a graded
    one, share of rows with an issue), ``counts`` the rows behind it, ``groups`` the values of each
    column, the largest first. ``any_issue``: share of rows with one issue or more. ``corrected``:
    the figures of ``overall`` corrected by people's labels on a sample."""

    overall: Mapping[str, Estimate]
    counts: Mapping[str, int]
    groups: Mapping[str, Sequence[GroupFigures]] = field(default_factory=dict)
    timeline: Timeline | None = None
    any_issue: Estimate | None = None
    corrected: Mapping[str, Estimate] = field(default_factory=dict)

    def lead(self, name: str) -> Estimate:
        """The figure that comes first: corrected where there are labels enough."""
        return _first(self.corrected.get(name), self.overall[name])

    def is_corrected(self, name: str) -> bool:
        """Whether that is the corrected one."""
        return name in self.corrected and self.corrected[name].value is not None


def _first(corrected: Estimate | None, judged: Estimate) -> Estimate:
    return judged if corrected is None or corrected.value is None else corrected


def compute_figures(
    traffic: Traffic, options: TrafficOptions, progress: Callable[[str], None] = lambda what: None
) -> TrafficFigures:
    """All figures. ``lang`` and ``chatbot`` are groups wherever they have two values or more."""
    overall = {name: figure(traffic, name) for name in traffic.dimensions}
    counts = {n: int(np.isfinite(column).sum()) for n, column in traffic.scores.items()}
    groups: dict[str, Sequence[GroupFigures]] = {}
    for name in dict.fromkeys((*options.by, *ALWAYS)):
        column = traffic.columns.get(name)
        if column is not None and (name in options.by or len(column.names) > 1):
            progress(f"by {name}")
            groups[name] = _groups(traffic, column)
    timeline = None
    if options.over is not None and traffic.times is not None and traffic.rows:
        progress("over time")
        timeline = _timeline(traffic, traffic.times, options.over.column, options.over.unit)
    corrected = {name: corrected_figure(traffic, name) for name in traffic.people}
    return TrafficFigures(overall, counts, groups, timeline, _any_issue(traffic), corrected)


def _any_issue(traffic: Traffic) -> Estimate | None:
    """Over the rows with all issues scored; None where fewer than two issues are judged."""
    names = [name for name in traffic.issues if traffic.dimensions[name].good == "low"]
    if len(names) < 2:
        return None
    table = np.array([values_of(traffic, name) for name in names])
    kept = np.isfinite(table).all(axis=0)
    if not kept.any():
        return Estimate(None, reason="nothing scored")
    return share_of(Sample(table[:, kept].max(axis=0), traffic.clusters[kept]))


def values_of(traffic: Traffic, name: str) -> Floats:
    """Scores of a graded dimension, 0 or 1 of an issue (1: present), shape (rows,), NaN where
    unscored."""
    scores = traffic.scores[name]
    if traffic.dimensions[name].kind != "binary":
        return scores
    return np.where(np.isfinite(scores), (scores >= THRESHOLD).astype(np.float64), np.nan)


def figure(traffic: Traffic, name: str, rows: npt.NDArray[np.bool_] | None = None) -> Estimate:
    """Mean of a graded dimension or share of rows with an issue, over the scored ``rows``."""
    kept = np.isfinite(traffic.scores[name])
    if rows is not None:
        kept &= rows
    return _estimate(traffic, name, values_of(traffic, name)[kept], traffic.clusters[kept])


def _estimate(traffic: Traffic, name: str, values: Floats, clusters: Codes) -> Estimate:
    dimension = traffic.dimensions[name]
    sample = Sample(values, clusters)
    if not len(values):
        return Estimate(None, reason="nothing scored")
    if dimension.kind == "binary":
        return share_of(sample)
    if name in traffic.assumed:
        return mean_of(sample)
    span = dimension.low, dimension.high
    if np.ptp(values) == 0:
        return _all_equal(float(values[0]), len(np.unique(clusters)), span)
    return mean_of(sample, span)


def corrected_figure(
    traffic: Traffic, name: str, rows: npt.NDArray[np.bool_] | None = None
) -> Estimate:
    """What people would say of the ``rows`` on average, or of how large a share of them."""
    sample = _labelled_sample(traffic, name, rows)
    if sample is None:
        return Estimate(None, reason="nothing scored")
    dimension = traffic.dimensions[name]
    if dimension.kind == "binary":
        return corrected_share(sample).estimate
    assumed = name in traffic.assumed
    span = None if assumed else (dimension.low, dimension.high)
    return corrected_mean(sample, span).estimate


def _labelled_sample(
    traffic: Traffic, name: str, rows: npt.NDArray[np.bool_] | None
) -> LabelledSample | None:
    """The scored rows with their labels; of an issue the judge's probability, not its verdict."""
    scores = traffic.scores[name]
    kept = np.isfinite(scores) if rows is None else np.isfinite(scores) & rows
    if not kept.any():
        return None
    weights = traffic.people_weights
    return LabelledSample(
        Sample(scores[kept], traffic.clusters[kept]),
        traffic.people[name][kept],
        None if weights is None else weights[kept],
    )


def _all_equal(value: float, clusters: int, span: tuple[float, float]) -> Estimate:
    """Where all scores are equal their spread says nothing; on a known scale Wilson's interval
    holds for whatever lies between its two ends."""
    if clusters < MIN_FOR_MEAN:
        return Estimate(value, reason=f"no interval: {clusters} rows, fewer than {MIN_FOR_MEAN}")
    low, high = span
    place = min(max((value - low) / (high - low), 0.0), 1.0)
    first, last = (low + end * (high - low) for end in wilson(place * clusters, clusters))
    return Estimate(value, first, last)


def _groups(traffic: Traffic, column: TextColumn) -> list[GroupFigures]:
    sizes = column.counts()
    ranked = np.argsort(-sizes, kind="stable")
    shown = [int(code) for code in ranked[:MAX_GROUPS] if sizes[code]]
    members = [(column.names[code], column.codes == code) for code in shown]
    if len(ranked) > MAX_GROUPS:
        rest = np.isin(column.codes, ranked[MAX_GROUPS:])
        members.append((f"{len(ranked) - MAX_GROUPS} {OTHERS}", rest))
    placed = column.codes >= 0
    groups = [
        GroupFigures(
            name,
            int(rows.sum()),
            {d: figure(traffic, d, rows) for d in traffic.dimensions},
            {d: _difference(traffic, d, rows, placed) for d in traffic.dimensions},
            {d: corrected_figure(traffic, d, rows) for d in traffic.people},
        )
        for name, rows in members
    ]
    return _corrected(groups)


def _difference(
    traffic: Traffic, name: str, rows: npt.NDArray[np.bool_], placed: npt.NDArray[np.bool_]
) -> Estimate:
    values = values_of(traffic, name)
    kept = np.isfinite(values) & placed
    if not (kept & ~rows).any():
        return Estimate(None, reason="no other group")
    if name in traffic.people:
        return _corrected_difference(traffic, name, kept & rows, kept & ~rows)
    sides = [kept & rows, kept & ~rows]
    if (
        len(values) >= LARGE
        and traffic.cluster_name == "conversation"
        and (traffic.turns < 0).all()
    ):
        return _welch(*(values[side] for side in sides))
    first, second = (Sample(values[side], traffic.clusters[side]) for side in sides)
    return difference_of(first, second)


def _welch(first: Floats, second: Floats) -> Estimate:
    """``difference_of`` two samples of single rows from their sums alone, for many groups of a
    large file: there Welch's t and the jackknife are one."""
    difference = float(first.mean() - second.mean())
    few = min(len(first), len(second))
    if few < MIN_FOR_MEAN:
        return Estimate(difference, reason=f"no interval: {few} rows, fewer than {MIN_FOR_MEAN}")
    parts = [float(side.var(ddof=1)) / len(side) for side in (first, second)]
    error = math.sqrt(sum(parts))
    if error < 1e-12:
        return Estimate(difference, reason="no interval: nothing varies")
    below = sum(p**2 / (len(s) - 1) for p, s in zip(parts, (first, second), strict=True))
    freedom = sum(parts) ** 2 / below
    half = float(t_quantile(freedom)) * error
    p_value = two_sided(difference, error, freedom)
    return Estimate(difference, difference - half, difference + half, p_value)


def _corrected_difference(
    traffic: Traffic, name: str, rows: npt.NDArray[np.bool_], others: npt.NDArray[np.bool_]
) -> Estimate:
    """What people would say; nothing where they labelled too few of either side: a judge may well
    favour one group."""
    first, second = (_labelled_sample(traffic, name, side) for side in (rows, others))
    if first is None or second is None:
        return Estimate(None, reason="nothing scored")
    dimension = traffic.dimensions[name]
    span = None if name in traffic.assumed else (dimension.low, dimension.high)
    return corrected_difference(first, second, span).estimate


def _corrected(groups: Sequence[GroupFigures]) -> list[GroupFigures]:
    keys = [(i, name) for i, group in enumerate(groups) for name in group.differences]
    # Two groups are one question: each is the rest of the other.
    asked = keys[: len(keys) // 2] if len(groups) == 2 else keys
    raised = holm([groups[i].differences[name].p_value for i, name in asked])
    p_values = dict(zip(asked, raised, strict=True))
    return [
        replace(
            group,
            differences={
                name: replace(e, p_value=p_values.get((i, name), p_values.get((0, name))))
                for name, e in group.differences.items()
            },
        )
        for i, group in enumerate(groups)
    ]


def _timeline(traffic: Traffic, times: Floats, column: str, unit: Unit) -> Timeline | None:
    number, names = period_starts(times, unit)
    while len(names) > MAX_PERIODS and unit != UNITS[-1]:
        unit = UNITS[UNITS.index(unit) + 1]
        number, names = period_starts(times, unit)
    if not names:
        return None
    order = np.argsort(number, kind="stable")
    ends = np.searchsorted(number[order], np.arange(len(names) + 1))
    parts = [order[a:b] for a, b in pairwise(ends)]
    figures: dict[str, list[Estimate]] = {}
    changes: dict[str, Change] = {}
    for name in traffic.dimensions:
        values = values_of(traffic, name)
        kept = [part[np.isfinite(values[part])] for part in parts]
        figures[name] = [
            _estimate(traffic, name, values[part], traffic.clusters[part]) for part in kept
        ]
        rows = np.flatnonzero((number >= 0) & np.isfinite(values))
        days = (times[rows] - times[rows].min()) / 86400 if len(rows) else times[rows]
        _, clusters = np.unique(traffic.clusters[rows], return_inverse=True)
        changes[name] = change(values[rows], days, number[rows], clusters)
    counts = [len(part) for part in parts]
    return Timeline(column, unit, names, counts, figures, _corrected_changes(changes))


def _corrected_changes(changes: Mapping[str, Change]) -> dict[str, Change]:
    steps = holm([c.difference.p_value for c in changes.values()])
    slopes = holm([c.slope.p_value for c in changes.values()])
    return {
        name: replace(
            c,
            difference=replace(c.difference, p_value=step),
            slope=replace(c.slope, p_value=slope),
        )
        for (name, c), step, slope in zip(changes.items(), steps, slopes, strict=True)
    }
