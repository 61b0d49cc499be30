"""The prompted judge: it asks a language model for numbers and reads its answers.

MEDAL, ORALIS, the DSTC-12 baseline and MEEP are files of configs/judges/ for this one family.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import Field, model_validator

from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import ScoreRequest
from medal_judges.models.llm.cost import Usage, spent
from medal_judges.models.llm.protocol import ChatRequest, Completion, Continuation, Message
from medal_judges.models.prompted.answers import Answer, after_thinking, read_answers
from medal_judges.models.prompted.base import (
    BasePromptedConfig,
    BasePromptedJudge,
    tells_likelihoods,
)
from medal_judges.models.prompted.builder import PromptBuilder, PromptQuestion
from medal_judges.models.prompted.prompt import AGAIN, fill
from medal_judges.models.prompted.ratings import (
    Ratings,
    from_alternatives,
    from_logprobs,
    grouped_likelihoods,
    to_judgement,
)
from medal_judges.records.judgement import Judgement

ALTERNATIVES = 20  # the most that an API reports
_LONGEST_NUMBER = 40  # characters of a reply that is a number alone


class PromptedConfig(BasePromptedConfig):
    """How a prompted judge asks and reads.

    ``answer``: the format (default: the prompt file's). The score is the mean of ``repeats``
    answers with the seeds ``seed``, ``seed`` + 1, .... ``enforce``: hold the answer to a JSON
    schema if the backend can; ``comment_chars`` bounds each comment in it. ``ask_again``: ask once
    more for the number alone if the answer about one dimension has none that can be read.
    ``expected``: where the probability-weighted rating comes from: ``alternatives`` to the number's
    token, the ``likelihood`` of every rating in its place, or ``none``. ``score``: whether the
    score is the number ``said`` or the ``expected`` one.
    """

    family: Literal["prompted"] = "prompted"
    answer: Literal["json", "number"] | None = None
    max_tokens: int = Field(default=512, ge=1)
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
    """One chat request about the batch's request number ``owner``, and what came of it."""

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
        """The first question with its answer, if it fits the window, and the second question."""
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

        What follows the number is scored too if one rating begins another: it distinguishes them.
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
