"""What all judges share that ask a language model the questions of a prompt file.

If the prompt's layout puts the conversation before what differs between questions, a local language
model reads it once for all of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from medal_judges.config import Config, build_config
from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import Judge, ScoreRequest
from medal_judges.models.llm.cost import Usage
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
    Message,
    usage_of,
)
from medal_judges.models.llm.server.errors import ServerStopError
from medal_judges.models.llm.settings import EMBEDDED, LLMSetting
from medal_judges.models.llm.truncation import oldest_kept
from medal_judges.models.prompted.answers import AnswerFormat
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
from medal_judges.models.prompted.prompt import fence_note, load_prompt, resolve
from medal_judges.models.prompted.ratings import grouped_likelihoods
from medal_judges.records.dimension import load_rubric
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import Signature, content_hash

if TYPE_CHECKING:
    from typing_extensions import Self

# The signature hashes the content of files, not their paths.
FILES = {"prompt", "rubric", "examples", "summary_prompt", "steps"}


class BasePromptedConfig(Config):
    """The prompt, the language model, and how much of a dialogue the prompt shows.

    ``language``: the prompt's language, or ``auto`` for the dialogue's own if the file has it.
    ``role``: a name in the prompt's roles, ``none``, or by default the file's choice by dimension.
    ``fence``: put turns between marks that no turn can close or imitate (prompt.py). ``context``:
    the part of the dialogue that the prompt shows; ``summary_*`` shortens the assistant's turns of
    more than ``summary_from`` words in dialogues of more than ``summary_dialogue`` words, by the
    model itself or ``summary_llm``. ``examples``: a file of scored dialogues for variants that show
    some, each as its last ``excerpt_turns`` turns (0: its summary), drawn by ``seed``.
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
    of the model's window), a prompt at most ``prompt_tokens``."""

    config_class: ClassVar[type[BasePromptedConfig]]
    token_budget = 65536  # of one call; a local model divides it by its own memory
    window = 16  # some seconds to a minute of work, which a kill can lose

    def __init__(
        self,
        config: BasePromptedConfig,
        *,
        answer_tokens: int,
        prompt_tokens: int | None,
        answer: AnswerFormat | None = None,
        values: DimensionValues | None = None,
    ) -> None:
        self.base_config, self.name, self.values = config, config.name, values
        self.dimensions = load_rubric(config.rubric, config.dimensions)
        self.prompt = load_prompt(config.prompt)
        self.build(answer)
        shortens = config.context.startswith("summary_")
        self.shortening = resolve(load_prompt(config.summary_prompt)) if shortens else None
        self.llm: LanguageModel = load_llm(config.llm)
        summary = config.summary_llm if shortens else None
        self.shortener = self.llm if summary is None else load_llm(summary)
        self.answer_tokens = min(answer_tokens, self.llm.context // 2)
        left = self.llm.context - self.answer_tokens
        self.prompt_budget = min(left, prompt_tokens or left)

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> Self:
        """A judge of configs/judges/; fields as in its config. Raises ConfigError."""
        config = build_config(cls.config_class, dict(settings), where=f"{cls.family} judge")
        return cls(config)  # type: ignore[call-arg]

    def build(self, answer: AnswerFormat | None) -> None:
        """Make a builder for each language: all of the prompt's for ``auto``, else one."""
        config, examples = self.base_config, None
        languages = [config.language]
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
                values=self.values,
                fence=fence_note(language) if config.fence else None,
            )

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
        """The builder in the dialogue's language, or the judge's first one."""
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
        for request in requests:
            self._fit(request, request.payload)

    def _fit(self, request: ScoreRequest, view: PromptView) -> None:
        """Drop whole oldest turns until the longest of the request's prompts fits."""
        builder, budget = self.builder(request), self.prompt_budget

        def length(question: PromptQuestion, start: int) -> int:
            return self.llm.count_tokens(builder.messages(question, view, start))

        lengths = {question: length(question, 0) for question in builder.questions}
        longest = max(lengths, key=lambda question: lengths[question])
        start, request.tokens = 0, lengths[longest]
        if request.tokens > budget:
            most = len(view.turns) - (view.response is None)
            start = oldest_kept(most, lambda k: length(longest, k) <= budget)
            request.tokens = length(longest, start)
        if request.tokens > budget and view.failure is None:
            view.failure = (
                f"a prompt of {request.tokens} tokens with the last turn alone; with an answer of "
                f"{self.answer_tokens} tokens {budget + self.answer_tokens} fit"
            )
        request.truncated_turns = sum(turn is not None for turn in view.turns[:start])
        view.turns, view.start = view.turns[start:], start

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

    def require_one_each(self) -> None:
        """Raise ConfigError for a layout with all dimensions in one request."""
        if self.builder(None).resolved.layout.ask == "together":
            raise ConfigError(
                f"{self.name}: one request has to be about one dimension",
                hint="layout=NAME of one with ask: each",
            )

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
