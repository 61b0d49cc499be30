"""The benchmark in the terminal: figures, with coverage beside each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from medal_judges.eval.benchmark.followup_usage import TITLE as FOLLOW_UPS
from medal_judges.eval.benchmark.published import OURS
from medal_judges.eval.benchmark.published import TITLE as PUBLISHED
from medal_judges.eval.metaeval.comparison import CEILING, GRADED, ISSUES
from medal_judges.eval.metaeval.dimension_means import TITLE as MEANS
from medal_judges.eval.metaeval.results import ResultRow
from medal_judges.eval.page.arrangement import Arrangement, Benchmark, primary_metric, shown
from medal_judges.eval.page.leaderboard import dimension_table
from medal_judges.report.console import rich_table, wide_console
from medal_judges.report.table import Table

_INJECTED = ("Issue", "Judge", "F1+ vs clean", "F1+ vs matched controls", "AUC vs clean",
            "AUC vs matched controls", "False alarms, clean")  # fmt: skip
_WHO = ("Set", "Dimension", "Better", "Other")
# What is printed of further tables; others, such as comparisons by language, are on the page.
_COLUMNS: dict[str, Sequence[str]] = {
    MEANS: (),
    FOLLOW_UPS: (),
    PUBLISHED: (),
    GRADED: (*_WHO, "Difference in ρ", "p, Holm", "n"),
    ISSUES: (*_WHO, "Difference in F1+", "p, Holm", "McNemar p, Holm", "n"),
    CEILING: ("Set", "Dimension", "Judge", "Like for like", "One annotator", "p, Holm", "n"),
}
_ON_PAGE = ("minus ceiling", "Counts")
_LINES = 30  # of a long table; the page and the CSV files have all


def print_benchmark(benchmark: Benchmark, notes: Sequence[str]) -> None:
    """Print the leaderboard of each set and kind, further tables, then what was passed over."""
    console, view = wide_console(), Arrangement(benchmark)
    for key in view.sets:
        for dimensions in (view.graded(key), view.binary(key)):
            if not dimensions:
                continue
            table = dimension_table(view, key, dimensions)
            columns = [name for name in table.columns if name not in _ON_PAGE]
            console.print(rich_table(table, columns, intervals=columns[:2]))
            rows = [row for dimension in dimensions for row in view.rows(key, dimension)]
            for why in _without_interval(rows):
                console.print(why, style="dim", highlight=False)
    for table in benchmark.tables:
        if table.title == PUBLISHED:  # the page has those that this run did not measure too
            column = table.columns.index(OURS)
            table = replace(table, rows=[row for row in table.rows if row[column] is not None])
        printed = _INJECTED if table.columns[0] == "Issue" else _COLUMNS.get(table.title)
        if printed is not None and table.rows:
            console.print(rich_table(_brief(table), printed, intervals=()))
    for note in notes:
        console.print(note, style="dim", highlight=False)


def _without_interval(rows: Sequence[ResultRow]) -> list[str]:
    """Why headline figures have no interval, and whose."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        estimate = shown(row, primary_metric(row.kind))
        if estimate.value is not None and estimate.reason:
            reasons.setdefault(estimate.reason, []).append(f"{row.judge} on {row.dimension}")
    return [f"{reason}: {', '.join(whose)}" for reason, whose in reasons.items()]


def _brief(table: Table) -> Table:
    if len(table.rows) <= _LINES:
        return table
    title = f"{table.title} (the first {_LINES} of {len(table.rows)} lines)"
    return replace(table, title=title, rows=table.rows[:_LINES])
