"""Which follow-ups fit a dialogue: asked of the judging model itself (DIET, section 3.2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.models.followup.pool import Pool
from medal_judges.models.llm.amounts import spent, usage_of
from medal_judges.models.llm.protocol import ChatRequest, LanguageModel, Message
from medal_judges.signature import content_hash

_NAMES = {"user": "User", "assistant": "Chatbot", "system": "Scene"}


class SelectionPrompt(Config):
    """Texts of the selection prompt; ``context`` has a place {target}, filled with ``dialogue`` or
    ``turn``."""

    context: str
    dialogue: str
    turn: str
    closing: str


class SelectionConfig(Config):
    """``runs`` choices from shuffled options; their intersection counts (section 4.1: three runs).

    ``seed`` shuffles; the paper gives no temperature, so the answers are greedy.
    """

    prompt: str = "prompts/diet_selection"
    runs: int = 3
    max_tokens: int = 160
    seed: int = 0

    def text(self) -> SelectionPrompt:
        return build_config(SelectionPrompt, read_yaml(self.prompt), where=self.prompt)


@dataclass(frozen=True, slots=True)
class Selection:
    """Indices into the pool. ``empty``: the runs had none in common and all are used. ``usage``: of
    all runs together. ``transient``: a run's answer failed for a reason that passes by itself."""

    indices: tuple[int, ...]
    empty: bool
    usage: dict[str, float]
    transient: bool = False


def select(
    llm: LanguageModel,
    dialogues: Sequence[tuple[str, Sequence[Message]]],
    pool: Pool,
    config: SelectionConfig,
    *,
    turn: bool,
) -> list[Selection]:
    """For each (id, messages) the follow-ups that every run chose; all of them where none is left.

    A failed answer counts as having chosen nothing.
    """
    prompt = config.text()
    orders = [
        [_order(config.seed, name, run, len(pool.follow_ups)) for run in range(config.runs)]
        for name, _ in dialogues
    ]
    requests = [
        ChatRequest(_question(prompt, messages, pool, order, turn), config.max_tokens)
        for (_, messages), shuffles in zip(dialogues, orders, strict=True)
        for order in shuffles
    ]
    answers, asked = iter(llm.chat(requests)), iter(requests)
    found: list[Selection] = []
    for shuffles in orders:
        completions = [next(answers) for _ in shuffles]
        sets = [
            chosen(c.text, [pool.follow_ups[i].text for i in order], order)
            for c, order in zip(completions, shuffles, strict=True)
        ]
        common = set.intersection(*sets) if sets else set()
        every = range(len(pool.follow_ups))
        usage = spent(usage_of(llm, next(asked), c) for c in completions)
        missing = any(c.transient for c in completions)
        found.append(Selection(tuple(sorted(common or every)), not common, usage, missing))
    return found


def chosen(answer: str, options: Sequence[str], order: Sequence[int]) -> set[int]:
    """Pool indices that ``answer`` names, by the number of a line or by the option's own text.

    ``options`` are as shown, numbered from 1; ``order`` gives the pool index of each.
    """
    plain = _plain(answer)
    named = {order[k] for k, text in enumerate(options) if _plain(text) in plain}
    for match in re.finditer(r"(?m)^\W*(\d+(?:\s*(?:,|and|;|&)\s*\d+)*)", answer):
        for number in re.findall(r"\d+", match.group(1)):
            if 1 <= int(number) <= len(options):
                named.add(order[int(number) - 1])
    return named


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _order(seed: int, name: str, run: int, count: int) -> list[int]:
    # The dialogue's own stream: neither its batch nor its place in the file changes its shuffles.
    stream = np.random.default_rng([seed, run, int(content_hash(name), 16)])
    return [int(i) for i in stream.permutation(count)]


def _question(
    prompt: SelectionPrompt,
    messages: Sequence[Message],
    pool: Pool,
    order: Sequence[int],
    turn: bool,
) -> tuple[Message, ...]:
    lines = [f"{_NAMES[m.role]}: {m.content}" for m in messages]
    options = [f"{k}. {pool.follow_ups[i].text}" for k, i in enumerate(order, start=1)]
    parts = [
        prompt.context.replace("{target}", prompt.turn if turn else prompt.dialogue),
        "\n".join(lines),
        "### Options:\n" + "\n".join(options),
        prompt.closing,
    ]
    return (Message("user", "\n\n".join(parts)),)
