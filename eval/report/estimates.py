"""Estimates of scored chats, overall, by group and by period, and the verdicts on their limits."""

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
    estimate_mean,
    estimate_share,
    subtract_means,
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
class GroupResult:
    """The estimates of one group of chats: the mean of each graded (not binary) dimension, and the
    share of chats with each issue (binary dimension).

    Attributes:
        name: The group or period, such as ``v2`` or ``2026-03``.
        rows: The number of rows (dialogues or judged turns) in the group.
        by_judge: Dimension -> estimate from the judge's scores alone.
        corrected: Dimension -> estimate from the judge's scores, corrected by human labels. Empty
            without labels.
        differences: Dimension -> the group's estimate minus the estimate of all other rows, with
            p-values corrected by Holm's method.
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
        """Returns the corrected estimate of the dimension ``name``, or the judge's if
        there is no correction."""
        if self.is_corrected(name):
            return self.corrected[name]
        return self.by_judge[name]


@dataclass(frozen=True, slots=True)
class ReportEstimates:
    """The estimated means and shares of a report: of all rows, of groups, and of periods.

    Attributes:
        total: The estimates of all rows together.
        counts: Dimension -> the number of scored rows.
        groups: Column, such as ``version`` -> one result for each value of the column, the most
            frequent value first.
        periods: The estimates of each period (such as a month) in order, from the judge's scores
            alone.
    """

    total: GroupResult
    counts: Mapping[str, int]
    groups: Mapping[str, Sequence[GroupResult]]
    periods: Sequence[GroupResult]


def compute_estimates(scores: Scores, by: Sequence[str] = ()) -> ReportEstimates:
    """Estimates means and shares of all rows, of each period that ``scores`` has, and of groups.

    Args:
        scores: The judgements of the chats.
        by: Names of columns, such as ``version``. Rows with the same value are a group.
    """
    counts = {}
    for name, column in scores.scores.items():
        counts[name] = int(np.isfinite(column).sum())
    periods = []
    for period in scores.periods:
        rows = np.asarray(scores.period_of == period)
        periods.append(
            GroupResult(period, int(rows.sum()), _estimates_by_judge(scores, rows))
        )
    groups = {column: _estimate_groups(scores, column) for column in by if scores.rows}
    total = _estimate_part(scores, "all", np.ones(scores.rows, dtype=bool))
    return ReportEstimates(total, counts, groups, periods)


def _estimate_part(scores: Scores, name: str, rows: Mask) -> GroupResult:
    corrected = {}
    for dimension in scores.people:
        corrected[dimension] = corrected_estimate(scores, dimension, rows)
    return GroupResult(
        name, int(rows.sum()), _estimates_by_judge(scores, rows), corrected
    )


def _estimates_by_judge(scores: Scores, rows: Mask) -> dict[str, Estimate]:
    return {name: judged_estimate(scores, name, rows) for name in scores.dimensions}


def judged_estimate(scores: Scores, name: str, rows: Mask) -> Estimate:
    """Estimates the mean score on one dimension, by the judge alone. For an issue (a binary
    dimension), estimates the share of rows that have it.

    Args:
        scores: The judgements of the chats.
        name: The name of the dimension.
        rows: A mask [rows] that is True for the rows to use. Unscored rows are left out.
    """
    numbers = scores.values(name)
    rows = rows & np.isfinite(numbers)
    if not rows.any():
        return Estimate(None, reason=_NOTHING)
    sample = _sample(scores, name, numbers, rows)
    if scores.is_share(name):
        return estimate_share(sample)
    if not sample.values.is_constant:
        return estimate_mean(sample, _scale_ends(scores, name))
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
    """Estimates the mean human label of one dimension, from the judge's scores of all rows and
    people's labels of some. For an issue (a binary dimension), estimates the share of rows that
    have it.

    Args:
        scores: The judgements of the chats, with human labels of the dimension.
        name: The name of the dimension.
        rows: A mask [rows] that is True for the rows to use. Unscored rows are left out.
    """
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
    """Returns the selected values of the dimension ``name``, with the cluster of each
    (such as its dialogue).

    Args:
        numbers: [rows] values.
        rows: A mask [rows] of the selected rows.
    """
    tolerance = scores.dimensions[name].tolerance
    if scores.is_share(name):
        tolerance = 0.0
    return Sample(Values(numbers[rows], tolerance), scores.clusters[rows])


def _labelled_sample(scores: Scores, name: str, rows: Mask) -> LabelledSample:
    """Returns the scores, human labels and clusters of rows on the dimension ``name``. Scores of an
    issue are its probabilities.

    Args:
        rows: A mask [rows] of the rows to use, which must all have a score.
    """
    values = Values(scores.scores[name][rows], scores.dimensions[name].tolerance)
    sample = Sample(values, scores.clusters[rows])
    return LabelledSample(sample, scores.people[name][rows])


def _estimate_groups(scores: Scores, column: str) -> list[GroupResult]:
    """Returns the estimates of each value of ``column``, the most frequent value first."""
    members = _masks_of_groups(scores, column)
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
            part = GroupResult(group, part.rows, dict.fromkeys(part.by_judge, unread))
        groups.append(replace(part, differences=estimates[group]))
    return groups


def _masks_of_groups(scores: Scores, column: str) -> dict[str, Mask]:
    """Returns value of ``column`` -> mask [rows], the most frequent value first. After 50 values,
    all rarer ones are merged into a last group."""
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
    """Returns the estimate of a group minus the estimate of all other rows.

    Args:
        name: The dimension.
        rows: A mask [rows] of the group.
        is_read: A mask [rows] of the rows that may be compared. Rows without a value of the column,
            or in a language that the judge does not read, are not.
    """
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
    return subtract_means(
        _sample(scores, name, numbers, inside), _sample(scores, name, numbers, outside)
    )


@dataclass(frozen=True, slots=True)
class GateResult:
    """The verdict on a gate (a limit on a mean or share), from a 95% interval.

    Attributes:
        gate: The gate.
        verdict: ``passed``, ``failed``, or ``undecided`` if the limit is inside the interval.
        text: A message with the estimate, the limit and the verdict.
    """

    gate: Gate
    verdict: Verdict
    text: str


def decide_gates(
    gates: Sequence[Gate],
    scores: Scores,
    estimates: Mapping[str, Estimate],
    min_coverage: float,
) -> list[GateResult]:
    """Returns the verdict on each of ``gates`` (limits on means or shares).

    Args:
        gates: The limits. A limit on the dimension ``bad`` gives one verdict for each share of bad
            scores.
        scores: The judgements of the chats.
        estimates: Dimension -> estimate with interval.
        min_coverage: The share of rows that must be scored, on [0, 1].

    Raises:
        ConfigError: A dimension is unknown, or a limit is outside its scale.
        CoverageError: Too few rows are scored.
        MedalError: An estimate has no interval.
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
                _decide_gate(replace(gate, dimension=name), scores, estimates)
            )
    coverage = scores.coverage
    if gates and coverage is not None and coverage < min_coverage:
        raise CoverageError(
            f"{int(scores.is_scored.sum()):,} of {scores.rows:,} are scored in full, fewer than "
            f"the minimum coverage of {min_coverage:g}: {scores.failures_text()}",
            hint="Type medal score --retry-failed to score these again, or a lower --min-coverage",
        )
    return results


def _decide_gate(
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
    text = f"{gate.dimension} is {estimated}, {bound} {limit_text}: {verdict}{reason}"
    return GateResult(gate, verdict, text)
