"""The queue of a server, which combines dialogues of several requests into windows, and the thread
that runs the judge on them."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from medal_judges.errors import MedalError
from medal_judges.inference.scoring import ScoreOptions
from medal_judges.models.base.judge import Judge, requests_at
from medal_judges.models.batching import BEFORE_BATCH
from medal_judges.models.llm.cost import CostLimitError
from medal_judges.models.llm.server import ServerError
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement, unscored

logger = logging.getLogger(__name__)

# (rows, judgements) of a scored window
OnWindow = Callable[[int, Sequence[Judgement]], None]
STOPPED = "the server stopped before this was scored"
TURN_BYTES = 16  # what a turn costs beside its text
BYTES_PER_TOKEN = 4


@dataclass(eq=False, slots=True)
class ScoreJob:
    """The dialogues of a request. The judge's thread calls ``finished`` once: with None after the
    last judgement, or with the reason why there are no more."""

    dialogues: Sequence[Dialogue]
    options: ScoreOptions
    finished: Callable[[str | None], None]
    judgements: list[list[Judgement]] = field(init=False)
    sizes: list[int] = field(init=False)  # of the dialogues, in estimated tokens
    next: int = 0  # first dialogue that no window has
    unscored: int = field(init=False)  # dialogues without judgements
    cancelled: bool = False

    def __post_init__(self) -> None:
        self.judgements = [[] for _ in self.dialogues]
        self.sizes = [self._size(dialogue) for dialogue in self.dialogues]
        self.unscored = len(self.dialogues)

    @property
    def waiting(self) -> int:
        """Number of dialogues that are in no window yet."""
        return len(self.dialogues) - self.next

    def _size(self, dialogue: Dialogue) -> int:
        """Returns the estimated tokens of a dialogue; at turn level each answer is read with all
        before it."""
        text = sum(TURN_BYTES + len(turn.content.encode()) for turn in dialogue.turns)
        readings = 1
        if self.options.level == "turn":
            readings = len(dialogue.assistant_turns)
        return max(1, text * (readings + 1) // 2 // BYTES_PER_TOKEN)

    def add(self, row: int, judgements: list[Judgement]) -> None:
        """Stores the judgements of one dialogue."""
        self.judgements[row] = judgements
        self.unscored -= 1
        if not self.unscored and not self.cancelled:
            self.finished(None)


# Dialogues, each as its job and its row there.
Window = list[tuple[ScoreJob, int]]


class FairQueue:
    """Fills each window in rounds: one dialogue of every waiting request per round, up to ``rows``
    dialogues or ``budget`` tokens.

    So a small request waits for one window, not for a request of thousands; unfinished requests go
    to the end of the queue. All requests of a window have the options of the first one in line.
    Thread-safe.
    """

    def __init__(self, rows: int, budget: int) -> None:
        self.rows, self.budget = rows, budget
        self._jobs: deque[ScoreJob] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, job: ScoreJob) -> bool:
        """Adds a job. Returns False if the queue is closed."""
        with self._changed:
            if not self._closed:
                self._jobs.append(job)
                self._changed.notify_all()
            return not self._closed

    def cancel(self, job: ScoreJob) -> None:
        """Removes the dialogues of ``job`` that are in no window yet."""
        with self._changed:
            job.cancelled = True
            if job in self._jobs:
                self._jobs.remove(job)

    def close(self) -> list[ScoreJob]:
        """Accepts no more jobs and ends ``take``. Returns the waiting jobs."""
        with self._changed:
            self._closed = True
            jobs = list(self._jobs)
            self._jobs.clear()
            self._changed.notify_all()
            return jobs

    def waiting(self) -> int:
        """Returns the number of waiting dialogues."""
        with self._changed:
            return sum(job.waiting for job in self._jobs)

    def take(self, wait: float) -> Window:
        """Waits for the next window. If the queue was empty, waits ``wait`` seconds longer so that
        other requests can join. Returns an empty window if the queue is closed."""
        with self._changed:
            if not self._jobs and not self._closed:
                self._changed.wait_for(lambda: self._jobs or self._closed)
                self._changed.wait_for(
                    lambda: self._closed or self.waiting() >= self.rows, timeout=wait
                )
            return self._window() if self._jobs else []

    def take_small(self) -> Window:
        """Returns a window of the dialogues that fit the budget, empty if none waits."""
        with self._changed:
            return self._window(self.budget)

    def _window(self, largest: float = math.inf) -> Window:
        options, tokens = None, 0
        window: Window = []
        put_off = []
        while self._jobs and len(window) < self.rows:
            job = self._jobs.popleft()
            size = job.sizes[job.next]
            # A dialogue larger than the budget is a window by itself.
            does_not_fit = window and tokens + size > self.budget
            if size > largest or does_not_fit or options not in (None, job.options):
                put_off.append(job)
                continue
            options = job.options
            window.append((job, job.next))
            tokens += size
            job.next += 1
            if job.waiting:
                self._jobs.append(job)
        # Requests with a dialogue in this window go to the end.
        jobs_in_window = {job for job, _ in window}
        self._jobs = deque(
            sorted([*put_off, *self._jobs], key=jobs_in_window.__contains__)
        )
        return window


class JudgeWorker:
    """Scores the windows of ``queue`` in a thread. A dialogue that the judge cannot score gets
    judgements with a ``failure``; the others of its window are scored. Between two batches of a
    dialogue larger than the budget, it scores a window of small ones."""

    def __init__(
        self, judge: Judge, queue: FairQueue, wait: float, on_window: OnWindow
    ) -> None:
        self.judge, self.queue, self.wait, self.on_window = (
            judge,
            queue,
            wait,
            on_window,
        )
        self.signature = str(judge.signature())
        self.pace = 0.0  # seconds per dialogue, a moving average
        # A daemon: a judge in the middle of a long answer must not delay the end for ever.
        self.thread = threading.Thread(target=self._run, name="judge", daemon=True)

    @property
    def alive(self) -> bool:
        return self.thread.is_alive()

    def stop(self, seconds: float) -> bool:
        """Waits until the current window is scored. Returns False if that takes longer than
        ``seconds``."""
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
                if job.unscored and not job.cancelled:
                    job.finished(STOPPED)

    def _score(self, window: Window) -> None:
        window = [(job, row) for job, row in window if not job.cancelled]
        if not window:
            return
        start = time.perf_counter()
        options = window[0][0].options

        is_large = any(job.sizes[row] > self.queue.budget for job, row in window)

        def before_batch() -> None:
            if all(job.cancelled for job, _ in window):
                raise MedalError("the clients have left")
            if is_large:
                self._score(self.queue.take_small())

        outer = BEFORE_BATCH.set(before_batch)
        judged = self.judged([job.dialogues[row] for job, row in window], options)
        BEFORE_BATCH.reset(outer)
        pace = (time.perf_counter() - start) / len(window)
        if self.pace:
            pace = 0.8 * self.pace + 0.2 * pace
        self.pace = pace
        self.on_window(len(window), list(chain.from_iterable(judged)))
        for (job, row), judgements in zip(window, judged, strict=True):
            job.add(row, judgements)

    def judged(
        self, dialogues: Sequence[Dialogue], options: ScoreOptions
    ) -> list[list[Judgement]]:
        """Returns the judgements of each dialogue.

        After an error each half of the window is tried alone, down to the dialogue that causes it.
        An error that concerns all dialogues (a wrong key, a server that is down) fails all of them
        at once.
        """
        try:
            judgements = options.score(self.judge, dialogues)
            judged = []
            for dialogue in dialogues:
                count = len(requests_at(dialogue, options.level))
                judged.append([next(judgements) for _ in range(count)])
            return judged
        except Exception as error:
            is_about_one = not isinstance(error, MedalError) or isinstance(
                error, CostLimitError
            )
            if not is_about_one or len(dialogues) == 1:
                return self._failed(dialogues, options, error)
        middle = len(dialogues) // 2
        first_half = self.judged(dialogues[:middle], options)
        return first_half + self.judged(dialogues[middle:], options)

    def _failed(
        self, dialogues: Sequence[Dialogue], options: ScoreOptions, error: Exception
    ) -> list[list[Judgement]]:
        """Returns judgements without a score, with the error as their reason."""
        if isinstance(error, MedalError):
            reason = error.message
        else:  # its words may contain the text of a dialogue
            reason = f"the judge failed on this dialogue ({type(error).__name__})"
            logger.debug("while scoring", exc_info=error)
        logger.warning("%d dialogues not scored: %s", len(dialogues), reason)
        dimensions = self.judge.dimensions
        if options.dimensions:
            dimensions = tuple(map(self.judge.dimension, options.dimensions))
        is_transient = isinstance(error, CostLimitError | ServerError)
        failed = []
        for dialogue in dialogues:
            rows = []
            for request in requests_at(dialogue, options.level):
                judgement = unscored(
                    request.dialogue, self.signature, dimensions, reason, request.turn
                )
                rows.append(replace(judgement, transient=is_transient))
            failed.append(rows)
        return failed
