"""The one thread that owns the judge: windows in, judgements out, errors kept to their rows."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from medal_judges.errors import MedalError
from medal_judges.inference.scoring import ScoreOptions
from medal_judges.inference.serving.queue import FairQueue, ScoreJob
from medal_judges.models.base.judge import Judge, requests_at
from medal_judges.models.llm.cost import CostLimitError
from medal_judges.models.llm.server.errors import ServerError
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement, unscored

logger = logging.getLogger(__name__)

# (rows, seconds, judgements) of a window that was scored.
OnWindow = Callable[[int, float, Sequence[Judgement]], None]
STOPPED = "the server stopped before this was scored"


class JudgeWorker:
    """Scores what waits in ``queue``, window by window, in a thread of its own.

    A row that the judge cannot score has judgements with a ``failure``; the others of its window
    are scored without it.
    """

    def __init__(self, judge: Judge, queue: FairQueue, wait: float, on_window: OnWindow) -> None:
        self.judge, self.queue, self.wait, self.on_window = judge, queue, wait, on_window
        self.signature = str(judge.signature())
        self.pace = 0.0  # seconds a dialogue, lately
        # A daemon: a judge in the middle of a long answer must not hold up the end for ever.
        self.thread = threading.Thread(target=self._run, name="judge", daemon=True)

    def start(self) -> None:
        self.thread.start()

    @property
    def alive(self) -> bool:
        return self.thread.is_alive()

    def stop(self, seconds: float) -> bool:
        """Take no more windows and wait for the one under way; False where it lasts longer."""
        for job in self.queue.close():
            job.finished(STOPPED)
        if self.thread.is_alive():
            self.thread.join(seconds)
        return not self.thread.is_alive()

    def _run(self) -> None:
        window: list[tuple[ScoreJob, int]] = []
        try:
            while window := self.queue.take(self.wait):
                self._score(window)
        finally:  # also where the thread dies: nobody may wait for ever
            for job in dict.fromkeys([job for job, _ in window] + self.queue.close()):
                if job.left and not job.cancelled:
                    job.finished(STOPPED)

    def _score(self, window: list[tuple[ScoreJob, int]]) -> None:
        wanted = [(job, row) for job, row in window if not job.cancelled]
        if not wanted:
            return
        options = wanted[0][0].options
        dialogues = [job.dialogues[row] for job, row in wanted]
        start = time.perf_counter()
        judged = self.judged(dialogues, options)
        seconds = time.perf_counter() - start
        pace = seconds / len(dialogues)
        self.pace = pace if not self.pace else 0.8 * self.pace + 0.2 * pace
        self.on_window(len(dialogues), seconds, [one for group in judged for one in group])
        for (job, row), group in zip(wanted, judged, strict=True):
            job.keep(row, group)

    def judged(self, dialogues: Sequence[Dialogue], options: ScoreOptions) -> list[list[Judgement]]:
        """The judgements of each dialogue. Where the judge breaks off, both halves are asked by
        themselves, down to the dialogue at fault; what no dialogue is at fault for (a wrong key, a
        server that is down) is told of all at once."""
        try:
            stream = options.score(self.judge, dialogues)
            return [[next(stream) for _ in requests_at(d, options.level)] for d in dialogues]
        except Exception as error:
            general = isinstance(error, MedalError) and not isinstance(error, CostLimitError)
            if general or len(dialogues) == 1:
                logger.warning("%d dialogues not scored: %s", len(dialogues), _told(error))
                if not isinstance(error, MedalError):
                    logger.debug("while scoring", exc_info=error)
                return [self._failed(dialogue, options, error) for dialogue in dialogues]
        middle = len(dialogues) // 2
        first = self.judged(dialogues[:middle], options)
        return first + self.judged(dialogues[middle:], options)

    def _failed(
        self, dialogue: Dialogue, options: ScoreOptions, error: Exception
    ) -> list[Judgement]:
        names = options.dimensions or [dimension.name for dimension in self.judge.dimensions]
        return [
            replace(
                unscored(dialogue.id, self.signature, names, _told(error), request.turn),
                transient=isinstance(error, CostLimitError | ServerError),
            )
            for request in requests_at(dialogue, options.level)
        ]


def _told(error: Exception) -> str:
    """What may be told of an error: ours say what the user can do, others only what they are, for
    their words may hold the text of a dialogue."""
    if isinstance(error, MedalError):
        return error.message
    return f"the judge failed on this dialogue ({type(error).__name__})"
