"""Who is next: dialogues of many requests, joined into windows of which each gets a fair part."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from medal_judges.inference.scoring import ScoreOptions
from medal_judges.models.base.judge import requests_at
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement

TURN_BYTES = 16  # what a turn costs beside its text: marks of its speaker
BYTES_PER_TOKEN = 4

# (level, dimensions, policy on languages): only requests that ask the same share a window.
Asked = tuple[str, tuple[str, ...] | None, str]


@dataclass(eq=False, slots=True)
class ScoreJob:
    """One client's request: its dialogues, what is asked of each, and who waits.

    ``finished`` is called in the judge's thread, once, when the last dialogue has its judgements,
    or with a reason when there will be none.
    """

    dialogues: Sequence[Dialogue]
    options: ScoreOptions
    finished: Callable[[str | None], None]
    sizes: list[int] = field(init=False)
    judgements: list[list[Judgement]] = field(init=False)
    next: int = 0  # first dialogue that no window has taken
    left: int = field(init=False)
    cancelled: bool = False

    def __post_init__(self) -> None:
        self.sizes = [tokens_about(d, self.options) for d in self.dialogues]
        self.judgements = [[] for _ in self.dialogues]
        self.left = len(self.dialogues)

    @property
    def asked(self) -> Asked:
        """What requests have to share to be scored together."""
        names = self.options.dimensions
        return (
            self.options.level,
            None if names is None else tuple(names),
            self.options.unknown_language,
        )

    @property
    def waiting(self) -> int:
        """Dialogues that no window has taken."""
        return len(self.dialogues) - self.next

    def keep(self, row: int, judgements: list[Judgement]) -> None:
        """The judgements of one dialogue have come."""
        self.judgements[row] = judgements
        self.left -= 1
        if not self.left and not self.cancelled:
            self.finished(None)


# A window: dialogues, each with the job and the row that it came from.
Window = list[tuple[ScoreJob, int]]


def tokens_about(dialogue: Dialogue, options: ScoreOptions) -> int:
    """About how many tokens scoring reads; at turn level every answer reads what came before."""
    text = sum(TURN_BYTES + len(turn.content.encode()) for turn in dialogue.turns)
    asked = len(requests_at(dialogue, options.level))
    return max(1, text * (asked + 1) // 2 // BYTES_PER_TOKEN)


class FairQueue:
    """Requests in turn: each window takes one dialogue of every waiting request, then a second one,
    and so on, until ``rows`` or ``budget`` tokens are reached; requests it took from go to the end.
    So a request of one dialogue waits for the window under way, not for a request of thousands.

    A window holds requests that ask the same; the first in line decides. Safe between threads.
    """

    def __init__(self, rows: int, budget: int) -> None:
        self.rows, self.budget = rows, budget
        self._jobs: deque[ScoreJob] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, job: ScoreJob) -> bool:
        """Add a job; False where the queue is closed."""
        with self._changed:
            if not self._closed:
                self._jobs.append(job)
                self._changed.notify_all()
            return not self._closed

    def cancel(self, job: ScoreJob) -> None:
        """Nobody waits for ``job`` any more: what no window has taken is dropped."""
        with self._changed:
            job.cancelled = True
            if job in self._jobs:
                self._jobs.remove(job)

    def close(self) -> list[ScoreJob]:
        """Take nothing more, end ``take``; returns what was waiting."""
        with self._changed:
            self._closed = True
            left = list(self._jobs)
            self._jobs.clear()
            self._changed.notify_all()
            return left

    def load(self) -> tuple[int, int]:
        """Dialogues that wait, and their tokens (about)."""
        with self._changed:
            rows = sum(job.waiting for job in self._jobs)
            return rows, sum(sum(job.sizes[job.next :]) for job in self._jobs)

    def take(self, wait: float) -> Window:
        """The next window, once there is one; empty when the queue is closed.

        Where nothing waited, the first request is given ``wait`` seconds for others to join it.
        """
        with self._changed:
            if not self._jobs and not self._closed:
                self._changed.wait_for(lambda: self._jobs or self._closed)
                self._changed.wait_for(lambda: self._closed or self._is_full(), timeout=wait)
            return self._window() if self._jobs else []

    def _is_full(self) -> bool:
        return sum(job.waiting for job in self._jobs) >= self.rows

    def _window(self) -> Window:
        asked = self._jobs[0].asked
        sharing = [job for job in self._jobs if job.asked == asked]
        window: Window = []
        tokens, open_jobs = 0, list(sharing)
        while open_jobs and len(window) < self.rows:
            still = []
            for job in open_jobs:
                size = job.sizes[job.next]
                # The first always goes: a dialogue larger than the budget is a window of its own.
                if window and (tokens + size > self.budget or len(window) == self.rows):
                    continue
                window.append((job, job.next))
                tokens += size
                job.next += 1
                if job.waiting:
                    still.append(job)
            open_jobs = still
        taken = {job for job, _ in window}
        rest = [job for job in self._jobs if job not in taken]
        self._jobs = deque(rest + [job for job in sharing if job in taken and job.waiting])
        return window
