"""The judging model selects the follow-ups that fit a dialogue (DIET, section 3.2)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from medal_judges.config import Config
from medal_judges.models.followup.pool import FollowUpPool
from medal_judges.models.llm.cost import Usage, spent
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    LanguageModel,
    Message,
    usage_of,
)
from medal_judges.models.prompted.answers import after_thinking, mentions_thinking, shown
from medal_judges.models.prompted.prompt import AGAIN, Prompt, load_prompt, resolve, transcript
from medal_judges.records.signature import content_hash

MORE_TOKENS = 4  # times the tokens, for the second question
MOST_CHARACTERS = 20_000  # of an answer; a longer one is not read
_NAMES = {"user": "User", "assistant": "Chatbot", "system": "Scene"}
_MARKS = str.maketrans(dict.fromkeys("*_`#|\"'“”‘’()[]{}（）【】「」『』《》", " "))
_LINE = re.compile(r"(?m)^\s*[-•]\s+|(?<=\d)[.)][ \t]*$")  # the bullet, and the mark of its number
_BETWEEN = r"(?:[,;、] ?(?:and )?| and | |\s*\n\s*)"
_NUMBERS = re.compile(rf"\s*\d{{1,3}}(?:{_BETWEEN}\d{{1,3}})*\s*[.。]?\s*", re.IGNORECASE)


class SelectionConfig(Config):
    """``runs`` choices from shuffled options; their intersection counts (section 4.1: three runs).

    ``seed`` shuffles; the paper gives no temperature, so the answers are greedy.
    """

    prompt: str = "prompts/diet_selection"
    runs: int = 3
    max_tokens: int = 160
    seed: int = 0

    def loaded(self) -> Prompt:
        """Returns the prompt file. ``{target}`` is its part ``dialogue`` or ``turn``; ``again`` is
        added if the first answer could not be read. Raises ConfigError."""
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
    """One shuffle of the options (``order``: pool indices as shown), asked once or twice.
    ``chosen``: places in ``order``, or why the answer could not be read."""

    question: Message
    order: Sequence[int]
    chosen: set[int] | str = "not asked"
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
    """Returns for each (id, messages) the follow-ups that every run chose; all if the runs have
    none in common.

    If an answer was cut or cannot be read, the model is asked once more for the numbers alone, with
    more tokens. A run that still cannot be read is counted and not used.
    """
    prompt = config.loaded()
    texts, resolved = [each.text for each in pool.follow_ups], resolve(prompt)

    def run_of(name: str, number: int, messages: Sequence[Message]) -> _Run:
        # The dialogue's own stream: neither its batch nor its place in the file changes it.
        stream = np.random.default_rng([config.seed, number, int(content_hash(name), 16)])
        order = [int(i) for i in stream.permutation(len(texts))]
        values = {
            "target": prompt.parts["turn" if turn else "dialogue"],
            "dialogue": transcript(messages, _NAMES, keep_breaks=True),
            "options": "\n".join(f"{k}. {texts[i]}" for k, i in enumerate(order, start=1)),
        }
        return _Run(Message("user", resolved.text(resolved.layout.dialogue, values)), order)

    def ask(runs: Sequence[_Run], max_tokens: int, again: str = "") -> None:
        requests = [
            ChatRequest((Message("user", f"{run.question.content}{again}"),), max_tokens)
            for run in runs
        ]
        answers = llm.chat(requests) if requests else []
        for run, request, answer in zip(runs, requests, answers, strict=True):
            run.usages.append(usage_of(llm, request, answer))
            run.transient, run.failed = answer.transient, answer.finish == "failed"
            run.chosen = read_choice(answer, [texts[i] for i in run.order])

    runs = [[run_of(name, k, given) for k in range(config.runs)] for name, given in dialogues]
    every = [run for own in runs for run in own]
    ask(every, config.max_tokens)
    more = max(config.max_tokens, min(MORE_TOKENS * config.max_tokens, llm.context // 4))
    unread = [run for run in every if isinstance(run.chosen, str) and not run.failed]
    ask(unread, more, f"\n\n{prompt.parts[AGAIN]}".rstrip())
    return [_selection(own, pool) for own in runs]


def _selection(runs: Sequence[_Run], pool: FollowUpPool) -> FollowUpSelection:
    sets = [{r.order[i] for i in r.chosen} for r in runs if not isinstance(r.chosen, str)]
    usage = spent(usage for run in runs for usage in run.usages)
    missing = any(run.transient for run in runs)
    if not sets:
        failure = f"no selection of follow-ups could be read: {runs[0].chosen}"
        return FollowUpSelection((), True, usage, len(runs), failure, missing)
    common = set.intersection(*sets)
    indices = tuple(sorted(common or range(len(pool.follow_ups))))
    return FollowUpSelection(indices, not common, usage, len(runs) - len(sets), transient=missing)


def read_choice(completion: Completion, options: Sequence[str]) -> set[int] | str:
    """Returns the places, from 0, of the chosen ``options``, which were numbered from 1; or the
    reason why the answer cannot be read.

    Read are numbers alone (``2, 4 and 5``); one option's own text a line, with or without a number
    before it; and ``none``. Models renumber what they choose, so an option's text goes before a
    number. Any other answer is asked for again, for the numbers alone.
    """
    if completion.finish == "failed":
        return completion.failure or "no answer"
    if completion.finish == "length":
        return "the answer was cut at its token limit"
    spoken = after_thinking(completion.text)
    if spoken is None or mentions_thinking(spoken[0]):
        return "the end of the reasoning is not marked"
    text = spoken[0].strip()
    if not text:
        return "an empty answer"
    if len(text) > MOST_CHARACTERS:
        return f"an answer of {len(text)} characters"
    if _plain(text) == "none":
        return set()
    numbers = _LINE.sub("", unicodedata.normalize("NFKC", text.translate(_MARKS)).strip())
    if _NUMBERS.fullmatch(numbers):
        chosen = [int(number) - 1 for number in re.findall(r"\d{1,3}", numbers)]
        if beyond := [i + 1 for i in sorted(chosen) if not 0 <= i < len(options)]:
            return f"option {beyond[0]} of {len(options)}"
        return set(chosen)
    by_text = {_plain(option): i for i, option in enumerate(options)}
    lines = [line for line in text.splitlines() if line.strip()]
    bare = [re.sub(r"^\W{0,6}\d{1,3}[.):、]\s*", "", line) for line in lines]
    places = [by_text.get(_plain(line)) for line in bare]
    found = {place for place in places if place is not None}
    numbered = sum(a != b for a, b in zip(lines, bare, strict=True))
    # All options, some of them with a number: the numbers may be the choice.
    unclear = len(found) == len(options) and 0 < numbered < len(lines)
    return f"no list of options: {shown(text)}" if None in places or unclear else found


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
