"""The prompted judge: a language model is asked, and its answer is read.

MEDAL, ORALIS, the DSTC-12 baseline and MEEP are files of configs/judges/ for this one family.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import Field, model_validator

from medal_judges.config import build_config
from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import ScoreRequest
from medal_judges.models.llm.cost import Usage, spent
from medal_judges.models.llm.protocol import ChatRequest, Completion, Continuation, Message
from medal_judges.models.prompted.base import (
    BasePromptedConfig,
    BasePromptedJudge,
    tells_likelihoods,
)
from medal_judges.models.prompted.builder import PromptBuilder, PromptQuestion
from medal_judges.models.prompted.parsing.answer import ParsedAnswer
from medal_judges.models.prompted.parsing.parser import parse_answer
from medal_judges.models.prompted.parsing.thinking import after_thinking
from medal_judges.models.prompted.prediction import Pooling, to_prediction
from medal_judges.models.prompted.prompt import AGAIN, fill
from medal_judges.models.prompted.ratings import (
    Ratings,
    from_alternatives,
    from_logprobs,
    grouped_likelihoods,
)
from medal_judges.records.judgement import Judgement

ALTERNATIVES = 20  # how many an API reports at most
_LONGEST_NUMBER = 40  # characters of a reply that is a number alone


class PromptedConfig(BasePromptedConfig):
    """What a prompted judge does with the answers.

    ``answer``: their format; the prompt file's default where not given. ``max_tokens`` bounds an
    answer (at most half of the model's window is given to it); ``max_prompt_tokens`` bounds the
    prompt below the window: whole oldest turns go first.
    ``repeats`` answers are asked for, with the seeds ``seed``, ``seed`` + 1, ..., and become one
    score as ``pool`` says. ``enforce``: hold the answer to a JSON schema where the backend can;
    ``comment_chars`` bounds each comment in it.

    ``ask_again``: where one number was asked for in words and the answer gives none that can be
    told, the number alone is asked for once more (in the prompt's part ``again``).

    ``expected``: where the probability-weighted rating comes from: ``alternatives`` of the token
    that says the number, the ``likelihood`` of every rating in its place, or ``none``. ``score``:
    whether the judgement's number is the one ``said`` or the ``expected`` one.
    """

    family: Literal["prompted"] = "prompted"
    answer: Literal["json", "number"] | None = None
    max_tokens: int = Field(default=512, ge=1)
    max_prompt_tokens: int | None = Field(default=None, ge=64)
    temperature: float = Field(default=0.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    repeats: int = Field(default=1, ge=1)
    pool: Pooling = "mean"
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
class ParsedAnswers:
    """One chat request about the batch's request number ``owner``, and what its answer says of each
    dimension. ``usages``: of all that it took to get there."""

    owner: int
    question: PromptQuestion
    asked: ChatRequest
    completion: Completion
    by_dimension: dict[str, ParsedAnswer]
    usages: list[Usage]


class PromptedJudge(BasePromptedJudge):
    """Asks a language model for numbers, one request a dimension or one for all.

    Which step of the parser read an answer is in ``details``, with the expected rating and its
    spread. A dialogue whose answer cannot be read has its reason in ``failure``. Requests of one
    batch go to the model in one call.
    """

    family = "prompted"

    def __init__(self, config: PromptedConfig) -> None:
        self.config = config
        super().__init__(
            config,
            answer_tokens=config.max_tokens,
            prompt_tokens=config.max_prompt_tokens,
            answer=config.answer,
        )
        shape = self.builder(None).resolved.answer
        self.asks_again = config.ask_again and shape.format == "number"
        scale = self.builder(None).scale
        self.ratings = {d.name: Ratings.on_scale(d, scale(d)) for d in self.dimensions}
        if config.expected == "likelihood" and not tells_likelihoods(self.llm):
            raise ConfigError(
                f"{config.name}: {self.llm.name} cannot tell the likelihood of a text",
                hint="expected=alternatives or expected=none",
            )

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> PromptedJudge:
        """A judge of configs/judges/; fields as in PromptedConfig. Raises ConfigError."""
        return cls(build_config(PromptedConfig, dict(settings), where="prompted judge"))

    def _score_fitting(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        answers = self._answers(requests, dimensions)
        if self.asks_again:
            self._ask_again(requests, answers)
        if self.config.expected == "likelihood":
            self._weigh_by_likelihood(requests, answers)
        elif self.config.expected == "alternatives":
            for each in answers:
                for name, parsed in each.by_dimension.items():
                    weighed = from_alternatives(each.completion, parsed, self.ratings[name])
                    each.by_dimension[name] = replace(parsed, distribution=weighed)
        owned: list[list[ParsedAnswers]] = [[] for _ in requests]
        for each in answers:
            owned[each.owner].append(each)
        return [
            self._prediction(request, own, dimensions)
            for request, own in zip(requests, owned, strict=True)
        ]

    def _answers(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[ParsedAnswers]:
        asked = [
            (i, question, chat)
            for i, request in enumerate(requests)
            for question in self.questions(request, dimensions)
            for chat in self._chat_requests(request, question)
        ]
        told = self.chat([chat for _, _, chat in asked])
        answers = []
        for (i, question, chat), (completion, usage) in zip(asked, told, strict=True):
            shape = self.builder(requests[i]).resolved.answer
            parsed = parse_answer(completion, question.fields, shape, _material(requests[i]))
            answers.append(ParsedAnswers(i, question, chat, completion, parsed, [usage]))
        return answers

    def _chat_requests(self, request: ScoreRequest, question: PromptQuestion) -> list[ChatRequest]:
        config, builder = self.config, self.builder(request)
        json = builder.resolved.answer.format == "json" and config.enforce
        first = ChatRequest(
            self.messages(request, question),
            max_tokens=self.answer_tokens,
            temperature=config.temperature,
            top_p=config.top_p,
            seed=config.seed,
            schema=builder.schema(question, config.comment_chars) if json else None,
            top_logprobs=ALTERNATIVES if config.expected == "alternatives" else 0,
        )
        return [replace(first, seed=config.seed + k) for k in range(config.repeats)]

    def _prediction(
        self, request: ScoreRequest, answers: Sequence[ParsedAnswers], dimensions: Sequence[str]
    ) -> Judgement:
        wanted = [self.dimension(name) for name in dimensions]
        prediction = to_prediction(
            {
                d.name: [a.by_dimension[d.name] for a in answers if d.name in a.by_dimension]
                for d in wanted
            },
            wanted,
            self.builder(request),
            self.ratings,
            pool=self.config.pool,
            score=self.config.score,
        )
        usage = spent(usage for each in answers for usage in each.usages)
        transient = any(each.completion.transient for each in answers)
        return replace(prediction, usage=usage, transient=transient)

    def _weigh_by_likelihood(
        self, requests: Sequence[ScoreRequest], answers: Sequence[ParsedAnswers]
    ) -> None:
        named = [(each, name) for each in answers for name in each.by_dimension]
        asked = []
        for each, name in named:
            bare = self.builder(requests[each.owner]).resolved.answer.format == "number"
            asked.append(_continuations(each, name, self.ratings[name], bare=bare))
        owners = [each.owner for each, _ in named]
        scored = grouped_likelihoods(self.llm, asked, owners)
        for (each, name), (likelihoods, usage) in zip(named, scored, strict=True):
            if likelihoods:
                weighed = from_logprobs([likelihood.total for likelihood in likelihoods])
                parsed = each.by_dimension[name]
                each.by_dimension[name] = replace(parsed, distribution=weighed)
                each.usages.append(usage)

    # -- one more question -------------------------------------------------------------------------

    def _ask_again(
        self, requests: Sequence[ScoreRequest], answers: Sequence[ParsedAnswers]
    ) -> None:
        """One more question after an answer in prose whose score cannot be told: for the number
        alone."""
        open_ = [a for a in answers if _gave_no_number(self.builder(requests[a.owner]), a)]
        asked = [self._second_request(self.builder(requests[a.owner]), a) for a in open_]
        told = self.chat(asked)
        for first, chat, (completion, usage) in zip(open_, asked, told, strict=True):
            shape = self.builder(requests[first.owner]).resolved.answer
            material = _material(requests[first.owner])
            second = parse_answer(completion, first.question.fields, shape, material)
            spoken = after_thinking(completion.text)
            alone = spoken is not None and len(spoken[0].strip()) <= _LONGEST_NUMBER
            for name, parsed in second.items():
                before = first.by_dimension[name]
                if parsed.value is not None and alone:
                    second[name] = replace(parsed, step="again", comment=before.comment)
                else:
                    reason = parsed.reason or "an answer that is more than a number"
                    reason = f"{before.reason}; asked again: {reason}"
                    second[name] = replace(before, reason=reason)
            first.asked, first.completion, first.by_dimension = chat, completion, second
            first.usages.append(usage)

    def _second_request(self, builder: PromptBuilder, first: ParsedAnswers) -> ChatRequest:
        """The first question and its answer, and then the one for the number alone. An answer that
        does not fit the model's window with it is left out."""
        low, high = (f"{end:g}" for end in first.question.fields[0].scale)
        again = fill(builder.resolved.parts[AGAIN], {"low": low, "high": high})
        spoken = after_thinking(first.completion.text)
        answer = spoken[0].strip() if spoken is not None else ""
        before = first.asked.messages
        messages = (*before, Message("assistant", answer), Message("user", again))
        tokens = self.llm.count_tokens(messages) + first.asked.max_tokens if answer else 0
        if not answer or tokens > self.llm.context:
            last = replace(before[-1], content=f"{before[-1].content}\n\n{again}")
            messages = (*before[:-1], last)
        return replace(first.asked, messages=messages, schema=None)


def _material(request: ScoreRequest) -> list[str]:
    """The turns that the judge was shown."""
    return [turn.content for turn in request.dialogue.turns]


def _gave_no_number(builder: PromptBuilder, answer: ParsedAnswers) -> bool:
    """Whether one number was asked for and the answer gives none that can be told; False where the
    prompt has no second question."""
    return (
        bool(builder.resolved.parts.get(AGAIN))
        and len(answer.question.fields) == 1
        and answer.completion.finish != "failed"
        and all(parsed.value is None for parsed in answer.by_dimension.values())
    )


def _continuations(
    answer: ParsedAnswers, name: str, ratings: Ratings, *, bare: bool
) -> list[Continuation]:
    """Every rating in the place where the answer says its number.

    What follows the number is scored with it where one rating begins another: it tells them apart.
    Where no number is found, a ``bare`` answer (a number and nothing before it) is weighed at its
    beginning; any other gives an empty list.
    """
    completion, parsed = answer.completion, answer.by_dimension[name]
    if parsed.start is None or parsed.end is None:
        if not bare or completion.finish == "failed":
            return []
        prefill, after = "", ""
    else:
        prefill = completion.text[: parsed.start]
        after = completion.text[parsed.end : parsed.end + 1].strip()
    tail = after if ratings.ambiguous else ""
    eos = ratings.ambiguous and not tail
    return [
        Continuation(answer.asked.messages, text + tail, prefill=prefill, score_eos=eos)
        for text in ratings.texts
    ]
