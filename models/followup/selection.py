"""The judging model selects the follow-ups that fit a dialogue (DIET, section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from medal_judges.config import Config
from medal_judges.models.followup.choice import Choice, read_choice
from medal_judges.models.followup.pool import FollowUpPool
from medal_judges.models.llm.cost import Usage, spent
from medal_judges.models.llm.protocol import ChatRequest, LanguageModel, Message, usage_of
from medal_judges.models.prompted.prompt import AGAIN, Prompt, load_prompt, resolve, transcript
from medal_judges.records.signature import content_hash

MORE_TOKENS = 4  # times the tokens, for the second question
_NAMES = {"user": "User", "assistant": "Chatbot", "system": "Scene"}


class SelectionConfig(Config):
    """``runs`` choices from shuffled options; their intersection counts (section 4.1: three runs).

    ``seed`` shuffles; the paper gives no temperature, so the answers are greedy.
    """

    prompt: str = "prompts/diet_selection"
    runs: int = 3
    max_tokens: int = 160
    seed: int = 0

    def loaded(self) -> Prompt:
        """The prompt file. ``{target}`` is its part ``dialogue`` or ``turn``; ``again`` is added if
        the first answer could not be read. Raises ConfigError."""
        return load_prompt(
            self.prompt, ("target", "dialogue", "options"), ("dialogue", "turn", "again")
        )


@dataclass(frozen=True, slots=True)
class FollowUpSelection:
    """Indices into the pool. ``empty``: the runs had none in common, and all are used. ``unread``:
    runs without a readable answer to both questions; they do not count. ``failure``: the reason if
    no run could be read. ``usage``: of all runs. ``transient``: a run failed for a reason that may
    pass."""

    indices: tuple[int, ...]
    empty: bool
    usage: dict[str, float]
    unread: int = 0
    failure: str | None = None
    transient: bool = False


@dataclass(slots=True)
class _Run:
    """One shuffle of the options (``order``: pool indices as shown), asked once or twice."""

    question: tuple[Message, ...]
    order: Sequence[int]
    choice: Choice = field(default_factory=lambda: Choice(None, "not asked"))
    usages: list[Usage] = field(default_factory=list)
    transient: bool = False
    failed: bool = False


def select(
    llm: LanguageModel,
    dialogues: Sequence[tuple[str, Sequence[Message]]],
    pool: FollowUpPool,
    config: SelectionConfig,
    *,
    turn: bool,
) -> list[FollowUpSelection]:
    """For each (id, messages) the follow-ups that every run chose; all if the runs have none in
    common.

    If an answer was cut or cannot be read, the model is asked once more for the numbers alone, with
    more tokens. A run that still cannot be read is counted and not used.
    """
    prompt = config.loaded()
    runs = [
        [
            _Run(_question(prompt, messages, pool, order, turn), order)
            for order in (
                _order(config.seed, name, run, len(pool.follow_ups)) for run in range(config.runs)
            )
        ]
        for name, messages in dialogues
    ]
    every = [run for own in runs for run in own]
    _ask(llm, every, pool, config.max_tokens, "")
    unread = [run for run in every if run.choice.indices is None and not run.failed]
    max_tokens = max(config.max_tokens, min(MORE_TOKENS * config.max_tokens, llm.context // 4))
    _ask(llm, unread, pool, max_tokens, prompt.parts[AGAIN])
    return [_selection(own, pool) for own in runs]


def _ask(
    llm: LanguageModel, runs: Sequence[_Run], pool: FollowUpPool, max_tokens: int, again: str
) -> None:
    requests = [
        ChatRequest(
            (*run.question[:-1], Message("user", f"{run.question[-1].content}\n\n{again}".strip())),
            max_tokens,
        )
        for run in runs
    ]
    answers = llm.chat(requests) if requests else []
    for run, request, answer in zip(runs, requests, answers, strict=True):
        run.usages.append(usage_of(llm, request, answer))
        run.transient, run.failed = answer.transient, answer.finish == "failed"
        run.choice = read_choice(answer, [pool.follow_ups[i].text for i in run.order])


def _selection(runs: Sequence[_Run], pool: FollowUpPool) -> FollowUpSelection:
    sets = [{r.order[i] for i in r.choice.indices} for r in runs if r.choice.indices is not None]
    usage = spent(usage for run in runs for usage in run.usages)
    missing = any(run.transient for run in runs)
    if not sets:
        reason = next((run.choice.reason for run in runs if run.choice.reason), "no run")
        failure = f"no selection of follow-ups could be read: {reason}"
        return FollowUpSelection((), True, usage, len(runs), failure, missing)
    common = set.intersection(*sets)
    indices = tuple(sorted(common or range(len(pool.follow_ups))))
    return FollowUpSelection(indices, not common, usage, len(runs) - len(sets), transient=missing)


def _order(seed: int, name: str, run: int, count: int) -> list[int]:
    # The dialogue's own stream: neither its batch nor its place in the file changes its shuffles.
    stream = np.random.default_rng([seed, run, int(content_hash(name), 16)])
    return [int(i) for i in stream.permutation(count)]


def _question(
    prompt: Prompt,
    messages: Sequence[Message],
    pool: FollowUpPool,
    order: Sequence[int],
    turn: bool,
) -> tuple[Message, ...]:
    options = [f"{k}. {pool.follow_ups[i].text}" for k, i in enumerate(order, start=1)]
    values = {
        "target": prompt.parts["turn" if turn else "dialogue"],
        "dialogue": transcript(messages, _NAMES, keep_breaks=True),
        "options": "\n".join(options),
    }
    resolved = resolve(prompt)
    return (Message("user", resolved.text(resolved.layout.dialogue, values)),)
