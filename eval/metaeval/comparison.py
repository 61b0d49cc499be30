"""Comparison of every pair of judges on the rows that both scored, and means over dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import pandas as pd

from medal_judges.eval.metaeval.alignment import Aligned
from medal_judges.eval.metaeval.metaeval import JudgedRows, ResultRow
from medal_judges.eval.metaeval.metrics import (
    classification_statistic,
    count_right_alone,
    not_classifiable_reason,
)
from medal_judges.report.table import Cell, Row, Table, interval_text, p_value_cell
from medal_judges.stats.difference import (
    Difference,
    correct_by_holm,
    correlation_difference,
    holm_p_values,
    mcnemar_p_value,
    paired_difference,
)
from medal_judges.stats.intervals import OTHERS, THESE, Estimate

GRADED, ISSUES = "Differences between judges", "Differences between judges on issues"
MCNEMAR = "McNemar's test between judges on issues"
MEANS = "Means over dimensions"
_PAIRS_NOTE = (
    f"95% intervals and p-values are for {THESE}.\n\n"
    "Every pair of judges, on the rows that both scored. Intervals and p-values come from one "
    "distribution and are corrected alike (Holm, over all lines of this table), so an interval "
    "excludes 0 if p is below 0.05. A p above 0.05 does not show that two judges are equal. F1+ is "
    "against each annotator and averaged."
)
_MCNEMAR_NOTE = (
    "A judge is right on a row if most annotators agree with it (MEDAL, Figure 5). Holm's "
    "correction is over all lines of this table.\n\nThe judge that is right alone more often is "
    "named first, which can be the one with the lower F1+. Rows on which annotators are split "
    "evenly count for neither. The test assumes independent rows."
)
_MEANS_NOTE = (
    "Spearman of each graded dimension, averaged.\n\nDSTC-12 ranks by the mean absolute "
    "correlation; in the mean positive one a negative correlation counts 0. Dimensions without a "
    "statistic are left out and counted."
)


@dataclass(frozen=True, slots=True)
class JudgePair:
    """Two judges, compared on the dialogues or turns that both scored. The better judge
    has the higher metric.

    Attributes:
        about: Four names: of the set, the dimension, the better judge and the worse judge.
        better: The human labels with the scores of the better judge.
        worse: The same human labels with the scores of the worse judge.
        difference: The metric of the better judge minus the metric of the worse judge. The metric
            is F1 on issues (binary dimensions), otherwise Spearman's correlation.
    """

    about: tuple[str, str, str, str]
    better: Aligned
    worse: Aligned
    difference: Difference


def comparison_tables(evaluations: Sequence[JudgedRows]) -> list[Table]:
    """Returns three tables of differences between pairs of judges on the rows that both scored.

    The first has differences of Spearman's correlations on graded (not binary) dimensions. The
    second has differences of F1 on issues (binary dimensions). The third has McNemar's test on
    issues.

    Args:
        evaluations: The results of all judges on all sets. Results of judges that scored too few
            rows are left out.
    """
    by_task: dict[tuple[str, str], list[JudgedRows]] = {}
    for rows in evaluations:
        if not rows.row.has_low_coverage:
            task = rows.row.set_name, rows.row.dimension
            by_task.setdefault(task, []).append(rows)
    graded: list[JudgePair] = []
    issues: list[JudgePair] = []
    for group in by_task.values():
        pairs = issues if group[0].row.kind == "binary" else graded
        pairs += [
            _compare_judges(first, second) for first, second in combinations(group, 2)
        ]
    return [
        _difference_table(GRADED, "Difference in ρ", graded),
        _difference_table(ISSUES, "Difference in F1+", issues),
        _mcnemar_table(issues),
    ]


def _compare_judges(first: JudgedRows, second: JudgedRows) -> JudgePair:
    better, worse = first.aligned.select_common_rows(second.aligned)
    names = [first.row.judge, second.row.judge]
    difference = _judge_difference(better, worse, first.row.headline)
    if (difference.value or 0.0) < -difference.tolerance:
        names.reverse()
        better, worse, difference = worse, better, -difference
    about = (first.row.set_name, first.row.dimension, names[0], names[1])
    return JudgePair(about, better, worse, difference)


def _judge_difference(first: Aligned, second: Aligned, metric: str) -> Difference:
    if not len(first.facts):
        return Difference(None, reason="no common row")
    if metric == "spearman":
        return correlation_difference(
            first.people, first.judge, second.judge, first.clusters
        )
    statistics = []
    for side in (first, second):
        scores, ratings = side.judge.numbers, side.ratings.numbers
        reason = not_classifiable_reason(scores, ratings)
        if reason is not None:
            return Difference(None, reason=reason)
        statistics.append(classification_statistic(scores, ratings))
    return paired_difference(statistics[0], statistics[1], metric, first.clusters)


def _difference_table(title: str, column: str, pairs: Sequence[JudgePair]) -> Table:
    """Returns a table with the difference of each of ``pairs``, with p-values corrected by Holm.

    Args:
        title: The heading of the table.
        column: The heading of the column of differences.
    """
    differences = correct_by_holm([pair.difference for pair in pairs])
    estimates = [difference.estimate for difference in differences]
    columns = ["Set", "Dimension", "Better", "Other", column]
    has_others = any(estimate.beside for estimate in estimates)
    if has_others:
        columns.append(OTHERS)
    lines: list[Row] = []
    for pair, estimate in zip(pairs, estimates, strict=True):
        line: list[Cell] = [*pair.about, estimate]
        if has_others:
            line.append(interval_text(estimate.beside or Estimate(None)))
        lines.append([*line, p_value_cell(estimate.p_value), len(pair.better.facts)])
    return Table(title, [*columns, "p", "n"], lines, _PAIRS_NOTE)


def _mcnemar_table(pairs: Sequence[JudgePair]) -> Table:
    """Returns a table of McNemar's test with a row for each of ``pairs``.

    The first judge of a row is the one that is right more often where the other is wrong.
    """
    lines: list[list[Cell]] = []
    p_values: list[float | None] = []
    for pair in pairs:
        if pair.difference.value is None:
            continue
        set_name, dimension, *names = pair.about
        alone = count_right_alone(
            pair.better.judge, pair.worse.judge, pair.better.ratings
        )
        counts = list(alone)
        if counts[0] < counts[1]:
            counts.reverse()
            names.reverse()
        p_values.append(mcnemar_p_value(*counts))
        lines.append([set_name, dimension, *names, *counts, len(pair.better.facts)])
    rows: list[Row] = []
    for line, p_value, corrected in zip(
        lines, p_values, holm_p_values(p_values), strict=True
    ):
        rows.append(
            [*line[:-1], p_value_cell(p_value), p_value_cell(corrected), line[-1]]
        )
    columns = (
        "Set",
        "Dimension",
        "Right more often",
        "Other",
        "Right alone: first",
        "Right alone: other",
        "p",
        "p, Holm",
        "n",
    )
    return Table(MCNEMAR, columns, rows, _MCNEMAR_NOTE)


def dimension_means_table(rows: Sequence[ResultRow]) -> Table:
    """Returns a table of correlations averaged over the graded (not binary) dimensions of each set,
    with a row for each judge and set (ORALIS, section 3.1).

    Args:
        rows: The results of all judges on all sets and dimensions.
    """
    rows_of_judges = []
    for row in rows:
        if row.kind != "binary":
            rho = None if row.has_low_coverage else row.metrics["spearman"].value
            rows_of_judges.append((row.set_name, row.judge, rho))
    table = pd.DataFrame(rows_of_judges, columns=["set", "judge", "rho"]).astype(
        {"rho": float}
    )
    lines: list[Row] = []
    for about, group in table.groupby(["set", "judge"], sort=False).rho:
        if len(group) < 2:
            continue
        means = []
        for variant in (group.abs(), group.clip(lower=0), group):
            means.append(float(variant.mean()) if variant.notna().any() else None)
        lines.append((*about, *means, f"{group.count()} of {len(group)}"))
    means_columns = ("Mean absolute ρ", "Mean positive ρ", "Mean ρ")
    columns = ("Set", "Judge", *means_columns, "Dimensions")
    return Table(MEANS, columns, lines, _MEANS_NOTE)
