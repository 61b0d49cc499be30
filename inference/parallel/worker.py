"""A process that judges: it loads the judge, then windows come in and judgements go out."""

from __future__ import annotations

import logging
import os
import signal
import threading
from copy import copy
from multiprocessing.connection import Connection
from queue import SimpleQueue

from medal_judges.inference.judge_choice import JudgeChoice
from medal_judges.inference.parallel.messages import (
    JudgeLoaded,
    ReplyHandler,
    ReplyLine,
    WindowJudged,
    WindowProgress,
    WindowTask,
)
from medal_judges.models.base.judge import Judge
from medal_judges.records.judgement import Judgement


def work(connection: Connection, choice: JudgeChoice, log_level: int) -> None:
    """Judge what comes in through ``connection`` until it is closed, or None comes.

    Nothing is printed here: what is logged, and what goes wrong, is sent.
    """
    # Ctrl-C goes to every process of a terminal; the one that reads decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = ReplyLine(connection)
    logging.basicConfig(level=log_level, handlers=[ReplyHandler(line)], force=True)
    logging.captureWarnings(True)
    tasks: SimpleQueue[WindowTask | None] = SimpleQueue()
    threading.Thread(target=_receive, args=(connection, tasks), daemon=True).start()
    try:
        judge = choice.load()
        line.send(JudgeLoaded.of(judge))
    except Exception as error:  # shown once, by the process that reads
        line.fail(None, error)
        return
    while (task := tasks.get()) is not None:
        try:
            judged = _judged(judge, task, line)
        except Exception as error:
            line.fail(task.number, error)
        else:
            line.send(WindowJudged(task.number, judged, judge.answer_counts()))


def _receive(connection: Connection, tasks: SimpleQueue[WindowTask | None]) -> None:
    """Take in what is sent while the judge is busy, so that the sender never waits. Where the
    sender is gone, nobody wants the window under way either: the process ends."""
    task: WindowTask | None
    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError):
            os._exit(1)
        tasks.put(task)
        if task is None:
            return


def _judged(judge: Judge, task: WindowTask, line: ReplyLine) -> list[Judgement]:
    if task.token_budget != judge.token_budget:
        judge = copy(judge)
        judge.token_budget = task.token_budget

    def progress(count: int) -> None:
        if count:
            line.send(WindowProgress(task.number, count))

    asked = (task.level, task.names, task.how)
    return list(judge._stream(task.dialogues, *asked, progress))
