"""The one progress bar: a bar in a terminal, a line now and then in a log."""

from __future__ import annotations

import time
from typing import TypeVar

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from medal_judges.report.console import PlainConsole

B = TypeVar("B", bound="ProgressBar")
EVERY = 60.0  # seconds between two lines where there is no terminal


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        if not task.speed:
            return Text("")
        return Text(f"{task.speed:.1f} {task.fields['unit']}/s")


class ProgressBar:
    """How far a run is, on standard error: ``done`` of ``total`` (None: not known), and a ``note``.

    A bar while the ``with`` block runs; where there is no terminal, a line at once and then every
    ``every`` seconds. Nothing where it is not ``visible``.
    """

    def __init__(
        self,
        what: str,
        total: int | None = None,
        *,
        unit: str = "dialogues",
        done: int = 0,
        every: float = EVERY,
        visible: bool = True,
    ) -> None:
        self.console = PlainConsole(stderr=True, quiet=not visible)
        self.what, self.total, self.unit, self.done, self.note = what, total, unit, done, ""
        self._every, self._last = every, float("-inf")
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TextColumn("{task.fields[note]}", markup=False),
            TimeRemainingColumn(),
        )
        self._shown = visible and self.console.is_terminal
        self.bar = Progress(*columns, console=self.console, disable=not self._shown)
        self._task = self.bar.add_task(what, total=total, completed=done, unit=unit, note="")

    def __enter__(self: B) -> B:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def advance(self, count: int = 1, *, what: str | None = None, note: str | None = None) -> None:
        """``count`` more are done."""
        self.update(self.done + count, what=what, note=note)

    def update(
        self,
        done: int,
        *,
        total: int | None = None,
        what: str | None = None,
        note: str | None = None,
    ) -> None:
        """``done`` in all; what is None stays as it was."""
        self.done = done
        self.total = self.total if total is None else total
        self.what, self.note = what or self.what, self.note if note is None else note
        if self._shown:
            task, bar = self._task, self.bar
            bar.update(
                task, completed=done, total=self.total, description=self.what, note=self.note
            )
        elif time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            of = "" if self.total is None else f" of {self.total}"
            note = f"; {self.note}" if self.note else ""
            self.console.print(f"{done}{of} {self.unit}{note}", soft_wrap=True, highlight=False)
