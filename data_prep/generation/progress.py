"""How far ``medal generate`` is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from medal_judges.data_prep.generation.counts import Counts
from medal_judges.report.progress import EVERY, progress_bar

Advance = Callable[[Counts, int], None]


@contextmanager
def generation_bar(dialogues: int, chatbots: int = 1, *, every: float = EVERY) -> Iterator[Advance]:
    """Finished dialogues of ``dialogues`` on standard error, with the counts of user turns; yields
    the function that moves it. A first message that no try of was accepted takes its ``chatbots``
    dialogues off the total."""
    with progress_bar("generating", dialogues, every=every) as bar:

        def advance(counts: Counts, under_way: int) -> None:
            note = (
                f"accepted {counts.accepted}, rejected {counts.rejected}, "
                f"ended {counts.ended['user']}, under way {under_way}"
            )
            total = dialogues - counts.failed_openers * chatbots
            bar.update(counts.finished, total=total, note=note)

        yield advance
