"""What is said between the process that reads and the processes that judge."""

from __future__ import annotations

import logging
import os
import pickle
import threading
import traceback
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from multiprocessing.connection import Connection

from medal_judges.models.base.judge import Judge, ScoreLevel
from medal_judges.models.base.judged_languages import UnknownLanguage
from medal_judges.models.llm.protocol import AnswerCounts
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import Signature


@dataclass(frozen=True, slots=True)
class WindowTask:
    """A window to judge: what ``Judge.score`` was asked, checked already. ``number`` tells it from
    all others of the pool."""

    number: int
    dialogues: Sequence[Dialogue]
    level: ScoreLevel
    names: Sequence[str]
    how: tuple[UnknownLanguage, bool]
    token_budget: int


@dataclass(frozen=True, slots=True)
class JudgeLoaded:
    """A judge was loaded by another process, and this is what it is. ``asks_server``: its answers,
    or some of them, come from a server. ``advice``: see Judge."""

    signature: Signature
    dimensions: tuple[Dimension, ...]
    languages: tuple[str, ...] | None
    window: int
    token_budget: int
    asks_server: bool
    advice: str | None

    @classmethod
    def of(cls, judge: Judge) -> JudgeLoaded:
        """What ``judge`` is."""
        return cls(
            judge.signature(),
            judge.dimensions,
            judge.languages,
            judge.window,
            judge.token_budget,
            any(model.limiter is not None for model in judge.language_models()),
            judge.advice(),
        )


@dataclass(frozen=True, slots=True)
class WindowProgress:
    """``count`` more dialogues of a window are judged."""

    number: int
    count: int


@dataclass(frozen=True, slots=True)
class WindowJudged:
    """The judgements of a window, in order. ``answers``: of all windows of the process so far."""

    number: int
    judgements: list[Judgement]
    answers: AnswerCounts


@dataclass(frozen=True, slots=True)
class WorkerFailed:
    """``error`` ended a window, or the loading of the judge (``number`` None)."""

    number: int | None
    error: Exception
    trace: str

    def raised(self) -> Exception:
        """The error, with where in the other process it was raised (``--debug``)."""
        self.error.__cause__ = WorkerTraceback(f"\n{self.trace}")
        return self.error


class WorkerTraceback(Exception):
    """Where in another process an error was raised."""


@dataclass(frozen=True, slots=True)
class WorkerLog:
    """A line of a worker's log."""

    logger: str
    level: int
    message: str


Reply = JudgeLoaded | WindowProgress | WindowJudged | WorkerFailed | WorkerLog


class ReplyLine:
    """A worker's end of its connection, for several threads. Where the other end is gone, so is
    the run: the process ends at once and says nothing."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.RLock()  # a warning of the pickling is sent, too

    def send(self, reply: Reply) -> None:
        try:
            with self._lock:
                self._connection.send(reply)
        except OSError:
            os._exit(1)

    def fail(self, number: int | None, error: Exception) -> None:
        """Send ``error``; one that cannot be sent as it is, in words."""
        trace = "".join(traceback.format_exception(error))
        try:
            pickle.dumps(deepcopy(error))  # made anew, as the other end does
        except Exception:  # of a library whose errors want other arguments than they keep
            error = RuntimeError(f"{type(error).__name__}: {error}")
        self.send(WorkerFailed(number, error, trace))


class ReplyHandler(logging.Handler):
    """Sends what is logged in a worker to where it is shown."""

    def __init__(self, line: ReplyLine) -> None:
        super().__init__()
        self._line = line

    def emit(self, record: logging.LogRecord) -> None:
        self._line.send(WorkerLog(record.name, record.levelno, record.getMessage()))
