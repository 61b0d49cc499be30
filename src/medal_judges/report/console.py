"""Console: prints tables and progress in the terminal, and silences noise of libraries."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from markupsafe import Markup
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table as RichTable
from rich.text import Text

from medal_judges.errors import visible
from medal_judges.report.table import (  # fmt: skip
    DASH,
    Figured,
    Heat,
    IntervalBar,
    Light,
    Percent,
    PValue,
    Share,
    Table,
    interval,
    p_value_text,
    percent,
    percent_interval,
    points,
)
from medal_judges.stats.estimate import Estimate

PIPED = 120  # columns of a pipe or file; rich would take 80 and break the names

# Logger -> beginning of its useless messages. DeepSpeed reports that there is no GPU, on standard
# output, between the rows that a script reads there; bitsandbytes misses a kernel that is not used.
_NOISE = {
    "DeepSpeed": "Setting accelerator to",
    "bitsandbytes.backends.cpu.ops": "Failed to load CPU gemm_4bit_forward",
}


class PlainConsole(Console):
    """A console that prints text unchanged. Without it, rich would read ``[/b]`` in a file's name
    as markup and fail, replace ``:x:`` by an emoji, and print escape sequences."""

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
    """The table as a table of rich, without bars. ``columns`` selects columns (default: all);
    ``intervals`` names the columns that show intervals (default: all)."""
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
        bare, cell = cell.bare, cell.estimate
        if bare:
            return (interval(cell) if cell is not None else "") or DASH
    if cell is None or isinstance(cell, IntervalBar):
        return DASH
    if isinstance(cell, Light):
        words = "" if cell.colour == "none" else f"{cell.colour} "
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
        return f"{_fixed(cell.value)} [{_fixed(cell.low)}, {_fixed(cell.high)}]"
    if isinstance(cell, Heat):
        return cell.shown
    if isinstance(cell, float):
        return _fixed(cell)
    return visible(cell.striptags() if isinstance(cell, Markup) else str(cell))


def _fixed(value: float) -> str:
    """A number with two decimals; never minus zero."""
    return f"{round(value, 2) + 0.0:.2f}"


class ProgressBar:
    """Shows on standard error how many of ``total`` (None: unknown) items are done, and a ``note``.

    In a terminal it is a bar while the ``with`` block runs. Elsewhere it prints a line with the
    time left every ``every`` seconds, so a short run prints nothing. It prints nothing if
    ``visible`` is false.
    """

    def __init__(
        self,
        what: str,
        total: int | None = None,
        *,
        unit: str = "dialogues",
        done: int = 0,
        every: float = 60.0,
        visible: bool = True,
    ) -> None:
        self.what, self.total, self.unit, self.done, self.note = what, total, unit, done, ""
        self._every, self._last = every, time.monotonic()
        self._start = self._last, done
        self.console = PlainConsole(stderr=True, quiet=not visible)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed:,}{task.fields[of]}"),
            TextColumn("{task.fields[note]}", markup=False),
            TimeRemainingColumn(),
            console=self.console,
            disable=not (visible and self.console.is_terminal),
        )
        of = "" if total is None else f"/{total:,}"
        self._task = self._bar.add_task(what, total=total, completed=done, note="", of=of)

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def advance(
        self,
        count: int = 1,
        *,
        done: int | None = None,
        total: int | None = None,
        what: str | None = None,
        note: str | None = None,
    ) -> None:
        """Adds ``count`` to the number of finished items, or sets it to ``done``. Other arguments
        of None change nothing."""
        self.done, self.what = self.done + count if done is None else done, what or self.what
        self.total = self.total if total is None else total
        self.note = self.note if note is None else note
        if not self._bar.disable:
            about = {"description": self.what, "note": self.note}
            about["of"] = "" if self.total is None else f"/{self.total:,}"
            self._bar.update(self._task, completed=self.done, total=self.total, **about)  # type: ignore[arg-type]
        elif time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            of = "" if self.total is None else f" of {self.total}"
            text = f"{self.done}{of} {self.unit}{f'; {self.note}' if self.note else ''}"
            began, before = self._start
            if self.total and self.done > before:
                left = (self._last - began) * (self.total - self.done) / (self.done - before)
                text += f"; {timedelta(seconds=round(left))} left"
            self.console.print(text, soft_wrap=True, highlight=False)


def quiet_foreign_logs() -> None:
    """Silences the messages of _NOISE. Without a terminal, it also turns off the progress bars of
    transformers and huggingface_hub. Call it before these libraries are imported."""
    for name, start in _NOISE.items():

        def is_useful(record: logging.LogRecord, start: str = start) -> bool:
            return not record.getMessage().startswith(start)

        logging.getLogger(name).addFilter(is_useful)
    if not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
