"""Further tables, such as the planted issues: whatever the benchmark brings along."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from medal_judges.eval.page.arrangement import Arrangement
from medal_judges.report.markup import (
    Column,
    Group,
    details,
    escape,
    estimate_cell,
    html_cell,
    number_cell,
    row_head,
    section,
    sortable,
    text_cell,
)
from medal_judges.report.numbers import p_value_text
from medal_judges.stats.results import Cell, Estimate, PValue, Table

_LONG = 40


def further_tables(view: Arrangement) -> str:
    """The section with every table of the benchmark, the long ones folded; empty where there are
    none."""
    body = "".join(_folded(table) for table in view.benchmark.tables)
    return section("tables", "Further tables", body)


def _folded(table: Table) -> str:
    if len(table.rows) <= _LONG:
        return table_html(table)
    return details(f"{table.title}: {len(table.rows)} lines", table_html(table))


def table_html(table: Table, totals: int = 0) -> str:
    """The table with its note; the last ``totals`` rows stay last however it is sorted."""
    rows = [_row(table.columns, cells) for cells in table.rows]
    cut = len(rows) - totals
    columns = [Column(name, _kind(table, i)) for i, name in enumerate(table.columns)]
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    group = Group(rows[:cut], pinned=rows[cut:], pinned_kind="total")
    return sortable(table.title, columns, [group]) + note


def _kind(table: Table, column: int) -> Literal["number", "words"]:
    return "words" if any(isinstance(row[column], str) for row in table.rows) else "number"


def _row(columns: Sequence[str], cells: Sequence[Cell]) -> str:
    pairs = enumerate(zip(columns, cells, strict=True))
    return "".join(_cell(cell, first=i == 0) for i, (_, cell) in pairs)


def _cell(cell: Cell, *, first: bool) -> str:
    if isinstance(cell, Estimate):
        return estimate_cell(cell)
    if isinstance(cell, PValue):
        return html_cell(escape(p_value_text(cell.value)), "num", sort=repr(cell.value))
    if cell is None or isinstance(cell, int | float):
        return number_cell(cell)
    return row_head(cell) if first else text_cell(cell)
