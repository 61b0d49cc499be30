"""What commands that score show on standard error: dialogues done, and answers from the cache."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from medal_judges.jsonl import STDIN, open_text
from medal_judges.models.base.judge import Judge
from medal_judges.report.console import wide_console
from medal_judges.report.progress import ProgressBar


@contextmanager
def scoring_bar(file: str) -> Iterator[Callable[[int], None]]:
    """A progress bar whose total is the lines of ``file``; yields the function that moves it."""
    with ProgressBar("judging", _count_lines(file)) as bar:
        yield bar.advance


def kept_answers(judges: Sequence[Judge]) -> str | None:
    """How many of the answers that ``judges`` were given came from the cache; None for none."""
    models = {id(model): model for judge in judges for model in judge.language_models()}
    counts = [model.answer_counts() for model in models.values()]
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


def _count_lines(file: str) -> int | None:
    """None where that is not known: standard input, and a damaged file, which its reader names."""
    if file == STDIN:
        return None
    try:
        with open_text(file) as stream:
            return sum(1 for line in stream if line.strip())
    except (EOFError, OSError, zlib.error):
        return None
