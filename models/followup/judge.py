"""The follow-up judge: scores a dialogue by how likely a user is to react in certain ways (FED,
FULL, DIET).

A dialogue is bad if discontented follow-ups are likely after it, and good if contented ones are. A
file of configs/judges/ sets the follow-ups and how they are combined."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    as_judgement,
)
from medal_judges.models.followup.pool import FollowUpPool, load_pool
from medal_judges.models.llm.cost import Usage, sum_to_record, sum_usage_records
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
    Message,
    chat_messages,
    failed_completion,
    first_kept_index,
    likelihood_usage,
    score_groups,
)
from medal_judges.models.llm.settings import EMBEDDED, LLMSetting
from medal_judges.models.prompted.answers import UnreadError, answer_start, snippet
from medal_judges.models.prompted.prompt import Prompt, load_prompt, transcript
from medal_judges.records.dimension import load_rubric
from medal_judges.records.judgement import Contributions, Judgement, make_details
from medal_judges.records.signature import Signature, content_hash

# DIET's selection (section 4.1): the model chooses RUNS times from shuffled options, and the
# follow-ups in all choices count. The paper states no temperature, so answers are greedy.
RUNS = 3
SELECTION_TOKENS = 160  # of an answer
MAX_TOKENS = 4096  # of a dialogue with its follow-up
AROUND_FOLLOW_UP = 8  # tokens of a chat template around a follow-up
MORE_TOKENS = 4  # times the tokens, for the second question
MOST_CHARACTERS = 20_000  # of an answer; a longer one is not read
SELECTION_PROMPT = "prompts/diet_selection"
SELECTION_VALUES = ("turn", "dialogue", "options")
_NAMES = {"user": "User", "assistant": "Chatbot", "system": "Scene"}
_NUMBER = re.compile(r"^\W{0,6}\d{1,3}[.):、]\s*")  # before an option
_RANGE = re.compile(r"\d[ \t]*[-–.:/][ \t]*\d")  # no list of single numbers


@dataclass(frozen=True, slots=True)
class FollowUpSelection:
    """The follow-ups (possible next user turns) that fit one dialogue, as chosen by a language
    model that is asked several times.

    Attributes:
        indices: Indices in the pool of follow-ups: those that the model chose every time. If there
            are none, the indices of the whole pool.
        empty: Whether there is no follow-up that the model chose every time.
        usage: The tokens and costs of all questions together, such as ``{"tokens": 15,
            "input_tokens": 12, ...}``.
        failure: Why an answer of the model could not be read, or None.
        transient: Whether a retry may succeed, because the model failed for a passing reason, such
            as a server that is down.
    """

    indices: tuple[int, ...]
    empty: bool
    usage: dict[str, float]
    failure: str | None = None
    transient: bool = False


@dataclass(slots=True)
class _Run:
    """One question to a model (which follow-ups fit a dialogue) and its answer.

    The fields from ``answer`` on are set when the model has answered.

    Attributes:
        question: The text of the question.
        order: The follow-ups' indices in the pool, in the shuffled order of the question.
        options: The follow-ups' texts, in the same order.
        answer: The model's answer.
        chosen: The indices in the pool that the model chose, or None if the answer could not be
            read.
        reason: Why the answer could not be read. Empty if it could.
        usages: The tokens and costs of each answer, two if the question was asked twice.
    """

    question: str
    order: Sequence[int]
    options: Sequence[str]
    answer: Completion = field(default_factory=lambda: failed_completion("not asked"))
    chosen: set[int] | None = None
    reason: str = ""
    usages: list[Usage] = field(default_factory=list)


def select_follow_ups(
    llm: LanguageModel,
    dialogues: Sequence[tuple[str, Sequence[Message]]],
    pool: FollowUpPool,
    *,
    turn: bool,
    seed: int = 0,
    runs: int = RUNS,
) -> list[FollowUpSelection]:
    """Asks ``llm`` several times which follow-ups (possible next user turns) fit each dialogue.

    If an answer cannot be read, the question is asked once more, with a higher token limit.

    Args:
        dialogues: The (id, messages) of each dialogue.
        pool: The follow-ups to choose from.
        turn: Whether the question is about the last assistant turn. If false, it is about the whole
            dialogue.
        seed: Seeds the shuffled order in which a question lists the follow-ups, together with the
            dialogue's id.
        runs: The number of times that the model is asked about each dialogue.

    Returns:
        A selection for each dialogue: the follow-ups that were chosen every time, or the whole pool
            if there are none. It has a ``failure`` if an answer could not be read.
    """
    prompt = load_prompt(SELECTION_PROMPT, SELECTION_VALUES)
    runs_by_dialogue = []
    for name, messages in dialogues:
        dialogue = transcript(messages, _NAMES, keep_breaks=True)
        values = {"turn": turn, "dialogue": dialogue}
        shuffled = []
        for number in range(runs):
            # The dialogue's own stream: neither its batch nor its place in the file changes it.
            seeds = [seed, number, int(content_hash(name), 16)]
            shuffled.append(_make_shuffled_run(prompt, values, pool, seeds))
        runs_by_dialogue.append(shuffled)
    every_run = list(chain.from_iterable(runs_by_dialogue))
    _ask_runs(llm, every_run, SELECTION_TOKENS)
    unread = []
    for run in every_run:
        if run.chosen is None and not run.answer.failed:
            again = prompt.render("again", {})
            run.question = f"{run.question}\n\n{again}".rstrip()
            unread.append(run)
    more_tokens = min(MORE_TOKENS * SELECTION_TOKENS, llm.context // 4)
    _ask_runs(llm, unread, max(SELECTION_TOKENS, more_tokens))
    return [_common_or_all_follow_ups(shuffled) for shuffled in runs_by_dialogue]


def _make_shuffled_run(
    prompt: Prompt,
    values: Mapping[str, object],
    pool: FollowUpPool,
    seeds: Sequence[int],
) -> _Run:
    """Returns a question to a model that lists the follow-ups of ``pool`` in shuffled order.

    Args:
        prompt: The prompt with the question's template.
        values: Name in the template -> text, such as ``{"dialogue": "User: Hi"}``.
        seeds: Numbers that together seed the order.
    """
    generator = np.random.default_rng(seeds)
    order = generator.permutation(len(pool.follow_ups)).tolist()
    options = [pool.follow_ups[index].text for index in order]
    lines = [f"{number}. {text}" for number, text in enumerate(options, start=1)]
    values = {**values, "options": "\n".join(lines)}
    return _Run(prompt.render("user", values), order, options)


def _ask_runs(llm: LanguageModel, runs: Sequence[_Run], max_tokens: int) -> None:
    """Sends the question of each of ``runs`` to ``llm``, and stores the answers in ``runs``.

    Args:
        max_tokens: The maximum number of tokens of an answer.
    """
    if not runs:
        return
    requests = []
    for run in runs:
        requests.append(ChatRequest((Message("user", run.question),), max_tokens))
    answers = llm.chat(requests)
    for run, answer in zip(runs, answers, strict=True):
        run.usages.append(answer.usage)
        run.answer = answer
        try:
            run.chosen = {run.order[i] for i in read_choice(answer, run.options)}
        except UnreadError as error:
            run.reason = str(error)


def _common_or_all_follow_ups(runs: Sequence[_Run]) -> FollowUpSelection:
    """Returns the follow-ups that were chosen in all ``runs`` about one dialogue, or all follow-ups
    if there are none."""
    every_index = set(runs[0].order)
    common = set(every_index)
    failure = None
    for number, run in enumerate(runs, start=1):
        if run.chosen is None:
            failure = (
                f"selection {number} of {len(runs)} could not be read: {run.reason}"
            )
            break
        common &= run.chosen
    return FollowUpSelection(
        indices=tuple(sorted(common or every_index)),
        empty=not common,
        usage=sum_to_record(chain.from_iterable(run.usages for run in runs)),
        failure=failure,
        transient=any(run.answer.transient for run in runs),
    )


def read_choice(completion: Completion, options: Sequence[str]) -> set[int]:
    """Returns the indices (from 0) of the ``options`` that a model chooses in ``completion``.

    The answer lists numbers counted from 1 (``2, 4 and 5``), or has the text of one option on each
    line. For the answer ``none`` the result is empty.

    Raises:
        UnreadError: The answer cannot be read.
    """
    if completion.failed:
        raise UnreadError(completion.failure or "no answer")
    if completion.finish == "length":
        raise UnreadError("the answer was cut at its token limit")
    text = completion.text[answer_start(completion.text) :].strip()
    if len(text) > MOST_CHARACTERS:
        raise UnreadError(f"an answer of {len(text)} characters")
    if text.rstrip(".").casefold() == "none":
        return set()
    index_by_text = {
        _normalise_words(option): index for index, option in enumerate(options)
    }
    lines = {_normalise_words(_NUMBER.sub("", line)) for line in text.splitlines()}
    if lines <= index_by_text.keys():
        return {index_by_text[line] for line in lines}
    text = unicodedata.normalize("NFKC", text)
    numbers = set(map(int, re.findall(r"\d{1,3}", text)))
    has_words = re.search(r"[^\W\d_]", re.sub(r"\band\b", "", text))
    if has_words or not numbers or _RANGE.search(text):
        raise UnreadError(f"no list of numbers: {snippet(text)}")
    if not numbers <= set(range(1, len(options) + 1)):
        raise UnreadError(f"no numbers of options: {snippet(text)}")
    return {number - 1 for number in numbers}


def _normalise_words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


logger = logging.getLogger(__name__)

# Beyond it scores differ by less than 1e-5 of the scale, and would be ties.
MOST_LOGIT = 12


class LogisticScale(Config):
    """The logistic map from a raw value (a difference of log-likelihoods) to the scale of
    a dimension.

        score = low + (high - low) * sigmoid((raw - center) / spread)

    ``low`` and ``high`` are the ends of the scale.

    A higher raw value always means a better dialogue. For a dimension whose low scores are good,
    the sigmoid's argument is negated, so that the score falls.

    Attributes:
        center: The raw value that is mapped to the middle of the scale.
        spread: The difference of raw values that changes the sigmoid's argument by 1.
    """

    center: float = 0.0
    spread: float = Field(default=1.0, gt=0)


class FollowUpConfig(Config):
    """The settings of a follow-up judge, which scores by the likelihoods of follow-ups (possible
    next user turns). Its file in configs/judges/ has ``family: followup``.

    Attributes:
        name: The name of the judge.
        llm: The language model that computes the likelihoods, such as a Hub id.
        rubric: A file that defines the dimensions, or the name of a shipped one, such as ``fed``.
        dimensions: The dimensions of the rubric to score. Empty means all.
        followups: A file of follow-ups, or a shipped name such as ``followups/fed``.
        draw: How many follow-ups to draw at random, equally many from each model that proposed
            them. None takes all.
        seed: The seed of ``draw``. With ``select`` it also seeds the order in which the model sees
            the follow-ups.
        likelihood: ``conditional``: the likelihood of a follow-up given the dialogue. ``joint``:
            the likelihood of dialogue and follow-up together, as in FED.
        reduce: Whether log-probabilities of tokens are averaged (``mean``) or added up (``sum``).
        answers: The number of assistant turns, counted from the end of the dialogue, after which
            the likelihoods of follow-ups are computed. None is all. If a single turn is judged,
            only this turn counts.
        decay: An assistant turn has this share (such as 0.8) of the weight of the next assistant
            turn. With 1 all weigh the same.
        select: Whether to ask the model first which follow-ups fit the dialogue, as in DIET. Then
            only these count. If false, all follow-ups count.
        scale: Dimension -> the map from raw values (differences of log-likelihoods) to scores, such
            as ``{"overall": {"center": 3.0, "spread": 0.5}}``.
    """

    name: str
    llm: LLMSetting = EMBEDDED
    rubric: str
    dimensions: tuple[str, ...] = ()
    followups: str
    draw: int | None = Field(default=None, ge=1)
    seed: int = 0
    likelihood: Literal["conditional", "joint"] = "conditional"
    reduce: Literal["mean", "sum"] = "mean"
    answers: int | None = Field(default=1, ge=1)
    decay: float = Field(default=1.0, gt=0, le=1)
    select: bool = False
    scale: Mapping[str, LogisticScale] = {}


@dataclass(slots=True)
class _View:
    """What the model reads of a dialogue, and the follow-ups it selects for it.

    The messages are set first. ``selection`` is filled in later, if the judge has the setting
    ``select``.

    Attributes:
        start: How many of the oldest messages are dropped to fit the model's context.
        messages: The remaining messages.
        selection: The follow-ups that a model selected for the dialogue, or None.
        failure: Why the dialogue cannot be scored, or None.
    """

    start: int
    messages: tuple[Message, ...]
    selection: FollowUpSelection | None = None
    failure: str | None = None


class FollowUpJudge(Judge):
    """A judge that scores dialogues by the likelihoods of follow-ups, which are possible
    next user turns.

    The raw value of a dimension is the mean log-likelihood of its positive follow-ups, minus the
    mean log-likelihood of its negative follow-ups. A logistic function maps it to the dimension's
    scale.

    Args:
        config: The settings, which name the language model and the file of follow-ups.

    Raises:
        ConfigError: A dimension is unknown or has no follow-up, or ``draw`` follow-ups cannot be
            drawn evenly from the file.
        NotAvailableError: The language model is not available. Or the file's strategy is
            ``selfmap``, and another model proposed its follow-ups.
    """

    family = "followup"
    config_class = FollowUpConfig
    window = 16  # dialogues: seconds to a minute of work that a kill can lose

    def __init__(self, config: FollowUpConfig) -> None:
        self.config, self.name = config, config.name
        # Each scale is of a known dimension.
        load_rubric(config.rubric, tuple(config.scale))
        self.dimensions = load_rubric(config.rubric, config.dimensions)
        self.pool = load_pool(config.followups)
        if config.draw is not None:
            self.pool = self.pool.draw_evenly(config.draw, config.seed)
        for dimension in self.dimensions:
            if not self.pool.indices_for(dimension.name):
                none = f"no follow-up of {config.followups} is for {dimension.name!r}"
                raise ConfigError(f"{config.name}: {none}")
        # dimensions whose scale does not fit, and was warned of
        self._far: set[str] = set()
        self.llm = load_llm(config.llm)
        # The tokens of a dialogue with a follow-up, and without the longest follow-up (a token has
        # at least one byte).
        self.room = min(MAX_TOKENS, self.llm.context)
        longest = max(len(f.text.encode()) for f in self.pool.follow_ups)
        self.budget = self.room - AROUND_FOLLOW_UP - longest
        if self.pool.strategy == "selfmap" and self.pool.generators != (self.llm.name,):
            raise NotAvailableError(
                f"{config.followups} was proposed by {', '.join(self.pool.generators)}; with "
                f"SELFMAP {self.llm.name} proposes its own",
                hint="Type: medal data followups --config embedded llms=[MODEL] --out mine.yaml. "
                "Then use followups=mine.yaml",
            )

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> FollowUpJudge:
        """Returns the judge that ``settings`` describe.

        Args:
            settings: The content of a YAML file, such as ``{"name": "mine", "rubric": "fed",
                "followups": "followups/fed"}``.

        Raises:
            ConfigError: A field is wrong, or the language model is not available.
        """
        where = f"judge {settings.get('name', '')}".strip()
        return cls(build_config(cls.config_class, dict(settings), where=where))

    def language_models(self) -> list[LanguageModel]:
        return [self.llm]

    def signature(self) -> Signature:
        config, fingerprint = self.config, dict(self.llm.identity())
        method = config.model_dump(exclude={"llm", "followups", "rubric", "name"})
        prompt = None
        if config.select:
            prompt = load_prompt(SELECTION_PROMPT, SELECTION_VALUES).hash
        return self.make_signature(
            revision=content_hash([method, fingerprint]),
            base=self.llm.name,
            prompt=content_hash([self.pool.hash, prompt]),
            dtype=fingerprint.get("dtype"),
            truncation=f"whole dialogue or up to the judged turn, turns<{self.room}",
            seed=config.seed,
        )

    # -- the hooks of Judge ----------------------------------------------------------------------

    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        for request in requests:
            messages = chat_messages(request.dialogue)
            start = first_kept_index(messages, self.llm, self.budget)
            request.payload = view = _View(start, messages[start:])
            request.tokens = self.llm.count_tokens(view.messages)
            request.truncated_turns = start
            if request.tokens > self.budget:
                view.failure = (
                    f"the last turn alone takes {request.tokens} tokens of {self.room}"
                )

    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        self._select_follow_ups([r for r in requests if r.payload.failure is None])
        owners, continuations = [], []
        for request in requests:
            if request.payload.failure is None:
                # Turns of one dialogue that begin at the same turn: their conversation is read
                # once.
                owners.append((request.dialogue.id, request.payload.start))
                continuations.append(self._build_continuations(request))
        joint = self.config.likelihood == "joint"
        scored = iter(score_groups(self.llm, continuations, owners, joint=joint))
        judgements = []
        for request in requests:
            view = request.payload
            if view.failure is None:
                judgement = self._build_judgement(request, next(scored), dimensions)
            else:
                judgement = Judgement(
                    scores=dict.fromkeys(dimensions), failure=view.failure
                )
            if view.selection is not None:
                judgement = replace(
                    judgement,
                    usage=sum_usage_records([view.selection.usage, judgement.usage]),
                    transient=view.selection.transient,
                )
            judgements.append(judgement)
        return judgements

    def _select_follow_ups(self, requests: Sequence[ScoreRequest]) -> None:
        """Asks the model which follow-ups fit each of ``requests``, and stores the selections in
        them.

        Does nothing without the setting ``select``.
        """
        if not self.config.select or not requests:
            return
        dialogues = []
        for request in requests:
            name = f"{request.dialogue.id}/{request.turn}"
            dialogues.append((name, request.payload.messages))
        is_turn = requests[0].turn is not None  # all of one call are of one level
        selections = select_follow_ups(
            self.llm, dialogues, self.pool, turn=is_turn, seed=self.config.seed
        )
        for request, selection in zip(requests, selections, strict=True):
            request.payload.selection = selection
            request.payload.failure = selection.failure

    def _build_continuations(self, request: ScoreRequest) -> list[Continuation]:
        """Returns the texts to score for ``request``: every follow-up after each scored assistant
        turn."""
        continuations = []
        for end in self._message_counts_by_answer(request).values():
            messages = request.payload.messages[:end]
            # The end-of-turn token would measure how short the reply is.
            for follow_up in self.pool.follow_ups:
                continuations.append(
                    Continuation(messages, follow_up.text, "user", score_eos=False)
                )
        return continuations

    def _message_counts_by_answer(self, request: ScoreRequest) -> dict[int, int]:
        """Returns how many messages come before the follow-ups, for each assistant turn that is
        scored.

        Returns:
            Index of the assistant turn in the dialogue -> number of messages, such as ``{1: 2, 3:
                4}``. The last assistant turn has the number of all messages.
        """
        view, answers = request.payload, request.dialogue.assistant_turns
        ends = {}
        for turn in answers:
            if turn >= view.start:
                ends[turn] = turn + 1 - view.start
        ends[answers[-1]] = len(view.messages)
        count = len(ends)
        if request.turn is not None:
            count = 1
        elif self.config.answers is not None:
            count = self.config.answers
        return dict(list(ends.items())[-count:])

    def _reduce_likelihood(self, likelihood: Likelihood) -> float:
        """Returns the log-probability of a follow-up, averaged over its tokens or added up, as the
        setting ``reduce`` says. With ``likelihood: joint`` the tokens of the dialogue count too."""
        total, tokens = likelihood.total, len(likelihood.logprobs)
        if self.config.likelihood == "joint":
            assert likelihood.prefix_logprob is not None
            total += likelihood.prefix_logprob
            tokens += likelihood.prefix_tokens
        if self.config.reduce == "mean":
            return total / tokens
        return total

    def _build_judgement(
        self,
        request: ScoreRequest,
        likelihoods: Sequence[Likelihood],
        names: Sequence[str],
    ) -> Judgement:
        """Returns the judgement of ``request``, computed from likelihoods.

        Args:
            likelihoods: The likelihood of each follow-up after the first scored assistant turn,
                then after the second, and so on.
            names: The dimensions to score.
        """
        follow_ups = self.pool.follow_ups
        values = np.array(
            [self._reduce_likelihood(likelihood) for likelihood in likelihoods]
        )
        table = values.reshape(-1, len(follow_ups))  # [ends, follow-ups]
        weights = self.config.decay ** np.arange(len(table))[::-1]
        weights = weights / weights.sum()
        likeliest = np.argsort(-(weights @ table), kind="stable")[:3]
        results = {}
        for name in names:
            results[name] = self._dimension_score(name, request, table, weights)
        texts = " / ".join(follow_ups[i].text for i in likeliest)
        return as_judgement(
            results,
            explanation=f"likeliest follow-ups: {texts}",
            usage=sum_to_record([likelihood_usage(request.tokens, likelihoods)]),
        )

    def _dimension_score(
        self, name: str, request: ScoreRequest, table: np.ndarray, weights: np.ndarray
    ) -> DimensionScore:
        """Returns the score of ``request`` on one dimension.

        Args:
            name: The dimension.
            table: The log-likelihood of each follow-up after each scored assistant turn, [answers,
                follow-ups].
            weights: The weight of each scored assistant turn, [answers]. They add up to 1.
        """
        selection, follow_ups = request.payload.selection, self.pool.follow_ups
        indices: Sequence[int] = self.pool.indices_for(name)
        details: dict[str, Any] = {}
        if selection is not None:
            common = [index for index in indices if index in selection.indices]
            texts = []
            if not selection.empty:
                texts = [follow_ups[index].text for index in common]
            details = {"follow_ups": texts, "selected": len(texts)}
            # All remain if none of them is selected.
            indices = common or indices
        # Positive less negative follow-ups, after each end.
        values = np.zeros(len(table))
        positive = [i for i in indices if follow_ups[i].sign == "positive"]
        negative = [i for i in indices if follow_ups[i].sign == "negative"]
        if positive:
            values += table[:, positive].mean(axis=1)
        if negative:
            values -= table[:, negative].mean(axis=1)
        raw = float(weights @ values)
        dimension = self.dimension(name)
        scale = self.config.scale.get(name, LogisticScale())
        slope = 1 / scale.spread
        if dimension.good == "low":
            slope = -slope
        turns = np.zeros(len(request.dialogue.turns))
        answers = list(self._message_counts_by_answer(request))
        turns[answers] = weights * (values - scale.center) * slope
        logit = (raw - scale.center) * slope
        if abs(logit) > MOST_LOGIT and name not in self._far:
            self._far.add(name)
            logger.warning(
                "%s: raw values are too far from the center %g: scores are equal. Set "
                "scale.%s.center and scale.%s.spread to the mean and deviation of details.%s.raw",
                *(name, scale.center, name, name, name),
            )
        return DimensionScore(
            dimension.from_unit(float(expit(logit))),
            details=make_details(raw=raw, **details),
            contributions=Contributions(tuple(turns.tolist()), 0.0, "logit"),
        )
