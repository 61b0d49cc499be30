"""Estimates of scored chats: overall, by group and by period. Gates check them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Literal

import numpy as np

from medal_judges.errors import ConfigError, CoverageError, MedalError
from medal_judges.eval.report.options import Gate
from medal_judges.eval.scores.bad import BAD, require_dimension
from medal_judges.eval.scores.scores import Mask, Scores
from medal_judges.report.table import estimate_text
from medal_judges.stats.correlation import Floats
from medal_judges.stats.difference import Difference, correct_by_holm
from medal_judges.stats.equal import Values
from medal_judges.stats.intervals import Estimate, wilson_interval
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

_MOST_GROUPS = 50  # the largest get a row each; the others share one
_NOTHING = "nothing scored"
Verdict = Literal["passed", "failed", "undecided"]


@dataclass(frozen=True, slots=True)
class Part:
    """The estimates of some ``rows`` by dimension. An estimate is the mean of a graded dimension,
    or the share of rows with an issue.

    ``by_judge``: estimates from the judge's scores alone. ``corrected``: estimates from scores that
    human labels correct. ``differences``: the estimate of a group minus the estimate of all other
    rows. Their p-values are corrected by Holm for all groups of a column and all dimensions that
    the judge scored. Shares of bad scores are corrected separately.
    """

    name: str
    rows: int
    by_judge: Mapping[str, Estimate]
    corrected: Mapping[str, Estimate] = field(default_factory=dict)
    differences: Mapping[str, Estimate] = field(default_factory=dict)

    def is_corrected(self, name: str) -> bool:
        """Returns whether human labels correct the estimate of the dimension ``name``."""
        return name in self.corrected and self.corrected[name].value is not None

    def best_estimate(self, name: str) -> Estimate:
        """Returns the corrected estimate of the dimension ``name``. Without one, returns the
        judge's estimate."""
        if self.is_corrected(name):
            return self.corrected[name]
        return self.by_judge[name]


@dataclass(frozen=True, slots=True)
class ReportEstimates:
    """All estimates of a report. ``total``: of all rows. ``counts``: the number of scored rows in
    each dimension. ``groups``: for each column, one part for each of its values, the largest first.
    ``periods``: one part for each period in order, from the judge's scores alone."""

    total: Part
    counts: Mapping[str, int]
    groups: Mapping[str, Sequence[Part]]
    periods: Sequence[Part]


def compute_estimates(scores: Scores, by: Sequence[str] = ()) -> ReportEstimates:
    """Returns the estimates of all rows, of each period, and of the groups in each of the columns
    ``by``."""
    counts = {}
    for name, column in scores.scores.items():
        counts[name] = int(np.isfinite(column).sum())
    periods = []
    for period in scores.periods:
        rows = np.asarray(scores.period_of == period)
        periods.append(Part(period, int(rows.sum()), _estimates_by_judge(scores, rows)))
    groups = {column: _estimate_groups(scores, column) for column in by if scores.rows}
    total = _estimate_part(scores, "all", np.ones(scores.rows, dtype=bool))
    return ReportEstimates(total, counts, groups, periods)


def _estimate_part(scores: Scores, name: str, rows: Mask) -> Part:
    corrected = {}
    for dimension in scores.people:
        corrected[dimension] = corrected_estimate(scores, dimension, rows)
    return Part(name, int(rows.sum()), _estimates_by_judge(scores, rows), corrected)


def _estimates_by_judge(scores: Scores, rows: Mask) -> dict[str, Estimate]:
    return {name: judged_estimate(scores, name, rows) for name in scores.dimensions}


def judged_estimate(scores: Scores, name: str, rows: Mask) -> Estimate:
    """Returns the judge's mean of the graded dimension ``name``, or the share of rows with the
    issue ``name``. ``rows``: a mask of shape (rows,). Unscored rows do not count."""
    numbers = scores.values(name)
    rows = rows & np.isfinite(numbers)
    if not rows.any():
        return Estimate(None, reason=_NOTHING)
    sample = _sample(scores, name, numbers, rows)
    if scores.is_share(name):
        return share_of(sample)
    if not sample.values.is_constant:
        return mean_of(sample, _scale_ends(scores, name))
    value, count = float(sample.scores[0]), cluster_count(sample)
    if count < MIN_FOR_MEAN:
        reason = f"no interval: {count} rows, fewer than {MIN_FOR_MEAN}"
        return Estimate(value, reason=reason)
    # Equal scores have no spread. Wilson's interval holds for any values between the scale's ends.
    dimension = scores.dimensions[name]
    share = min(max(dimension.to_unit(value), 0.0), 1.0)
    low, high = wilson_interval(share * count, count)
    return Estimate(value, dimension.from_unit(low), dimension.from_unit(high))


def corrected_estimate(scores: Scores, name: str, rows: Mask) -> Estimate:
    """Returns the mean human label in the dimension ``name``, or the share of rows with the issue
    ``name``, as estimated from scores and labels. ``rows``: a mask of shape (rows,). Unscored rows
    do not count."""
    rows = rows & np.isfinite(scores.scores[name])
    if not rows.any():
        return Estimate(None, reason=_NOTHING)
    sample = _labelled_sample(scores, name, rows)
    if scores.is_share(name):
        return corrected_share(sample)
    return corrected_mean(sample, _scale_ends(scores, name))


def _scale_ends(scores: Scores, name: str) -> tuple[float, float]:
    dimension = scores.dimensions[name]
    return dimension.low, dimension.high


def _sample(scores: Scores, name: str, numbers: Floats, rows: Mask) -> Sample:
    """Returns ``numbers`` of the selected ``rows`` with their tolerance. For issues the tolerance
    is 0, because numbers are exactly 0 or 1."""
    tolerance = scores.dimensions[name].tolerance
    if scores.is_share(name):
        tolerance = 0.0
    return Sample(Values(numbers[rows], tolerance), scores.clusters[rows])


def _labelled_sample(scores: Scores, name: str, rows: Mask) -> LabelledSample:
    """Returns the scores and labels of ``rows``, which are all scored. The score of an issue is its
    probability, not 0 or 1."""
    values = Values(scores.scores[name][rows], scores.dimensions[name].tolerance)
    sample = Sample(values, scores.clusters[rows])
    return LabelledSample(sample, scores.people[name][rows])


def _estimate_groups(scores: Scores, column: str) -> list[Part]:
    """Returns the estimates of each value of ``column``, the most frequent value first."""
    members = _rows_by_value(scores, column)
    is_read = scores.comparable_rows(column)
    tested = [group for group, rows in members.items() if (rows & is_read).any()]
    is_one_question = len(tested) == 2  # each group is the rest of the other
    estimates: dict[str, dict[str, Estimate]] = {group: {} for group in members}
    for names in (scores.judged_names, scores.bad):
        pairs = list(product(tested[: 1 if is_one_question else None], names))
        differences = []
        for group, name in pairs:
            differences.append(_group_difference(scores, name, members[group], is_read))
        corrected = correct_by_holm(differences)
        for (group, name), difference in zip(pairs, corrected, strict=True):
            estimates[group][name] = difference.estimate
            if is_one_question:
                estimates[tested[1]][name] = (-difference).estimate
    groups = []
    for group, rows in members.items():
        part = _estimate_part(scores, group, rows)
        if group not in tested:
            unread = Estimate(None, reason="the judge does not read this language")
            part = Part(group, part.rows, dict.fromkeys(part.by_judge, unread))
        groups.append(replace(part, differences=estimates[group]))
    return groups


def _rows_by_value(scores: Scores, column: str) -> dict[str, Mask]:
    """Returns a mask of rows for each value of ``column``, the most frequent value first. All
    values after the first _MOST_GROUPS share one mask."""
    values = scores.columns[column]
    names = list(values.value_counts().index)
    members = {}
    for name in names[:_MOST_GROUPS]:
        members[str(name)] = np.asarray(values == name)
    small = names[_MOST_GROUPS:]
    if small:
        members[f"{len(small)} others"] = np.asarray(values.isin(small))
    return members


def _group_difference(
    scores: Scores, name: str, rows: Mask, is_read: Mask
) -> Difference:
    """Returns the estimate of a group minus the estimate of all other rows. ``rows``: the mask of
    the group. ``is_read``: the mask of rows that can be compared. If there are human labels, they
    correct both estimates, so both the group and the other rows need labels."""
    numbers = scores.values(name)
    scored = np.isfinite(numbers) & is_read
    inside, outside = scored & rows, scored & ~rows
    if not outside.any():
        return Difference(None, reason="no other group")
    if not inside.any():
        return Difference(None, reason=_NOTHING)
    if name in scores.people:
        return corrected_difference(
            _labelled_sample(scores, name, inside),
            _labelled_sample(scores, name, outside),
            _scale_ends(scores, name),
        )
    return difference_of(
        _sample(scores, name, numbers, inside), _sample(scores, name, numbers, outside)
    )


@dataclass(frozen=True, slots=True)
class GateResult:
    """The verdict on a gate. ``failed``: the whole 95% interval is on the wrong side of the limit.
    ``passed``: the whole interval is on the right side. ``undecided``: the limit is inside the
    interval."""

    gate: Gate
    verdict: Verdict
    text: str


def check_gates(
    gates: Sequence[Gate],
    scores: Scores,
    estimates: Mapping[str, Estimate],
    min_coverage: float,
) -> list[GateResult]:
    """Returns the verdict on each of ``gates``, from the interval of its dimension in
    ``estimates``.

    Raises ConfigError for an unknown dimension or a limit outside the scale. Raises CoverageError
    if nothing is scored or coverage is below ``min_coverage``. Raises MedalError for an estimate
    without an interval.
    """
    results = []
    for gate in gates:
        if not estimates:
            hint = "Score the chats first. Type: medal score CHATS --out scores.jsonl"
            raise CoverageError(f"{gate.name}: nothing is scored", hint=hint)
        names = [gate.dimension]
        if gate.dimension == BAD and scores.bad:
            names = list(scores.bad)
        for name in names:
            require_dimension(name, scores.dimensions, f"{gate.name}: ")
            results.append(
                _check_gate(replace(gate, dimension=name), scores, estimates)
            )
    coverage = scores.coverage
    if gates and coverage is not None and coverage < min_coverage:
        raise CoverageError(
            f"{int(scores.is_scored.sum()):,} of {scores.rows:,} are scored in full, fewer than "
            f"the minimum coverage of {min_coverage:g}: {scores.failures_text()}",
            hint="Type medal score --retry-failed to score these again, or a lower --min-coverage",
        )
    return results


def _check_gate(
    gate: Gate, scores: Scores, estimates: Mapping[str, Estimate]
) -> GateResult:
    dimension, limit = scores.dimensions[gate.dimension], gate.limit
    estimate = estimates[gate.dimension]
    if not dimension.low <= limit <= dimension.high:
        scale = f"{dimension.low:g} and {dimension.high:g}"
        raise ConfigError(
            f"{gate.name}: type a limit between {scale}, the scale of {gate.dimension}"
        )
    low, high = estimate.low, estimate.high
    if estimate.value is None or low is None or high is None:
        reason = estimate.reason or "no interval"
        raise MedalError(
            f"{gate.name} cannot be decided: {reason}", hint="Score more chats"
        )
    tolerance = dimension.tolerance
    bound = "at least"
    is_failed, is_passed = high < limit - tolerance, low >= limit - tolerance
    if gate.side == "over":
        bound = "at most"
        is_failed, is_passed = low > limit + tolerance, high <= limit + tolerance
    verdict: Verdict = "undecided"
    reason = " (more dialogues are needed)"
    if is_failed or is_passed:
        verdict = "failed" if is_failed else "passed"
        reason = ""
    estimated = estimate_text(scores.cell(gate.dimension, estimate))
    limit_text = estimate_text(scores.cell(gate.dimension, Estimate(limit)))
    text = f"{gate.dimension} {estimated}, {bound} {limit_text}: {verdict}{reason}"
    return GateResult(gate, verdict, text)
