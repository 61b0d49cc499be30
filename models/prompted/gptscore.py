"""GPTScore: the likelihood of "yes" as the answer to a question (Fu et al., NAACL 2024)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from medal_judges.config import build_config
from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import ScoreRequest
from medal_judges.models.llm.cost import Usage, spent
from medal_judges.models.llm.protocol import ChatRequest, Completion
from medal_judges.models.prompted.base import (
    BasePromptedConfig,
    BasePromptedJudge,
    tells_likelihoods,
)
from medal_judges.records.judgement import Judgement

ANSWER_TOKENS = 16  # for the beginning of the answer and the answer


class GPTScoreConfig(BasePromptedConfig):
    """``affirmative`` and ``negative``: the two answers, in the prompt's language (quoted in YAML).
    ``against_negative``: the score is the affirmative answer's likelihood minus the negative one's,
    which cancels how ready the model is to answer in one word; the paper has the first alone.
    ``score_eos``: the answers include the end-of-turn token. ``method`` and ``max_tokens``: as in
    G-Eval."""

    family: Literal["gptscore"] = "gptscore"
    name: str = "gptscore"
    prompt: str = "prompts/gptscore"
    affirmative: str = "Yes"
    negative: str = "No"
    against_negative: bool = False
    score_eos: bool = False
    method: Literal["auto", "likelihood", "top_logprobs"] = "auto"
    max_tokens: int = Field(default=4096, ge=64)


class GPTScoreJudge(BasePromptedJudge):
    """Likelihood of "Yes" as the answer to a question about each dimension.

    The raw value, in nats per token, is in ``details``: l(Yes), or l(Yes) - l(No) with
    ``against_negative``. The score is low + (high - low) p, where p is exp(raw), the (geometric
    mean) probability of the answer, or 1 / (1 + exp(-raw)). Both maps are strictly monotone, so
    rank correlations are those of the raw value.

    If an API returns no likelihoods of the chat (``method: top_logprobs``), the prompt asks for one
    word (its part ``answer_word``), and the alternatives to the first token count; a dimension
    whose answer is not among them is unscored.
    """

    family = "gptscore"
    token_budget = 8192

    def __init__(self, config: GPTScoreConfig) -> None:
        self.config = config
        prompt_tokens = config.max_tokens - ANSWER_TOKENS
        super().__init__(
            config, answer_tokens=ANSWER_TOKENS, prompt_tokens=prompt_tokens, answer="none"
        )
        self.require_one_each()
        self.asks_for_word = config.method == "top_logprobs" or (
            config.method == "auto" and not tells_likelihoods(self.llm)
        )
        if self.asks_for_word:
            self.build("word")
        if self.asks_for_word and config.score_eos:
            raise ConfigError(
                f"{self.name}: alternatives to the first token do not include the end of the turn",
                hint="score_eos=false",
            )

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> GPTScoreJudge:
        """A judge of configs/judges/; fields as in GPTScoreConfig. Raises ConfigError."""
        return cls(build_config(GPTScoreConfig, dict(settings), where="gptscore judge"))

    def _score_fitting(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        texts = [self.config.affirmative]
        if self.config.against_negative:
            texts.append(self.config.negative)
        if not self.asks_for_word:
            answers = dict.fromkeys(dimensions, texts)
            eos = dict.fromkeys(dimensions, self.config.score_eos)
            return [
                self._judgement(
                    {n: [each.mean for each in likelihoods] for n, (likelihoods, _) in own.items()},
                    [usage for _, usage in own.values()],
                )
                for own in self.answer_likelihoods(requests, dimensions, answers, eos)
            ]
        asked = [
            ChatRequest(self.messages(request, question), ANSWER_TOKENS, top_logprobs=20)
            for request in requests
            for question in self.questions(request, dimensions)
        ]
        replies = iter(self.chat(asked))
        judgements = []
        for _ in requests:
            given = {name: next(replies) for name in dimensions}
            means = {n: first_token_logprobs(reply, texts) for n, (reply, _) in given.items()}
            judgement = self._judgement(means, [usage for _, usage in given.values()])
            transient = any(reply.transient for reply, _ in given.values())
            judgements.append(replace(judgement, transient=transient))
        return judgements

    def _judgement(
        self, means: Mapping[str, Sequence[float] | str], usages: Sequence[Usage]
    ) -> Judgement:
        """``means``: for each dimension the log-probability of each answer, or the reason why there
        is none."""
        scores: dict[str, float | None] = {}
        details: dict[str, dict[str, Any]] = {}
        distributions: dict[str, Sequence[float]] = {}
        failures: list[str] = []
        for name, logprobs in means.items():
            scores[name] = None
            if isinstance(logprobs, str):
                failures.append(f"{name}: {logprobs}")
                continue
            yes, *no = logprobs
            raw = yes - no[0] if no else yes
            chance = (1 + math.tanh(raw / 2)) / 2 if no else math.exp(raw)
            dimension = self.dimension(name)
            scores[name], details[name] = dimension.from_unit(chance), {"raw": raw}
            if dimension.kind == "binary":
                distributions[name] = [1 - chance, chance]
        return Judgement(
            scores=scores,
            distributions=distributions,
            failure="; ".join(failures) or None,
            usage=spent(usages),
            details=details,
        )


def first_token_logprobs(reply: Completion, texts: Sequence[str]) -> list[float] | str:
    """Log-probability that the reply's first token is each of ``texts`` (ignoring white space and
    case), or the reason why it is unknown."""
    if reply.failed:
        return reply.failure or "no answer"
    if not reply.tokens or not reply.tokens[0].alternatives:
        return "the model reports no alternatives to its first token"
    first = reply.tokens[0]
    known = {**first.alternatives, first.text: first.logprob}
    logprobs = []
    for text in texts:
        wanted = text.casefold()
        mass = sum(math.exp(lp) for t, lp in known.items() if t.strip().casefold() == wanted)
        if mass == 0:
            return f"{text!r} is not among the {len(known)} likeliest first tokens"
        logprobs.append(math.log(min(1.0, mass)))
    return logprobs
