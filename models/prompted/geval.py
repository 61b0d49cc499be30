"""G-Eval: criteria, evaluation steps, and the expected rating (Liu et al., 2023). Also GPTScore."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from medal_judges.errors import NotAvailableError
from medal_judges.models.base.judge import DimensionScore, ScoreRequest, as_judgement
from medal_judges.models.batching import chunks
from medal_judges.models.llm.cost import Usage, sum_to_record
from medal_judges.models.llm.protocol import ChatRequest, Completion
from medal_judges.models.prompted.answers import Answer
from medal_judges.models.prompted.judge import BasePromptedConfig, BasePromptedJudge
from medal_judges.models.prompted.prompt import Aspect
from medal_judges.models.prompted.ratings import (
    Ratings,
    with_rating_probabilities,
    with_reported_probabilities,
)
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement

ANSWER_TOKENS = 16  # for the beginning of the answer and the rating or word
MAX_TOKENS = 4096  # of prompt and answer
# Ratings, from 1, of a dimension without whole-number levels (or with more than eleven).
POINTS = 5


class GEvalConfig(BasePromptedConfig):
    """The settings of a G-Eval judge. They are those that every judge with a prompt file has, such
    as ``llm`` and ``prompts``. In a judge file, ``family: geval`` selects this kind of judge."""

    family: Literal["geval"] = "geval"


class GEvalJudge(BasePromptedJudge):
    """A G-Eval judge. Its score is the expected rating: the mean of all possible ratings, weighted
    by the probabilities that the model gives to them.

    If a server runs the model, it must report log-probabilities of alternative tokens
    (``top_logprobs``). If it does not, the score is None.

    Args:
        config: The settings.
    """

    family = "geval"
    config_class = GEvalConfig
    scores_expected = True
    token_budget = 8192

    def __init__(self, config: GEvalConfig) -> None:
        self.config = config
        super().__init__(
            config,
            answer_tokens=ANSWER_TOKENS,
            prompt_tokens=MAX_TOKENS - ANSWER_TOKENS,
            values=self._template_values,
        )
        self.ratings = {
            d.name: Ratings.of_dimension(d, POINTS) for d in self.dimensions
        }

    def _template_values(
        self, dimension: Dimension, aspect: Aspect
    ) -> Mapping[str, str | None]:
        """Returns template variable -> value, for the variables that only G-Eval's prompts have.

        An example is ``{"criteria": "...", "bands": "- 1: poor", "low": "1", "high": "5"}``.
        ``bands`` is None if the prompt file does not describe each rating.

        Args:
            dimension: The dimension to score.
            aspect: The prompt file's texts about the dimension.
        """
        texts = Ratings.of_dimension(dimension, POINTS).texts
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

    def _score_fitting_requests(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        ask = self._rate_by_likelihood
        if self.llm.api:
            ask = self._rate_by_alternatives
        readings = ask(requests, dimensions)
        judgements = []
        rows = chunks(readings, len(dimensions))
        for request, row in zip(requests, rows, strict=True):
            answers = {}
            for name, reading in zip(dimensions, row, strict=True):
                answers[name] = reading[0]
            usages = [usage for _, usage, _ in row]
            transient = any(is_transient for _, _, is_transient in row)
            judgements.append(
                self.build_judgement(request, answers, usages, transient=transient)
            )
        return judgements

    def _rate_by_likelihood(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Reading]:
        """Rates ``requests`` with a model on this machine, by the likelihood of each possible
        rating.

        Returns:
            (answer, usage, whether a failure is transient) for each request and each of
                ``dimensions``, in order. The last value is always False on this machine.
        """
        texts = {name: ratings.texts for name, ratings in self.ratings.items()}
        # "1" also begins "10": there the end of the turn distinguishes them.
        eos = {name: ratings.any_is_prefix for name, ratings in self.ratings.items()}
        readings: list[Reading] = []
        for row in self.compute_answer_likelihoods(requests, dimensions, texts, eos):
            for likelihoods, usage in row.values():
                totals = [likelihood.total for likelihood in likelihoods]
                readings.append(
                    (with_rating_probabilities(Answer(), totals), usage, False)
                )
        return readings

    def _rate_by_alternatives(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Reading]:
        """Rates ``requests`` with a model on a server, by the probabilities of alternative tokens.

        Returns:
            (answer, usage, whether a failure is transient) for each request and each of
                ``dimensions``, in order.
        """
        chats: list[ChatRequest] = []
        for request in requests:
            for question in self.questions(request, dimensions):
                messages = self.messages(request, question)
                chats.append(ChatRequest(messages, ANSWER_TOKENS, top_logprobs=20))
        readings: list[Reading] = []
        ratings = [self.ratings[name] for name in dimensions] * len(requests)
        for completion, scale in zip(self.llm.chat(chats), ratings, strict=True):
            answer = rating_distribution(completion, scale)
            readings.append((answer, completion.usage, completion.transient))
        return readings


# An answer, the usage of its requests, and whether they failed for now.
Reading = tuple[Answer, Usage, bool]


def rating_distribution(completion: Completion, ratings: Ratings) -> Answer:
    """Reads the probability of each rating from the log-probabilities that a server reports with
    its answer.

    Args:
        completion: The answer, with the alternatives to each token.
        ratings: The ratings that the model may give.

    Returns:
        An Answer with the probabilities in ``chances``. If the server's answer has no rating, or no
        alternatives to it, ``chances`` is None and ``reason`` says why.
    """
    written = "".join(token.text for token in completion.tokens)
    if written:
        completion = replace(completion, text=written)
    answer = with_reported_probabilities(completion, ratings.read(completion), ratings)
    reason = answer.reason
    if reason is None and answer.chances is None:
        reason = "the server reports no alternatives to the rating"
    return Answer(reason=reason, chances=answer.chances, mass=answer.mass)


# -- GPTScore: the likelihood of "yes" as the answer to a question (Fu et al., NAACL 2024) ---------


AFFIRMATIVE = "Yes"


class GPTScoreConfig(BasePromptedConfig):
    """The settings of a GPTScore judge. They are those that every judge with a prompt file has,
    such as ``llm`` and ``prompts``. In a judge file, ``family: gptscore`` selects this kind of
    judge."""

    family: Literal["gptscore"] = "gptscore"


class GPTScoreJudge(BasePromptedJudge):
    """A GPTScore judge. It asks one yes-no question for each dimension. The score is the likelihood
    of the answer "Yes".

    The likelihood is exp(mean log-probability per token). It is mapped from [0, 1] to the
    dimension's scale.

    Args:
        config: The settings.

    Raises:
        NotAvailableError: A server runs the language model, and so gives no likelihoods.
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
                hint="Use a model of this machine, or the judge geval",
            )

    def _score_fitting_requests(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        answers = dict.fromkeys(dimensions, (AFFIRMATIVE,))
        eos = dict.fromkeys(dimensions, False)
        judgements = []
        for row in self.compute_answer_likelihoods(requests, dimensions, answers, eos):
            results = {}
            for name, (likelihoods, _) in row.items():
                dimension, raw = self.dimension(name), likelihoods[0].mean
                chance = math.exp(raw)
                distribution = []
                if dimension.kind == "binary":
                    distribution = [1 - chance, chance]
                score = dimension.from_unit(chance)
                results[name] = DimensionScore(score, distribution, {"raw": raw})
            usage = sum_to_record(usage for _, usage in row.values())
            judgements.append(as_judgement(results, usage=usage))
        return judgements
