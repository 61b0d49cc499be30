"""Tables and sentences of a report."""

from __future__ import annotations

from collections.abc import Sequence

from medal_judges.eval.report.estimates import GroupResult, ReportEstimates
from medal_judges.eval.scores.scores import Scores
from medal_judges.report.page import Sheet, count_text
from medal_judges.report.table import (
    Cell,
    Row,
    Table,
    estimate_text,
    p_value_cell,
    p_value_text,
)
from medal_judges.stats.intervals import LEVEL, Estimate

_FIELDS = ("value", "low", "high", "p_value", "reason")  # of an estimate in a CSV file
_MOST_FINDINGS = 6  # sentences about groups


def order_dimensions(scores: Scores, estimates: ReportEstimates) -> list[str]:
    """Returns the names of all dimensions in the order of a report.

    First comes ``overall``, then other graded (not binary) dimensions, then shares of bad scores
    (``overall below 1.5``). Last are issues (binary dimensions), the most frequent first.
    """
    total = estimates.total
    issues = sorted(
        scores.issue_names, key=lambda name: -(total.best_estimate(name).value or 0.0)
    )
    return [*scores.graded_names, *scores.bad, *issues]


def _scale_text(scores: Scores, name: str) -> str:
    dimension = scores.dimensions[name]
    if scores.is_share(name):
        return "fewer is better" if dimension.good == "low" else "more is better"
    better = "lower" if dimension.good == "low" else "higher"
    return f"{dimension.low:g} to {dimension.high:g}, {better} is better"


def summary_table(scores: Scores, estimates: ReportEstimates) -> Table:
    """Returns a table with a row for each dimension and its estimate. If human labels correct the
    estimates, a further column has the estimates by the judge alone."""
    total = estimates.total
    columns = ["Dimension", "Mean or share"]
    if total.corrected:
        columns += ["By", "As judged"]
    columns += ["Scale", "Scored"]
    rows: list[Row] = []
    for name in order_dimensions(scores, estimates):
        cells: list[Cell] = [name, scores.cell(name, total.best_estimate(name))]
        if total.corrected:
            basis = "people and judge" if total.is_corrected(name) else "judge alone"
            cells += [basis, scores.cell(name, total.by_judge[name])]
        rows.append([*cells, _scale_text(scores, name), estimates.counts[name]])
    title = "Corrected by human labels" if total.corrected else "Every dimension"
    return Table(title, columns, rows)


def group_table(
    scores: Scores,
    estimates: ReportEstimates,
    column: str,
    parts: Sequence[GroupResult],
    has_p: bool = True,
) -> Table:
    """Returns a table with a row for each group or period.

    It has the estimate of the main dimension, such as ``overall``. With a limit for bad scores of
    this dimension, such as ``overall=1.5``, it also has the share of bad scores.

    Args:
        scores: The judgements of the chats.
        estimates: All estimates of the report.
        column: The heading of the first column: the name of the groups' column, such as
            ``version``, or ``period``.
        parts: The estimates of each group or period, one for each row of the table.
        has_p: Whether to show p-values of differences between groups.
    """
    title = f"By {column}"
    names = order_dimensions(scores, estimates)
    if not names:
        counts: list[Row] = [(part.name, part.rows) for part in parts]
        return Table(title, [column, "Rows"], counts)
    headline = names[0]
    bad = [name for name in scores.bad if scores.bad[name].scale.name == headline]
    columns = [column, "Rows", headline]
    has_differences = any(part.differences for part in parts)
    if has_differences:
        columns += ["From the others"] + ["p"] * has_p
    rows: list[Row] = []
    for part in parts:
        estimate = part.best_estimate(headline)
        cells: list[Cell] = [part.name, part.rows, scores.cell(headline, estimate)]
        if has_differences:
            difference = part.differences.get(headline, Estimate(None))
            cells.append(scores.cell(headline, difference, signed=True))
            cells += [p_value_cell(difference.p_value)] * has_p
        cells += [scores.cell(name, part.best_estimate(name)) for name in bad]
        rows.append(cells)
    columns += [name.removeprefix(f"{headline} ") for name in bad]
    return Table(title, columns, rows)


def headline_sentence(scores: Scores, estimates: ReportEstimates) -> str:
    """Returns the report's main sentence: the estimate of the main dimension, such as ``overall``.
    If nothing is scored, the sentence says why."""
    count = count_text([(scores.rows, scores.unit)])
    names = order_dimensions(scores, estimates)
    if not names:
        return f"{count}, none of them scored: {scores.failures_text()}."
    name = names[0]
    estimate = estimates.total.best_estimate(name)
    text = estimate_text(scores.cell(name, estimate))
    scale = _scale_text(scores, name)
    if estimates.total.is_corrected(name):
        scale += "; human labels correct it"
    return f"{count}: {name} is {text} ({scale})."


def finding_sentences(scores: Scores, estimates: ReportEstimates) -> list[str]:
    """Returns sentences on groups that are significantly worse than all other rows. There are at
    most 6, the lowest p-value first."""
    sentences: list[tuple[float, str]] = []
    for column, groups in estimates.groups.items():
        for group in groups:
            for name, difference in group.differences.items():
                gap, p_value = difference.value, difference.p_value
                if gap is None or p_value is None or p_value >= LEVEL:
                    continue
                if (gap < 0) != (scores.dimensions[name].good == "high"):
                    continue
                estimate = Estimate(group.best_estimate(name).value)
                text = estimate_text(scores.cell(name, estimate))
                side = "below" if gap < 0 else "above"
                distance = estimate_text(scores.cell(name, Estimate(abs(gap)), True))
                distance = distance.removeprefix("+")
                sentence = (
                    f"{column} {group.name} is worse: {name} {text}, {distance} {side} the "
                    f"others, p {p_value_text(p_value)}."
                )
                sentences.append((p_value, sentence))
    surest_first = sorted(sentences, key=lambda pair: pair[0])
    return [sentence for _, sentence in surest_first[:_MOST_FINDINGS]]


def note_sentences(scores: Scores) -> list[str]:
    """Returns sentences on missing data, such as unscored rows and unreadable lines."""
    texts = []
    if missing := int((~scores.is_scored).sum()):
        reasons = scores.failures_text()
        texts.append(
            f"{missing:,} of {scores.rows:,} are not scored in full: {reasons}"
        )
    if scores.skipped:
        texts.append(f"Unreadable lines of the input: {scores.skipped:,}")
    if "unknown_language" in scores.frame:
        counts = scores.frame["unknown_language"].value_counts()[:8]
        languages = ", ".join(f"{lang} ({n:,})" for lang, n in counts.items())
        texts.append(f"The judge does not read these languages: {languages}")
    return [f"{text}." for text in [*texts, *scores.notes]]


def estimates_sheet(estimates: ReportEstimates) -> Sheet:
    """Returns the columns and rows of a CSV file with all ``estimates`` in full precision."""
    parts = [("", estimates.total)]
    for column, groups in estimates.groups.items():
        parts += [(column, group) for group in groups]
    parts += [("period", period) for period in estimates.periods]
    rows: list[Row] = []
    for column, part in parts:
        quantities = {
            "judged": part.by_judge,
            "corrected": part.corrected,
            "difference": part.differences,
        }
        for quantity, by_dimension in quantities.items():
            for name, estimate in by_dimension.items():
                cells: list[Cell] = [column, part.name, part.rows, quantity, name]
                rows.append([*cells, *(getattr(estimate, key) for key in _FIELDS)])
    return ["column", "group", "rows", "what", "dimension", *_FIELDS], rows
