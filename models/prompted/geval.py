"""G-Eval: criteria, evaluation steps, and the expected rating (Liu et al., 2023); GPTScore."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import ScoreRequest
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
# An answer, its usage, and whether it failed for now.
Read = tuple[Answer, list[Usage], bool]
ANSWER_TOKENS = 16  # for the beginning of the answer and the rating or word


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
            ratings, numbered, bands = Ratings.of(dimension, config.points), "", ""
            if steps:
                own = steps.steps.get(dimension.name, steps.other)
                numbered = "\n".join(f"{i}. {step}" for i, step in enumerate(own, start=1))
            if len(aspect.bands) == len(ratings.texts):  # else the requested scale has other levels
                pairs = zip(ratings.texts, aspect.bands, strict=True)
                bands = "\n".join(f"- {text}: {band}" for text, band in pairs)
            return {
                "criteria": aspect.criteria or aspect.definition or dimension.definition,
                "steps": numbered or None,
                "bands": bands or None,
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
        return replace(signed, revision=content_hash([signed.revision, self.method]), seed=seed)

    def _score_fitting(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        read = self._by_likelihood if self.method == "likelihood" else self._by_answers
        wanted = [self.dimension(name) for name in dimensions]
        judgements = []
        for request, own in zip(requests, read(requests, dimensions), strict=True):
            answers = {name: [answer] for name, (answer, _, _) in own.items()}
            builder = self.builder(request)
            judgement = to_judgement(answers, wanted, builder, self.ratings, score="expected")
            for details in judgement.details.values():
                details.pop("parsed", None)  # an answer is a rating or none
            usage = spent(usage for _, usages, _ in own.values() for usage in usages)
            transient = any(transient for _, _, transient in own.values())
            judgements.append(replace(judgement, usage=usage, transient=transient))
        return judgements

    def _by_likelihood(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[dict[str, Read]]:
        texts = {name: ratings.texts for name, ratings in self.ratings.items()}
        # "1" also begins "10": there the end of the turn distinguishes them.
        eos = {name: ratings.ambiguous for name, ratings in self.ratings.items()}
        found = []
        for own in self.answer_likelihoods(requests, dimensions, texts, eos):
            read: dict[str, Read] = {}
            for name, (likelihoods, usage) in own.items():
                answer = from_logprobs(Answer(), [each.total for each in likelihoods])
                read[name] = (answer, [usage], False)
            found.append(read)
        return found

    def _by_answers(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[dict[str, Read]]:
        """As ``_by_likelihood``, from the alternatives to the rating's token or from samples."""
        asked = [
            (self.ratings[name], ChatRequest(self.messages(request, question), ANSWER_TOKENS))
            for request in requests
            for name, question in zip(dimensions, self.questions(request, dimensions), strict=True)
        ]
        found: dict[int, Read] = {}
        in_vain: dict[int, list[Usage]] = {}  # of answers without alternatives
        if self.method == "top_logprobs":
            first = self.chat([replace(chat, top_logprobs=20) for _, chat in asked])
            for i, (completion, usage) in enumerate(first):
                # Without alternatives, or if the token of one rating (1) may begin another one's
                # (10), the answer is sampled.
                ratings, answer = asked[i][0], None
                if completion.failed:
                    answer = Answer(reason=completion.failure)
                elif not ratings.ambiguous and any(t.alternatives for t in completion.tokens):
                    answer = from_token(completion, ratings)
                if answer is None:
                    in_vain[i] = [usage]
                else:
                    found[i] = (answer, [usage], completion.transient)
        left = [i for i in range(len(asked)) if i not in found]
        seeds = range(self.config.seed, self.config.seed + self.config.samples)
        warm = self.config.temperature
        drawn = iter(
            self.chat([replace(asked[i][1], temperature=warm, seed=s) for i in left for s in seeds])
        )
        for i in left:
            part = [next(drawn) for _ in seeds]
            usages = [*in_vain.get(i, []), *(usage for _, usage in part)]
            answer = from_samples([completion for completion, _ in part], asked[i][0])
            found[i] = (answer, usages, any(completion.transient for completion, _ in part))
        ordered = (found[i] for i in range(len(asked)))
        return [{name: next(ordered) for name in dimensions} for _ in requests]


# -- GPTScore: the likelihood of "yes" as the answer to a question (Fu et al., NAACL 2024) ---------


class GPTScoreConfig(BasePromptedConfig):
    """``affirmative`` and ``negative``: the two answers, in the prompt's language (quoted in YAML).
    ``against_negative``: the score is the affirmative answer's likelihood minus the negative one's;
    the paper has the first alone. ``max_tokens``: as in G-Eval."""

    family: Literal["gptscore"] = "gptscore"
    name: str = "gptscore"
    prompt: str = "prompts/gptscore"
    affirmative: str = "Yes"
    negative: str = "No"
    against_negative: bool = False
    max_tokens: int = Field(default=4096, ge=64)


class GPTScoreJudge(BasePromptedJudge):
    """Likelihood of "Yes" as the answer to a question about each dimension.

    ``details`` has the raw value in nats per token: l(Yes), or l(Yes) - l(No). The score is
    low + (high - low) p with p = exp(raw), or 1 / (1 + exp(-raw)): same ranks as raw.
    """

    family = "gptscore"
    config_class = GPTScoreConfig
    token_budget = 8192

    def __init__(self, config: GPTScoreConfig) -> None:
        self.config = config
        prompt_tokens = config.max_tokens - ANSWER_TOKENS
        super().__init__(config, answer_tokens=ANSWER_TOKENS, prompt_tokens=prompt_tokens)
        if not tells_likelihoods(self.llm):
            raise ConfigError(
                f"{self.name}: {self.llm.name} does not return log-probabilities of an answer",
                hint="use a local model or a server of your own (vLLM), or the judge geval",
            )

    def _score_fitting(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        texts = [self.config.affirmative]
        if self.config.against_negative:
            texts.append(self.config.negative)
        answers = dict.fromkeys(dimensions, texts)
        eos = dict.fromkeys(dimensions, False)
        judgements = []
        for own in self.answer_likelihoods(requests, dimensions, answers, eos):
            scores: dict[str, float | None] = {}
            details: dict[str, dict[str, Any]] = {}
            distributions: dict[str, Sequence[float]] = {}
            for name, (likelihoods, _) in own.items():
                yes, *no = [each.mean for each in likelihoods]
                raw = yes - no[0] if no else yes
                chance = (1 + math.tanh(raw / 2)) / 2 if no else math.exp(raw)
                dimension = self.dimension(name)
                scores[name], details[name] = dimension.from_unit(chance), {"raw": raw}
                if dimension.kind == "binary":
                    distributions[name] = [1 - chance, chance]
            usage = spent(usage for _, usage in own.values())
            judgements.append(
                Judgement(scores=scores, distributions=distributions, details=details, usage=usage)
            )
        return judgements
