"""The processes of a pool: started, listened to, and missed when they die."""

from __future__ import annotations

import logging
import multiprocessing
import signal
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from medal_judges.errors import MedalError
from medal_judges.inference.judge_choice import JudgeChoice
from medal_judges.inference.parallel.messages import (
    JudgeLoaded,
    Reply,
    WindowTask,
    WorkerFailed,
    WorkerLog,
)
from medal_judges.inference.parallel.places import environment
from medal_judges.inference.parallel.worker import work
from medal_judges.models.llm.protocol import AnswerCounts

logger = logging.getLogger(__name__)

_END = 5.0  # seconds that a worker has to end by itself
_FEWER = "fewer --workers take less memory; the same command resumes"


class WorkerLostError(MedalError):
    """A process that judges was ended from outside, or broke down."""


@dataclass(eq=False, slots=True)
class JudgeProcess:
    """A process that judges: its end of the line, and the windows that it was given (by number,
    the one under way first). ``process`` is None for one that another program started."""

    name: str
    connection: Connection
    process: BaseProcess | None = None
    given: deque[int] = field(default_factory=deque)

    def give(self, task: WindowTask) -> None:
        """Hand out ``task``. That the process is gone is told by ``JudgeCrew.replies``."""
        self.given.append(task.number)
        with suppress(OSError):
            self.connection.send(task)

    def how_it_ended(self) -> str:
        """In words: by which signal, or with which exit code."""
        code = None
        if self.process is not None:
            self.process.join(_END)
            code = self.process.exitcode
        if code is None:
            return "ended"
        if code >= 0:
            return f"ended with exit code {code}"
        known = -code in list(signal.Signals)
        name = signal.Signals(-code).name if known else f"signal {-code}"
        memory = ", often by the system for want of memory" if name == "SIGKILL" else ""
        return f"was killed ({name}{memory})"


class JudgeCrew:
    """The processes of a pool, each with a judge of its own that it loaded as ``choice`` says.

    ``environments``: one a process to start here. ``others``: connections to processes that were
    started elsewhere and run ``work`` with the same judge.
    """

    def __init__(
        self,
        choice: JudgeChoice,
        environments: Sequence[Mapping[str, str]],
        others: Sequence[JudgeProcess] = (),
    ) -> None:
        self.choice = choice
        self.members: list[JudgeProcess] = list(others)
        self.answers: dict[str, AnswerCounts] = {}  # of each process, also of one that died
        self._environments = list(environments)
        self._started = 0
        self._speaker: JudgeProcess | None = None  # whose log is shown; None: everybody's
        self._first: JudgeLoaded | None = None  # the judge that all have to be

    def start(self) -> JudgeLoaded:
        """Start all and wait until each has its judge; what the judge is.

        Raises what loading it raises, once; WorkerLostError where a process dies over it, and
        MedalError where two of them would not score alike.
        """
        for _ in self._environments:
            self.start_one()
        return self._loaded(self.members)

    def replace(self) -> None:
        """Start one more process, in the place of one that died, and wait for its judge."""
        self.start_one()
        self._loaded(self.members[-1:])

    def start_one(self) -> None:
        environ = self._environments[self._started % len(self._environments)]
        self._started += 1
        # spawn: a forked child of a process with threads, torch's among them, can hang
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        name = f"worker {self._started}"
        level = logging.getLogger().getEffectiveLevel()
        process = context.Process(target=work, args=(theirs, self.choice, level), name=name)
        with environment(environ), _interrupts_held():
            process.start()
        theirs.close()  # so that the death of the one process that has it closes the line
        self.members.append(JudgeProcess(name, ours, process))

    def _loaded(self, members: Sequence[JudgeProcess]) -> JudgeLoaded:
        waiting = len(members)
        self._speaker = members[0]  # what loading warns of is the same for all
        while waiting:
            for member, reply in self.replies():
                if isinstance(reply, JudgeLoaded):
                    waiting -= 1
                    self._require_same(member, reply)
                elif isinstance(reply, WorkerFailed):
                    raise reply.raised()
                elif reply is None:
                    raise WorkerLostError(
                        f"{member.name} {member.how_it_ended()} while it loaded the judge",
                        hint=_FEWER,
                    )
        self._speaker = None
        assert self._first is not None
        return self._first

    def _require_same(self, member: JudgeProcess, loaded: JudgeLoaded) -> None:
        """Also of one that takes another's place: the judge's files may have been changed."""
        self._first = self._first or loaded
        if loaded.signature != self._first.signature:
            raise MedalError(
                f"{member.name} would score with other settings than the first:\n"
                f"    {loaded.signature}\n    {self._first.signature}",
                hint="give --dtype, and the same versions of packages and files everywhere",
            )

    def replies(self) -> Iterator[tuple[JudgeProcess, Reply | None]]:
        """What has come, waited for where nothing has: (process, reply), None for one that died,
        which is then no member any more. Lines of logs are shown here."""
        ends = {member.connection: member for member in self.members}
        for connection in wait(list(ends)):
            member = ends[connection]  # type: ignore[index]
            try:
                reply: Reply = member.connection.recv()
            except (EOFError, OSError):
                member.connection.close()
                self.members.remove(member)
                yield member, None
                continue
            if not isinstance(reply, WorkerLog):
                yield member, reply
            elif self._speaker in (None, member):
                logging.getLogger(reply.logger).log(reply.level, "%s", reply.message)

    def close(self, *, kill: bool = False) -> None:
        """End all: by themselves, or at once (``kill``)."""
        for member in self.members:
            with suppress(OSError):
                member.connection.send(None)
        for member in self.members:
            if member.process is not None:
                if not kill:
                    member.process.join(_END)
                if member.process.is_alive():
                    member.process.terminate()
                    member.process.join(_END)
            member.connection.close()
        self.members.clear()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C waits until the block ends; a process started in it never sees one, not even before
    its first line of ours. (On Windows it does, until then.)"""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
