"""How far ``medal generate`` is: a bar in a terminal, a line now and then in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from medal_judges.data_prep.generation.counts import Counts

EVERY = 60.0  # seconds between two lines where there is no terminal
Advance = Callable[[Counts, int], None]


@contextmanager
def generation_bar(dialogues: int, chatbots: int = 1, *, every: float = EVERY) -> Iterator[Advance]:
    """Finished dialogues of ``dialogues`` on standard error, with the counts of user turns; yields
    the function that moves it. A first message that no try of was accepted takes its ``chatbots``
    dialogues off the total."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(console, dialogues, chatbots, every)
        return
    columns = (
        TextColumn("generating"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("generating", total=dialogues, told="")

        def advance(counts: Counts, under_way: int) -> None:
            total = dialogues - counts.failed_openers * chatbots
            bar.update(task, completed=counts.finished, total=total, told=_told(counts, under_way))

        yield advance


def _lines(console: Console, dialogues: int, chatbots: int, every: float) -> Advance:
    last = float("-inf")

    def advance(counts: Counts, under_way: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= every:
            last = now
            total = dialogues - counts.failed_openers * chatbots
            line = f"{counts.finished} of {total} dialogues; {_told(counts, under_way)}"
            console.print(line, soft_wrap=True, highlight=False)

    return advance


def _told(counts: Counts, under_way: int) -> str:
    return (
        f"accepted {counts.accepted}, rejected {counts.rejected}, "
        f"ended {counts.ended['user']}, under way {under_way}"
    )
