"""Judges that ask a language model the questions of a prompt file.

MEDAL, ORALIS, the DSTC-12 baseline and MEEP are files of configs/judges/ for PromptedJudge. If the
prompt's layout puts the conversation before the text that differs between questions, a local
language model reads the conversation once for all questions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from medal_judges.config import Config, build_config
from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import Judge, ScoreRequest
from medal_judges.models.llm.cost import Usage, spent
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
    Message,
    likelihood_usage,
    oldest_kept,
    usage_of,
)
from medal_judges.models.llm.server.wire import ServerStopError
from medal_judges.models.llm.settings import EMBEDDED, LLMSetting
from medal_judges.models.prompted.answers import Answer, AnswerFormat, after_thinking, read_answers
from medal_judges.models.prompted.builder import (
    Context,
    DimensionValues,
    PromptBuilder,
    PromptQuestion,
    PromptView,
    load_examples,
    shorten,
    view_of,
)
from medal_judges.models.prompted.prompt import AGAIN, fence_note, fill, load_prompt, resolve
from medal_judges.models.prompted.ratings import (
    Ratings,
    from_alternatives,
    from_logprobs,
    to_judgement,
)
from medal_judges.records.dimension import load_rubric
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import Signature, content_hash

if TYPE_CHECKING:
    from typing_extensions import Self

# The signature hashes the content of files, not their paths.
FILES = {"prompt", "rubric", "examples", "summary_prompt", "steps"}


class BasePromptedConfig(Config):
    """The prompt, the language model, and how much of a dialogue the prompt shows.

    ``name``: the judge's name. ``llm``: its language model. ``rubric``: a file or a shipped name.
    ``dimensions``: those of the rubric to score (none: all). ``prompt``: a file or a shipped name.
    ``variant`` and ``layout``: those of the prompt's file to use (None: the file's default).

    ``language``: the prompt's language, or ``auto`` for the dialogue's own if the file has it.
    ``role``: a name in the prompt's roles, ``none``, or by default the file's choice by dimension.
    ``fence``: put turns between marks that no turn can close or imitate (prompt.py). ``context``:
    the part of the dialogue that the prompt shows; ``summary_*`` shortens the assistant's turns of
    more than ``summary_from`` words in dialogues of more than ``summary_dialogue`` words, by the
    model itself or ``summary_llm``, with the prompt ``summary_prompt``. ``examples``: a file of
    scored dialogues for variants that show some, each as its last ``excerpt_turns`` turns (0: its
    summary), drawn by ``seed``.
    """

    name: str
    llm: LLMSetting = EMBEDDED
    prompt: str
    variant: str | None = None
    layout: str | None = None
    language: str = "en"
    role: str | None = None
    rubric: str
    dimensions: tuple[str, ...] = ()
    fence: bool = True
    context: Context = "full"
    summary_from: int = Field(default=200, ge=1)
    summary_dialogue: int = Field(default=3000, ge=0)
    summary_prompt: str = "prompts/shorten"
    summary_llm: LLMSetting | None = None
    examples: str = "prompts/examples"
    excerpt_turns: int = Field(default=6, ge=0)
    seed: int = 0


class BasePromptedJudge(Judge):
    """Builds the prompts, truncates and shortens dialogues, and signs; a family sends the questions
    and reads the answers (``_score_fitting``). An answer takes at most ``answer_tokens`` (and half
    of the model's window, which is the limit for None), a prompt at most ``prompt_tokens``."""

    config_class: ClassVar[type[BasePromptedConfig]]
    token_budget = 65536  # of one call; a local model divides it by its own memory
    window = 16  # some seconds to a minute of work, which a kill can lose

    def __init__(
        self,
        config: BasePromptedConfig,
        *,
        answer_tokens: int | None,
        prompt_tokens: int | None,
        answer: AnswerFormat | None = None,
        values: DimensionValues | None = None,
    ) -> None:
        self.base_config, self.name, self.values = config, config.name, values
        self.dimensions = load_rubric(config.rubric, config.dimensions)
        self.prompt = load_prompt(config.prompt)
        languages, examples = [config.language], None
        if config.language == "auto":
            languages = ["en", *self.prompt.languages]
        self.builders: dict[str, PromptBuilder] = {}
        for language in languages:
            resolved = resolve(
                self.prompt,
                variant=config.variant,
                layout=config.layout,
                language=language,
                answer=answer,
            )
            if resolved.examples and examples is None:
                examples = load_examples(config.examples)
            self.builders[language] = PromptBuilder(
                resolved,
                self.dimensions,
                config.role,
                examples=examples or (),
                excerpt=config.excerpt_turns,
                seed=config.seed,
                values=values,
                fence=fence_note(language) if config.fence else None,
            )
        shortens = config.context.startswith("summary_")
        self.shortening = resolve(load_prompt(config.summary_prompt)) if shortens else None
        self.llm: LanguageModel = load_llm(config.llm)
        summary = config.summary_llm if shortens else None
        self.shortener = self.llm if summary is None else load_llm(summary)
        self.answer_tokens = min(answer_tokens or self.llm.context, self.llm.context // 2)
        left = self.llm.context - self.answer_tokens
        self.prompt_budget = min(left, prompt_tokens or left)

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> Self:
        """A judge of configs/judges/; fields as in its config. Raises ConfigError."""
        config = build_config(cls.config_class, dict(settings), where=f"{cls.family} judge")
        return cls(config)  # type: ignore[call-arg]

    def language_models(self) -> list[LanguageModel]:
        return [self.llm, self.shortener]

    def signature(self) -> Signature:
        from medal_judges import __version__

        fingerprint = dict(self.llm.fingerprint())
        exclude = {"name", "llm", "summary_llm", "seed", *FILES}
        settings = self.base_config.model_dump(exclude=exclude)
        if self.shortener is not self.llm:
            settings["summary_llm"] = [self.shortener.name, dict(self.shortener.fingerprint())]
        texts = {language: builder.resolved.hash for language, builder in self.builders.items()}
        notes = [builder.fence for builder in self.builders.values()]
        shortening = self.shortening.hash if self.shortening else None
        first = self.builder(None)
        examples = [e.model_dump() for e in first.examples]
        values = self.values or (lambda dimension, aspect: {})
        more = [dict(values(d, first.aspect(d))) for d in self.dimensions]
        return Signature(
            judge=self.name,
            revision=content_hash([settings, fingerprint]),
            base=self.llm.name,
            prompt=content_hash([texts, notes, shortening, examples, more]),
            rubric=content_hash([d.to_record() for d in self.dimensions]),
            dtype=fingerprint.get("dtype"),
            truncation=f"oldest turns beyond {self.prompt_budget} tokens",
            seed=self.base_config.seed,
            version=__version__,
        )

    def builder(self, request: ScoreRequest | None) -> PromptBuilder:
        """Returns the builder for the dialogue's language, or the judge's first builder."""
        first = next(iter(self.builders.values()))
        return first if request is None else self.builders.get(request.dialogue.lang, first)

    # -- what the prompt shows -------------------------------------------------------------------

    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        config = self.base_config
        for request in requests:
            apart = self.builder(request).response_apart
            request.payload = view_of(request.dialogue, request.turn, config.context, apart=apart)
        if self.shortening is not None:
            shorten(
                [request.payload for request in requests],
                self.shortener,
                self.shortening,
                config.context,
                longest=config.summary_from,
                dialogue=config.summary_dialogue,
                fence=config.fence,
            )
        budget = self.prompt_budget
        for request in requests:  # drop whole oldest turns until the longest prompt fits
            builder, view = self.builder(request), request.payload
            start, longest = 0, builder.questions[0]
            for question in builder.questions:
                tokens = self.llm.count_tokens(builder.messages(question, view))
                if question is longest or tokens > request.tokens:
                    longest, request.tokens = question, tokens
            if request.tokens > budget:
                most = len(view.turns) - (view.response is None)
                start, request.tokens = self._first_that_fits(builder, longest, view, most)
            if request.tokens > budget and view.failure is None:
                view.failure = (
                    f"a prompt of {request.tokens} tokens with the last turn alone; with an answer "
                    f"of {self.answer_tokens} tokens {budget + self.answer_tokens} fit"
                )
            request.truncated_turns = sum(turn is not None for turn in view.turns[:start])
            view.turns, view.start = view.turns[start:], start

    def _first_that_fits(
        self, builder: PromptBuilder, question: PromptQuestion, view: PromptView, most: int
    ) -> tuple[int, int]:
        """(the first turn, at most number ``most``, with which the prompt fits; its tokens)."""

        def length(start: int) -> int:
            return self.llm.count_tokens(builder.messages(question, view, start))

        start = oldest_kept(most, lambda k: length(k) <= self.prompt_budget)
        return start, length(start)

    def _units(self, requests: Sequence[ScoreRequest]) -> list[list[int]]:
        # Turns of one dialogue that begin at the same turn: their prompts share that beginning.
        units: dict[object, list[int]] = {}
        for i, request in enumerate(requests):
            units.setdefault((request.dialogue.id, request.payload.start), []).append(i)
        return list(units.values())

    # -- questions -------------------------------------------------------------------------------

    def questions(self, request: ScoreRequest, dimensions: Sequence[str]) -> list[PromptQuestion]:
        """One question for each of ``dimensions`` in order, or the one for all together."""
        builder = self.builder(request)
        if builder.resolved.layout.ask == "together":
            return list(builder.questions)
        by_name = {question.dimensions[0].name: question for question in builder.questions}
        return [by_name[name] for name in dimensions]

    def messages(self, request: ScoreRequest, question: PromptQuestion) -> tuple[Message, ...]:
        return self.builder(request).messages(question, request.payload)

    def answer_likelihoods(
        self,
        requests: Sequence[ScoreRequest],
        dimensions: Sequence[str],
        texts: Mapping[str, Sequence[str]],
        score_eos: Mapping[str, bool],
    ) -> list[dict[str, tuple[list[Likelihood], Usage]]]:
        """For each request, dimension -> the likelihoods of its ``texts`` as the answer to its
        question, and their usage. ``score_eos``: whether they include the end of the turn."""
        asked, owners = [], []
        for request in requests:
            for question in self.questions(request, dimensions):
                name, messages = question.dimensions[0].name, self.messages(request, question)
                prefill = self.builder(request).prefill(question)
                eos, own = score_eos[name], texts[name]
                asked.append([Continuation(messages, t, "assistant", prefill, eos) for t in own])
                owners.append((request.dialogue.id, request.payload.start))
        answers = iter(grouped_likelihoods(self.llm, asked, owners))
        return [{name: next(answers) for name in dimensions} for _ in requests]

    def chat(self, asked: Sequence[ChatRequest]) -> list[tuple[Completion, Usage]]:
        completions = self.llm.chat(asked) if asked else []
        pairs = zip(asked, completions, strict=True)
        return [(completion, usage_of(self.llm, chat, completion)) for chat, completion in pairs]

    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        fitting = [request for request in requests if request.payload.failure is None]
        scored = iter(self._score_fitting(fitting, dimensions) if fitting else ())
        judgements = []
        for request in requests:
            view: PromptView = request.payload
            judgement = Judgement(scores=dict.fromkeys(dimensions), failure=view.failure)
            judgement = next(scored) if view.failure is None else judgement
            own = dict(judgement.usage)
            usage = {k: view.usage.get(k, 0) + own.get(k, 0.0) for k in view.usage | own}
            judgements.append(
                replace(
                    judgement,
                    usage=usage or {"tokens": 0.0},
                    transient=judgement.transient or view.transient,
                    left_out_turns=view.left_out,
                    shortened_turns=view.shortened,
                )
            )
        return judgements

    @abstractmethod
    def _score_fitting(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        """One Judgement per request, in order; all of them fit the model."""


def grouped_likelihoods(
    llm: LanguageModel, asked: Sequence[Sequence[Continuation]], owners: Sequence[object]
) -> list[tuple[list[Likelihood], Usage]]:
    """The likelihoods of each entry of ``asked``, and their usage. Entries of one owner (their
    dialogue) are one group: the model reads shared beginnings once, and a prompt counts once."""
    groups: dict[object, list[Continuation]] = {}
    for each, owner in zip(asked, owners, strict=True):
        groups.setdefault(owner, []).extend(each)
    filled = {owner: group for owner, group in groups.items() if group}
    scored = llm.loglikelihood(list(filled.values())) if filled else []
    rest = {owner: iter(likelihoods) for owner, likelihoods in zip(filled, scored, strict=True)}
    prompts: set[tuple[object, tuple[Message, ...]]] = set()
    answered: list[tuple[list[Likelihood], Usage]] = []
    for each, owner in zip(asked, owners, strict=True):
        likelihoods = [next(rest[owner]) for _ in each]
        read = 0
        if each and (owner, each[0].messages) not in prompts:
            prompts.add((owner, each[0].messages))
            read = llm.count_tokens(each[0].messages)
        answered.append((likelihoods, likelihood_usage(read, likelihoods)))
    return answered


def tells_likelihoods(llm: LanguageModel) -> bool:
    """Whether the backend returns the likelihood of a text as the model's answer in the chat. A
    server without ``llm.tokenizer`` (its fingerprint says so) does not."""
    if llm.fingerprint().get("likelihood") == "transcript":
        return False
    try:
        llm.loglikelihood([[Continuation((Message("user", "Hello"),), "Hello", score_eos=False)]])
    except ServerStopError:
        raise
    except ConfigError:
        return False
    return True


# -- the judge that asks for numbers ---------------------------------------------------------------

ALTERNATIVES = 20  # the most that an API reports
_LONGEST_NUMBER = 40  # characters of a reply that is a number alone


class PromptedConfig(BasePromptedConfig):
    """How a prompted judge asks and reads.

    ``answer``: the format (default: the prompt file's). The score is the mean of ``repeats``
    answers with the seeds ``seed``, ``seed`` + 1, .... ``enforce``: hold the answer to a JSON
    schema if the backend can; ``comment_chars`` bounds each comment in it. ``ask_again``: ask once
    more for the number alone if the answer about one dimension has none that can be read.
    ``max_tokens`` of an answer: None sends a server no limit. ``max_prompt_tokens``: whole oldest
    turns are left out of a longer prompt (None: the model's window). ``temperature`` 0 is greedy;
    ``top_p`` is the share of the likeliest tokens that may be drawn.
    ``expected``: the source of the probability-weighted rating: the ``alternatives`` to the token
    of the number, the ``likelihood`` of every rating in its place, or ``none``. ``score``: whether
    the score is the number in the answer (``said``) or the ``expected`` rating.
    """

    family: Literal["prompted"] = "prompted"
    answer: Literal["json", "number"] | None = None
    max_tokens: int | None = Field(default=512, ge=1)
    max_prompt_tokens: int | None = Field(default=None, ge=64)
    temperature: float = Field(default=0.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    repeats: int = Field(default=1, ge=1)
    enforce: bool = True
    ask_again: bool = True
    comment_chars: int | None = Field(default=None, ge=1)
    expected: Literal["alternatives", "likelihood", "none"] = "alternatives"
    score: Literal["said", "expected"] = "said"

    @model_validator(mode="after")
    def _expected_is_there(self) -> PromptedConfig:
        if self.score == "expected" and self.expected == "none":
            raise ValueError("score: expected needs expected: alternatives or likelihood")
        return self


@dataclass(slots=True)
class _Asked:
    """One chat request with its answers; ``owner`` is the index of the dialogue's score request."""

    owner: int
    question: PromptQuestion
    chat: ChatRequest
    completion: Completion
    answers: dict[str, Answer]
    usages: list[Usage]


class PromptedJudge(BasePromptedJudge):
    """Asks a language model for numbers, one request per dimension or one for all."""

    family = "prompted"
    config_class = PromptedConfig

    def __init__(self, config: PromptedConfig) -> None:
        self.config = config
        super().__init__(
            config,
            answer_tokens=config.max_tokens,
            prompt_tokens=config.max_prompt_tokens,
            answer=config.answer,
        )
        scale = self.builder(None).scale
        self.ratings = {d.name: Ratings.on_scale(d, scale(d)) for d in self.dimensions}
        if config.expected == "likelihood" and not tells_likelihoods(self.llm):
            raise ConfigError(
                f"{config.name}: {self.llm.name} does not return log-probabilities",
                hint="expected=alternatives or expected=none",
            )

    def _score_fitting(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        asked = self._answers(requests, dimensions)
        if self.config.ask_again:
            self._ask_again(requests, asked)
        if self.config.expected == "likelihood":
            self._weigh_by_likelihood(requests, asked)
        elif self.config.expected == "alternatives":
            for each in asked:
                each.answers = {
                    name: from_alternatives(each.completion, answer, self.ratings[name])
                    for name, answer in each.answers.items()
                }
        wanted = [self.dimension(name) for name in dimensions]
        judgements = []
        for owner, request in enumerate(requests):
            own = [each for each in asked if each.owner == owner]
            judgement = to_judgement(
                {d.name: [e.answers[d.name] for e in own if d.name in e.answers] for d in wanted},
                wanted,
                self.builder(request),
                self.ratings,
                score=self.config.score,
            )
            usage = spent(usage for each in own for usage in each.usages)
            transient = any(each.completion.transient for each in own)
            judgements.append(replace(judgement, usage=usage, transient=transient))
        return judgements

    def _answers(self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]) -> list[_Asked]:
        config = self.config
        asked = []
        for owner, request in enumerate(requests):
            builder = self.builder(request)
            schema = builder.resolved.answer.format == "json" and config.enforce
            for question in self.questions(request, dimensions):
                first = ChatRequest(
                    self.messages(request, question),
                    max_tokens=self.answer_tokens,
                    temperature=config.temperature,
                    top_p=config.top_p,
                    seed=config.seed,
                    schema=builder.schema(question, config.comment_chars) if schema else None,
                    top_logprobs=ALTERNATIVES if config.expected == "alternatives" else 0,
                    unlimited=config.max_tokens is None,
                )
                for k in range(config.repeats):
                    asked.append((owner, question, replace(first, seed=config.seed + k)))
        completions = self.chat([chat for _, _, chat in asked])
        return [
            _Asked(i, q, chat, done, self._read(requests[i], q, done), [usage])
            for (i, q, chat), (done, usage) in zip(asked, completions, strict=True)
        ]

    def _read(
        self, request: ScoreRequest, first: PromptQuestion, done: Completion
    ) -> dict[str, Answer]:
        material = [turn.content for turn in request.dialogue.turns]
        return read_answers(done, first.fields, self.builder(request).resolved.answer, material)

    def _ask_again(self, requests: Sequence[ScoreRequest], asked: Sequence[_Asked]) -> None:
        unread = [
            (each, self._second_request(builder, each))
            for each in asked
            if (builder := self.builder(requests[each.owner])).resolved.parts.get(AGAIN)
            and len(each.question.fields) == 1
            and not each.completion.failed
            and all(answer.value is None for answer in each.answers.values())
        ]
        completions = self.chat([chat for _, chat in unread])
        for (each, chat), (completion, usage) in zip(unread, completions, strict=True):
            second = self._read(requests[each.owner], each.question, completion)
            text = after_thinking(completion.text)
            alone = text is not None and len(text[0].strip()) <= _LONGEST_NUMBER
            for name, answer in second.items():
                before = each.answers[name]
                if answer.value is not None and alone:
                    second[name] = replace(answer, step="again", comment=before.comment)
                else:
                    reason = answer.reason or "an answer that is more than a number"
                    second[name] = replace(before, reason=f"{before.reason}; asked again: {reason}")
            each.chat, each.completion, each.answers = chat, completion, second
            each.usages.append(usage)

    def _second_request(self, builder: PromptBuilder, first: _Asked) -> ChatRequest:
        """Returns a chat with the first question, its answer (if it fits the window) and the second
        question."""
        low, high = (f"{end:g}" for end in first.question.fields[0].scale)
        again = fill(builder.resolved.parts[AGAIN], {"low": low, "high": high})
        spoken = after_thinking(first.completion.text)
        answer = spoken[0].strip() if spoken is not None else ""
        before = first.chat.messages
        messages = (*before, Message("assistant", answer), Message("user", again))
        tokens = self.llm.count_tokens(messages) + first.chat.max_tokens if answer else 0
        if not answer or tokens > self.llm.context:
            last = replace(before[-1], content=f"{before[-1].content}\n\n{again}")
            messages = (*before[:-1], last)
        return replace(first.chat, messages=messages, schema=None)

    def _weigh_by_likelihood(
        self, requests: Sequence[ScoreRequest], asked: Sequence[_Asked]
    ) -> None:
        """Add the distributions from the likelihood of every rating in the place of the number.

        If one rating begins another (1 and 10), the text after the number is scored too.
        Without a number only an answer in the format ``number`` is weighed, at its beginning.
        """
        named = [(each, name) for each in asked for name in each.answers]
        continuations: list[list[Continuation]] = []
        for each, name in named:
            ratings, text, span = self.ratings[name], each.completion.text, each.answers[name].span
            bare = self.builder(requests[each.owner]).resolved.answer.format == "number"
            if span is None and (not bare or each.completion.failed):
                continuations.append([])
                continue
            start, end = span or (0, 0)
            tail = text[end : end + 1].strip() if ratings.ambiguous and span else ""
            before, eos = text[:start], ratings.ambiguous and not tail
            chat = each.chat.messages
            asks = [Continuation(chat, r + tail, "assistant", before, eos) for r in ratings.texts]
            continuations.append(asks)
        scored = grouped_likelihoods(self.llm, continuations, [each.owner for each, _ in named])
        for (each, name), (likelihoods, usage) in zip(named, scored, strict=True):
            if likelihoods:
                totals = [likelihood.total for likelihood in likelihoods]
                each.answers[name] = from_logprobs(each.answers[name], totals)
                each.usages.append(usage)
