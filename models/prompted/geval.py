"""G-Eval: criteria, evaluation steps, and the expected rating (Liu et al., EMNLP 2023)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from medal_judges.config import build_config
from medal_judges.details import Details
from medal_judges.dimension import Dimension
from medal_judges.models.base.judge import Prediction, ScoreRequest
from medal_judges.models.llm.amounts import likelihood_usage, spent, usage_of
from medal_judges.models.llm.protocol import ChatRequest, Completion, Usage
from medal_judges.models.prompted.geval_ratings import (
    Found,
    Ratings,
    from_logprobs,
    from_samples,
    from_token,
)
from medal_judges.models.prompted.geval_steps import load_steps
from medal_judges.models.prompted.likelihood_questions import (
    QuestionConfig,
    QuestionJudge,
    tells_likelihoods,
)
from medal_judges.models.prompted.prompt import ANSWER, Aspect
from medal_judges.signature import Signature, content_hash

Method = Literal["likelihood", "top_logprobs", "samples"]


class GEvalConfig(QuestionConfig):
    """``steps``: the reviewed file of evaluation steps; none leaves them out. ``method``: where the
    distribution over ratings comes from, see GEvalJudge. ``points``: how many ratings are offered,
    from 1, where the dimension has no whole-number levels (or more than eleven)."""

    family: Literal["geval"] = "geval"
    name: str = "geval"
    prompt: str = "prompts/geval"
    steps: str | None = "prompts/geval_steps"
    method: Literal["auto"] | Method = "auto"
    samples: int = Field(default=20, ge=2)
    temperature: float = Field(default=1.0, gt=0)
    seed: int = 0
    points: int = Field(default=5, ge=2, le=11)


class GEvalJudge(QuestionJudge):
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

    def __init__(self, config: GEvalConfig) -> None:
        self.config, self.name = config, config.name
        self.steps = load_steps(config.steps) if config.steps else None
        super().__init__(config)
        self.method: Method = self._method(config.method)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> GEvalJudge:
        """A judge of configs/judges/; fields as in GEvalConfig. Raises ConfigError."""
        return cls(build_config(GEvalConfig, dict(settings), where="geval judge"))

    def _method(self, wanted: Literal["auto"] | Method) -> Method:
        if wanted != "auto":
            return wanted
        return "likelihood" if tells_likelihoods(self.llm) else "top_logprobs"

    def signature(self) -> Signature:
        from medal_judges import __version__

        fingerprint = dict(self.llm.fingerprint())
        sampled = {"samples": self.config.samples, "temperature": self.config.temperature}
        method = [self.method, None if self.method == "likelihood" else sampled, self.config.points]
        return Signature(
            judge=self.name,
            revision=content_hash([method, fingerprint]),
            base=self.llm.name,
            prompt=self.prompt_hash(),
            rubric=content_hash([d.to_record() for d in self.dimensions]),
            dtype=fingerprint.get("dtype"),
            truncation=f"oldest turns beyond {self.prompt_budget} tokens",
            seed=None if self.method == "likelihood" else self.config.seed,
            version=__version__,
        )

    # -- the prompt --------------------------------------------------------------------------------

    def _rated(self, dimension: Dimension) -> Ratings:
        return Ratings.of(dimension, self.config.points)

    def _values(self, dimension: Dimension) -> dict[str, str]:
        aspect = self.prompt.aspects.get(dimension.name, Aspect())
        rated = self._rated(dimension)
        definition = aspect.definition or dimension.definition
        steps = self.steps.of(dimension.name) if self.steps else ()
        return {
            "label": aspect.label or dimension.name.replace("_", " "),
            "definition": definition,
            "criteria": aspect.criteria or definition,
            "steps": "\n".join(f"{i}. {step}" for i, step in enumerate(steps, start=1)),
            "bands": "\n".join(_bands(aspect.bands, rated.texts)),
            "low": rated.texts[0],
            "high": rated.texts[-1],
        }

    def _parts(self, dimension: Dimension, names: tuple[str, ...]) -> tuple[str, ...]:
        filled = {"steps": "steps", "anchors": "bands"}
        values = self._values(dimension)
        kept = [name for name in names if name not in filled or values[filled[name]]]
        binary = {ANSWER: "answer_binary"} if dimension.kind == "binary" else {}
        return tuple(binary.get(name, name) for name in kept)

    # -- the score ---------------------------------------------------------------------------------

    def _score_batch(
        self, items: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Prediction]:
        fit = [item for item in items if self.fits(item)]
        rated = self._by_likelihood if self.method == "likelihood" else self._by_answers
        found = iter(rated(fit, dimensions))
        return [
            self._scores(next(found))
            if self.fits(item)
            else Prediction(dict.fromkeys(dimensions), failure=self.too_long(item))
            for item in items
        ]

    def _by_likelihood(
        self, items: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[dict[str, Found]]:
        ratings = {name: self._rated(self.dimension(name)) for name in dimensions}
        texts = {name: r.texts for name, r in ratings.items()}
        # "1" also begins "10": there the end of the turn has to tell them apart.
        score_eos = {name: r.ambiguous for name, r in ratings.items()}
        return [
            {
                name: replace(
                    from_logprobs([f.total for f in each]),
                    usages=(likelihood_usage(self.prompt_tokens(item, name), each),),
                )
                for name, each in answer.items()
            }
            for item, answer in zip(items, self.likelihoods(items, texts, score_eos), strict=True)
        ]

    def _by_answers(
        self, items: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[dict[str, Found]]:
        asked = [(item, self.dimension(name)) for item in items for name in dimensions]
        answers: list[Found | None] = [None] * len(asked)
        in_vain: list[tuple[Usage, ...]] = [()] * len(asked)  # of answers that told no alternatives
        if self.method == "top_logprobs":
            requests = [self._request(item, d, None) for item, d in asked]
            for i, completion in enumerate(self._counted(requests)):
                answers[i] = self._read(completion, self._rated(asked[i][1]))
                in_vain[i] = () if answers[i] is not None else (completion.usage,)
        left = [i for i, found in enumerate(answers) if found is None]
        count = self.config.samples
        requests = [self._request(*asked[i], k) for i in left for k in range(count)]
        drawn = self._counted(requests)
        for position, i in enumerate(left):
            part = drawn[position * count : (position + 1) * count]
            sampled = from_samples(part, self._rated(asked[i][1]))
            answers[i] = replace(sampled, usages=in_vain[i] + sampled.usages)
        done = iter(found for found in answers if found is not None)
        return [{name: next(done) for name in dimensions} for _ in items]

    def _counted(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        done = self.llm.chat(requests) if requests else []
        return [
            replace(completion, usage=usage_of(self.llm, request, completion))
            for request, completion in zip(requests, done, strict=True)
        ]

    def _request(self, item: ScoreRequest, dimension: Dimension, sample: int | None) -> ChatRequest:
        messages = self.messages(item, dimension, item.payload)
        if sample is None:
            return ChatRequest(messages, max_tokens=self.spare, top_logprobs=20)
        seed = self.config.seed + sample
        return ChatRequest(
            messages, max_tokens=self.spare, temperature=self.config.temperature, seed=seed
        )

    def _read(self, completion: Completion, ratings: Ratings) -> Found | None:
        """None where the backend told no alternatives (to the rating's own token: one that stands
        alone would pass for certain), or where the token of one rating (1) may be the first of
        another one's (10): then the answer is sampled."""
        if completion.finish == "failed":
            return Found(
                None,
                failure=completion.failure,
                usages=(completion.usage,),
                transient=completion.transient,
            )
        if ratings.ambiguous or not any(token.alternatives for token in completion.tokens):
            return None
        return from_token(completion, ratings)

    def _scores(self, answers: Mapping[str, Found]) -> Prediction:
        scores: dict[str, float | None] = {}
        distributions: dict[str, Sequence[float]] = {}
        details: dict[str, Details] = {}
        reasons: list[str] = []
        for name, found in answers.items():
            dimension = self.dimension(name)
            rated = self._rated(dimension)
            details[name] = Details(mass=found.mass, samples=found.samples or None)
            if found.chances is None:
                scores[name] = None
                reasons.append(f"{name}: {found.failure}")
                continue
            mean, spread = rated.moments(found.chances)
            scores[name] = mean
            details[name] = replace(details[name], expected=mean, spread=spread)
            if rated.values == dimension.levels:
                distributions[name] = found.chances
        return Prediction(
            scores,
            distributions,
            failure="; ".join(reasons) or None,
            usage=spent(usage for found in answers.values() for usage in found.usages),
            transient=any(found.transient for found in answers.values()),
            details=details,
        )


def _bands(bands: Sequence[str], texts: Sequence[str]) -> list[str]:
    """What each rating means; nothing where the scale asked for has another number of them."""
    if len(bands) != len(texts):
        return []
    return [f"- {text}: {band}" for text, band in zip(texts, bands, strict=True)]
