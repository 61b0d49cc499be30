"""Proposing follow-ups with a language model (DIET, section 3.1).

SELFMAP: the model that will judge proposes them. CRAFT: several other models do, and theirs are put
together. The file that comes out is to be read by a person before it is used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, model_validator

from medal_judges.config import Config
from medal_judges.models.followup.pool import FollowUp, Pool, Sign, Strategy
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import ChatRequest, LanguageModel, Message
from medal_judges.models.prompted.parsing.thinking import after_thinking
from medal_judges.models.prompted.prompt import fill, load_prompt

_MARK = re.compile(r"(?:\d{1,3}\s{0,3}[.):]|[-*•])")  # at the beginning of a stripped line
_WORDS = (1, 20)  # an utterance; longer lines are the model explaining itself


class PoolGeneration(Config):
    """How a pool is proposed (DIET, sections 3.1 and 4.1).

    Each of ``llms`` (see load_llm) is asked ``samples`` times for ``count`` follow-ups of each of
    ``signs``. ``strategy``: the pool is ``selfmap``'s, whose one model also judges, or ``craft``'s,
    which ``judge`` judges with, a model that proposes none; any may judge where it is not given.
    """

    llms: tuple[str | Mapping[str, Any], ...] = Field(default=("embedded:smollm2",), min_length=1)
    strategy: Strategy | None = None
    judge: str | None = None
    signs: tuple[Sign, ...] = Field(default=("negative",), min_length=1)
    count: int = Field(default=12, ge=1)
    samples: int = Field(default=4, ge=1)
    temperature: float = Field(default=0.8, ge=0)
    max_tokens: int = Field(default=400, ge=16)
    seed: int = 0
    prompt: str = "prompts/diet_generation"

    @model_validator(mode="after")
    def _judge_fits(self) -> PoolGeneration:
        if self.strategy == "selfmap" and len(self.llms) != 1:
            raise ValueError("selfmap has one model in llms: the one that will judge")
        names = [llm if isinstance(llm, str) else str(llm.get("model")) for llm in self.llms]
        if self.strategy == "craft" and self.judge in names:
            raise ValueError(f"craft: {self.judge} is to judge, so it proposes none; llms names it")
        return self

    @property
    def method(self) -> str:
        """What the pool's file says of how it was made."""
        asked = f"{self.prompt}, {self.samples} samples, temperature {self.temperature:g}"
        meant = f", for {self.judge} to judge with" if self.judge else ""
        return f"{asked}, seed {self.seed}{meant}"


def propose(config: PoolGeneration) -> tuple[FollowUp, ...]:
    """Follow-ups of every model in ``config.llms``.

    Repeats (letter case and punctuation aside) are left out. One model after the other is loaded.
    """
    parts = load_prompt(config.prompt, ("count",), ("context", "negative", "positive")).parts
    distinct: dict[tuple[str, str], FollowUp] = {}
    for setting in config.llms:
        llm = load_llm(setting)
        for sign in config.signs:
            requests = [
                ChatRequest(
                    _question(parts, sign, config.count),
                    config.max_tokens,
                    config.temperature,
                    0.95,
                    config.seed + k,
                )
                for k in range(config.samples)
            ]
            for utterance in _utterances(llm, requests):
                key = (" ".join(re.findall(r"\w+", utterance.casefold())), sign)
                distinct.setdefault(key, FollowUp(text=utterance, sign=sign, by=llm.name))
        llm.close()
    return tuple(distinct.values())


def make_pool(name: str, follow_ups: Sequence[FollowUp], config: PoolGeneration) -> Pool:
    """The pool of ``follow_ups``, not reviewed by anybody yet."""
    return Pool(
        name=name,
        method=config.method,
        strategy=config.strategy,
        generators=tuple(dict.fromkeys(f.by for f in follow_ups if f.by)),
        follow_ups=tuple(follow_ups),
    )


def parse_list(answer: str) -> list[str]:
    """The utterances of a numbered or bulleted list; lines of other kinds are the model's own talk.

    Quotation marks around an utterance are taken off; what is longer than an utterance is left out.
    """
    spoken = after_thinking(answer)  # lists are drafted there
    found = []
    for line in spoken[0].splitlines() if spoken is not None else ():
        line = line.strip()
        mark = _MARK.match(line)
        if mark is None:
            continue
        text = line[mark.end() :].strip().strip("\"'“”‘’*").strip()
        if _WORDS[0] <= len(text.split()) <= _WORDS[1] and re.search(r"\w", text):
            found.append(text)
    return found


def _utterances(llm: LanguageModel, requests: Sequence[ChatRequest]) -> list[str]:
    return [text for answer in llm.chat(requests) for text in parse_list(answer.text)]


def _question(parts: Mapping[str, str], sign: Sign, count: int) -> tuple[Message, ...]:
    return (Message("user", fill(f"{parts['context']} {parts[sign]}", {"count": str(count)})),)
