"""What commands that score print on standard error: progress, and answers from the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from medal_judges.models.base.judge import Judge
from medal_judges.report.console import wide_console
from medal_judges.report.progress import ProgressBar


@contextmanager
def scoring_bar() -> Iterator[Callable[[int], None]]:
    """Yields the function that moves a progress bar. It has no total: only reading the whole file
    would give one."""
    with ProgressBar("scoring") as bar:
        yield bar.advance


def cached_answers(judges: Sequence[Judge]) -> str | None:
    """Returns how many answers of ``judges`` came from the cache; None if none did."""
    counts = [judge.answer_counts() for judge in judges]
    cached, asked = sum(each.kept for each in counts), sum(each.asked for each in counts)
    if not cached:
        return None
    return f"{cached} of {cached + asked} answers served from the cache; --no-cache asks for all"


def show_cached(judges: Sequence[Judge]) -> None:
    """Prints how many answers came from the cache, if any."""
    if line := cached_answers(judges):
        wide_console(stderr=True).print(line, soft_wrap=True)
