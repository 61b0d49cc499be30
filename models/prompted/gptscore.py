"""GPTScore: the likelihood of "yes" as the answer to a question (Fu et al., NAACL 2024)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import ScoreRequest
from medal_judges.models.llm.cost import spent
from medal_judges.models.prompted.base import (
    BasePromptedConfig,
    BasePromptedJudge,
    tells_likelihoods,
)
from medal_judges.records.judgement import Judgement

ANSWER_TOKENS = 16  # for the beginning of the answer and the answer


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
        self.require_one_each()
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
