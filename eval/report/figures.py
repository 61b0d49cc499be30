"""Figures of scored chats: overall, by group and over time, with tests; and the gates that check
them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from medal_judges.errors import ConfigError, CoverageError, MedalError, did_you_mean
from medal_judges.eval.report.options import Gate
from medal_judges.eval.scores.options import ScoreSelection
from medal_judges.eval.scores.scores import ALWAYS, Codes, Scores
from medal_judges.eval.scores.times import Unit, period_starts
from medal_judges.stats.change import Change, change
from medal_judges.stats.correlation import Floats
from medal_judges.stats.difference import Difference, Student, holm_corrected
from medal_judges.stats.equal import Values
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import wilson
from medal_judges.stats.means import MIN_FOR_MEAN, Sample, difference_of, mean_of, share_of
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
_NOTHING = Estimate(None, reason="nothing scored")
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """The rows with one value of a column: ``figures`` by dimension, and ``differences`` from all
    other rows.

    Intervals and p-values of differences are corrected by Holm over all values and dimensions of
    the column. With human labels, ``corrected`` has the figures corrected by these, and so are the
    differences.
    """

    name: str
    rows: int
    figures: Mapping[str, Estimate]
    differences: Mapping[str, Estimate]
    corrected: Mapping[str, Estimate] = field(default_factory=dict)

    def lead(self, name: str) -> Estimate:
        """The corrected figure if it has a value, or else the judge's."""
        return _first(self.corrected.get(name), self.figures[name])


@dataclass(frozen=True, slots=True)
class Timeline:
    """Figures by period, and changes over time, which are corrected (Holm)."""

    unit: Unit
    periods: Sequence[str]
    counts: Sequence[int]
    figures: Mapping[str, Sequence[Estimate]]
    changes: Mapping[str, Change]


@dataclass(frozen=True, slots=True)
class ReportFigures:
    """All figures of a report. ``overall``: the mean of a graded dimension, or the share of rows
    with an issue; ``counts``: the number of scored rows. ``groups``: the values of each column, the
    largest first. ``corrected``: ``overall`` corrected by human labels."""

    overall: Mapping[str, Estimate]
    counts: Mapping[str, int]
    groups: Mapping[str, Sequence[GroupFigures]] = field(default_factory=dict)
    timeline: Timeline | None = None
    corrected: Mapping[str, Estimate] = field(default_factory=dict)

    def lead(self, name: str) -> Estimate:
        """The corrected figure if it has a value, or else the judge's."""
        return _first(self.corrected.get(name), self.overall[name])

    def is_corrected(self, name: str) -> bool:
        return name in self.corrected and self.corrected[name].value is not None


def _first(corrected: Estimate | None, judged: Estimate) -> Estimate:
    return judged if corrected is None or corrected.value is None else corrected


def compute_figures(
    scores: Scores, options: ScoreSelection, progress: Callable[[str], None] = lambda what: None
) -> ReportFigures:
    """Computes all figures. ``lang`` and ``chatbot`` are groups if they have two values or more."""
    every = np.ones(scores.rows, dtype=bool)
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
    return ReportFigures(
        {name: figure(scores, name, every) for name in scores.dimensions},
        {name: int(np.isfinite(column).sum()) for name, column in scores.scores.items()},
        groups,
        timeline,
        {name: corrected_figure(scores, name, every) for name in scores.people},
    )


def figure(scores: Scores, name: str, rows: Mask | Codes) -> Estimate:
    """Mean of a graded dimension, or share of rows with an issue, over the scored ``rows``."""
    values, clusters = scores.values(name)[rows], scores.clusters[rows]
    known = np.isfinite(values)
    values, clusters = values[known], clusters[known]
    sample = Sample(_comparable(scores, name, values), clusters)
    span = _span(scores, name)
    if not len(values):
        return _NOTHING
    if scores.is_issue(name):
        return share_of(sample)
    if span is None or not sample.values.constant:
        return mean_of(sample, span)
    # Equal scores have no spread. On a known scale Wilson's interval holds for any values between
    # its ends.
    (low, high), value, count = span, float(values[0]), len(np.unique(clusters))
    if count < MIN_FOR_MEAN:
        return Estimate(value, reason=f"no interval: {count} rows, fewer than {MIN_FOR_MEAN}")
    place = min(max((value - low) / (high - low), 0.0), 1.0)
    first, last = (low + end * (high - low) for end in wilson(place * count, count))
    return Estimate(value, first, last)


def corrected_figure(scores: Scores, name: str, rows: Mask) -> Estimate:
    """The estimated human mean of the ``rows``, or the estimated share of them with an issue."""
    sample = _labelled_sample(scores, name, rows)
    if sample is None:
        return _NOTHING
    if scores.is_issue(name):
        return corrected_share(sample).estimate
    return corrected_mean(sample, _span(scores, name)).estimate


def _span(scores: Scores, name: str) -> tuple[float, float]:
    dimension = scores.dimensions[name]
    return dimension.low, dimension.high


def _comparable(scores: Scores, name: str, values: Floats) -> Values:
    """Values of a dimension with the distance up to which they are equal. Verdicts on an issue, 0
    or 1, are exact, so that a share of one in a million counts."""
    dimension = scores.dimensions[name]
    return Values(values, 0.0 if scores.is_issue(name) else dimension.tolerance)


def _labelled_sample(scores: Scores, name: str, rows: Mask) -> LabelledSample | None:
    """The scored rows with their labels; an issue counts by its probability, not its verdict."""
    values = scores.scores[name]
    known = np.isfinite(values) & rows
    if not known.any():
        return None
    weights = scores.people_weights
    numbers = Values(values[known], scores.dimensions[name].tolerance)
    sample = Sample(numbers, scores.clusters[known])
    labels = scores.people[name][known]
    return LabelledSample(sample, labels, None if weights is None else weights[known])


def _groups(scores: Scores, column: Categorical) -> list[GroupFigures]:
    codes = column.codes
    sizes = np.bincount(codes[codes >= 0], minlength=len(column.categories))
    ranked = np.argsort(-sizes, kind="stable")
    members = [(str(column.categories[c]), codes == c) for c in ranked[:MAX_GROUPS] if sizes[c]]
    if len(ranked) > MAX_GROUPS:
        name = f"{len(ranked) - MAX_GROUPS} {OTHERS}"
        members.append((name, np.isin(codes, ranked[MAX_GROUPS:])))
    differences = {
        (group, name): _difference(scores, name, rows, codes >= 0)
        for group, rows in members
        for name in scores.dimensions
    }
    # Two groups are one question: each is the rest of the other.
    tested = [key for key in differences if len(members) != 2 or key[0] == members[0][0]]
    corrected = holm_corrected([differences[key] for key in tested])
    differences |= dict(zip(tested, corrected, strict=True))
    for group, name in differences:
        if (group, name) not in tested:
            comparisons = differences[members[0][0], name].comparisons
            differences[group, name] = differences[group, name].corrected(comparisons)
    return [
        GroupFigures(
            group,
            int(rows.sum()),
            {name: figure(scores, name, rows) for name in scores.dimensions},
            {name: differences[group, name].estimate for name in scores.dimensions},
            {name: corrected_figure(scores, name, rows) for name in scores.people},
        )
        for group, rows in members
    ]


def _difference(scores: Scores, name: str, rows: Mask, placed: Mask) -> Difference:
    """The group's figure minus that of all other rows. With human labels it is the difference of
    the estimated human figures and needs labels on both sides, since a judge may favour one group.
    """
    values, clusters = scores.values(name), scores.clusters
    known = np.isfinite(values) & placed
    mine, others = known & rows, known & ~rows
    if not others.any():
        return Difference(None, reason="no other group")
    if name in scores.people:
        sides = [_labelled_sample(scores, name, side) for side in (mine, others)]
        if sides[0] is None or sides[1] is None:
            return Difference(None, reason=_NOTHING.reason)
        return corrected_difference(sides[0], sides[1], _span(scores, name))
    first, second = (_comparable(scores, name, values[side]) for side in (mine, others))
    one_row_each = scores.cluster_name == "conversation" and scores.unit == "conversation"
    few = min(len(first), len(second)) < MIN_FOR_MEAN
    constant = first.constant and second.constant
    if len(values) < LARGE or not one_row_each or few or constant:
        return difference_of(Sample(first, clusters[mine]), Sample(second, clusters[others]))
    # Welch's t is the jackknife if each row is a cluster, and fast for many groups.
    from scipy.stats import sem, ttest_ind

    test = ttest_ind(first.numbers, second.numbers, equal_var=False)
    difference = float(first.numbers.mean() - second.numbers.mean())
    error = float(np.hypot(sem(first.numbers), sem(second.numbers)))
    return Difference(difference, error, Student(float(test.df)), tolerance=first.tolerance)


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
    order = np.argsort(periods, kind="stable")
    ends = np.searchsorted(periods[order], np.arange(len(names) + 1))
    parts = [order[a:b] for a, b in pairwise(ends)]
    figures = {n: [figure(scores, n, part) for part in parts] for n in scores.dimensions}
    changes: dict[str, Change] = {}
    for name in scores.dimensions:
        values = scores.values(name)
        rows = np.flatnonzero((periods >= 0) & np.isfinite(values))
        _, clusters = np.unique(scores.clusters[rows], return_inverse=True)
        numbers = _comparable(scores, name, values[rows])
        changes[name] = change(numbers, periods[rows], clusters)
    corrected = holm_corrected([step.difference for step in changes.values()])
    for (name, step), difference in zip(changes.items(), corrected, strict=True):
        changes[name] = replace(step, difference=difference)
    return Timeline(unit, names, [len(part) for part in parts], figures, changes)


@dataclass(frozen=True, slots=True)
class GateResult:
    """``failed``: the whole 95% interval is on the wrong side of the limit; ``passed``: the whole
    interval is on the right side; ``undecided``: the limit is inside it."""

    gate: Gate
    estimate: Estimate
    verdict: Literal["passed", "failed", "undecided"]
    text: str


def check_gates(
    gates: Sequence[Gate], scores: Scores, estimates: Mapping[str, Estimate], min_coverage: float
) -> list[GateResult]:
    """Checks each gate against the interval of its dimension.

    A gate that cannot be decided is an error, not a pass: ConfigError for an unknown dimension or a
    limit outside its scale, CoverageError if nothing is scored or coverage is below
    ``min_coverage``, MedalError for a figure without an interval.
    """
    results = []
    for gate in gates:
        name, limit = gate.dimension, gate.limit
        if not scores.scored and not any(e.value is not None for e in estimates.values()):
            raise CoverageError(
                f"{gate.name}: nothing is scored", hint="score the chats first: medal score"
            )
        if name not in scores.dimensions:
            raise ConfigError(
                f"{gate.name}: the scores have no dimension {name!r}",
                hint=did_you_mean(name, estimates) + f"they have: {', '.join(scores.dimensions)}",
            )
        dimension, estimate = scores.dimensions[name], estimates[name]
        if not dimension.low <= limit <= dimension.high:
            raise ConfigError(
                f"{gate.name}: {name} is between {dimension.low:g} and {dimension.high:g}"
            )
        value, low, high = estimate.value, estimate.low, estimate.high
        if value is None or low is None or high is None:
            why = estimate.reason or "no interval"
            raise MedalError(f"{gate.name} cannot be decided: {why}", hint="score more chats")
        is_under, tolerance = gate.side == "under", dimension.tolerance
        shown = "{:.2%}" if scores.is_issue(name) else "{:.2f}"
        at = shown.format(limit)
        verdict: Literal["passed", "failed", "undecided"] = "undecided"
        why = f"undecided; {at} is inside the interval, so more chats are needed"
        if high < limit - tolerance if is_under else low > limit + tolerance:
            verdict, why = "failed", f"failed; the whole interval is {gate.side} {at}"
        elif low >= limit - tolerance if is_under else high <= limit + tolerance:
            bound = "at least" if is_under else "at most"
            verdict, why = "passed", f"passed; the whole interval is {bound} {at}"
        ends = f"[{shown.format(low)}, {shown.format(high)}]"
        text = f"{name} {shown.format(value)} {ends}: {why}"
        results.append(GateResult(gate, estimate, verdict, text))
    coverage = scores.coverage
    if gates and coverage is not None and coverage < min_coverage:
        raise CoverageError(
            f"coverage {coverage:.1%} is below the minimum of {min_coverage:.0%}, so the gates "
            f"decide nothing: {scores.failures()}",
            hint="medal score --retry-failed scores these again; --min-coverage sets the minimum",
        )
    return results
