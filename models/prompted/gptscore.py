"""GPTScore: how likely a "yes" is as the answer to a question (Fu et al., NAACL 2024)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from medal_judges.config import build_config
from medal_judges.details import Details
from medal_judges.dimension import Dimension
from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import Prediction, ScoreRequest
from medal_judges.models.llm.amounts import likelihood_usage, spent, usage_of
from medal_judges.models.llm.protocol import ChatRequest, Completion
from medal_judges.models.prompted.likelihood_questions import (
    QuestionConfig,
    QuestionJudge,
    tells_likelihoods,
)
from medal_judges.models.prompted.prompt import Aspect
from medal_judges.signature import Signature, content_hash


class GPTScoreConfig(QuestionConfig):
    """``affirmative`` and ``negative``: the two answers, in the prompt's language (in YAML with
    quotation marks). ``against_negative``: the score is not of the affirmative answer's likelihood
    alone, as the paper has it, but less the negative one's, which cancels how ready the model is to
    answer in one word. ``score_eos``: the end-of-turn token is part of the answers. ``method``: as
    in G-Eval, see GPTScoreJudge."""

    family: Literal["gptscore"] = "gptscore"
    name: str = "gptscore"
    prompt: str = "prompts/gptscore"
    affirmative: str = "Yes"
    negative: str = "No"
    against_negative: bool = False
    score_eos: bool = False
    method: Literal["auto", "likelihood", "top_logprobs"] = "auto"


class GPTScoreJudge(QuestionJudge):
    """Likelihood of "Yes" to a question about each dimension.

    The raw value, in nats a token, stands in ``details``: l(Yes), or l(Yes) - l(No) with
    ``against_negative``. It goes to the dimension's scale as low + (high - low) p,
    where p is exp(raw), the (geometric mean) probability of the answer, or 1 / (1 + exp(-raw)).
    Both maps are strictly monotone, so rank correlations are those of the raw value.

    An API that tells no likelihoods of the chat (``method: top_logprobs``) is asked to reply in one
    word (part ``form`` of the prompt), and the alternatives that it reports for the first token are
    read; where an answer is not among them the dimension is unscored.
    """

    family = "gptscore"

    def __init__(self, config: GPTScoreConfig) -> None:
        self.config, self.name = config, config.name
        self.asks = False  # whether for a reply, instead of a likelihood
        super().__init__(config)
        method = config.method
        self.asks = method == "top_logprobs" or (
            method == "auto" and not tells_likelihoods(self.llm)
        )
        if self.asks and config.score_eos:
            raise ConfigError(
                f"{self.name}: alternatives to a first token say nothing of an answer with the "
                "end of its turn",
                hint="score_eos=false",
            )

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> GPTScoreJudge:
        """A judge of configs/judges/; fields as in GPTScoreConfig. Raises ConfigError."""
        return cls(build_config(GPTScoreConfig, dict(settings), where="gptscore judge"))

    def signature(self) -> Signature:
        from medal_judges import __version__

        fingerprint = dict(self.llm.fingerprint())
        method = self.config.model_dump(
            include={"affirmative", "negative", "against_negative", "score_eos"}
        )
        return Signature(
            judge=self.name,
            revision=content_hash([method, fingerprint]),
            base=self.llm.name,
            prompt=self.prompt_hash(),
            rubric=content_hash([d.to_record() for d in self.dimensions]),
            dtype=fingerprint.get("dtype"),
            truncation=f"oldest turns beyond {self.prompt_budget} tokens",
            version=__version__,
        )

    def _values(self, dimension: Dimension) -> dict[str, str]:
        aspect = self.prompt.aspects.get(dimension.name, Aspect())
        return {
            "label": aspect.label or dimension.name.replace("_", " "),
            "definition": aspect.definition or dimension.definition,
            "criteria": aspect.criteria,
        }

    def _parts(self, dimension: Dimension, names: tuple[str, ...]) -> tuple[str, ...]:
        """A dimension without criteria is asked about with its definition: part ``NAME_other``."""
        form = ("form",) if self.asks else ()
        if self._values(dimension)["criteria"]:
            return names + form
        parts = self.prompt.parts
        return tuple(f"{n}_other" if f"{n}_other" in parts else n for n in names) + form

    def _score_batch(
        self, items: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Prediction]:
        texts = [self.config.affirmative]
        if self.config.against_negative:
            texts.append(self.config.negative)
        fit = [item for item in items if self.fits(item)]
        found = iter(
            self._by_reply(fit, dimensions, texts)
            if self.asks
            else self._by_likelihood(fit, dimensions, texts)
        )
        return [
            next(found)
            if self.fits(item)
            else Prediction(dict.fromkeys(dimensions), failure=self.too_long(item))
            for item in items
        ]

    def _by_likelihood(
        self, items: Sequence[ScoreRequest], dimensions: Sequence[str], texts: Sequence[str]
    ) -> list[Prediction]:
        score_eos = dict.fromkeys(dimensions, self.config.score_eos)
        found = self.likelihoods(items, dict.fromkeys(dimensions, texts), score_eos)
        scored: list[Prediction] = []
        for item, each in zip(items, found, strict=True):
            answer = self._scores({k: [f.mean for f in v] for k, v in each.items()})
            answer.usage = spent(
                likelihood_usage(self.prompt_tokens(item, k), v) for k, v in each.items()
            )
            scored.append(answer)
        return scored

    def _by_reply(
        self, items: Sequence[ScoreRequest], dimensions: Sequence[str], texts: Sequence[str]
    ) -> list[Prediction]:
        requests = [
            ChatRequest(
                self.messages(item, self.dimension(name), item.payload),
                max_tokens=self.spare,
                top_logprobs=20,
            )
            for item in items
            for name in dimensions
        ]
        replies = zip(requests, self.llm.chat(requests), strict=True)
        scored: list[Prediction] = []
        for _ in items:
            told = {name: next(replies) for name in dimensions}
            means = {n: first_token_logprobs(reply, texts) for n, (_, reply) in told.items()}
            answer = self._scores({k: v for k, v in means.items() if not isinstance(v, str)})
            failed = {k: v for k, v in means.items() if isinstance(v, str)}
            answer.scores = {name: answer.scores.get(name) for name in dimensions}
            answer.failure = "; ".join(f"{k}: {v}" for k, v in failed.items()) or None
            answer.usage = spent(usage_of(self.llm, *pair) for pair in told.values())
            answer.transient = any(reply.transient for _, reply in told.values())
            scored.append(answer)
        return scored

    def _scores(self, means: Mapping[str, Sequence[float]]) -> Prediction:
        scores: dict[str, float | None] = {}
        details: dict[str, Details] = {}
        distributions: dict[str, list[float]] = {}
        for name, (yes, *no) in means.items():
            raw = yes - no[0] if no else yes
            chance = (1 + math.tanh(raw / 2)) / 2 if no else math.exp(raw)
            dimension = self.dimension(name)
            scores[name], details[name] = dimension.from_unit(chance), Details(raw=raw)
            if dimension.kind == "binary":
                distributions[name] = [1 - chance, chance]
        return Prediction(scores, distributions, details=details)


def first_token_logprobs(reply: Completion, texts: Sequence[str]) -> list[float] | str:
    """Log-probability that the reply's first token is each of ``texts`` (white space and letter
    case aside), or why one cannot be told."""
    if reply.finish == "failed":
        return reply.failure or "no answer"
    if not reply.tokens or not reply.tokens[0].alternatives:
        return "the model tells no alternatives to its first token"
    first = reply.tokens[0]
    told = {**first.alternatives, first.text: first.logprob}
    found = []
    for text in texts:
        wanted = text.casefold()
        mass = sum(math.exp(lp) for t, lp in told.items() if t.strip().casefold() == wanted)
        if mass == 0:
            return f"{text!r} is not among the {len(told)} likeliest first tokens"
        found.append(math.log(min(1.0, mass)))
    return found
