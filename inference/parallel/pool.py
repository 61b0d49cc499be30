"""JudgePool: a judge whose windows are judged by several processes."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count

from medal_judges.errors import ConfigError
from medal_judges.inference.parallel.crew import JudgeCrew, JudgeProcess, WorkerLostError
from medal_judges.inference.parallel.messages import (
    JudgeLoaded,
    Reply,
    WindowJudged,
    WindowProgress,
    WindowTask,
    WorkerFailed,
)
from medal_judges.models.base.judge import Judge, ScoreLevel, ScoreRequest
from medal_judges.models.base.judged_languages import UnknownLanguage
from medal_judges.models.batching import windows
from medal_judges.models.llm.protocol import AnswerCounts
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import Signature

logger = logging.getLogger(__name__)

# Windows that may be read before the one that is due is judged, in all and a process: they are
# held in memory, and a kill loses those that are judged.
_AHEAD, _AHEAD_EACH = 16, 4


class JudgePool(Judge):
    """The judge that the processes of ``crew`` have loaded, as one judge.

    Windows are those of one process, handed out one by one to whoever is free, and their judgements
    come in input order: scores are those of one process with as many threads. A window whose
    process dies is handed out once more. ``close`` ends the processes; so does leaving ``with``.

    Raises ConfigError for a judge that asks a server: its requests run side by side in one process,
    which alone can hold a limit of cost.
    """

    family = "pool"
    resumes_windows = True

    def __init__(self, crew: JudgeCrew) -> None:
        self.crew = crew
        self._numbers = count()
        try:
            loaded = crew.start()
            refuse_server(loaded.asks_server)
        except BaseException:
            crew.close(kill=True)
            raise
        self.dimensions, self.languages = loaded.dimensions, loaded.languages
        self.window, self.token_budget = loaded.window, loaded.token_budget
        self._loaded: JudgeLoaded = loaded

    def __enter__(self) -> JudgePool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.crew.close(kill=kind is not None)

    def signature(self) -> Signature:
        return self._loaded.signature

    def advice(self) -> str | None:
        return self._loaded.advice

    def answer_counts(self) -> AnswerCounts:
        counts = AnswerCounts()
        for each in self.crew.answers.values():
            counts.add(kept=each.kept, asked=each.asked)
        return counts

    def _stream(
        self,
        dialogues: Iterable[Dialogue],
        level: ScoreLevel,
        names: Sequence[str],
        how: tuple[UnknownLanguage, bool],
        progress: Callable[[int], None],
    ) -> Iterator[Judgement]:
        tasks = (
            WindowTask(number, window, level, names, how, self.token_budget)
            for number, window in zip(self._numbers, windows(dialogues, self.window), strict=False)
        )
        return HandOut(self.crew, tasks, progress).judgements()

    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        raise NotImplementedError("the processes of the pool do this")

    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        raise NotImplementedError("the processes of the pool do this")


def refuse_server(asks_server: bool) -> None:
    """Raise ConfigError for a judge that asks a server."""
    if asks_server:
        raise ConfigError(
            "--workers goes with judges that compute on this machine, and this one asks a server",
            hint="leave it out: one process sends llm.max_in_flight requests at a time, and holds "
            "one limit of cost over them",
        )


class HandOut:
    """One stream of windows through the processes of a crew."""

    def __init__(
        self, crew: JudgeCrew, tasks: Iterator[WindowTask], progress: Callable[[int], None]
    ) -> None:
        self._crew, self._tasks, self._progress = crew, tasks, progress
        self._waiting: deque[WindowTask] = deque()  # to be handed out a second time
        self._order: deque[int] = deque()  # windows read and not yet returned, in input order
        self._under_way: dict[int, WindowTask] = {}
        self._done: dict[int, list[Judgement]] = {}
        self._shown: Counter[int] = Counter()  # dialogues of each window told as progress
        self._deaths: Counter[int] = Counter()
        self._all_read = False
        self._error: Exception | None = None  # raised after all that comes before it

    def judgements(self) -> Iterator[Judgement]:
        """Those of all windows, in order. An error (of the input, of a judge, or a process lost
        twice over one window) is raised after everything before it."""
        self._give()
        while self._order or not self._all_read:  # all may be busy for a stream that was given up
            for member, reply in self._crew.replies():
                self._take(member, reply)
            self._give()
            while self._order and self._order[0] in self._done:
                yield from self._done.pop(self._order.popleft())
                self._give()
        if self._error is not None:
            raise self._error

    def _give(self) -> None:
        """Hand out windows to whoever has none, or is half through the only one."""
        while free := [member for member in self._crew.members if self._is_free(member)]:
            task = self._next()
            if task is None:
                return
            self._under_way[task.number] = task
            min(free, key=lambda member: len(member.given)).give(task)

    def _is_free(self, member: JudgeProcess) -> bool:
        if not member.given:
            return True
        current = self._under_way.get(member.given[0])
        if len(member.given) > 1 or current is None:
            return False
        return 2 * self._shown[current.number] >= len(current.dialogues)

    def _next(self) -> WindowTask | None:
        if self._waiting:
            return self._waiting.popleft()
        if self._all_read:
            return None
        if len(self._order) >= max(_AHEAD, _AHEAD_EACH * len(self._crew.members)):
            return None
        try:
            task = next(self._tasks, None)
        except Exception as error:  # of the input: what came before it is judged first
            self._error, task = error, None
        if task is None:
            self._all_read = True
        else:
            self._order.append(task.number)
        return task

    def _take(self, member: JudgeProcess, reply: Reply | None) -> None:
        if reply is None:
            self._lose(member)
        elif isinstance(reply, WindowProgress):
            if reply.number in self._under_way:
                self._shown[reply.number] += reply.count
                self._progress(reply.count)
        elif isinstance(reply, WindowJudged):
            member.given.remove(reply.number)
            self._crew.answers[member.name] = reply.answers
            if self._under_way.pop(reply.number, None):  # else of a stream that was given up
                self._done[reply.number] = reply.judgements
        elif isinstance(reply, WorkerFailed):
            assert reply.number is not None
            member.given.remove(reply.number)
            if self._under_way.pop(reply.number, None):
                self._end_before(reply.number, reply.raised())

    def _lose(self, member: JudgeProcess) -> None:
        """A process died: the window under way and what waited behind it go to others."""
        how = f"{member.name} {member.how_it_ended()}"
        mine = [number for number in member.given if number in self._under_way]
        tasks = [self._under_way.pop(number) for number in mine]
        self._waiting = deque(sorted([*self._waiting, *tasks], key=lambda task: task.number))
        if mine:
            self._deaths[mine[0]] += 1
            self._progress(-self._shown.pop(mine[0], 0))
        if mine and self._deaths[mine[0]] > 1:
            self._end_before(mine[0], _lost_twice(how, tasks[0]))
        else:
            again = "; what it had is handed out again" if mine else ""
            left = f"{len(self._crew.members)} go on" if self._crew.members else "another starts"
            logger.warning("%s%s; %s", how, again, left)
        if self._order and not self._crew.members:
            self._crew.replace()

    def _end_before(self, number: int, error: Exception) -> None:
        """Let the stream end before a window, with ``error``."""
        while self._order and self._order[-1] >= number:
            ended = self._order.pop()
            self._done.pop(ended, None)
            self._under_way.pop(ended, None)
        self._waiting = deque(task for task in self._waiting if task.number < number)
        self._all_read, self._error = True, error


def _lost_twice(how: str, task: WindowTask) -> WorkerLostError:
    first, last = task.dialogues[0].id, task.dialogues[-1].id
    return WorkerLostError(
        f"{how}, the second one over the same {len(task.dialogues)} dialogues "
        f"({first!r} to {last!r})",
        hint="what was judged before them is kept, and the same command resumes; fewer --workers "
        "and a smaller --token-budget take less memory",
    )
