"""What ``medal score`` shows: dialogues done, dialogues a second, time left, kept answers."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
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

from medal_judges.jsonl import STDIN, open_text

if TYPE_CHECKING:
    from medal_judges.models.base.judge import Judge


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:.1f} dialogues/s")


@contextmanager
def scoring_bar(file: str) -> Iterator[Callable[[int], None]]:
    """A bar on standard error; yields the function that moves it. Its total is the file's lines."""
    columns = (
        TextColumn("judging"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("judging", total=_count_lines(file))
        yield lambda count: bar.update(task, advance=count)


def show_kept(judges: Sequence[Judge]) -> None:
    """Say on standard error how many answers were kept from before, if any."""
    from medal_judges.models.base.kept_answers import answer_counts, told

    if line := told(answer_counts(judges)):
        Console(stderr=True, markup=False, emoji=False).print(line, soft_wrap=True)


def _count_lines(file: str) -> int | None:
    """None where that is not known: standard input, and a damaged file, which its reader tells."""
    if file == STDIN:
        return None
    try:
        with open_text(file) as stream:
            return sum(1 for line in stream if line.strip())
    except (EOFError, OSError, zlib.error):
        return None
