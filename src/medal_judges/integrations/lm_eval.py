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
    """Functions for a task's YAML (``!function``), whose rows have the chat so far under
    ``messages``.

    ``process_results`` appends the generation to the chat. ``mean(DIMENSION)`` is the mean score of
    the scored chats, NaN without any; ``coverage`` is the share of chats that are scored. All chats
    are scored once, in one batch, for all dimensions.
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
        """Returns the whole chat of ``doc`` and ``results`` as JSON for each dimension and for
        ``coverage``."""
        row = {name: doc[name] for name in ("id", "lang") if doc.get(name)}
        before: Any = doc[self.messages]
        row["messages"] = [*before, {"role": "assistant", "content": results[0]}]
        text = json.dumps(row, ensure_ascii=False)
        return dict.fromkeys((*self.dimensions, "coverage"), text)

    def mean(self, dimension: str) -> Callable[[Sequence[str]], float]:
        """Returns the function that aggregates one dimension."""

        def mean_scored(chats: Sequence[str]) -> float:
            return self._score(chats).mean(dimension)

        return mean_scored

    def coverage(self, chats: Sequence[str]) -> float:
        """Returns the share of the chats with a score in every dimension."""
        share = self._score(chats).coverage
        if share is None:
            return math.nan
        return share

    def _score(self, chats: Sequence[str]) -> ScoredChats:
        judge = _load(self.judge, self.max_cost)
        return _score_rows(judge, self.level, self.dimensions, tuple(chats))


# The harness runs the module beside its YAML once for each function in it.
@cache
def _load(judge: JudgeSource, max_cost: float | None) -> Judge:
    return load_judge(judge, max_cost=max_cost)


@lru_cache(maxsize=4)
def _score_rows(
    judge: Judge,
    level: ScoreLevel,
    dimensions: tuple[str, ...],
    chats: tuple[str, ...],
) -> ScoredChats:
    rows = [json.loads(chat) for chat in chats]
    return score_chats(
        rows,
        judge,
        level=level,
        dimensions=dimensions,
        name="results",
    )
