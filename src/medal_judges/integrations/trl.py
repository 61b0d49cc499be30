"""TRL: a judge as the reward function of GRPO, RLOO and their kin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from medal_judges.eval.report.scores import HEADLINE
from medal_judges.integrations.chats import JudgeSource, as_dialogue, goodness, load_judge
from medal_judges.models.base.judge import Judge, ScoreLevel
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.shipped import BOXED

# A prompt or a completion: text, or the messages of a chat.
Said = str | Sequence[Mapping[str, Any]]


class JudgeReward:
    """A reward for each completion, from 0 (what a user does not want) to 1.

    ``dimension``: ``overall`` where the judge has it, else its first. ``level``: see
    ``Judge.score``; ``last`` judges the completion in the light of its prompt. The whole batch is
    judged at once, equal chats once, and answers of a language model come from the judge's cache;
    a column ``lang`` of the data set tells the language. A completion that the judge does not score
    has the reward None, which TRL leaves out; the metric ``NAME/unscored`` counts them.
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
        names = [each.name for each in self.judge.dimensions]
        first = HEADLINE if HEADLINE in names else names[0]
        self.dimension = self.judge.dimension(dimension or first)
        self.level: ScoreLevel = level
        self.__name__ = f"medal_{self.dimension.name}"  # TRL's logs call the reward so

    def __call__(
        self,
        prompts: Sequence[Said],
        completions: Sequence[Said],
        *,
        lang: Sequence[str] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: object,
    ) -> list[float | None]:
        """One reward a completion, in order. Raises DataError that names the chat and message."""
        chats = [
            _dialogue(prompt, completion, f"completions[{i}]", None if lang is None else lang[i])
            for i, (prompt, completion) in enumerate(zip(prompts, completions, strict=True))
        ]
        distinct = list({(chat.lang, chat.turns): chat for chat in chats}.values())
        name = self.dimension.name
        judged = self.judge.score(distinct, level=self.level, dimensions=[name])
        rewards = {
            (chat.lang, chat.turns): goodness(self.dimension, judgement.scores[name])
            for chat, judgement in zip(distinct, judged, strict=True)
        }
        given = [rewards[chat.lang, chat.turns] for chat in chats]
        if log_metric is not None:
            log_metric(f"{self.__name__}/unscored", float(sum(each is None for each in given)))
        return given


def _dialogue(prompt: Said, completion: Said, place: str, lang: str | None) -> Dialogue:
    """The chat that ends with the completion, also where nothing was said in it: what came before
    is not what is rewarded."""
    asked = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
    answer: Mapping[str, Any] = {"role": "assistant", "content": completion}
    said = [answer] if isinstance(completion, str) else list(completion)
    chat = as_dialogue([*asked, *said], place, lang=lang)
    if chat.turns[-1].role != "assistant":
        chat = replace(chat, turns=(*chat.turns, Turn("assistant", "")))
    return chat
