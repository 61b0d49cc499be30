"""Console: prints tables and progress in the terminal, and silences noise of libraries."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console, JustifyMethod
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table as RichTable
from rich.text import Text

from medal_judges.errors import printable
from medal_judges.report.table import Light, Table, cell_parts

_EVERY = 60.0  # seconds between two lines of progress
WIDTH = 100  # columns of a pipe or file; rich would take 80 and break the names

# Logger -> beginning of its useless messages. DeepSpeed reports that there is no GPU, on standard
# output, between the rows that a script reads there; bitsandbytes misses a kernel that is not used.
_NOISE = {
    "DeepSpeed": "Setting accelerator to",
    "bitsandbytes.backends.cpu.ops": "Failed to load CPU gemm_4bit_forward",
}


class PlainConsole(Console):
    """A rich console that prints text unchanged, without reading markup or emoji codes in it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


def wide_console(*, stderr: bool = False) -> Console:
    """Returns a console as wide as the terminal, or 100 columns wide without a terminal.

    Args:
        stderr: Whether to print on standard error. False prints on standard output.
    """
    console = PlainConsole(stderr=stderr)
    return console if console.is_terminal else PlainConsole(stderr=stderr, width=WIDTH)


@dataclass(frozen=True, slots=True)
class Printout:
    """The terminal output of a command. Its parts are printed in the order ``head``, ``tables``,
    ``notes``, ``foot``.

    Attributes:
        tables: Tables, each with its title.
        notes: Dimmed lines below the tables. Empty ones are left out.
        head: Lines above the tables, which are not wrapped.
        foot: Lines at the end, which are not wrapped.
    """

    tables: Sequence[Table | RichTable]
    notes: Iterable[str] = ()
    head: Sequence[str] = ()
    foot: Sequence[str] = ()

    def show(self) -> None:
        """Prints everything on standard output."""
        console = wide_console()
        for line in self.head:
            console.print(line, highlight=False, soft_wrap=True)
        for table in self.tables:
            if isinstance(table, Table):
                table = rich_table(table)
            console.print(table)
        for note in filter(None, self.notes):
            console.print(note, style="dim", highlight=False)
        for line in self.foot:
            console.print(line, highlight=False, soft_wrap=True)


def shorten(text: str, length: int = WIDTH) -> str:
    """Returns ``text``, cut to at most ``length`` characters (100 by default). A cut text
    ends with an ellipsis."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def rich_table(
    table: Table, columns: Sequence[str] = (), intervals: Sequence[str] | None = None
) -> RichTable:
    """Converts ``table`` to a rich table for the terminal.

    Args:
        columns: Names of the columns to keep. Empty for all.
        intervals: Names of the columns that show confidence intervals. None for all.
    """
    is_brief: dict[int, bool] = {}  # the columns to print
    printed = RichTable(
        title=table.title, title_justify="left", box=box.SIMPLE, pad_edge=False
    )
    for i, (name, kind) in enumerate(
        zip(table.columns, table.column_kinds(), strict=True)
    ):
        if columns and name not in columns:
            continue
        is_brief[i] = intervals is not None and name not in intervals
        justify: JustifyMethod = "right" if kind == "number" else "left"
        has_chosen_interval = bool(intervals) and not is_brief[i]
        printed.add_column(
            name,
            justify=justify,
            overflow="fold",
            no_wrap=i == 0 or has_chosen_interval,
        )
    for heading, rows in table.groups():
        if heading:
            printed.add_section()
            printed.add_row(heading)
        for row in rows:
            texts = [_cell_text(row[i], brief) for i, brief in is_brief.items()]
            printed.add_row(*texts)
    return printed


def _cell_text(cell: object, brief: bool) -> str:
    """Returns ``cell`` as text for the terminal. If ``brief``, the cell's interval is left out."""
    text, span, _ = cell_parts(cell)
    if not brief:
        text = f"{text} {span}".rstrip()
    if not isinstance(cell, str | Light):
        text = text.replace("−", "-")  # numbers to copy
    return printable(text)


class ProgressBar:
    """A progress bar on standard error that counts finished dialogues. It is shown while its
    ``with`` block runs.

    Without a terminal, it prints a line about every minute in place of a bar.

    Args:
        label: Text before the bar.
        total: Total number of dialogues, None if unknown.
    """

    def __init__(self, label: str, total: int | None = None) -> None:
        self._printed_at = time.monotonic()
        self.console = PlainConsole(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._bar.add_task(label, total=total, note="")

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def advance(
        self,
        count: int = 1,
        *,
        finished: int | None = None,
        total: int | None = None,
        note: str | None = None,
    ) -> None:
        """Adds to the number of finished dialogues.

        Args:
            count: How many dialogues have finished since the last call.
            finished: New number of finished dialogues. If given, ``count`` is ignored.
            total: New total number of dialogues. None for no change.
            note: New text beside the bar. None for no change.
        """
        (task,) = self._bar.tasks
        if finished is None:
            finished = int(task.completed) + count
        if note is None:
            note = task.fields["note"]
        self._bar.update(task.id, completed=finished, total=total, note=note)
        if self._bar.disable and time.monotonic() >= self._printed_at + _EVERY:
            self._printed_at = time.monotonic()
            text = f"{finished} of {task.total or '?'} dialogues {note}"
            self.console.print(text.rstrip(), soft_wrap=True, highlight=False)


def hide_library_noise() -> None:
    """Hides two log messages of libraries that do not help a user. Without a terminal, also hides
    the progress bars of the Hugging Face Hub.

    It only works before transformers and huggingface_hub are imported.
    """
    for name, start in _NOISE.items():

        def is_useful(record: logging.LogRecord, start: str = start) -> bool:
            return not record.getMessage().startswith(start)

        logging.getLogger(name).addFilter(is_useful)
    if not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
