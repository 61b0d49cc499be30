"""The thread of a server that runs the judge."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from medal_judges.errors import MedalError
from medal_judges.inference.scoring import ScoreOptions
from medal_judges.inference.serving.queue import FairQueue, Window
from medal_judges.models.base.judge import Judge, requests_at
from medal_judges.models.llm.cost import CostLimitError
from medal_judges.models.llm.server.errors import ServerError
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement, unscored

logger = logging.getLogger(__name__)

# (rows, seconds, judgements) of a scored window
OnWindow = Callable[[int, float, Sequence[Judgement]], None]
STOPPED = "the server stopped before this was scored"


class JudgeWorker:
    """Scores the windows of ``queue`` in a thread.

    A row that the judge cannot score has judgements with a ``failure``; the other rows of its
    window are scored.
    """

    def __init__(self, judge: Judge, queue: FairQueue, wait: float, on_window: OnWindow) -> None:
        self.judge, self.queue, self.wait, self.on_window = judge, queue, wait, on_window
        self.signature = str(judge.signature())
        self.pace = 0.0  # seconds per dialogue, a moving average
        # A daemon: a judge in the middle of a long answer must not delay the end for ever.
        self.thread = threading.Thread(target=self._run, name="judge", daemon=True)

    @property
    def alive(self) -> bool:
        return self.thread.is_alive()

    def stop(self, seconds: float) -> bool:
        """Waits for the current window; returns False if it takes longer than ``seconds``."""
        for job in self.queue.close():
            job.finished(STOPPED)
        if self.alive:
            self.thread.join(seconds)
        return not self.alive

    def _run(self) -> None:
        window: Window = []
        try:
            while window := self.queue.take(self.wait):
                self._score(window)
        finally:  # also if the thread dies: nobody may wait for ever
            for job in dict.fromkeys([job for job, _ in window] + self.queue.close()):
                if job.left and not job.cancelled:
                    job.finished(STOPPED)

    def _score(self, window: Window) -> None:
        wanted = [(job, row) for job, row in window if not job.cancelled]
        if not wanted:
            return
        start = time.perf_counter()
        judged = self.judged([job.dialogues[row] for job, row in wanted], wanted[0][0].options)
        seconds = time.perf_counter() - start
        pace = seconds / len(wanted)
        self.pace = 0.8 * self.pace + 0.2 * pace if self.pace else pace
        self.on_window(len(wanted), seconds, [one for group in judged for one in group])
        for (job, row), group in zip(wanted, judged, strict=True):
            job.add(row, group)

    def judged(self, dialogues: Sequence[Dialogue], options: ScoreOptions) -> list[list[Judgement]]:
        """Returns the judgements of each dialogue. After an error each half is tried by itself,
        down to the dialogue at fault; an error that concerns all dialogues (a wrong key, a server
        that is down) fails all of them at once."""
        try:
            stream = options.score(self.judge, dialogues)
            return [[next(stream) for _ in requests_at(d, options.level)] for d in dialogues]
        except Exception as error:
            is_ours = isinstance(error, MedalError)
            # Words of other errors may contain the text of a dialogue.
            name = type(error).__name__
            reason = f"the judge failed on this dialogue ({name})"
            if isinstance(error, MedalError):
                reason = error.message
            if (is_ours and not isinstance(error, CostLimitError)) or len(dialogues) == 1:
                logger.warning("%d dialogues not scored: %s", len(dialogues), reason)
                if not is_ours:
                    logger.debug("while scoring", exc_info=error)
                names = options.dimensions or [each.name for each in self.judge.dimensions]
                passes = isinstance(error, CostLimitError | ServerError)
                return [
                    [
                        replace(
                            unscored(each.id, self.signature, names, reason, request.turn),
                            transient=passes,
                        )
                        for request in requests_at(each, options.level)
                    ]
                    for each in dialogues
                ]
        middle = len(dialogues) // 2
        first = self.judged(dialogues[:middle], options)
        return first + self.judged(dialogues[middle:], options)
