"""Further tables, such as the planted issues: whatever the benchmark brings along."""

from __future__ import annotations

from medal_judges.eval.report.arrangement import Arrangement
from medal_judges.eval.report.markup import (
    Group,
    escape,
    estimate_cell,
    number_cell,
    row_head,
    section,
    sortable,
    text_cell,
)
from medal_judges.eval.results import Cell, Estimate, Table


def further_tables(view: Arrangement) -> str:
    """The section with every table of the benchmark; empty where there are none."""
    body = "".join(_table(table) for table in view.benchmark.tables)
    return section("tables", "Further tables", body)


def _table(table: Table) -> str:
    rows = [_row(table, cells) for cells in table.rows]
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return sortable(table.title, list(table.columns), [Group(rows)]) + note


def _row(table: Table, cells: object) -> str:
    pairs = list(zip(table.columns, cells, strict=True))  # type: ignore[call-overload]
    return "".join(_cell(cell, first=i == 0) for i, (_, cell) in enumerate(pairs))


def _cell(cell: Cell, *, first: bool) -> str:
    if isinstance(cell, Estimate):
        return estimate_cell(cell)
    if cell is None or isinstance(cell, int | float):
        return number_cell(cell)
    return row_head(cell) if first else text_cell(cell)
