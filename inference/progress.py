"""What commands that score show on standard error: dialogues done, and answers from the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from medal_judges.models.base.judge import Judge
from medal_judges.report.console import wide_console
from medal_judges.report.progress import ProgressBar


@contextmanager
def scoring_bar() -> Iterator[Callable[[int], None]]:
    """A progress bar over dialogues; yields the function that moves it."""
    with ProgressBar("judging") as bar:
        yield bar.advance


def kept_answers(judges: Sequence[Judge]) -> str | None:
    """How many of the answers that ``judges`` were given came from the cache; None for none."""
    counts = [judge.answer_counts() for judge in judges]
    kept, asked = sum(each.kept for each in counts), sum(each.asked for each in counts)
    if not kept:
        return None
    return (
        f"{kept} of {kept + asked} answers were kept from before and not asked for; --no-cache "
        "asks for all of them"
    )


def show_kept(judges: Sequence[Judge]) -> None:
    """Say how many answers came from the cache, if any."""
    if line := kept_answers(judges):
        wide_console(stderr=True).print(line, soft_wrap=True)
