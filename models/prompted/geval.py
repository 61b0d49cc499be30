"""G-Eval: criteria, evaluation steps, and the expected rating (Liu et al., EMNLP 2023)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import ScoreRequest
from medal_judges.models.llm.cost import Usage, spent
from medal_judges.models.llm.protocol import ChatRequest, Completion
from medal_judges.models.prompted.base import (
    BasePromptedConfig,
    BasePromptedJudge,
    tells_likelihoods,
)
from medal_judges.models.prompted.parsing.answer import ParsedAnswer
from medal_judges.models.prompted.prediction import to_prediction
from medal_judges.models.prompted.prompt import Aspect
from medal_judges.models.prompted.ratings import (
    Ratings,
    from_logprobs,
    from_samples,
    from_token,
)
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import Signature, content_hash

Method = Literal["likelihood", "top_logprobs", "samples"]
ANSWER_TOKENS = 16  # kept free for the beginning of the answer and the rating


class Steps(Config):
    """A file of evaluation steps by dimension (``other`` for those not named), how they were made
    and by which models, and who read them over: steps that nobody has read (``reviewed`` empty) are
    not used."""

    name: str
    method: str
    generators: tuple[str, ...] = ()
    reviewed: str | None = None
    steps: Mapping[str, tuple[str, ...]]
    other: tuple[str, ...] = ()

    def of(self, dimension: str) -> tuple[str, ...]:
        """The steps for ``dimension``; none where the file has none."""
        return self.steps.get(dimension, self.other)


def load_steps(path: str) -> Steps:
    """The steps file ``path`` (or the shipped one of that name).

    Raises ConfigError when the file is malformed or nobody has reviewed it.
    """
    steps = build_config(Steps, read_yaml(path), where=path)
    if not steps.reviewed:
        raise ConfigError(
            f"{path}: these evaluation steps have not been reviewed",
            hint="read and correct them, and say who did: reviewed: NAME, DATE",
        )
    return steps


class GEvalConfig(BasePromptedConfig):
    """``steps``: the reviewed file of evaluation steps; none leaves them out. ``method``: where the
    distribution over ratings comes from, see GEvalJudge. ``points``: how many ratings are offered,
    from 1, where the dimension has no whole-number levels (or more than eleven). A prompt and its
    answer of more than ``max_tokens`` (or than the model's window) lose whole oldest turns."""

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

    ``likelihood``: the probability of every rating's text as the answer, the conversation read
    once. ``top_logprobs``: of the alternatives that an API reports for the token of the rating.
    ``samples``: the share of each rating among ``samples`` answers, as in the paper (20 at
    temperature 1). ``auto``: likelihoods where the backend tells them of the chat itself, else
    top_logprobs; where an API reports no alternatives for an answer, that answer is sampled
    (``samples`` in the dimension's details says so).

    Distributions are over the levels of an ordinal or binary dimension; ``details`` has their mean,
    spread and mass.
    """

    family = "geval"
    token_budget = 8192

    def __init__(self, config: GEvalConfig) -> None:
        self.config = config
        steps = load_steps(config.steps) if config.steps else None

        def values(dimension: Dimension, aspect: Aspect) -> Mapping[str, str | None]:
            return _values(dimension, aspect, Ratings.of(dimension, config.points), steps)

        super().__init__(
            config,
            answer_tokens=ANSWER_TOKENS,
            prompt_tokens=config.max_tokens - ANSWER_TOKENS,
            values=values,
        )
        self.require_one_each()
        self.ratings = {d.name: Ratings.of(d, config.points) for d in self.dimensions}
        self.method: Method = "top_logprobs"
        if config.method != "auto":
            self.method = config.method
        elif tells_likelihoods(self.llm):
            self.method = "likelihood"

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> GEvalJudge:
        """A judge of configs/judges/; fields as in GEvalConfig. Raises ConfigError."""
        return cls(build_config(GEvalConfig, dict(settings), where="geval judge"))

    def signature(self) -> Signature:
        signed = super().signature()
        drawn = self.method != "likelihood"
        return replace(
            signed,
            revision=content_hash([signed.revision, self.method]),
            seed=self.config.seed if drawn else None,
        )

    def _score_fitting(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        read = self._by_likelihood if self.method == "likelihood" else self._by_answers
        predictions = []
        for request, own in zip(requests, read(requests, dimensions), strict=True):
            prediction = to_prediction(
                {name: [parsed] for name, (parsed, _, _) in own.items()},
                [self.dimension(name) for name in dimensions],
                self.builder(request),
                self.ratings,
                pool="mean",
                score="expected",
            )
            # An answer is one of the ratings or none of them: nothing to say of how it was parsed.
            for details in prediction.details.values():
                details.pop("parsed", None)
            usage = spent(usage for _, usages, _ in own.values() for usage in usages)
            transient = any(transient for _, _, transient in own.values())
            predictions.append(replace(prediction, usage=usage, transient=transient))
        return predictions

    def _by_likelihood(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[dict[str, RatingAnswer]]:
        texts = {name: ratings.texts for name, ratings in self.ratings.items()}
        # "1" also begins "10": there the end of the turn has to tell them apart.
        eos = {name: ratings.ambiguous for name, ratings in self.ratings.items()}
        return [
            {
                name: (_distributed([each.total for each in likelihoods]), [usage], False)
                for name, (likelihoods, usage) in own.items()
            }
            for own in self.answer_likelihoods(requests, dimensions, texts, eos)
        ]

    def _by_answers(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[dict[str, RatingAnswer]]:
        asked = [
            (self.ratings[name], ChatRequest(self.messages(request, question), ANSWER_TOKENS))
            for request in requests
            for name, question in zip(dimensions, self.questions(request, dimensions), strict=True)
        ]
        answers: dict[int, RatingAnswer] = {}
        in_vain: dict[int, Usage] = {}  # of answers that told no alternatives
        if self.method == "top_logprobs":
            first = self.chat([replace(chat, top_logprobs=20) for _, chat in asked])
            for i, (completion, usage) in enumerate(first):
                if (parsed := _from_alternatives(completion, asked[i][0])) is None:
                    in_vain[i] = usage
                else:
                    answers[i] = (parsed, [usage], completion.transient)
        left = [i for i in range(len(asked)) if i not in answers]
        warm = {i: replace(asked[i][1], temperature=self.config.temperature) for i in left}
        seeds = range(self.config.seed, self.config.seed + self.config.samples)
        drawn = iter(self.chat([replace(warm[i], seed=seed) for i in left for seed in seeds]))
        for i in left:
            part = [next(drawn) for _ in seeds]
            usages = [in_vain[i]] if i in in_vain else []
            usages += [usage for _, usage in part]
            parsed = from_samples([completion for completion, _ in part], asked[i][0])
            answers[i] = (parsed, usages, any(completion.transient for completion, _ in part))
        ordered = (answers[i] for i in range(len(asked)))
        return [{name: next(ordered) for name in dimensions} for _ in requests]


# What was read, what it took, and whether a failure in it passes by itself.
RatingAnswer = tuple[ParsedAnswer, list[Usage], bool]


def _distributed(logprobs: Sequence[float]) -> ParsedAnswer:
    return ParsedAnswer(None, distribution=from_logprobs(logprobs))


def _from_alternatives(completion: Completion, ratings: Ratings) -> ParsedAnswer | None:
    """None where the backend told no alternatives (to the rating's own token: one that stands
    alone would pass for certain), or where the token of one rating (1) may be the first of
    another one's (10): then the answer is sampled."""
    if completion.finish == "failed":
        return ParsedAnswer(None, completion.failure)
    if ratings.ambiguous or not any(token.alternatives for token in completion.tokens):
        return None
    return from_token(completion, ratings)


def _values(
    dimension: Dimension, aspect: Aspect, ratings: Ratings, steps: Steps | None
) -> dict[str, str | None]:
    """What the prompt's placeholders are filled with; None leaves a part out."""
    numbered = enumerate(steps.of(dimension.name) if steps else (), start=1)
    bands: list[str] = []
    if len(aspect.bands) == len(ratings.texts):  # else the scale asked for has other levels
        pairs = zip(ratings.texts, aspect.bands, strict=True)
        bands = [f"- {text}: {band}" for text, band in pairs]
    return {
        "criteria": aspect.criteria or aspect.definition or dimension.definition,
        "steps": "\n".join(f"{i}. {step}" for i, step in numbered) or None,
        "bands": "\n".join(bands) or None,
        "low": ratings.texts[0],
        "high": ratings.texts[-1],
    }
