"""Console: prints tables in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from medal_judges.errors import visible
from medal_judges.report.numbers import DASH, p_value_text, percent, percent_interval, points
from medal_judges.report.table import (  # fmt: skip
    Figured,
    Heat,
    IntervalBar,
    Light,
    Percent,
    PValue,
    Share,
    Table,
)
from medal_judges.stats.estimate import Estimate

PIPED = 120  # columns of a pipe or file; rich would take 80 and break the names


class PlainConsole(Console):
    """A console that shows text as it is. Names come from files: rich would read ``[/b]`` in one as
    markup and stop, replace ``:x:`` by a picture, and let escape sequences through."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


def wide_console(*, stderr: bool = False, piped: int = PIPED) -> Console:
    """A console as wide as the terminal, or ``piped`` columns without a terminal."""
    console = PlainConsole(stderr=stderr)
    return console if console.is_terminal else PlainConsole(stderr=stderr, width=piped)


def print_tables(
    tables: Iterable[Table], notes: Iterable[str] = (), *, piped: int = PIPED, brief_from: int = 99
) -> None:
    """Prints tables, then notes. Tables of ``brief_from`` columns or more leave out intervals."""
    console = wide_console(piped=piped)
    for table in tables:
        intervals = () if len(table.columns) >= brief_from else None
        console.print(rich_table(table, intervals=intervals))
    for note in filter(None, notes):
        console.print(note, style="dim", highlight=False)


def rich_table(
    table: Table, columns: Sequence[str] = (), intervals: Sequence[str] | None = None
) -> RichTable:
    """The table, or some of its ``columns``, for a console, without bars. ``intervals`` names the
    columns that show intervals; None is all of them."""
    kinds = table.column_kinds()
    shown = [
        (i, intervals is not None and name not in intervals)
        for i, name in enumerate(table.columns)
        if kinds[i] != "bar" and (not columns or name in columns)
    ]
    out = RichTable(title=table.title, title_justify="left", box=box.SIMPLE, pad_edge=False)
    for i, brief in shown:
        whole = i == 0 or (bool(intervals) and not brief)
        justify = "right" if kinds[i] == "number" else "left"
        out.add_column(table.columns[i], justify=justify, overflow="fold", no_wrap=whole)  # type: ignore[arg-type]
    for heading, rows in table.groups():
        if heading:
            out.add_section()
            out.add_row(heading)
        for row, _ in rows:
            out.add_row(*(cell_text(row[i], brief) for i, brief in shown))
    return out


def cell_text(cell: object, brief: bool = False) -> str:
    """A cell as text; ``brief`` leaves out intervals."""
    if isinstance(cell, Figured):
        cell = cell.estimate
    if cell is None or isinstance(cell, IntervalBar):
        return DASH
    if isinstance(cell, Light):
        words = "" if cell.colour == "none" else f"{cell.words} "
        return f"{cell.sign} {words}{cell.shown}".rstrip()
    if isinstance(cell, Percent):
        return f"{cell.value:.1%}"
    if isinstance(cell, PValue):
        return p_value_text(cell.value)
    if isinstance(cell, Share):
        value, span = cell.estimate.value, percent_interval(cell.estimate)
        shown = DASH if value is None else points(value) if cell.signed else percent(value)
        return shown if brief or not span else f"{shown} {span}"
    if isinstance(cell, Estimate):
        if cell.value is None or brief or cell.low is None or cell.high is None:
            return cell_text(cell.value)
        return f"{cell.value:.2f} [{cell.low:.2f}, {cell.high:.2f}]"
    if isinstance(cell, Heat):
        return cell.shown
    if isinstance(cell, float):
        return f"{cell:.2f}"
    return cell.striptags() if isinstance(cell, Markup) else str(cell)
