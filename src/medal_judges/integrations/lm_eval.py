"""lm-evaluation-harness: a judge as a metric for tasks in which the model continues a
conversation."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from medal_judges.config import BOXED
from medal_judges.integrations.chats import (
    JudgeSource,
    ScoredChats,
    load_judge,
    score_chats,
)
from medal_judges.models.base.judge import Judge, ScoreLevel


class ChatMetric:
    """A metric of lm-evaluation-harness that scores generated replies with a judge.

    The YAML file of a task calls its methods with ``!function``.

    Args:
        judge: Shipped name, folder, YAML file, Hub id or loaded judge. The default is ``boxed``.
        dimensions: Names of the dimensions to score.
        messages: The column of the task's data set that has the messages before the reply.
        level: What gets a score: ``dialogue``, ``turn`` (each assistant turn) or ``last`` (the last
            assistant turn).
        max_cost: The most US dollars that a judge behind an API may spend. None sets no limit.
    """

    def __init__(
        self,
        judge: JudgeSource = BOXED,
        *,
        dimensions: Sequence[str],
        messages: str = "messages",
        level: ScoreLevel = "last",
        max_cost: float | None = None,
    ) -> None:
        self.judge = judge
        self.max_cost = max_cost
        self.dimensions = tuple(dimensions)
        self.messages = messages
        self.level = level

    def process_results(
        self, doc: Mapping[str, object], results: Sequence[str]
    ) -> dict[str, str]:
        """Returns the chat with the generated reply, as a JSON text, once for each metric of the
        task.

        Args:
            doc: Row of the task's data set, with the messages before the reply.
            results: The generated reply, as a list of one text.

        Returns:
            Metric -> the JSON text, which is the same for all: ``{"overall": CHAT, "coverage":
                CHAT}``.
        """
        row = {name: doc[name] for name in ("id", "lang") if doc.get(name)}
        before: Any = doc[self.messages]
        row["messages"] = [*before, {"role": "assistant", "content": results[0]}]
        text = json.dumps(row, ensure_ascii=False)
        return dict.fromkeys((*self.dimensions, "coverage"), text)

    def mean(self, dimension: str) -> Callable[[Sequence[str]], float]:
        """Returns a function that computes the mean score of ``dimension`` over chats. The mean is
        NaN without scores.

        The function takes the list of chats that ``process_results`` returned as JSON texts.
        """

        def mean_scored(chats: Sequence[str]) -> float:
            return self._score(chats).mean(dimension)

        return mean_scored

    def coverage(self, chats: Sequence[str]) -> float:
        """Returns the share of ``chats``, from 0 to 1, with a score in every dimension, or NaN
        without chats.

        Args:
            chats: JSON texts from ``process_results``.
        """
        share = self._score(chats).coverage
        if share is None:
            return math.nan
        return share

    def _score(self, chats: Sequence[str]) -> ScoredChats:
        judge = _load_once(self.judge, max_cost=self.max_cost)
        return _score_rows(judge, self.level, self.dimensions, tuple(chats))


# The harness runs the module beside its YAML once for each function in it.
_load_once = cache(load_judge)


@lru_cache(maxsize=4)
def _score_rows(
    judge: Judge,
    level: ScoreLevel,
    dimensions: tuple[str, ...],
    chats: tuple[str, ...],
) -> ScoredChats:
    """Scores ``chats``, each the JSON text of a chat. The last results are cached, because each
    metric of a task scores the same chats."""
    rows = [json.loads(chat) for chat in chats]
    return score_chats(
        rows,
        judge,
        level=level,
        dimensions=dimensions,
        name="results",
    )
