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
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

import numpy as np
from pydantic import Field
from scipy.special import expit

from medal_judges.config import Config, build_config
from medal_judges.errors import ConfigError, NotAvailableError
from medal_judges.models.base.judge import (
    DimensionScore,
    Judge,
    ScoreRequest,
    judgement_of,
)
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
    scored_by_owner,
    usage_of,
)
from medal_judges.models.llm.settings import EMBEDDED, LLMSetting
from medal_judges.models.prompted.answers import (
    after_thinking,
    mentions_thinking,
    shown,
)
from medal_judges.models.prompted.prompt import (
    AGAIN,
    Prompt,
    load_prompt,
    resolve,
    transcript,
)
from medal_judges.records.dimension import load_rubric
from medal_judges.records.judgement import Contributions, Judgement, known_details
from medal_judges.records.signature import Signature, content_hash

MORE_TOKENS = 4  # times the tokens, for the second question
MOST_CHARACTERS = 20_000  # of an answer; a longer one is not read
_NAMES = {"user": "User", "assistant": "Chatbot", "system": "Scene"}
_MARKS = str.maketrans(dict.fromkeys("*_`#|\"'“”‘’()[]{}（）【】「」『』《》", " "))
_LINE = re.compile(
    r"(?m)^\s*[-•]\s+|(?<=\d)[.)][ \t]*$"
)  # the bullet, and the mark of its number
_BETWEEN = r"(?:[,;、] ?(?:and )?| and | |\s*\n\s*)"
_NUMBERS = re.compile(
    rf"\s*\d{{1,3}}(?:{_BETWEEN}\d{{1,3}})*\s*[.。]?\s*", re.IGNORECASE
)


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
            self.prompt,
            ("target", "dialogue", "options"),
            ("dialogue", "turn", "again"),
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
    """One shuffle of the ``options`` (``order``: their pool indices), asked once or twice.
    ``chosen``: indices into ``order``, or why the answer could not be read."""

    question: str
    order: Sequence[int]
    options: Sequence[str]
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
    texts = [follow_up.text for follow_up in pool.follow_ups]
    target = prompt.parts["turn" if turn else "dialogue"]
    runs_by_dialogue = []
    for name, messages in dialogues:
        values = {
            "target": target,
            "dialogue": transcript(messages, _NAMES, keep_breaks=True),
        }
        runs = []
        for number in range(config.runs):
            # The dialogue's own stream: neither its batch nor its place in the file changes it.
            stream = np.random.default_rng(
                [config.seed, number, int(content_hash(name), 16)]
            )
            runs.append(
                _shuffled_run(prompt, values, texts, stream.permutation(len(texts)))
            )
        runs_by_dialogue.append(runs)
    every_run = list(chain.from_iterable(runs_by_dialogue))
    _ask(llm, every_run, config.max_tokens)
    unread = [
        run for run in every_run if isinstance(run.chosen, str) and not run.failed
    ]
    for run in unread:
        run.question = f"{run.question}\n\n{prompt.parts[AGAIN]}".rstrip()
    more_tokens = min(MORE_TOKENS * config.max_tokens, llm.context // 4)
    _ask(llm, unread, max(config.max_tokens, more_tokens))
    return [_common_selection(runs, len(texts)) for runs in runs_by_dialogue]


def _shuffled_run(
    prompt: Prompt,
    values: Mapping[str, str],
    texts: Sequence[str],
    permutation: np.ndarray,
) -> _Run:
    order = permutation.tolist()
    options = [f"{number}. {texts[i]}" for number, i in enumerate(order, start=1)]
    resolved = resolve(prompt)
    values = {**values, "options": "\n".join(options)}
    question = resolved.text(resolved.layout.dialogue, values)
    return _Run(question, order, [texts[i] for i in order])


def _ask(llm: LanguageModel, runs: Sequence[_Run], max_tokens: int) -> None:
    """Asks the question of each run and reads its answer."""
    requests = [
        ChatRequest((Message("user", run.question),), max_tokens) for run in runs
    ]
    answers = llm.chat(requests) if requests else []
    for run, request, answer in zip(runs, requests, answers, strict=True):
        run.usages.append(usage_of(llm, request, answer))
        run.transient, run.failed = answer.transient, answer.finish == "failed"
        run.chosen = read_choice(answer, run.options)


def _common_selection(runs: Sequence[_Run], size: int) -> FollowUpSelection:
    """Returns what all readable ``runs`` of one dialogue chose from ``size`` follow-ups."""
    choices = []
    for run in runs:
        if not isinstance(run.chosen, str):
            choices.append({run.order[i] for i in run.chosen})
    common: set[int] = set.intersection(*choices) if choices else set()
    indices, failure = tuple(sorted(common or range(size))), None
    if not choices:
        indices, failure = (
            (),
            f"no selection of follow-ups could be read: {runs[0].chosen}",
        )
    return FollowUpSelection(
        indices=indices,
        empty=not common,
        usage=spent(chain.from_iterable(run.usages for run in runs)),
        unread=len(runs) - len(choices),
        failure=failure,
        transient=any(run.transient for run in runs),
    )


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
    numbers = _LINE.sub(
        "", unicodedata.normalize("NFKC", text.translate(_MARKS)).strip()
    )
    if _NUMBERS.fullmatch(numbers):
        chosen = sorted(int(number) for number in re.findall(r"\d{1,3}", numbers))
        for number in chosen:
            if not 1 <= number <= len(options):
                return f"option {number} of {len(options)}"
        return {number - 1 for number in chosen}
    return _choice_by_text(text, options)


def _choice_by_text(text: str, options: Sequence[str]) -> set[int] | str:
    index_by_text = {_plain(option): index for index, option in enumerate(options)}
    lines = [line for line in text.splitlines() if line.strip()]
    chosen, numbered = set(), 0
    for line in lines:
        option = re.sub(r"^\W{0,6}\d{1,3}[.):、]\s*", "", line)
        numbered += option != line
        chosen.add(index_by_text.get(_plain(option)))
    indices = {index for index in chosen if index is not None}
    # All options, some of them with a number: the numbers may be the choice.
    is_unclear = len(indices) == len(options) and 0 < numbered < len(lines)
    if is_unclear or None in chosen:
        return f"no list of options: {shown(text)}"
    return indices


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
        load_rubric(
            config.rubric, tuple(config.scale)
        )  # each scale is of a known dimension
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
        prompt = (
            self.config.select.loaded().model_dump() if self.config.select else None
        )
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
        fitting = [request for request in requests if request.tokens <= budget]
        selections = self._selections(fitting)
        scored = []
        for request in fitting:
            selection = selections.get(id(request))
            if selection is None or selection.failure is None:
                scored.append(request)
        # Turns of one dialogue that begin at the same turn: their conversation is read once.
        owners = [(request.dialogue.id, request.payload[0]) for request in scored]
        continuations = [self._continuations(request) for request in scored]
        joint = self.config.likelihood == "joint"
        rows = scored_by_owner(self.llm, continuations, owners, joint=joint)
        likelihoods = dict(zip(map(id, scored), rows, strict=True))
        judgements = []
        for request in requests:
            selection = selections.get(id(request))
            if id(request) in likelihoods:
                judgement = self._judged(
                    request, likelihoods[id(request)], selection, dimensions
                )
            elif selection is not None:
                details = {
                    name: {"unread_runs": selection.unread} for name in dimensions
                }
                judgement = Judgement(
                    scores=dict.fromkeys(dimensions),
                    failure=selection.failure,
                    usage=selection.usage,
                    details=details,
                    transient=selection.transient,
                )
            else:
                reason = (
                    f"the last answer alone takes {request.tokens} tokens of {window}"
                )
                judgement = Judgement(scores=dict.fromkeys(dimensions), failure=reason)
            judgements.append(judgement)
        return judgements

    def _selections(
        self, requests: Sequence[ScoreRequest]
    ) -> dict[int, FollowUpSelection]:
        """Returns DIET's selection for each request, by its ``id()``; empty without ``select``."""
        if self.config.select is None or not requests:
            return {}
        dialogues = [(f"{r.dialogue.id}/{r.turn}", r.payload[1]) for r in requests]
        is_turn = requests[0].turn is not None  # all of one call are of one level
        selected = select(
            self.llm, dialogues, self.pool, self.config.select, turn=is_turn
        )
        return dict(zip(map(id, requests), selected, strict=True))

    def _continuations(self, request: ScoreRequest) -> list[Continuation]:
        """Returns all follow-ups after each of the request's ends."""
        continuations = []
        for end in self._ends(request):
            messages = request.payload[1][:end]
            for follow_up in self.pool.follow_ups:
                continuations.append(
                    Continuation(
                        messages,
                        follow_up.text,
                        role="user",
                        score_eos=self.config.score_eos,
                    )
                )
        return continuations

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
            total, tokens = (
                total + likelihood.prefix_logprob,
                tokens + likelihood.prefix_tokens,
            )
        return total / tokens if self.config.reduce == "mean" else total

    def _judged(
        self,
        request: ScoreRequest,
        likelihoods: Sequence[Likelihood],
        selection: FollowUpSelection | None,
        names: Sequence[str],
    ) -> Judgement:
        """Returns the judgement of a request from the likelihoods of its continuations."""
        follow_ups = self.pool.follow_ups
        values = np.array([self._value(likelihood) for likelihood in likelihoods])
        table = values.reshape(-1, len(follow_ups))  # [ends, follow-ups]
        weights = self.config.decay ** np.arange(len(table))[::-1]
        weights = weights / weights.sum()
        likeliest = np.argsort(-(weights @ table), kind="stable")[:3]
        results = {}
        for name in names:
            results[name] = self._dimension_score(
                name, request, table, weights, selection
            )
        usage = spent([likelihood_usage(request.tokens, likelihoods)])
        if selection is not None:
            usage = total_usage([selection.usage, usage])
        texts = " / ".join(follow_ups[i].text for i in likeliest)
        return judgement_of(
            results,
            explanation=f"likeliest follow-ups: {texts}",
            usage=usage,
            transient=selection is not None and selection.transient,
        )

    def _dimension_score(
        self,
        name: str,
        request: ScoreRequest,
        table: np.ndarray,
        weights: np.ndarray,
        selection: FollowUpSelection | None,
    ) -> DimensionScore:
        """Returns the score of a dimension from the values ``table`` [ends, follow-ups] and the
        ``weights`` [ends]."""
        indices, details = list(self.pool.of(name)), dict[str, Any]()
        if selection is not None:
            common = [i for i in indices if i in selection.indices]
            details["unread_runs"] = selection.unread
            details["follow_ups"] = ()
            if not selection.empty:
                details["follow_ups"] = tuple(
                    self.pool.follow_ups[i].text for i in common
                )
            details["selected"] = len(details["follow_ups"])
            indices = common or indices
        follow_ups = self.pool.follow_ups
        values = np.zeros(
            len(table)
        )  # positive less negative follow-ups, after each end
        for sign, factor in (("positive", 1), ("negative", -1)):
            columns = [i for i in indices if follow_ups[i].sign == sign]
            if columns:
                values = values + factor * table[:, columns].mean(axis=1)
        raw = float(weights @ values)
        dimension, scale = (
            self.dimension(name),
            self.config.scale.get(name, LogisticScale()),
        )
        slope = (1 if dimension.good == "high" else -1) / scale.spread
        turns = [0.0] * len(request.dialogue.turns)
        for end, value, weight in zip(
            self._ends(request), values, weights, strict=True
        ):
            turn = request.payload[0] + end - 1
            turns[turn] = float(weight) * float(value - scale.center) * slope
        return DimensionScore(
            dimension.from_unit(float(expit((raw - scale.center) * slope))),
            details=known_details(raw=raw, **details),
            contributions=Contributions(tuple(turns), 0.0, "logit"),
        )
