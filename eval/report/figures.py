"""Figures of scored chats: overall, by group and over time, with tests; and the gates that check
them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from medal_judges.errors import ConfigError, CoverageError, MedalError
from medal_judges.eval.report.options import Gate
from medal_judges.eval.scores.bad import BAD, require_dimension
from medal_judges.eval.scores.options import ScoreSelection
from medal_judges.eval.scores.scores import ALWAYS, Codes, Scores
from medal_judges.eval.scores.times import Unit, period_starts
from medal_judges.report.table import ends_of, interval, number, points
from medal_judges.stats.change import Change, change
from medal_judges.stats.correlation import Floats
from medal_judges.stats.difference import POWER, Difference, holm_corrected
from medal_judges.stats.equal import Values
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import LEVEL, Student, wilson
from medal_judges.stats.means import (
    MIN_FOR_MEAN,
    Sample,
    cluster_count,
    difference_of,
    mean_of,
    share_of,
)
from medal_judges.stats.ppi import (
    LabelledSample,
    corrected_difference,
    corrected_mean,
    corrected_share,
)

if TYPE_CHECKING:
    from pandas import Categorical

MAX_GROUPS = 200  # the largest get a row each; the others share one
MAX_PERIODS = 1000
LARGE = 50_000  # rows from which differences of groups come from sums
OTHERS = "others"
# The smallest change that is significant with a chance of POWER, in halves of a 95% interval.
_NOTICED = 1 + NormalDist().inv_cdf(POWER) / NormalDist().inv_cdf(1 - LEVEL / 2)
_NOTHING = Estimate(None, reason="nothing scored")
Mask = npt.NDArray[np.bool_]
Verdict = Literal["passed", "failed", "undecided"]


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of some rows by dimension: the mean of a graded dimension, or the share of rows with
    an issue. ``overall``: by the judge; ``corrected``: those that human labels correct."""

    overall: Mapping[str, Estimate]
    corrected: Mapping[str, Estimate]

    def is_corrected(self, name: str) -> bool:
        return name in self.corrected and self.corrected[name].value is not None

    def lead(self, name: str) -> Estimate:
        """The corrected figure if it has a value, or else the judge's."""
        if self.is_corrected(name):
            return self.corrected[name]
        return self.overall[name]


@dataclass(frozen=True, slots=True)
class GroupFigures(Figures):
    """The ``rows`` with one value of a column, and their ``differences`` from all other rows.

    Intervals and p-values of differences are corrected by Holm over all values and dimensions of
    the column, those of bad scores apart. With human labels, the differences are corrected by
    these.
    """

    name: str
    rows: int
    differences: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Figures by period, and changes over time, which are corrected (Holm), those of bad scores
    apart."""

    unit: Unit
    periods: Sequence[str]
    counts: Sequence[int]
    figures: Mapping[str, Sequence[Estimate]]
    changes: Mapping[str, Change]


@dataclass(frozen=True, slots=True)
class ReportFigures(Figures):
    """All figures of a report. ``counts``: the number of scored rows of each dimension. ``groups``:
    the values of each column, the largest first."""

    counts: Mapping[str, int]
    groups: Mapping[str, Sequence[GroupFigures]]
    timeline: Timeline | None


def compute_figures(
    scores: Scores,
    options: ScoreSelection,
    progress: Callable[[str], None] = lambda step: None,
) -> ReportFigures:
    """Computes all figures. ``lang`` and ``chatbot`` are groups if they have two values or more."""
    groups: dict[str, Sequence[GroupFigures]] = {}
    for name in dict.fromkeys((*options.by, *ALWAYS)):
        column = scores.columns.get(name)
        if column is not None and (name in options.by or len(column.categories) > 1):
            progress(f"by {name}")
            groups[name] = _groups(scores, column)
    timeline = None
    if options.period is not None and scores.times is not None and scores.rows:
        progress("over time")
        timeline = _timeline(scores, scores.times, options.period[1])
    every_row = np.ones(scores.rows, dtype=bool)
    counts = {}
    for name, column in scores.scores.items():
        counts[name] = int(np.isfinite(column).sum())
    return ReportFigures(*_figures(scores, every_row), counts, groups, timeline)


def _figures(
    scores: Scores, rows: Mask
) -> tuple[dict[str, Estimate], dict[str, Estimate]]:
    """Returns the figure of each dimension over the ``rows``, and those that labels correct."""
    figures = {name: figure(scores, name, rows) for name in scores.dimensions}
    corrected = {name: corrected_figure(scores, name, rows) for name in scores.people}
    return figures, corrected


def figure(scores: Scores, name: str, rows: Mask | Codes) -> Estimate:
    """Returns the mean of a graded dimension, or the share of rows with an issue, over the scored
    ``rows``."""
    values, clusters = scores.values(name)[rows], scores.clusters[rows]
    is_scored = np.isfinite(values)
    values, clusters = values[is_scored], clusters[is_scored]
    if not len(values):
        return _NOTHING
    sample = Sample(_comparable(scores, name, values), clusters)
    if scores.is_issue(name):
        return share_of(sample)
    if not sample.values.constant:
        return mean_of(sample, _span(scores, name))
    value, count = float(values[0]), cluster_count(sample)
    if count < MIN_FOR_MEAN:
        reason = f"no interval: {count} rows, fewer than {MIN_FOR_MEAN}"
        return Estimate(value, reason=reason)
    # Equal scores have no spread. Wilson's interval holds for any values between the scale's ends.
    dimension = scores.dimensions[name]
    share = min(max(dimension.to_unit(value), 0.0), 1.0)
    low, high = wilson(share * count, count)
    return Estimate(value, dimension.from_unit(low), dimension.from_unit(high))


def corrected_figure(scores: Scores, name: str, rows: Mask) -> Estimate:
    """Returns the estimated human mean of the ``rows``, or the estimated share of them with an
    issue."""
    rows = rows & np.isfinite(scores.scores[name])
    if not rows.any():
        return _NOTHING
    sample = _labelled_sample(scores, name, rows)
    if scores.is_issue(name):
        return corrected_share(sample)
    return corrected_mean(sample, _span(scores, name))


def _span(scores: Scores, name: str) -> tuple[float, float]:
    dimension = scores.dimensions[name]
    return dimension.low, dimension.high


def _comparable(scores: Scores, name: str, values: Floats) -> Values:
    """Returns values of a dimension with the distance up to which they are equal. Verdicts on an
    issue, 0 or 1, are exact, so that a share of one in a million counts."""
    tolerance = 0.0 if scores.is_issue(name) else scores.dimensions[name].tolerance
    return Values(values, tolerance)


def _labelled_sample(scores: Scores, name: str, rows: Mask) -> LabelledSample:
    """Returns ``rows``, which all have a score, with their labels; an issue counts by its
    probability, not its verdict."""
    weights = scores.people_weights
    if weights is not None:
        weights = weights[rows]
    values = Values(scores.scores[name][rows], scores.dimensions[name].tolerance)
    sample = Sample(values, scores.clusters[rows])
    return LabelledSample(sample, scores.people[name][rows], weights)


def _groups(scores: Scores, column: Categorical) -> list[GroupFigures]:
    """Returns the figures of each value of a column, the most frequent first."""
    members = _members(column)
    tested = list(members)
    if len(members) == 2:
        # One question: each group is the rest of the other.
        tested = tested[:1]
    estimates: dict[str, dict[str, Estimate]] = {group: {} for group in members}
    for names in (scores.judged, scores.bad):
        differences = []
        for group, name in product(tested, names):
            rows, has_value = members[group], column.codes >= 0
            differences.append(_difference(scores, name, rows, has_value))
        corrected = iter(holm_corrected(differences))
        for group, name in product(tested, names):
            difference = next(corrected)
            estimates[group][name] = difference.estimate
            if len(members) == 2:
                estimates[list(members)[1]][name] = (-difference).estimate
    groups = []
    for group, rows in members.items():
        figures, size = _figures(scores, rows), int(rows.sum())
        groups.append(GroupFigures(*figures, group, size, estimates[group]))
    return groups


def _members(column: Categorical) -> dict[str, Mask]:
    """Returns the rows of each value, the most frequent first; the values after MAX_GROUPS are one
    group."""
    codes = column.codes
    sizes = np.bincount(codes[codes >= 0], minlength=len(column.categories))
    by_size = np.argsort(-sizes, kind="stable")
    members: dict[str, Mask] = {}
    for code in by_size[:MAX_GROUPS]:
        if sizes[code]:
            members[str(column.categories[code])] = codes == code
    small = by_size[MAX_GROUPS:]
    if len(small):
        members[f"{len(small)} {OTHERS}"] = np.isin(codes, small)
    return members


def _difference(scores: Scores, name: str, rows: Mask, has_value: Mask) -> Difference:
    """Returns the group's figure minus that of all other rows. With human labels it is the
    difference of the estimated human figures and needs labels on both sides, since a judge may
    favour one group."""
    values, clusters = scores.values(name), scores.clusters
    scored = np.isfinite(values) & has_value
    inside, outside = scored & rows, scored & ~rows
    if not outside.any():
        return Difference(None, reason="no other group")
    if name in scores.people:
        if not inside.any():
            return Difference(None, reason=_NOTHING.reason)
        return corrected_difference(
            _labelled_sample(scores, name, inside),
            _labelled_sample(scores, name, outside),
            _span(scores, name),
        )
    first = _comparable(scores, name, values[inside])
    second = _comparable(scores, name, values[outside])
    is_one_row_a_cluster = scores.cluster_name == scores.unit == "conversation"
    is_small = len(values) < LARGE or min(len(first), len(second)) < MIN_FOR_MEAN
    is_constant = first.constant and second.constant
    if is_small or is_constant or not is_one_row_a_cluster:
        return difference_of(
            Sample(first, clusters[inside]), Sample(second, clusters[outside])
        )
    # Welch's t is the jackknife if each row is a cluster, and fast for many groups.
    from scipy.stats import sem, ttest_ind

    test = ttest_ind(first.numbers, second.numbers, equal_var=False)
    difference = float(first.numbers.mean() - second.numbers.mean())
    student = Student(float(test.df))
    error = float(np.hypot(sem(first.numbers), sem(second.numbers)))
    return Difference(difference, error, student, tolerance=first.tolerance)


def _timeline(scores: Scores, times: Floats, unit: Unit) -> Timeline | None:
    periods, names = period_starts(times, unit)
    if not names:
        return None
    if len(names) > MAX_PERIODS:
        raise ConfigError(
            f"--over: {len(names):,} {unit}s from {names[0]} to {names[-1]}, more than "
            f"{MAX_PERIODS:,}",
            hint="take a longer unit, such as month, or correct the times",
        )
    rows_by_period = [np.flatnonzero(periods == i) for i in range(len(names))]
    figures: dict[str, list[Estimate]] = {}
    changes: dict[str, Change] = {}
    for name in scores.dimensions:
        figures[name] = [figure(scores, name, rows) for rows in rows_by_period]
        values = scores.values(name)
        rows = (periods >= 0) & np.isfinite(values)
        comparable = _comparable(scores, name, values[rows])
        changes[name] = change(comparable, periods[rows], scores.clusters[rows])
    for dimensions in (scores.judged, list(scores.bad)):
        corrected = holm_corrected([changes[name].difference for name in dimensions])
        for name, difference in zip(dimensions, corrected, strict=True):
            changes[name] = replace(changes[name], difference=difference)
    counts = [len(rows) for rows in rows_by_period]
    return Timeline(unit, names, counts, figures, changes)


@dataclass(frozen=True, slots=True)
class GateResult:
    """``failed``: the whole 95% interval is on the wrong side of the limit; ``passed``: the whole
    interval is on the right side; ``undecided``: the limit is inside it."""

    gate: Gate
    verdict: Verdict
    text: str


def check_gates(
    gates: Sequence[Gate],
    scores: Scores,
    estimates: Mapping[str, Estimate],
    min_coverage: float,
) -> list[GateResult]:
    """Checks each gate against the interval of its dimension.

    A gate that cannot be decided is an error, not a pass: ConfigError for an unknown dimension or a
    limit outside its scale, CoverageError if nothing is scored or coverage is below
    ``min_coverage``, MedalError for a figure without an interval.
    """
    has_figures = any(estimate.value is not None for estimate in estimates.values())
    results = []
    for gate in gates:
        if not scores.scored and not has_figures:
            hint = "score the chats first: medal score"
            raise CoverageError(f"{gate.name}: nothing is scored", hint=hint)
        for dimension in _gated(gate, scores):
            on_dimension = replace(gate, dimension=dimension)
            results.append(_check_gate(on_dimension, scores, estimates))
    coverage = scores.coverage
    if gates and coverage is not None and coverage < min_coverage:
        raise CoverageError(
            f"coverage {coverage:.1%} is below the minimum of {min_coverage:.0%}, so the gates "
            f"decide nothing: {scores.failures()}",
            hint="medal score --retry-failed scores these again; --min-coverage sets the minimum",
        )
    return results


def _gated(gate: Gate, scores: Scores) -> list[str]:
    """Returns the dimensions that a gate checks: all of bad scores for ``bad``."""
    if gate.dimension == BAD and scores.bad:
        return list(scores.bad)
    require_dimension(gate.dimension, scores.dimensions, f"{gate.name}: ")
    return [gate.dimension]


def _noticed(scores: Scores, estimates: Mapping[str, Estimate], name: str) -> str:
    """Says which change of the mean, and of the share of bad scores, so many rows show."""
    changes = []
    for figure_name, estimate in estimates.items():
        ends = ends_of([estimate])
        if scores.base(figure_name) == scores.base(name) and len(ends) == 3:
            size = float(np.diff(ends).max()) * _NOTICED
            text = number(size)
            if scores.is_issue(figure_name):
                text = points(size)
            changes.append(f"{text} in {figure_name}")
    return f"it would notice a change of {' or '.join(changes)} ({POWER:.0%} power)"


def _check_gate(
    gate: Gate, scores: Scores, estimates: Mapping[str, Estimate]
) -> GateResult:
    dimension, limit = scores.dimensions[gate.dimension], gate.limit
    estimate = estimates[gate.dimension]
    if not dimension.low <= limit <= dimension.high:
        scale = f"{dimension.low:g} and {dimension.high:g}"
        raise ConfigError(f"{gate.name}: {gate.dimension} is between {scale}")
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None or low is None or high is None:
        reason = estimate.reason or "no interval"
        raise MedalError(
            f"{gate.name} cannot be decided: {reason}", hint="score more chats"
        )
    form = "{:.2%}" if scores.is_issue(gate.dimension) else "{:.2f}"
    at, tolerance = form.format(limit), dimension.tolerance
    if gate.side == "under":
        is_failed = high < limit - tolerance
        is_passed, bound = low >= limit - tolerance, "at least"
    else:
        is_failed = low > limit + tolerance
        is_passed, bound = high <= limit + tolerance, "at most"
    verdict: Verdict = "undecided"
    reason = f"{at} is inside the interval, so more chats are needed"
    if is_failed:
        verdict, reason = "failed", f"the whole interval is {gate.side} {at}"
    elif is_passed:
        verdict, reason = "passed", f"the whole interval is {bound} {at}"
    figure = f"{form.format(value)} {interval(estimate, form.format)}"
    name = gate.dimension
    if name in scores.bad:
        name += " in"
    text = f"{name} {figure}: {verdict}; {reason}"
    text += f"; {_noticed(scores, estimates, gate.dimension)}"
    return GateResult(gate, verdict, text)
