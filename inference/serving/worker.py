"""The queue of a server, and the thread that scores the dialogues in it."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from medal_judges.errors import MedalError
from medal_judges.models.base.judge import Judge, make_score_requests
from medal_judges.models.llm.cost import CostLimitError
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement, empty_judgement

logger = logging.getLogger(__name__)
_ROWS = 64  # dialogues of several requests that are scored together


@dataclass(frozen=True, slots=True)
class QueuedDialogue:
    """A dialogue in the queue of a server.

    Attributes:
        dialogue: The dialogue.
        options: The level and the dimensions to score, as a RequestOptions.
        answer: A future whose result is the list of its judgements.
    """

    dialogue: Dialogue
    options: Any
    answer: asyncio.Future[list[Judgement]]

    def settle(self, judgements: list[Judgement]) -> None:
        """Sets ``judgements`` as the result of ``answer``, unless it has a result already. Must run
        in the server's event loop."""
        if not self.answer.done():
            self.answer.set_result(judgements)


class JudgeWorker:
    """A thread that scores the dialogues of a server in the order of their arrival.

    Attributes:
        judge: The judge that scores.
        signature: Name, weights and settings of the judge, as a string: ``judge:length|seed:0``.
        queue: The dialogues that wait.
        judged: The number of dialogues scored so far.
        pace: A moving average of the seconds that a dialogue takes.
        thread: The thread. The constructor does not start it.
    """

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.signature = str(judge.signature())
        self.queue: queue.Queue[QueuedDialogue] = queue.Queue()
        self.judged = 0
        self.pace = 0.0
        # A daemon: a judge in the middle of a long answer must not delay the end for ever.
        self.thread = threading.Thread(target=self._run, name="judge", daemon=True)

    def dollars_spent(self) -> float:
        """Returns the US dollars paid for answers, summed over the judge's language models."""
        limiters = {model.limiter for model in self.judge.language_models()} - {None}
        return sum(limiter.spent for limiter in limiters if limiter is not None)

    def _run(self) -> None:
        """Scores dialogues from ``queue`` and sets their answers, without end."""
        while True:
            window = [self.queue.get()]
            while len(window) < _ROWS and not self.queue.empty():
                window.append(self.queue.get())
            window = [row for row in window if not row.answer.cancelled()]
            for options, group in groupby(window, key=lambda row: row.options):
                rows = list(group)
                start = time.perf_counter()
                answers = self.score_dialogues([row.dialogue for row in rows], options)
                pace = (time.perf_counter() - start) / len(rows)
                self.pace = 0.8 * (self.pace or pace) + 0.2 * pace
                self.judged += len(rows)
                for row, judgements in zip(rows, answers, strict=True):
                    loop = row.answer.get_loop()
                    loop.call_soon_threadsafe(row.settle, judgements)

    def score_dialogues(
        self, dialogues: Sequence[Dialogue], options: Any
    ) -> list[list[Judgement]]:
        """Returns a list of judgements for each of ``dialogues``. If the judge fails on a dialogue,
        its judgements have no scores and state the reason.

        Args:
            options: The level and the dimensions to score, as a RequestOptions.
        """
        try:
            judgements = self.judge.score(dialogues, **options.model_dump())
            answers = []
            for dialogue in dialogues:
                count = len(make_score_requests(dialogue, options.level))
                answers.append([next(judgements) for _ in range(count)])
            return answers
        except Exception as error:
            if len(dialogues) > 1 and not isinstance(error, MedalError):
                return [
                    self.score_dialogues([dialogue], options)[0]
                    for dialogue in dialogues
                ]
            return [
                self._failed_judgements(dialogue, options, error)
                for dialogue in dialogues
            ]

    def _failed_judgements(
        self, dialogue: Dialogue, options: Any, error: Exception
    ) -> list[Judgement]:
        # The words of a bug may contain the text of a dialogue.
        """Returns judgements of ``dialogue`` without scores, with ``error`` as the reason."""
        reason = f"the judge failed on this dialogue ({type(error).__name__})"
        if isinstance(error, MedalError):
            reason = error.message
        logger.warning("a dialogue is not scored: %s", reason)
        dimensions = self.judge.dimensions
        if options.dimensions:
            dimensions = tuple(map(self.judge.dimension, options.dimensions))
        judgements = []
        for request in make_score_requests(dialogue, options.level):
            judgement = empty_judgement(
                request.dialogue, self.signature, dimensions, reason, request.turn
            )
            is_transient = isinstance(error, CostLimitError)
            judgements.append(replace(judgement, transient=is_transient))
        return judgements
