"""G-Eval: criteria, evaluation steps, and the expected rating (Liu et al., 2023); GPTScore."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import Field

from medal_judges.errors import NotAvailableError
from medal_judges.models.base.judge import DimensionScore, ScoreRequest, judgement_of
from medal_judges.models.batching import windows
from medal_judges.models.llm.cost import Usage, spent
from medal_judges.models.llm.protocol import ChatRequest, Completion
from medal_judges.models.prompted.answers import Answer
from medal_judges.models.prompted.judge import BasePromptedConfig, BasePromptedJudge
from medal_judges.models.prompted.prompt import Aspect
from medal_judges.models.prompted.ratings import (
    Ratings,
    from_alternatives,
    from_logprobs,
    from_samples,
)
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import Signature, content_hash

Method = Literal["likelihood", "top_logprobs", "samples"]
ANSWER_TOKENS = 16  # for the beginning of the answer and the rating or word
MAX_TOKENS = 4096  # of prompt and answer
# Ratings, from 1, of a dimension without whole-number levels (or with more than eleven).
POINTS = 5


@dataclass(slots=True)
class RatingReading:
    """The ``answer`` about one dimension, the usage of its requests, and whether it failed for
    now."""

    answer: Answer | None = None
    usages: list[Usage] = field(default_factory=list)
    transient: bool = False


class GEvalConfig(BasePromptedConfig):
    """``method``: see GEvalJudge. ``samples`` answers are drawn at temperature 1 if neither
    likelihoods nor alternatives are there."""

    family: Literal["geval"] = "geval"
    name: str = "geval"
    prompts: str = "prompts/geval"
    method: Literal["auto"] | Method = "auto"
    samples: int = Field(default=20, ge=2)


class GEvalJudge(BasePromptedJudge):
    """Expected value over the ratings' probabilities, on the dimension's own scale.

    ``likelihood``: the probability of every rating as the answer; the conversation is read once.
    ``top_logprobs``: of the alternatives that an API reports for the token of the rating; an answer
    without alternatives is sampled. ``samples``: the share of each rating among ``samples`` answers
    (paper: 20 at temperature 1). ``auto``: likelihood if the backend has it, else top_logprobs.
    """

    family = "geval"
    config_class = GEvalConfig
    token_budget = 8192

    def __init__(self, config: GEvalConfig) -> None:
        self.config = config
        super().__init__(
            config,
            answer_tokens=ANSWER_TOKENS,
            prompt_tokens=MAX_TOKENS - ANSWER_TOKENS,
            values=self._placeholders,
        )
        self.ratings = {d.name: Ratings.of(d, POINTS) for d in self.dimensions}
        self.method: Method = "top_logprobs"
        if config.method != "auto":
            self.method = config.method
        elif not self.llm.api:
            self.method = "likelihood"

    def _placeholders(
        self, dimension: Dimension, aspect: Aspect
    ) -> Mapping[str, str | None]:
        """The values of G-Eval's placeholders; a part with the value None is left out."""
        texts = Ratings.of(dimension, POINTS).texts
        bands = []
        if len(aspect.bands) == len(texts):  # else the requested scale has other levels
            for text, band in zip(texts, aspect.bands, strict=True):
                bands.append(f"- {text}: {band}")
        return {
            "criteria": aspect.criteria or aspect.definition or dimension.definition,
            "bands": "\n".join(bands) or None,
            "low": texts[0],
            "high": texts[-1],
        }

    def signature(self) -> Signature:
        signed = super().signature()
        signed = replace(signed, revision=content_hash([signed.revision, self.method]))
        if self.method == "likelihood":  # nothing is drawn
            return replace(signed, seed=None)
        return signed

    def _score_fitting(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        if self.method == "likelihood":
            readings = self._by_likelihood(requests, dimensions)
        else:
            readings = self._by_answers(requests, dimensions)
        judgements = []
        rows = windows(readings, len(dimensions))
        for request, row in zip(requests, rows, strict=True):
            answers: dict[str, list[Answer]] = {}
            usages: list[Usage] = []
            for name, reading in zip(dimensions, row, strict=True):
                answers[name] = [reading.answer or Answer()]
                usages += reading.usages
            transient = any(reading.transient for reading in row)
            judgement = self.judged(
                request, answers, usages, "expected", transient=transient
            )
            for details in judgement.details.values():
                details.pop("parsed", None)  # an answer is a rating or none
            judgements.append(judgement)
        return judgements

    def _by_likelihood(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[RatingReading]:
        """Returns a reading for each request and dimension, in order."""
        texts = {name: ratings.texts for name, ratings in self.ratings.items()}
        # "1" also begins "10": there the end of the turn distinguishes them.
        eos = {name: ratings.ambiguous for name, ratings in self.ratings.items()}
        readings = []
        for row in self.answer_likelihoods(requests, dimensions, texts, eos):
            for likelihoods, usage in row.values():
                totals = [likelihood.total for likelihood in likelihoods]
                answer = from_logprobs(Answer(), totals)
                readings.append(RatingReading(answer, [usage]))
        return readings

    def _by_answers(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[RatingReading]:
        """As ``_by_likelihood``, from the alternatives to the rating's token or from samples."""
        chats: list[ChatRequest] = []
        for request in requests:
            for question in self.questions(request, dimensions):
                messages = self.messages(request, question)
                chats.append(ChatRequest(messages, ANSWER_TOKENS))
        readings = [RatingReading() for _ in chats]
        ratings = [self.ratings[name] for name in dimensions] * len(requests)
        if self.method == "top_logprobs":
            self._read_tokens(chats, ratings, readings)
        # Without alternatives, or if the token of one rating (1) may begin another one's (10), the
        # answer is sampled.
        unread = [i for i, reading in enumerate(readings) if reading.answer is None]
        count = self.config.samples
        samples: list[ChatRequest] = []
        for i in unread:
            warm = replace(chats[i], temperature=1.0)
            for number in range(count):
                samples.append(replace(warm, seed=self.config.seed + number))
        if not samples:
            return readings
        drawn = windows(self.llm.chat(samples), count)
        for i, completions in zip(unread, drawn, strict=True):
            reading = readings[i]
            for completion in completions:
                reading.usages.append(completion.usage)
                reading.transient |= completion.transient
            reading.answer = from_samples(completions, ratings[i])
        return readings

    def _read_tokens(
        self,
        chats: Sequence[ChatRequest],
        ratings: Sequence[Ratings],
        readings: Sequence[RatingReading],
    ) -> None:
        """Fills in those ``readings`` whose answer has alternatives to its rating, and failures."""
        answers = self.llm.chat([replace(chat, top_logprobs=20) for chat in chats])
        for reading, scale, completion in zip(readings, ratings, answers, strict=True):
            reading.usages.append(completion.usage)
            has_alternatives = any(token.alternatives for token in completion.tokens)
            if completion.failed:
                reading.answer = Answer(reason=completion.failure)
                reading.transient = completion.transient
            elif has_alternatives and not scale.ambiguous:
                reading.answer = expected_rating(completion, scale)


def expected_rating(completion: Completion, ratings: Ratings) -> Answer | None:
    """Returns the distribution over ``ratings`` in the place of the response's rating, or the
    reason why it has no rating; None if the rating's token has no alternatives."""
    written = "".join(token.text for token in completion.tokens)
    completion = replace(completion, text=written)
    answer = from_alternatives(completion, ratings.read(completion), ratings)
    if answer.value is not None and answer.chances is None:
        return None
    return Answer(reason=answer.reason, chances=answer.chances, mass=answer.mass)


# -- GPTScore: the likelihood of "yes" as the answer to a question (Fu et al., NAACL 2024) ---------


AFFIRMATIVE = "Yes"


class GPTScoreConfig(BasePromptedConfig):
    """The judge asks whether the answer is "Yes" (AFFIRMATIVE)."""

    family: Literal["gptscore"] = "gptscore"
    name: str = "gptscore"
    prompts: str = "prompts/gptscore"


class GPTScoreJudge(BasePromptedJudge):
    """Likelihood of "Yes" as the answer to a question about each dimension.

    ``details`` has the raw value in nats per token. The score is low + (high - low) exp(raw), so
    its ranks are those of raw.
    """

    family = "gptscore"
    config_class = GPTScoreConfig
    token_budget = 8192

    def __init__(self, config: GPTScoreConfig) -> None:
        self.config = config
        prompt_tokens = MAX_TOKENS - ANSWER_TOKENS
        super().__init__(
            config, answer_tokens=ANSWER_TOKENS, prompt_tokens=prompt_tokens
        )
        if self.llm.api:
            raise NotAvailableError(
                f"{self.name}: {self.llm.name} does not return log-probabilities of an answer",
                hint="use a model of this machine, or the judge geval",
            )

    def _score_fitting(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        answers = dict.fromkeys(dimensions, (AFFIRMATIVE,))
        eos = dict.fromkeys(dimensions, False)
        judgements = []
        for row in self.answer_likelihoods(requests, dimensions, answers, eos):
            results = {}
            for name, (likelihoods, _) in row.items():
                dimension, raw = self.dimension(name), likelihoods[0].mean
                chance = math.exp(raw)
                distribution = []
                if dimension.kind == "binary":
                    distribution = [1 - chance, chance]
                score = dimension.from_unit(chance)
                results[name] = DimensionScore(score, distribution, {"raw": raw})
            usage = spent(usage for _, usage in row.values())
            judgements.append(judgement_of(results, usage=usage))
        return judgements
