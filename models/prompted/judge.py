"""Judges that ask a language model the questions of a prompt file.

MEDAL, ORALIS, the DSTC-12 baseline and MEEP are files of configs/judges/ for PromptedJudge."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from medal_judges.config import Config, build_config
from medal_judges.models.base.judge import Judge, ScoreRequest
from medal_judges.models.batching import chunks
from medal_judges.models.llm.cost import Usage, sum_to_record, sum_usage_records
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
    Message,
    failed_completion,
    first_fitting_start,
    likelihood_usage,
    score_groups,
)
from medal_judges.models.llm.settings import EMBEDDED, LLMSetting, no_model_error
from medal_judges.models.prompted.answers import (
    Answer,
    AnswerReading,
    read_answers,
    without_thinking,
)
from medal_judges.models.prompted.builder import (
    Context,
    DimensionValues,
    PromptBuilder,
    PromptQuestion,
    PromptView,
    ScoredExample,
    load_examples,
    prompt_view,
    summarise_long_turns,
)
from medal_judges.models.prompted.prompt import fence_note, load_prompt
from medal_judges.models.prompted.ratings import (
    Ratings,
    average_answers,
    to_judgement,
    with_rating_probabilities,
    with_reported_probabilities,
)
from medal_judges.records.dimension import load_rubric
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import Signature, content_hash

if TYPE_CHECKING:
    from typing_extensions import Self

# The signature hashes the content of files, not their paths.
FILES = {"prompts", "rubric", "examples"}


class BasePromptedConfig(Config):
    """The settings that all judges with a prompt file share.

    Attributes:
        name: The name of the judge.
        llm: The language model to ask, such as a Hub id, ``embedded:smollm2`` or
            ``openai:gpt-4.1-mini``.
        prompts: A prompt file or the name of a shipped one, such as ``oralis``.
        variant: The wording of the prompt, such as ``few_shot``. None is the first in the prompt
            file.
        layout: The arrangement of the questions, such as ``together`` (one about all dimensions).
            None is the first in the prompt file.
        language: The language of the prompt, such as ``de``. ``auto`` is the language of the
            dialogue, or English if the prompt has no translation.
        role: Who the model is told to be, such as ``expert``. ``none`` gives it no role. None takes
            each dimension's role in the prompt file.
        rubric: A file that defines the dimensions, or the name of a shipped one, such as ``medal``.
        dimensions: The dimensions of the rubric to score. Empty means all.
        fence: Whether the prompt puts turns between tags such as ``<user>``, and escapes tags
            inside turns.
        context: Which turns the prompt shows: ``full`` (all), ``last_40`` (the last 40%),
            ``first_40``, ``first_20_last_20``, or ``summary_N`` (all, with long assistant turns
            summarised in at most N words).
        shortener: The language model that writes the summaries of ``summary_N``. None is ``llm``.
        examples: A file of labelled dialogues, of which few-shot variants show three.
        excerpt_turns: How many of the last turns of an example to show. 0 shows its summary, or all
            turns if it has none.
        seed: Seeds the choice of examples and the sampling of answers.
    """

    name: str
    llm: LLMSetting = EMBEDDED
    prompts: str
    variant: str | None = None
    layout: str | None = None
    language: str = "en"
    role: str | None = None
    rubric: str
    dimensions: tuple[str, ...] = ()
    fence: bool = True
    context: Context = "full"
    shortener: LLMSetting | None = None
    examples: str = "prompts/examples.json"
    excerpt_turns: int = Field(default=6, ge=0)
    seed: int = 0


class BasePromptedJudge(Judge):
    """Base class of judges that ask a language model with a prompt file.

    It makes the prompts, and drops the oldest turns of dialogues that are too long for the model. A
    subclass sends the questions and reads the answers.

    Args:
        config: The settings.
        answer_tokens: The maximum number of tokens of an answer. It is lowered to half of the
            model's context if it is larger.
        prompt_tokens: The maximum number of tokens of a prompt. None is the context without the
            answer.
        answer: The answer format, such as ``json``. None is the format in the prompt file.
        values: A function that takes a dimension and the prompt file's texts about it (an Aspect).
            It returns further variables of the prompt, such as ``{"criteria": "..."}``.

    Attributes:
        ratings: Dimension -> the ratings that the model may give. Subclasses that compute the
            probabilities of ratings set it.
        scores_expected: What the score is. True: the expected rating, which is the mean weighted by
            the probability of each rating. False: the number that the model writes.

    Raises:
        ConfigError: The prompt, the rubric or a setting is wrong, or the model cannot be loaded.
        MissingExtraError: A package for the language model is not installed.
    """

    config_class: ClassVar[type[BasePromptedConfig]]
    token_budget = 65536  # of one call; a local model divides it by its own memory
    ratings: dict[str, Ratings]  # by dimension, for families that read ratings
    scores_expected = False  # whether the score is the expected rating
    window = 16  # some seconds to a minute of work, which a kill can lose

    def __init__(
        self,
        config: BasePromptedConfig,
        *,
        answer_tokens: int,
        prompt_tokens: int | None = None,
        answer: AnswerReading | None = None,
        values: DimensionValues | None = None,
    ) -> None:
        self.base_config, self.name, self.values = config, config.name, values
        self.dimensions = load_rubric(config.rubric, config.dimensions)
        self.prompt = load_prompt(config.prompts)
        languages = [config.language]
        if config.language == "auto":
            languages = ["en", *self.prompt.languages]
        self.builders: dict[str, PromptBuilder] = {}
        for language in languages:
            fence = None
            if config.fence:
                fence = fence_note(language)
            examples: Sequence[ScoredExample] = ()
            if self.prompt.examples:
                examples = load_examples(config.examples)
            self.builders[language] = PromptBuilder(
                load_prompt(config.prompts, language=language),
                self.dimensions,
                variant=config.variant,
                layout=config.layout,
                role=config.role,
                answer=answer,
                examples=examples,
                excerpt=config.excerpt_turns,
                seed=config.seed,
                values=values,
                fence=fence,
            )
        self.llm: LanguageModel = load_llm(config.llm)
        if self.llm.api:
            # A dialogue waits for its own answers only.
            self.window, self.windows_at_once = 1, self.llm.at_once
        self.shortening, self.shortener = None, self.llm
        if config.context.startswith("summary_"):
            self.shortening = load_prompt("shorten", ("words", "response"))
            if config.shortener is not None:
                self.shortener = load_llm(config.shortener)
        self.answer_tokens = min(answer_tokens, self.llm.context // 2)
        prompt_room = self.llm.context - self.answer_tokens
        self.prompt_budget = min(prompt_room, prompt_tokens or prompt_room)

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> Self:
        """Returns the judge with ``settings``, such as ``{"name": "mine", "llm":
        "openai:gpt-4.1-mini", "prompts": "oralis", "rubric": "medal"}``.

        Raises:
            ConfigError: A field is unknown or has a wrong value, or the language model cannot be
                loaded.
            MissingExtraError: A package for the language model is not installed.
        """
        if settings.get("llm", EMBEDDED) is None:
            raise no_model_error(settings.get("name"))
        config = build_config(
            cls.config_class, dict(settings), where=f"{cls.family} judge"
        )
        return cls(config)  # type: ignore[call-arg]

    def language_models(self) -> list[LanguageModel]:
        return [self.llm, self.shortener]

    def signature(self) -> Signature:
        fingerprint = dict(self.llm.identity())
        config = self.base_config
        left_out = {"name", "llm", "shortener", "seed", *FILES}
        settings = config.model_dump(exclude=left_out)
        shortener, shortening = self.shortener, None
        if shortener is not self.llm:
            settings["shortener"] = [shortener.name, dict(shortener.identity())]
        if self.shortening:
            shortening = self.shortening.hash
        texts, notes = {}, []
        for language, builder in self.builders.items():
            texts[language] = builder.hash
            notes.append(builder.fence)
        first = self.builder_for(None)
        examples = [asdict(example) for example in first.examples]
        values: list[Mapping[str, str | None]] = []
        for dimension in self.dimensions:
            values.append({})
            if self.values:
                values[-1] = self.values(dimension, first.aspects[dimension.name])
        return self.make_signature(
            revision=content_hash([settings, fingerprint]),
            base=self.llm.name,
            prompt=content_hash([texts, notes, shortening, examples, values]),
            dtype=fingerprint.get("dtype"),
            truncation=f"oldest turns beyond {self.prompt_budget} tokens",
            seed=config.seed,
        )

    def builder_for(self, request: ScoreRequest | None) -> PromptBuilder:
        """Returns the prompt builder for the language of the dialogue in ``request``.

        If the judge has no prompt in this language, or ``request`` is None, returns the default
        builder. It is for the language in the setting ``language``, or for English if the setting
        is ``auto``.
        """
        first = next(iter(self.builders.values()))
        if request is None:
            return first
        return self.builders.get(request.dialogue.lang, first)

    # -- what the prompt shows -------------------------------------------------------------------

    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        config = self.base_config
        for request in requests:
            apart = self.builder_for(request).response_apart
            request.payload = prompt_view(
                request.dialogue, request.turn, config.context, apart=apart
            )
        if self.shortening is not None:
            summarise_long_turns(
                [request.payload for request in requests],
                self.shortener,
                self.shortening,
                config.context,
                fence=config.fence,
            )
        for request in requests:
            self._drop_turns_to_fit(request)

    def _drop_turns_to_fit(self, request: ScoreRequest) -> None:
        """Drops the oldest turns of a dialogue until all prompts about it fit the model's context.

        Args:
            request: The dialogue to score. If its last turn alone is too long, ``failure`` of its
                PromptView is set.
        """
        builder, view = self.builder_for(request), request.payload

        for question in builder.questions:
            view.rendered[question.index] = builder.messages(question, view)
        lengths = [self.llm.count_tokens(chat) for chat in view.rendered.values()]
        request.tokens = max(lengths)
        budget = self.prompt_budget
        if request.tokens > budget:
            view.rendered.clear()
            longest = builder.questions[lengths.index(request.tokens)]

            def length(start: int) -> int:
                return self.llm.count_tokens(builder.messages(longest, view, start))

            droppable = len(view.turns) - (view.response is None)
            view.start = first_fitting_start(
                droppable, lambda start: length(start) <= budget
            )
            request.tokens = length(view.start)
        if request.tokens > budget and view.failure is None:
            view.failure = (
                f"a prompt of {request.tokens} tokens with the last turn alone. "
                f"{budget + self.answer_tokens} fit with an answer of {self.answer_tokens} tokens"
            )
        dropped = view.turns[: view.start]
        request.truncated_turns = len(dropped) - dropped.count(None)
        view.turns = view.turns[view.start :]

    # -- questions -------------------------------------------------------------------------------

    def questions(
        self, request: ScoreRequest | None, dimensions: Sequence[str]
    ) -> list[PromptQuestion]:
        """Returns the questions to ask about a dialogue, one for each of ``dimensions``, in order.

        If the prompt asks about all dimensions together, returns this one question.

        Args:
            request: The dialogue to score, whose language decides in which language to ask. None
                takes the setting ``language``, or English if the setting is ``auto``.
            dimensions: The names of the dimensions.
        """
        builder = self.builder_for(request)
        if builder.together:
            return list(builder.questions)
        by_name = {question.fields[0].name: question for question in builder.questions}
        return [by_name[name] for name in dimensions]

    def messages(
        self, request: ScoreRequest, question: PromptQuestion
    ) -> tuple[Message, ...]:
        """Returns the chat messages that ask ``question`` about the dialogue in ``request``."""
        view: PromptView = request.payload
        if question.index not in view.rendered:
            view.rendered[question.index] = self.builder_for(request).messages(
                question, view
            )
        return view.rendered[question.index]

    def compute_answer_likelihoods(
        self,
        requests: Sequence[ScoreRequest],
        dimensions: Sequence[str],
        texts: Mapping[str, Sequence[str]],
        score_eos: Mapping[str, bool],
    ) -> list[dict[str, tuple[list[Likelihood], Usage]]]:
        """Computes how likely the model is to give each of several possible answers.

        Args:
            requests: The dialogues to ask about.
            dimensions: The names of the dimensions to ask about.
            texts: Dimension -> the possible answers, such as ``("1", "2", "3")``.
            score_eos: Dimension -> whether a likelihood includes the token that ends the answer.

        Returns:
            For each request: dimension -> (the likelihood of each possible answer in order, a Usage
                with the number of tokens that the model read).
        """
        groups, owners = [], []
        for request in requests:
            prefill_of = self.builder_for(request).prefill
            for question in self.questions(request, dimensions):
                name, messages = (
                    question.fields[0].name,
                    self.messages(request, question),
                )
                first = Continuation(
                    messages,
                    text="",
                    prefill=prefill_of(question),
                    score_eos=score_eos[name],
                )
                groups.append([replace(first, text=text) for text in texts[name]])
                owners.append((request.dialogue.id, request.payload.start))
        answers = compute_likelihoods(self.llm, groups, owners)
        rows = chunks(answers, len(dimensions))
        return [dict(zip(dimensions, row, strict=True)) for row in rows]

    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        fitting = [request for request in requests if request.payload.failure is None]
        scored = iter(self._score_fitting_requests(fitting, dimensions))
        judgements = []
        for request in requests:
            view: PromptView = request.payload
            if view.failure is None:
                judgement = next(scored)
            else:
                judgement = Judgement(
                    scores=dict.fromkeys(dimensions), failure=view.failure
                )
            judgement = replace(
                judgement,
                usage=sum_usage_records([view.usage, judgement.usage])
                or {"tokens": 0.0},
                transient=judgement.transient or view.transient,
                left_out_turns=view.left_out,
                shortened_turns=view.shortened,
            )
            judgements.append(judgement)
        return judgements

    def build_judgement(
        self,
        request: ScoreRequest,
        answers: Mapping[str, Answer],
        usages: Sequence[Usage],
        *,
        transient: bool,
    ) -> Judgement:
        """Returns the judgement of ``request``, built from the model's answers.

        Args:
            answers: Dimension -> the model's answer.
            usages: The tokens and costs of the answers, which are added up.
            transient: If scores are missing: whether the same request may succeed later.
        """
        judgement = to_judgement(
            answers,
            [d for d in self.dimensions if d.name in answers],
            self.builder_for(request),
            self.ratings,
            expected=self.scores_expected,
        )
        return replace(judgement, usage=sum_to_record(usages), transient=transient)

    @abstractmethod
    def _score_fitting_requests(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        """Returns one judgement for each of ``requests``, whose prompts all fit the model's
        context."""


def compute_likelihoods(
    llm: LanguageModel,
    groups: Sequence[Sequence[Continuation]],
    owners: Sequence[object],
) -> list[tuple[list[Likelihood], Usage]]:
    """Computes the likelihoods of texts under ``llm``.

    Args:
        groups: Lists of texts with their prompts, such as all possible ratings after one prompt.
        owners: For each list in ``groups``, any key, such as a dialogue's id. For all lists with
            the same key, their common prefix is computed once.

    Returns:
        For each list: (the likelihood of each text, a Usage with the number of tokens that the
            model read).
    """
    answers: list[tuple[list[Likelihood], Usage]] = []
    for likelihoods in score_groups(llm, groups, owners):
        usage = likelihood_usage(likelihoods[0].prefix_tokens, likelihoods)
        answers.append((likelihoods, usage))
    return answers


# -- the judge that asks for numbers ---------------------------------------------------------------

ALTERNATIVES = 20  # the most that an API reports
_LONGEST_NUMBER = 40  # characters of a reply that is a number alone


class PromptedConfig(BasePromptedConfig):
    """The settings of a judge that asks a language model to write scores.

    Attributes:
        answer: The answer format: ``json``, ``number`` (in free text) or ``prose`` (also in a
            sentence such as "I would give this a 70 out of 100"). None is the format in the prompt
            file.
        max_tokens: The maximum number of tokens of an answer.
        temperature: The sampling temperature. 0 is greedy decoding.
        repeats: How many times to ask each question. The scores are averaged. The seeds are
            ``seed``, ``seed`` + 1, ....
        enforce: Whether to constrain JSON answers to a schema, if the backend supports it.
        ask_again: Whether to ask a second time, for the number alone, if no score can be read. A
            question about several dimensions is never asked again.
        comment_chars: The maximum number of characters of a comment in the JSON schema. None is no
            limit.
        expected: Whether to compute the expected rating too: the mean of all possible ratings,
            weighted by the model's probability of each. It is ``expected`` in the ``details`` of
            the output. A local model computes the likelihood of each rating. A server must report
            ``top_logprobs``.
    """

    family: Literal["prompted"] = "prompted"
    answer: Literal["json", "number", "prose"] | None = None
    max_tokens: int = Field(default=512, ge=1)
    temperature: float = Field(default=0.0, ge=0)
    repeats: int = Field(default=1, ge=1)
    enforce: bool = True
    ask_again: bool = True
    comment_chars: int | None = Field(default=None, ge=1)
    expected: bool = True


@dataclass(slots=True)
class _AskedQuestion:
    """A question that was sent, with its answers.

    ``owner``, ``question`` and ``chat`` are given. The other fields are filled once the model has
    answered.

    Attributes:
        owner: The index in the batch of the dialogue that the question is about.
        question: The question.
        chat: The last chat request that was sent for the question.
        completion: The model's response to ``chat``.
        answers: Dimension -> what was read from ``completion``.
        usages: The tokens and costs of all responses.
    """

    owner: int
    question: PromptQuestion
    chat: ChatRequest
    completion: Completion = field(
        default_factory=lambda: failed_completion("not asked")
    )
    answers: dict[str, Answer] = field(default_factory=dict)
    usages: list[Usage] = field(default_factory=list)


class PromptedJudge(BasePromptedJudge):
    """A judge that asks a language model to write scores, in one question for each dimension or one
    for all.

    Args:
        config: The settings.
    """

    family = "prompted"
    config_class = PromptedConfig

    def __init__(self, config: PromptedConfig) -> None:
        self.config = config
        super().__init__(
            config,
            answer_tokens=config.max_tokens,
            answer=config.answer,
        )
        # By builder; None if the response is not held to a schema.
        self.schemas: dict[PromptBuilder, list[Any]] = {}
        for builder in self.builders.values():
            schemas: list[Any] = [None] * len(builder.questions)
            if builder.answer.format == "json" and config.enforce:
                for question in builder.questions:
                    schema = builder.schema(question, config.comment_chars)
                    schemas[question.index] = schema
            self.schemas[builder] = schemas
        scales = self.builder_for(None).scales
        self.ratings = {}
        for dimension in self.dimensions:
            ratings = Ratings.of_scale(dimension, scales[dimension.name])
            self.ratings[dimension.name] = ratings

    def _score_fitting_requests(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        questions = self._ask_questions(requests, dimensions)
        if self.config.ask_again:
            self._ask_unread_again(requests, questions)
        if self.config.expected and not self.llm.api:
            self._add_rating_probabilities(requests, questions)
        judgements = []
        for owner, request in enumerate(requests):
            repeats: dict[str, list[Answer]] = {name: [] for name in dimensions}
            usages: list[Usage] = []
            transient = False
            for question in questions:
                if question.owner != owner:
                    continue
                usages += question.usages
                transient |= question.completion.transient
                for name, answer in question.answers.items():
                    # A server's alternatives to the number's token are a distribution.
                    answer = with_reported_probabilities(
                        question.completion, answer, self.ratings[name]
                    )
                    repeats.setdefault(name, []).append(answer)
            answers = {}
            for name in dimensions:
                answers[name] = repeats[name][0]
                if self.config.repeats > 1:
                    answers[name] = average_answers(repeats[name])
            judgements.append(
                self.build_judgement(request, answers, usages, transient=transient)
            )
        return judgements

    def _ask_questions(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[_AskedQuestion]:
        """Asks the questions on ``dimensions`` about all ``requests``, and returns each question
        with its answers.

        Each question is sent ``config.repeats`` times, and returned as many times.
        """
        config, top_logprobs = self.config, 0
        if config.expected and self.llm.api:
            top_logprobs = ALTERNATIVES
        questions = []
        for owner, request in enumerate(requests):
            schemas = self.schemas[self.builder_for(request)]
            for question in self.questions(request, dimensions):
                chat = ChatRequest(
                    self.messages(request, question),
                    max_tokens=self.answer_tokens,
                    temperature=config.temperature,
                    schema=schemas[question.index],
                    top_logprobs=top_logprobs,
                )
                for repeat in range(config.repeats):
                    repeated = replace(chat, seed=config.seed + repeat)
                    questions.append(_AskedQuestion(owner, question, repeated))
        self._send_and_read(requests, questions)
        return questions

    def _send_and_read(
        self, requests: Sequence[ScoreRequest], questions: Sequence[_AskedQuestion]
    ) -> None:
        """Sends ``questions`` about ``requests``, and stores the completions and scores in them."""
        if not questions:
            return
        completions = self.llm.chat([question.chat for question in questions])
        for question, completion in zip(questions, completions, strict=True):
            request = requests[question.owner]
            question.completion = completion
            question.usages.append(completion.usage)
            question.answers = read_answers(
                completion,
                question.question.fields,
                self.builder_for(request).answer,
            )

    def _ask_unread_again(
        self, requests: Sequence[ScoreRequest], questions: Sequence[_AskedQuestion]
    ) -> None:
        """Asks a second time, for the number alone, where no score could be read.

        Questions about several dimensions are not asked again.

        Args:
            requests: The batch.
            questions: The questions asked so far. Their answers are replaced.
        """
        unread: list[_AskedQuestion] = []
        for question in questions:
            if question.completion.failed or len(question.answers) > 1:
                continue
            if all(answer.value is None for answer in question.answers.values()):
                again = self.builder_for(requests[question.owner]).second_question(
                    question.question
                )
                *earlier, message = question.chat.messages
                message = replace(message, content=f"{message.content}\n\n{again}")
                messages = (*earlier, message)
                question.chat = replace(question.chat, messages=messages, schema=None)
                unread.append(question)
        first_answers = [question.answers for question in unread]
        self._send_and_read(requests, unread)
        for question, before in zip(unread, first_answers, strict=True):
            ((name, first),) = before.items()
            second = question.answers[name]
            spoken = without_thinking(question.completion.text)
            if second.value is not None and len(spoken) <= _LONGEST_NUMBER:
                answer = replace(second, step="again", comment=first.comment)
            else:
                reason = second.reason or "an answer that is more than a number"
                answer = replace(first, reason=f"{first.reason}; asked again: {reason}")
            question.answers = {name: answer}

    def _add_rating_probabilities(
        self, requests: Sequence[ScoreRequest], questions: Sequence[_AskedQuestion]
    ) -> None:
        """Adds the probability of each rating to the answers of ``questions`` about ``requests``.

        The probability comes from the likelihood of the model's answer with this rating in place of
        the score. Failed answers, and JSON answers in which the score was not found, are skipped.
        """
        weighed: list[tuple[_AskedQuestion, str]] = []
        groups: list[list[Continuation]] = []
        for question in questions:
            shape = self.builder_for(requests[question.owner]).answer
            can_begin = shape.format == "number" and not question.completion.failed
            for name, answer in question.answers.items():
                if answer.span is not None or can_begin:
                    weighed.append((question, name))
                    groups.append(self._rating_continuations(question, name))
        scored = compute_likelihoods(
            self.llm, groups, [question.owner for question, _ in weighed]
        )
        for (question, name), (likelihoods, usage) in zip(weighed, scored, strict=True):
            totals = [likelihood.total for likelihood in likelihoods]
            question.answers[name] = with_rating_probabilities(
                question.answers[name], totals
            )
            question.usages.append(usage)

    def _rating_continuations(
        self, question: _AskedQuestion, name: str
    ) -> list[Continuation]:
        """Returns one continuation for each possible rating, to compare their likelihoods.

        Each repeats the model's answer up to its score and ends with the rating.

        Args:
            question: The question that the model answered.
            name: The dimension to rate.
        """
        ratings, text = self.ratings[name], question.completion.text
        start, end = question.answers[name].span or (0, 0)
        tail = ""
        # What follows the number tells 1 from 10.
        if ratings.any_is_prefix and end:
            tail = text[end : end + 1].strip()
        first = Continuation(
            question.chat.messages,
            tail,
            prefill=text[:start],
            score_eos=ratings.any_is_prefix and not tail,
        )
        return [replace(first, text=rating + tail) for rating in ratings.texts]
