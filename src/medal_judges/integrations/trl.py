"""TRL: a judge as the reward function of GRPO, RLOO and similar trainers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from medal_judges.config import BOXED
from medal_judges.eval.scores.scores import HEADLINE
from medal_judges.integrations.chats import (
    JudgeSource,
    as_dialogue,
    goodness,
    load_judge,
)
from medal_judges.models.base.judge import Judge, ScoreLevel
from medal_judges.reading.thoughts import THOUGHTS
from medal_judges.records.dialogue import Role, Turn

# A prompt or a completion: text, or the messages of a chat.
Text = str | Sequence[Mapping[str, Any]]


class JudgeReward:
    """A reward function: it gives each completion a number from 0 (bad) to 1 (good).

    ``dimension`` is ``overall`` by default, or the judge's first dimension if it has no
    ``overall``. ``level`` is as in ``Judge.score``. The default ``last`` scores the completion,
    given its prompt. A chat that occurs twice in a batch is scored once. The column ``lang`` of the
    data set, if there is one, gives the language.

    An unscored completion has the reward None, which TRL ignores. The metric ``NAME/unscored``
    counts unscored completions. Reasoning between think tags is removed before scoring. The metric
    ``NAME/thoughts_left_out`` counts the removed thoughts.
    """

    def __init__(
        self,
        judge: JudgeSource = BOXED,
        *,
        dimension: str | None = None,
        level: ScoreLevel = "last",
        max_cost: float | None = None,
    ) -> None:
        self.judge: Judge = load_judge(judge, max_cost=max_cost)
        names = [entry.name for entry in self.judge.dimensions]
        first = HEADLINE if HEADLINE in names else names[0]
        self.dimension = self.judge.dimension(dimension or first)
        self.level: ScoreLevel = level
        self.__name__ = f"medal_{self.dimension.name}"  # TRL's logs call the reward so

    def __call__(
        self,
        prompts: Sequence[Text],
        completions: Sequence[Text],
        *,
        lang: Sequence[str] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: object,
    ) -> list[float | None]:
        """Returns a reward for each completion, in order. Raises DataError if a message cannot be
        read. The error names the completion and the message."""
        changes: Counter[str] = Counter()
        chats = []
        pairs = zip(prompts, completions, strict=True)
        for index, (prompt, completion) in enumerate(pairs):
            messages = _to_messages("user", prompt) + _to_messages(
                "assistant", completion
            )
            language = None
            if lang is not None:
                language = lang[index]
            name = f"completions[{index}]"
            chat = as_dialogue(messages, name, changes, lang=language)
            # A completion that is empty, or reasoning alone, is an empty turn.
            if chat.turns[-1].role != "assistant":
                chat = replace(chat, turns=(*chat.turns, Turn("assistant", "")))
            chats.append(chat)
        distinct = {(chat.lang, chat.turns): chat for chat in chats}
        dimension = self.dimension
        judgements = self.judge.score(
            distinct.values(), level=self.level, dimensions=[dimension.name]
        )
        reward_of = {}
        for key, judgement in zip(distinct, judgements, strict=True):
            reward_of[key] = goodness(dimension, judgement.scores[dimension.name])
        rewards = [reward_of[chat.lang, chat.turns] for chat in chats]
        if log_metric is not None:
            log_metric(f"{self.__name__}/unscored", float(rewards.count(None)))
            log_metric(f"{self.__name__}/thoughts_left_out", float(changes[THOUGHTS]))
        return rewards


def _to_messages(role: Role, text: Text) -> list[Mapping[str, Any]]:
    """Returns the messages of a prompt or a completion. A plain text is one message with
    ``role``."""
    if isinstance(text, str):
        return [{"role": role, "content": text}]
    return list(text)
