"""Proposing follow-ups with a language model (DIET, section 3.1).

SELFMAP: the model that will judge proposes them. CRAFT: several other models do, and theirs are put
together. The file that comes out is to be read by a person before it is used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.models.followup.pool import FollowUp, Pool, Sign, Strategy
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import ChatRequest, LanguageModel, Message
from medal_judges.models.prompted.thinking import after_thinking

_MARK = re.compile(r"(?:\d{1,3}\s{0,3}[.):]|[-*•])")  # at the beginning of a stripped line
_WORDS = (1, 20)  # an utterance; longer lines are the model explaining itself


class GenerationPrompt(Config):
    """The meta-prompt: ``context``, then one of two instructions with a place {count}."""

    context: str
    negative: str
    positive: str


def propose(
    llms: Sequence[str | Mapping[str, Any]],
    *,
    signs: Sequence[Sign] = ("negative",),
    count: int = 12,
    samples: int = 4,
    temperature: float = 0.8,
    seed: int = 0,
    prompt: str = "prompts/diet_generation",
    max_tokens: int = 400,
) -> tuple[FollowUp, ...]:
    """Follow-ups of every model in ``llms``, each asked ``samples`` times for each sign.

    Repeats (letter case and punctuation aside) are left out. One model after the other is loaded.
    """
    text = build_config(GenerationPrompt, read_yaml(prompt), where=prompt)
    found: dict[tuple[str, str], FollowUp] = {}
    for setting in llms:
        llm = load_llm(setting)
        for sign in signs:
            requests = [
                ChatRequest(_question(text, sign, count), max_tokens, temperature, 0.95, seed + k)
                for k in range(samples)
            ]
            for utterance in _utterances(llm, requests):
                key = (" ".join(re.findall(r"\w+", utterance.casefold())), sign)
                found.setdefault(key, FollowUp(text=utterance, sign=sign, by=llm.name))
        llm.close()
    return tuple(found.values())


def make_pool(
    name: str, follow_ups: Sequence[FollowUp], *, method: str, strategy: Strategy | None = None
) -> Pool:
    """The pool of ``follow_ups``, not reviewed by anybody yet."""
    return Pool(
        name=name,
        method=method,
        strategy=strategy,
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


def _question(prompt: GenerationPrompt, sign: Sign, count: int) -> tuple[Message, ...]:
    instruction = prompt.positive if sign == "positive" else prompt.negative
    return (Message("user", f"{prompt.context} {instruction}".replace("{count}", str(count))),)
