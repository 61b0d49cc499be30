"""The benchmark in the terminal: figures, with coverage beside each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.table import Table as RichTable

from medal_judges.eval.benchmark.followup_usage import TITLE as FOLLOW_UPS
from medal_judges.eval.benchmark.published import OURS
from medal_judges.eval.benchmark.published import TITLE as PUBLISHED
from medal_judges.eval.metaeval.comparison import CEILING, GRADED, ISSUES
from medal_judges.eval.metaeval.dimension_means import TITLE as MEANS
from medal_judges.eval.page.arrangement import Benchmark
from medal_judges.report.console import wide_console
from medal_judges.report.numbers import p_value_text
from medal_judges.report.table import Cell, PValue, Table
from medal_judges.stats.results import Estimate, ResultRow

_GRADED = {"spearman": "ρ", "within_system": "ρ within", "pearson": "r", "kendall": "τ-b"}
_BINARY = {"f1_present": "F1+", "f1_absent": "F1-", "precision": "precision", "recall": "recall"}
_PLANTED = ("Issue", "Judge", "F1+ vs clean", "F1+ vs innocent edits", "AUC vs clean",
            "AUC vs innocent edits", "False alarms, clean")  # fmt: skip
_WHO = ("Set", "Dimension", "Better", "Other")
_COMPARISONS = {  # those by language are on the page
    GRADED: (*_WHO, "Difference in ρ", "p, Holm", "n"),
    ISSUES: (*_WHO, "Difference in F1+", "p, Holm", "McNemar p, Holm", "n"),
    CEILING: ("Set", "Dimension", "Judge", "Like for like", "One annotator", "p, Holm", "n"),
}
_LINES = 30
_NONE = "–"


def print_tables(benchmark: Benchmark, notes: Sequence[str]) -> None:
    """Print one table for each set and kind, planted issues, then what was passed over."""
    console = wide_console()
    groups: dict[tuple[str, str, bool], list[ResultRow]] = {}
    for row in benchmark.rows:
        groups.setdefault((row.set_name, row.level, row.kind == "binary"), []).append(row)
    for (name, level, binary), rows in groups.items():
        title = name if level == "dialogue" else f"{name} ({level} level)"
        metrics = _BINARY if binary else _GRADED
        console.print(_figures(title, rows, metrics))
        for why in _without_interval(rows, next(iter(metrics))):
            console.print(why, style="dim", markup=False, highlight=False)
    for table in benchmark.tables:
        if table.columns[0] == "Issue":
            console.print(_chosen(table, _PLANTED))
        elif table.title in (MEANS, FOLLOW_UPS):
            console.print(_chosen(table, table.columns))
        elif table.title in _COMPARISONS:
            console.print(_chosen(_brief(table), _COMPARISONS[table.title]))
        elif table.title == PUBLISHED:  # the page has those that this run did not measure too
            column = table.columns.index(OURS)
            measured = [row for row in table.rows if row[column] is not None]
            if measured:
                console.print(_chosen(replace(table, rows=measured), table.columns))
    for note in notes:
        console.print(note, style="dim", markup=False, highlight=False)


def print_table(table: Table) -> None:
    """Print all of one table, and its note."""
    console = wide_console()
    console.print(_chosen(table, table.columns))
    console.print(table.note, style="dim", markup=False, highlight=False)


def _figures(title: str, rows: Sequence[ResultRow], metrics: Mapping[str, str]) -> RichTable:
    main, *others = metrics
    head = ("dimension", "judge", "coverage", "n", metrics[main], "95%")
    table = RichTable(*head, *(metrics[name] for name in others), "like for like", "human ceiling",
                      title=title)  # fmt: skip
    for dimension in dict.fromkeys(row.dimension for row in rows):
        for row in (row for row in rows if row.dimension == dimension):
            table.add_row(*_lead(row), *_main(row, main), *(_shown(row, name) for name in others),
                          _like(row, main), _number(row.ceiling.get(main)))  # fmt: skip
        table.add_section()
    return table


def _without_interval(rows: Sequence[ResultRow], metric: str) -> list[str]:
    """Why figures have no interval, and whose."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        estimate = row.metrics.get(metric)
        if estimate and estimate.value is not None and estimate.reason and not row.under_floor:
            reasons.setdefault(estimate.reason, []).append(f"{row.judge} on {row.dimension}")
    return [f"{reason}: {', '.join(whose)}" for reason, whose in reasons.items()]


def _lead(row: ResultRow) -> tuple[str, ...]:
    coverage = _NONE if row.coverage is None else f"{row.coverage:.1%}"
    return row.dimension, row.judge, coverage, str(row.scored)


def _main(row: ResultRow, metric: str) -> tuple[str, str]:
    estimate = row.metrics.get(metric)
    if row.under_floor or estimate is None or estimate.low is None or estimate.high is None:
        return _shown(row, metric), _NONE
    return _shown(row, metric), f"{estimate.low:.2f} to {estimate.high:.2f}"


def _shown(row: ResultRow, metric: str) -> str:
    return _NONE if row.under_floor else _number(row.metrics.get(metric))


def _like(row: ResultRow, metric: str) -> str:
    return _NONE if row.under_floor else _number(row.like_for_like.get(metric))


def _number(estimate: Estimate | None) -> str:
    return _NONE if estimate is None or estimate.value is None else f"{estimate.value:.2f}"


def _brief(table: Table) -> Table:
    """The first lines of a long table; the page and the CSV files have all."""
    if len(table.rows) <= _LINES:
        return table
    title = f"{table.title} (the first {_LINES} of {len(table.rows)} lines)"
    return replace(table, title=title, rows=table.rows[:_LINES])


def _chosen(table: Table, columns: Sequence[str]) -> RichTable:
    shown = [i for i, name in enumerate(table.columns) if name in columns]
    out = RichTable(*(table.columns[i] for i in shown), title=table.title)
    for row in table.rows:
        out.add_row(*(_cell(row[i]) for i in shown))
    return out


def _cell(cell: Cell) -> str:
    if isinstance(cell, Estimate):
        return _number(cell)
    if isinstance(cell, PValue):
        return p_value_text(cell.value)
    if cell is None:
        return _NONE
    return f"{cell:.2f}" if isinstance(cell, float) else str(cell)
