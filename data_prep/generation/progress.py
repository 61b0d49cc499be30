"""The progress bar of ``medal generate``."""

from __future__ import annotations

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


@contextmanager
def generation_bar(dialogues: int) -> Iterator[Callable[[Counts, int], None]]:
    """A bar on standard error over finished dialogues, with the counts of user turns; yields the
    function that moves it."""
    columns = (
        TextColumn("generating"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("generating", total=dialogues, told="")

        def advance(counts: Counts, under_way: int) -> None:
            told = (
                f"accepted {counts.accepted}, rejected {counts.rejected}, "
                f"ended {counts.ended['user']}, under way {under_way}"
            )
            bar.update(task, completed=counts.finished, told=told)

        yield advance
