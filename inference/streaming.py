"""Scores dialogues as they arrive: somebody types them, or another program pipes them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from queue import Empty, Queue
from typing import TypeVar

from medal_judges.inference.scoring import ScoreOptions
from medal_judges.models.base.judge import Judge
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement

T = TypeVar("T")


def score_arriving(
    options: ScoreOptions, judge: Judge, dialogues: Iterable[Dialogue]
) -> Iterator[Judgement]:
    """Yields judgements without waiting for a full window; scores do not depend on the batch."""
    for group in arrived(dialogues, judge.window):
        yield from options.score(judge, group)


def arrived(items: Iterable[T], most: int) -> Iterator[list[T]]:
    """Yields lists of the items that have arrived since the last list, 1 to ``most`` of them.

    An error of ``items`` is raised after the items before it. Reads at most ``most`` items ahead.
    """
    # A list of one item, or how the items ended: with an error, or None.
    queue: Queue[list[T] | BaseException | None] = Queue(maxsize=most)

    def read() -> None:
        try:
            for item in items:
                queue.put([item])
            queue.put(None)
        except BaseException as error:  # raised in the caller's thread
            queue.put(error)

    # A daemon: a read of standard input cannot be stopped, and must not delay the end.
    threading.Thread(target=read, daemon=True).start()
    while True:
        group: list[T] = []
        last = queue.get()
        while isinstance(last, list):
            group += last
            if len(group) == most:
                break
            try:
                last = queue.get_nowait()
            except Empty:
                break
        if group:
            yield group
        if isinstance(last, BaseException):
            raise last
        if last is None:
            return
