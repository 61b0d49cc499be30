"""G-Eval: criteria, evaluation steps, and the expected rating (Liu et al., 2023); GPTScore."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Literal

from pydantic import Field

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import DimensionScore, ScoreRequest, judgement_of
from medal_judges.models.batching import windows
from medal_judges.models.llm.cost import Usage, spent
from medal_judges.models.llm.protocol import ChatRequest
from medal_judges.models.prompted.answers import Answer
from medal_judges.models.prompted.judge import (
    BasePromptedConfig,
    BasePromptedJudge,
    tells_likelihoods,
)
from medal_judges.models.prompted.prompt import Aspect
from medal_judges.models.prompted.ratings import (
    Ratings,
    from_logprobs,
    from_samples,
    from_token,
    to_judgement,
)
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import Signature, content_hash

Method = Literal["likelihood", "top_logprobs", "samples"]
ANSWER_TOKENS = 16  # for the beginning of the answer and the rating or word


@dataclass(slots=True)
class RatingReading:
    """The ``answer`` about one dimension, the usage of its requests, and whether it failed for
    now."""

    answer: Answer | None = None
    usages: list[Usage] = field(default_factory=list)
    transient: bool = False


class Steps(Config):
    """Evaluation steps by dimension (``other`` for the rest), how and by which models they were
    made, and who reviewed them."""

    name: str
    method: str
    generators: tuple[str, ...] = ()
    reviewed: str | None = None
    steps: Mapping[str, tuple[str, ...]]
    other: tuple[str, ...] = ()


def load_steps(path: str) -> Steps:
    """Loads the steps file ``path``. Raises ConfigError if its steps have not been reviewed."""
    steps = build_config(Steps, read_yaml(path), where=path)
    if not steps.reviewed:
        raise ConfigError(
            f"{path}: these evaluation steps have not been reviewed",
            hint="read and correct them, and add reviewed: NAME, DATE",
        )
    return steps


class GEvalConfig(BasePromptedConfig):
    """``steps``: the reviewed file of evaluation steps; none leaves them out. ``method``: see
    GEvalJudge. ``points``: the number of ratings, from 1, if the dimension has no whole-number
    levels (or more than eleven). ``samples`` answers at ``temperature`` are drawn if neither
    likelihoods nor alternatives are there. ``max_tokens`` of prompt and answer at most."""

    family: Literal["geval"] = "geval"
    name: str = "geval"
    prompt: str = "prompts/geval"
    steps: str | None = "prompts/geval_steps"
    method: Literal["auto"] | Method = "auto"
    samples: int = Field(default=20, ge=2)
    temperature: float = Field(default=1.0, gt=0)
    points: int = Field(default=5, ge=2, le=11)
    max_tokens: int = Field(default=4096, ge=64)


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
        steps = load_steps(config.steps) if config.steps else None

        def values(dimension: Dimension, aspect: Aspect) -> Mapping[str, str | None]:
            """The prompt's placeholders; a part with the value None is left out."""
            ratings, bands, numbered = Ratings.of(dimension, config.points), [], []
            if steps:
                texts = steps.steps.get(dimension.name, steps.other)
                numbered = [
                    f"{number}. {text}" for number, text in enumerate(texts, start=1)
                ]
            if len(aspect.bands) == len(
                ratings.texts
            ):  # else the requested scale has other levels
                pairs = zip(ratings.texts, aspect.bands, strict=True)
                bands = [f"- {text}: {band}" for text, band in pairs]
            return {
                "criteria": aspect.criteria
                or aspect.definition
                or dimension.definition,
                "steps": "\n".join(numbered) or None,
                "bands": "\n".join(bands) or None,
                "low": ratings.texts[0],
                "high": ratings.texts[-1],
            }

        super().__init__(
            config,
            answer_tokens=ANSWER_TOKENS,
            prompt_tokens=config.max_tokens - ANSWER_TOKENS,
            values=values,
        )
        self.ratings = {d.name: Ratings.of(d, config.points) for d in self.dimensions}
        method = config.method
        if method == "auto":
            method = "likelihood" if tells_likelihoods(self.llm) else "top_logprobs"
        self.method: Method = method

    def signature(self) -> Signature:
        signed = super().signature()
        seed = None if self.method == "likelihood" else self.config.seed
        return replace(
            signed, revision=content_hash([signed.revision, self.method]), seed=seed
        )

    def _score_fitting(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        read = self._by_likelihood if self.method == "likelihood" else self._by_answers
        scored = [self.dimension(name) for name in dimensions]
        judgements = []
        for request, readings in zip(requests, read(requests, dimensions), strict=True):
            answers = {
                name: [reading.answer or Answer()] for name, reading in readings.items()
            }
            builder = self.builder(request)
            judgement = to_judgement(
                answers, scored, builder, self.ratings, score="expected"
            )
            for details in judgement.details.values():
                details.pop("parsed", None)  # an answer is a rating or none
            usage = spent(
                chain.from_iterable(reading.usages for reading in readings.values())
            )
            transient = any(reading.transient for reading in readings.values())
            judgements.append(replace(judgement, usage=usage, transient=transient))
        return judgements

    def _by_likelihood(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[dict[str, RatingReading]]:
        texts = {name: ratings.texts for name, ratings in self.ratings.items()}
        # "1" also begins "10": there the end of the turn distinguishes them.
        eos = {name: ratings.ambiguous for name, ratings in self.ratings.items()}
        rows = []
        for likelihoods_by_name in self.answer_likelihoods(
            requests, dimensions, texts, eos
        ):
            row = {}
            for name, (likelihoods, usage) in likelihoods_by_name.items():
                totals = [likelihood.total for likelihood in likelihoods]
                row[name] = RatingReading(from_logprobs(Answer(), totals), [usage])
            rows.append(row)
        return rows

    def _by_answers(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[dict[str, RatingReading]]:
        """As ``_by_likelihood``, from the alternatives to the rating's token or from samples."""
        chats: list[ChatRequest] = []
        for request in requests:
            for question in self.questions(request, dimensions):
                chats.append(
                    ChatRequest(self.messages(request, question), ANSWER_TOKENS)
                )
        readings = [RatingReading() for _ in chats]
        ratings = [self.ratings[name] for name in dimensions] * len(requests)
        if self.method == "top_logprobs":
            self._read_tokens(chats, ratings, readings)
        # Without alternatives, or if the token of one rating (1) may begin another one's (10), the
        # answer is sampled.
        unread = [i for i, reading in enumerate(readings) if reading.answer is None]
        first_seed, count = self.config.seed, self.config.samples
        samples: list[ChatRequest] = []
        for i in unread:
            warm = replace(chats[i], temperature=self.config.temperature)
            samples += [
                replace(warm, seed=first_seed + number) for number in range(count)
            ]
        for i, drawn in zip(unread, windows(self.chat(samples), count), strict=True):
            completions = [completion for completion, _ in drawn]
            readings[i].answer = from_samples(completions, ratings[i])
            readings[i].usages += [usage for _, usage in drawn]
            readings[i].transient = any(
                completion.transient for completion in completions
            )
        width = len(dimensions)
        return [
            dict(zip(dimensions, row, strict=True)) for row in windows(readings, width)
        ]

    def _read_tokens(
        self,
        chats: Sequence[ChatRequest],
        ratings: Sequence[Ratings],
        readings: Sequence[RatingReading],
    ) -> None:
        """Fills in those ``readings`` whose answer has alternatives to its rating, and failures."""
        answers = self.chat([replace(chat, top_logprobs=20) for chat in chats])
        for reading, scale, (completion, usage) in zip(
            readings, ratings, answers, strict=True
        ):
            reading.usages.append(usage)
            if completion.failed:
                reading.answer = Answer(reason=completion.failure)
                reading.transient = completion.transient
            elif not scale.ambiguous and any(
                token.alternatives for token in completion.tokens
            ):
                reading.answer = from_token(completion, scale)


# -- GPTScore: the likelihood of "yes" as the answer to a question (Fu et al., NAACL 2024) ---------


class GPTScoreConfig(BasePromptedConfig):
    """``affirmative``: the answer, in the prompt's language (quoted in YAML). ``max_tokens``: as in
    G-Eval."""

    family: Literal["gptscore"] = "gptscore"
    name: str = "gptscore"
    prompt: str = "prompts/gptscore"
    affirmative: str = "Yes"
    max_tokens: int = Field(default=4096, ge=64)


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
        prompt_tokens = config.max_tokens - ANSWER_TOKENS
        super().__init__(
            config, answer_tokens=ANSWER_TOKENS, prompt_tokens=prompt_tokens
        )
        if not tells_likelihoods(self.llm):
            raise ConfigError(
                f"{self.name}: {self.llm.name} does not return log-probabilities of an answer",
                hint="use a local model or a server of your own (vLLM), or the judge geval",
            )

    def _score_fitting(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        answers = dict.fromkeys(dimensions, (self.config.affirmative,))
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
