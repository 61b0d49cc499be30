"""The one progress bar: a bar in a terminal, a line a minute in a log."""

from __future__ import annotations

import time
from typing import TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from medal_judges.report.console import PlainConsole

B = TypeVar("B", bound="ProgressBar")


class ProgressBar:
    """Shows on standard error how many of ``total`` (None: unknown) are done, and a ``note``.

    In a terminal it is a bar while the ``with`` block runs. Elsewhere it prints a line every
    ``every`` seconds, so a short run prints nothing. Nothing if it is not ``visible``.
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
        self.console = PlainConsole(stderr=True, quiet=not visible)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            TimeRemainingColumn(),
            console=self.console,
            disable=not (visible and self.console.is_terminal),
        )
        self._task = self._bar.add_task(what, total=total, completed=done, note="")

    def __enter__(self: B) -> B:
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
        """Adds ``count`` to what is done, or sets it to ``done``; other arguments of None change
        nothing."""
        self.done, self.what = self.done + count if done is None else done, what or self.what
        self.total = self.total if total is None else total
        self.note = self.note if note is None else note
        if not self._bar.disable:
            about = {"description": self.what, "note": self.note}
            self._bar.update(self._task, completed=self.done, total=self.total, **about)  # type: ignore[arg-type]
        elif time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            of = "" if self.total is None else f" of {self.total}"
            text = f"{self.done}{of} {self.unit}{f'; {self.note}' if self.note else ''}"
            self.console.print(text, soft_wrap=True, highlight=False)
