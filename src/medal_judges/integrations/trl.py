"""TRL: a judge as the reward function of GRPO, RLOO and similar trainers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from medal_judges.config import BOXED
from medal_judges.eval.scores.scores import HEADLINE
from medal_judges.integrations.chats import (
    JudgeSource,
    as_dialogue,
    goodness,
    load_judge,
)
from medal_judges.reading.thoughts import THOUGHTS
from medal_judges.records.dialogue import Role, Turn

# A prompt or a completion: text, or the messages of a chat.
Text = str | Sequence[Mapping[str, Any]]


class JudgeReward:
    """A reward function for trainers of TRL, from 0 (bad) to 1 (good).

    It is called with prompts and completions, and returns a reward for each completion. The reward
    of an unscored completion is None, which TRL ignores.

    Args:
        judge: Shipped name, folder, YAML file, Hub id or loaded judge. The default is ``boxed``.
        dimension: Dimension of the reward. None means ``overall``, or the judge's first dimension
            if it has no ``overall``.
        level: What gets a score: ``last`` (the completion) or ``dialogue`` (prompt and completion).
        max_cost: The most US dollars that a judge behind an API may spend. None sets no limit.

    Raises:
        JudgeLoadError: The judge cannot be loaded.
        ConfigError: The judge has no such dimension, or ``max_cost`` is given for a judge that is
            loaded already or costs nothing.
    """

    def __init__(
        self,
        judge: JudgeSource = BOXED,
        *,
        dimension: str | None = None,
        level: Literal["last", "dialogue"] = "last",
        max_cost: float | None = None,
    ) -> None:
        self.judge = load_judge(judge, max_cost=max_cost)
        names = [entry.name for entry in self.judge.dimensions]
        first = HEADLINE if HEADLINE in names else names[0]
        self.dimension = self.judge.dimension(dimension or first)
        self.level = level
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
        """Returns the reward of each completion, None without a score.

        Args:
            prompts: Text or messages before each completion.
            completions: Text or messages to score.
            lang: Language of each chat.
            log_metric: Called with a name and a number, for the counts of completions without a
                score and of removed reasoning.
            columns: Further columns of the data set, which are ignored.

        Raises:
            DataError: A message cannot be read.
        """
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
    """Returns ``text``, a prompt or a completion, as messages. A plain text is one message with
    ``role``."""
    if isinstance(text, str):
        return [{"role": role, "content": text}]
    return list(text)
