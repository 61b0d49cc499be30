"""Dialogues that arrive one by one, as somebody types or pipes them, judged as they come."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from queue import Empty, Queue
from typing import Any

from medal_judges.dialogue import Dialogue
from medal_judges.judgement import Judgement
from medal_judges.models.base.judge import Judge

_END = object()


def score_arriving(
    dialogues: Iterable[Dialogue], judge: Judge, **options: Any
) -> Iterator[Judgement]:
    """Judgements as ``judge.score`` gives them (scores do not depend on the batch), without waiting
    for a full window: what has arrived is judged, one dialogue if there is no other."""
    for group in arrived(dialogues, judge.window):
        yield from judge.score(group, **options)


def arrived(items: Iterable[Any], most: int) -> Iterator[list[Any]]:
    """Lists of what has arrived since the last one, of 1 to ``most`` items; raises what ``items``
    raises, after everything before it. At most ``most`` items more are read ahead."""
    queue: Queue[Any] = Queue(maxsize=most)

    def read() -> None:
        try:
            for item in items:
                queue.put(item)
            queue.put(_END)
        except BaseException as error:  # raised in the caller's thread
            queue.put(_Raised(error))

    # A daemon: a read of standard input cannot be stopped, and must not hold up the end.
    threading.Thread(target=read, daemon=True).start()
    while True:
        group = [queue.get()]
        while len(group) < most:
            try:
                group.append(queue.get_nowait())
            except Empty:
                break
        last = group[-1]
        if last is _END or isinstance(last, _Raised):
            group.pop()
        if group:
            yield group
        if isinstance(last, _Raised):
            raise last.error
        if last is _END:
            return


class _Raised:
    """An error on its way to the other thread."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
