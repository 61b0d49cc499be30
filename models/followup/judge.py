"""The follow-up judge: scores a dialogue by how likely a user is to react in certain ways (FED,
FULL, DIET).

A dialogue is good if discontented follow-ups are unlikely after it, and better if contented ones
are likely; the difference (contrast) cancels what makes any follow-up likely. The shipped contrast
judge sums over tokens without the end-of-turn token, as chosen on validation dialogues of
Dialogue-Eval and DSTC9: the end token measures how short the reply is, and means over tokens
overweight single-word reactions. A file of configs/judges/ sets the follow-ups and how they are
combined.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal

import numpy as np
from pydantic import Field
from scipy.special import expit

from medal_judges.config import Config, build_config
from medal_judges.errors import ConfigError, NotAvailableError
from medal_judges.models.base.judge import Judge, ScoreRequest
from medal_judges.models.followup.pool import FollowUpPool, load_pool
from medal_judges.models.llm.cost import Usage, spent, total_usage
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
    Message,
    chat_messages,
    first_turn_that_fits,
    likelihood_usage,
    usage_of,
)
from medal_judges.models.llm.settings import EMBEDDED, LLMSetting
from medal_judges.models.prompted.answers import after_thinking, mentions_thinking, shown
from medal_judges.models.prompted.prompt import AGAIN, Prompt, load_prompt, resolve, transcript
from medal_judges.records.dimension import load_rubric
from medal_judges.records.judgement import Contributions, Judgement, known_details
from medal_judges.records.signature import Signature, content_hash

MORE_TOKENS = 4  # times the tokens, for the second question
MOST_CHARACTERS = 20_000  # of an answer; a longer one is not read
_NAMES = {"user": "User", "assistant": "Chatbot", "system": "Scene"}
_MARKS = str.maketrans(dict.fromkeys("*_`#|\"'“”‘’()[]{}（）【】「」『』《》", " "))
_LINE = re.compile(r"(?m)^\s*[-•]\s+|(?<=\d)[.)][ \t]*$")  # the bullet, and the mark of its number
_BETWEEN = r"(?:[,;、] ?(?:and )?| and | |\s*\n\s*)"
_NUMBERS = re.compile(rf"\s*\d{{1,3}}(?:{_BETWEEN}\d{{1,3}})*\s*[.。]?\s*", re.IGNORECASE)


class SelectionConfig(Config):
    """DIET's selection (section 4.1): the model chooses ``runs`` times from shuffled options, and
    the follow-ups in all choices count. ``prompt`` is the file of the question, ``max_tokens``
    bounds an answer, and ``seed`` shuffles. The paper states no temperature, so
    answers are greedy."""

    prompt: str = "prompts/diet_selection"
    runs: int = 3
    max_tokens: int = 160
    seed: int = 0

    def loaded(self) -> Prompt:
        """Returns the prompt file. Its part ``dialogue`` or ``turn`` replaces ``{target}``; its
        part ``again`` is appended to the second question. Raises ConfigError."""
        return load_prompt(
            self.prompt, ("target", "dialogue", "options"), ("dialogue", "turn", "again")
        )


@dataclass(frozen=True, slots=True)
class FollowUpSelection:
    """``indices`` into the pool. ``empty``: the runs have none in common, so all follow-ups are
    used. ``unread``: the number of runs without a readable answer; they do not count. ``failure``:
    the reason, if no run could be read. ``usage`` of all runs. ``transient``: the reason of a
    failed run may pass."""

    indices: tuple[int, ...]
    empty: bool
    usage: dict[str, float]
    unread: int = 0
    failure: str | None = None
    transient: bool = False


@dataclass(slots=True)
class _Run:
    """One shuffle of the options (``order``: pool indices as shown), asked once or twice.
    ``chosen``: indices into ``order``, or why the answer could not be read."""

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
    """Returns for each (id, messages) the follow-ups that every run chose; all follow-ups if the
    runs have none in common.

    If an answer was cut or cannot be read, the model is asked once more, for the numbers alone and
    with more tokens. A run that still cannot be read does not count.
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
    selections = []
    for own in runs:
        sets = [{r.order[i] for i in r.chosen} for r in own if not isinstance(r.chosen, str)]
        common: set[int] = set.intersection(*sets) if sets else set()
        unreadable = f"no selection of follow-ups could be read: {own[0].chosen}"
        selections.append(
            FollowUpSelection(
                indices=tuple(sorted(common or range(len(texts)))) if sets else (),
                empty=not common,
                usage=spent(usage for run in own for usage in run.usages),
                unread=len(own) - len(sets),
                failure=None if sets else unreadable,
                transient=any(run.transient for run in own),
            )
        )
    return selections


def read_choice(completion: Completion, options: Sequence[str]) -> set[int] | str:
    """Returns the indices of the chosen ``options``, which were numbered from 1; or the reason why
    the answer cannot be read.

    Readable answers are numbers alone (``2, 4 and 5``); the text of one option per line, with or
    without a number; and ``none``. Models renumber what they choose, so an option's text counts and
    not the number before it.
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


class LogisticScale(Config):
    """The map of a raw value to a dimension's scale by ``center`` and ``spread``: low + (high -
    low) sigmoid((raw - center) / spread), mirrored for a dimension whose good end is low.
    ``fitted_on`` names the rows of the fit."""

    center: float = 0.0
    spread: float = Field(default=1.0, gt=0)
    fitted_on: str | None = None


class FollowUpConfig(Config):
    """A file of configs/judges/ with ``family: followup``.

    ``name``: the judge's name. ``llm``: its language model. ``rubric``: a file or a shipped name.
    ``dimensions``: those of the rubric to score (none: all). ``pool``: a file of follow-ups or a
    shipped name. ``scale``: maps the raw value of each dimension to its scale. ``seed``: for the
    follow-ups that are drawn.

    ``likelihood`` is that of the follow-up given the dialogue (conditional), or of both (joint, as
    in FED). ``reduce``: mean or sum over tokens. ``score_eos``: includes the end-of-turn token. The
    follow-ups are scored after each of the last ``answers`` assistant turns (None: all; at turn
    level after the judged turn only), and averaged with weights that fall by the factor ``decay``
    with each step back. ``select``: DIET's selection for each dialogue. ``per_generator``: the
    number of follow-ups that are drawn from each generator (DIET, section 6.2). ``max_tokens``
    limits a dialogue with its follow-up; whole oldest turns beyond it are dropped.
    """

    name: str
    llm: LLMSetting = EMBEDDED
    rubric: str
    dimensions: tuple[str, ...] = ()
    pool: str
    per_generator: int | None = Field(default=None, ge=1)
    seed: int = 0
    likelihood: Literal["conditional", "joint"] = "conditional"
    reduce: Literal["mean", "sum"] = "mean"
    score_eos: bool = True
    answers: int | None = Field(default=1, ge=1)
    decay: float = Field(default=1.0, gt=0, le=1)
    select: SelectionConfig | None = None
    max_tokens: int = Field(default=4096, ge=64)
    scale: Mapping[str, LogisticScale] = {}


class FollowUpJudge(Judge):
    """Scores dialogues by the likelihoods of follow-ups.

    The raw value of a dimension (in ``details``; in nats, per token with ``reduce: mean``) is the
    mean over its positive follow-ups minus the mean over its negative ones (DIET, section 3.3, has
    only negative ones). Contributions are logits: each answer's share of the raw value, relative to
    the scale's centre, which is mapped to the middle of the dimension's scale.
    """

    family = "followup"
    config_class = FollowUpConfig
    window = 16  # dialogues: seconds to a minute of work that a kill can lose

    def __init__(self, config: FollowUpConfig) -> None:
        self.config, self.name = config, config.name
        load_rubric(config.rubric, tuple(config.scale))  # each scale is of a known dimension
        self.dimensions = load_rubric(config.rubric, config.dimensions)
        self.pool = load_pool(config.pool)
        if config.per_generator is not None:
            self.pool = self.pool.sampled(config.per_generator, config.seed)
        for dimension in self.dimensions:
            if not self.pool.of(dimension.name):
                none = f"no follow-up of {config.pool} is for {dimension.name!r}"
                raise ConfigError(f"{config.name}: {none}")
        self.llm = load_llm(config.llm)
        if self.pool.strategy == "selfmap" and self.pool.generators != (self.llm.name,):
            raise NotAvailableError(
                f"the pool {config.pool} was proposed by {', '.join(self.pool.generators)}; with "
                f"SELFMAP {self.llm.name} proposes its own",
                hint="medal data followups --config embedded llms=[MODEL] --out mine.yaml, then "
                "pool=mine.yaml",
            )

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> FollowUpJudge:
        """Returns the judge of a YAML file's settings; see FollowUpConfig."""
        where = f"judge {settings.get('name', '')}".strip()
        return cls(build_config(cls.config_class, dict(settings), where=where))

    def language_models(self) -> list[LanguageModel]:
        return [self.llm]

    def signature(self) -> Signature:
        method = self.config.model_dump(exclude={"llm", "pool", "rubric", "name"})
        prompt = self.config.select.loaded().model_dump() if self.config.select else None
        return self.signed(
            revision=content_hash([method, dict(self.llm.fingerprint())]),
            base=self.llm.name,
            prompt=content_hash([self.pool.hash, prompt]),
            dtype=self.llm.fingerprint().get("dtype"),
            truncation=f"turns<{self._window_tokens()}",
            seed=self.config.seed,
        )

    # -- the hooks of Judge ----------------------------------------------------------------------

    def _window_tokens(self) -> int:
        return min(self.config.max_tokens, self.llm.context)

    def _prompt_budget(self) -> int:
        """Returns the window without room for the longest follow-up (a token has at least one
        byte)."""
        longest = max(len(f.text.encode()) for f in self.pool.follow_ups)
        return self._window_tokens() - 8 - longest

    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        for request in requests:
            # A judged turn is the last turn; else the dialogue ends after its last answer.
            end = request.dialogue.assistant_turns[-1] + 1
            messages = chat_messages(request.dialogue)[:end]
            start = first_turn_that_fits(messages, self.llm, self._prompt_budget())
            request.payload = (start, messages[start:])
            request.tokens = self.llm.count_tokens(messages[start:])
            request.truncated_turns = start

    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        window, budget = self._window_tokens(), self._prompt_budget()
        judged: dict[int, Judgement] = {}
        for i, request in enumerate(requests):
            if request.tokens > budget:
                reason = f"the last answer alone takes {request.tokens} tokens of {window}"
                judged[i] = Judgement(scores=dict.fromkeys(dimensions), failure=reason)
        left = [i for i in range(len(requests)) if i not in judged]
        selections: dict[int, FollowUpSelection] = {}
        if self.config.select is not None and left:
            named = [
                (f"{r.dialogue.id}/{r.turn}", r.payload[1]) for r in (requests[i] for i in left)
            ]
            turn = requests[left[0]].turn is not None  # all of one call are of one level
            selected = select(self.llm, named, self.pool, self.config.select, turn=turn)
            selections = dict(zip(left, selected, strict=True))
        for i, selection in selections.items():
            if selection.failure is not None:
                judged[i] = Judgement(
                    scores=dict.fromkeys(dimensions),
                    failure=selection.failure,
                    usage=selection.usage,
                    details={name: {"unread_runs": selection.unread} for name in dimensions},
                    transient=selection.transient,
                )
        left = [i for i in left if i not in judged]
        # Turns of one dialogue that begin at the same turn are a group: their conversation is read
        # once.
        units: dict[tuple[str, int], list[int]] = {}
        for i in left:
            units.setdefault((requests[i].dialogue.id, requests[i].payload[0]), []).append(i)
        groups = [
            [
                Continuation(
                    requests[i].payload[1][:end],
                    follow_up.text,
                    role="user",
                    score_eos=self.config.score_eos,
                )
                for i in unit
                for end in self._ends(requests[i])
                for follow_up in self.pool.follow_ups
            ]
            for unit in units.values()
        ]
        joint = self.config.likelihood == "joint"
        scored = self.llm.loglikelihood(groups, joint=joint) if groups else []
        width = len(self.pool.follow_ups)
        for unit, likelihoods in zip(units.values(), scored, strict=True):
            rest = iter(likelihoods)
            for i in unit:
                own = list(islice(rest, width * len(self._ends(requests[i]))))
                table = np.array([self._value(each) for each in own]).reshape(-1, width)
                judgement = self._judged(requests[i], table, selections.get(i), dimensions)
                scoring = spent([likelihood_usage(requests[i].tokens, own)])
                usage = total_usage([judgement.usage, scoring])
                judged[i] = replace(judgement, usage=usage)
        return [judged[i] for i in range(len(requests))]

    def _ends(self, request: ScoreRequest) -> list[int]:
        """Returns the numbers of messages after which the follow-ups are scored."""
        start, messages = request.payload
        if request.turn is not None:
            return [len(messages)]
        ends = [t - start + 1 for t in request.dialogue.assistant_turns if t >= start]
        return ends if self.config.answers is None else ends[-self.config.answers :]

    def _value(self, likelihood: Likelihood) -> float:
        total, tokens = likelihood.total, len(likelihood.logprobs)
        if self.config.likelihood == "joint":
            assert likelihood.prefix_logprob is not None
            total, tokens = total + likelihood.prefix_logprob, tokens + likelihood.prefix_tokens
        return total / tokens if self.config.reduce == "mean" else total

    def _judged(
        self,
        request: ScoreRequest,
        table: np.ndarray,
        selection: FollowUpSelection | None,
        names: Sequence[str],
    ) -> Judgement:
        """Returns the judgement of a request from ``table`` [ends, follow-ups], the values by
        ``_value``."""
        follow_ups, signs = self.pool.follow_ups, np.array(self.pool.signs())
        scores: dict[str, float | None] = {}
        details: dict[str, dict[str, Any]] = {}
        contributions: dict[str, Contributions] = {}
        weights = self.config.decay ** np.arange(len(table))[::-1]
        weights = weights / weights.sum()
        likeliest = np.argsort(-(weights @ table), kind="stable")[:3]
        for name in names:
            dimension, wanted = self.dimension(name), self.pool.of(name)
            common = [i for i in wanted if selection is None or i in selection.indices]
            used = np.array(common or list(wanted))
            values = np.zeros(len(table))  # positive less negative follow-ups, after each answer
            for sign in (1, -1):
                if len(columns := used[signs[used] == sign]):
                    values = values + sign * table[:, columns].mean(axis=1)
            raw = float(weights @ values)
            details[name] = {"raw": raw}
            if selection is not None:
                chosen = () if selection.empty else tuple(follow_ups[i].text for i in common)
                details[name] = known_details(
                    raw=raw, selected=len(chosen), follow_ups=chosen, unread_runs=selection.unread
                )
            scale = self.config.scale.get(name, LogisticScale())
            slope = (1 if dimension.good == "high" else -1) / scale.spread
            scores[name] = dimension.from_unit(float(expit((raw - scale.center) * slope)))
            turns = [0.0] * len(request.dialogue.turns)
            for end, value, weight in zip(self._ends(request), values, weights, strict=True):
                turn = request.payload[0] + end - 1
                turns[turn] = float(weight) * float(value - scale.center) * slope
            contributions[name] = Contributions(tuple(turns), 0.0, "logit")
        return Judgement(
            scores=scores,
            contributions=contributions,
            explanation="likeliest follow-ups: "
            + " / ".join(follow_ups[i].text for i in likeliest),
            usage={} if selection is None else selection.usage,
            details=details,
            transient=selection is not None and selection.transient,
        )
