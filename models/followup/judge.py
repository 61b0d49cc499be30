"""The follow-up judge: how likely a user is to react with this or that (FED, FULL, DIET).

A dialogue is good if discontented follow-ups are unlikely after it, and better if contented ones
are likelier: their *contrast* cancels what makes any follow-up likely. The contrast leaves the
end-of-turn token out and sums over tokens, chosen on validation dialogues of Dialogue-Eval and
DSTC9: the end token measures how short the reply would be, and means over tokens gave single-word
reactions the largest swing. A file of configs/judges/ sets the follow-ups and how they are
combined.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Literal

import numpy as np
from pydantic import Field

from medal_judges.config import Config, build_config
from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import Judge, ScoreRequest
from medal_judges.models.followup.pool import load_pool
from medal_judges.models.followup.selection import FollowUpSelection, SelectionConfig, select
from medal_judges.models.llm.cost import add_usage
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import (
    Continuation,
    LanguageModel,
    Likelihood,
    likelihood_usage,
)
from medal_judges.models.llm.settings import EMBEDDED, LLMSetting
from medal_judges.models.llm.truncation import chat_messages, first_turn_that_fits
from medal_judges.records.dimension import Dimension, load_rubric
from medal_judges.records.judgement import Contributions, Judgement, known_details
from medal_judges.records.signature import Signature, content_hash


class LogisticScale(Config):
    """From a raw value to a dimension's scale: low + (high - low) sigmoid((raw - center) / spread),
    mirrored for a dimension whose good end is low. Ranks stay. ``fitted_on``: the fitting rows."""

    center: float = 0.0
    spread: float = Field(default=1.0, gt=0)
    fitted_on: str | None = None


class FollowUpConfig(Config):
    """A file of configs/judges/ with ``family: followup``.

    ``likelihood``: of the follow-up given the dialogue (conditional), or of both (joint, as FED).
    ``reduce``: mean or sum over tokens. ``score_eos``: the end-of-turn token is a token of the
    follow-up. The follow-ups are scored after each of the last ``answers`` answers (None: all), and
    the values averaged with weights that fall by ``decay`` with each step back; at turn level after
    the judged turn alone. ``select``: DIET's selection for each dialogue. ``per_generator`` draws
    that many of each generator's follow-ups (DIET, section 6.2). ``max_tokens`` limits a dialogue
    with its follow-up; whole oldest turns beyond it are dropped.
    """

    name: str
    llm: LLMSetting = EMBEDDED
    rubric: str
    dimensions: tuple[str, ...] = ()
    pool: str
    per_generator: int | None = Field(default=None, ge=1)
    seed: int = 0
    likelihood: Literal["conditional", "joint"] = "conditional"
    reduce: Literal["mean", "sum"] = "mean"
    score_eos: bool = True
    answers: int | None = Field(default=1, ge=1)
    decay: float = Field(default=1.0, gt=0, le=1)
    select: SelectionConfig | None = None
    max_tokens: int = Field(default=4096, ge=64)
    scale: Mapping[str, LogisticScale] = {}


class FollowUpJudge(Judge):
    """Scores from the likelihoods of follow-ups; see the module.

    The raw value of a dimension, in nats (a token, with ``reduce: mean``), is the mean over its
    positive follow-ups less the mean over its negative ones (DIET, section 3.3, has negative ones
    only); it is in ``details``. Contributions are logits: each answer's share of the raw value
    around the scale's centre, which is the middle of the dimension's scale.
    """

    family = "followup"
    window = 16  # dialogues: seconds to a minute of work that a kill can lose

    def __init__(self, config: FollowUpConfig) -> None:
        self.config = config
        load_rubric(config.rubric, tuple(config.scale))  # each scale is of a known dimension
        self.dimensions = load_rubric(config.rubric, config.dimensions)
        self.pool = load_pool(config.pool)
        if config.per_generator is not None:
            self.pool = self.pool.sampled(config.per_generator, config.seed)
        for dimension in self.dimensions:
            if not self.pool.of(dimension.name):
                none = f"no follow-up of {config.pool} is for {dimension.name!r}"
                raise ConfigError(f"{config.name}: {none}")
        self.llm = load_llm(config.llm)
        self.pool.require_judge(self.llm.name)

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> FollowUpJudge:
        """The judge of a YAML file's settings; see FollowUpConfig."""
        where = f"judge {settings.get('name', '')}".strip()
        return cls(build_config(FollowUpConfig, dict(settings), where=where))

    def language_models(self) -> list[LanguageModel]:
        return [self.llm]

    def signature(self) -> Signature:
        from medal_judges import __version__

        method = self.config.model_dump(exclude={"llm", "pool", "rubric", "name"})
        prompt = self.config.select.loaded().model_dump() if self.config.select else None
        return Signature(
            judge=self.config.name,
            revision=content_hash([method, dict(self.llm.fingerprint())]),
            base=self.llm.name,
            prompt=content_hash([self.pool.hash, prompt]),
            rubric=content_hash([d.to_record() for d in self.dimensions]),
            dtype=self.llm.fingerprint().get("dtype"),
            truncation=f"turns<{self._window_tokens()}",
            seed=self.config.seed,
            version=__version__,
        )

    # -- the hooks of Judge ----------------------------------------------------------------------

    def _window_tokens(self) -> int:
        return min(self.config.max_tokens, self.llm.context)

    def _prompt_budget(self) -> int:
        """Leaves room for a follow-up: no token is shorter than a byte."""
        longest = max(len(f.text.encode()) for f in self.pool.follow_ups)
        return self._window_tokens() - 8 - longest

    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        for request in requests:
            # A judged turn is the last turn; else the dialogue ends after its last answer.
            end = request.dialogue.assistant_turns[-1] + 1
            messages = chat_messages(request.dialogue)[:end]
            start = first_turn_that_fits(messages, self.llm, self._prompt_budget())
            request.payload = (start, messages[start:])
            request.tokens = self.llm.count_tokens(messages[start:])
            request.truncated_turns = start

    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        window, budget = self._window_tokens(), self._prompt_budget()
        predictions: dict[int, Judgement] = {}
        for i, request in enumerate(requests):
            if request.tokens > budget:
                reason = f"the last answer alone takes {request.tokens} tokens of {window}"
                predictions[i] = Judgement(scores=dict.fromkeys(dimensions), failure=reason)
        left = [i for i in range(len(requests)) if i not in predictions]
        selections: dict[int, FollowUpSelection] = {}
        if self.config.select is not None and left:
            named = [
                (f"{r.dialogue.id}/{r.turn}", r.payload[1]) for r in (requests[i] for i in left)
            ]
            turn = requests[left[0]].turn is not None  # all of one call are of one level
            selected = select(self.llm, named, self.pool, self.config.select, turn=turn)
            selections = dict(zip(left, selected, strict=True))
        for i, selection in selections.items():
            if selection.failure is not None:
                predictions[i] = _unselected(selection, dimensions)
        left = [i for i in left if i not in predictions]
        for i, likelihoods in zip(
            left, self._likelihoods([requests[i] for i in left]), strict=True
        ):
            table = np.array([[self._value(each) for each in row] for row in likelihoods])
            prediction = self._prediction(requests[i], table, selections.get(i), dimensions)
            usage = dict(prediction.usage)
            add_usage(usage, likelihood_usage(requests[i].tokens, chain(*likelihoods)))
            predictions[i] = replace(prediction, usage=usage)
        return [predictions[i] for i in range(len(requests))]

    # -- the parts of a score -------------------------------------------------------------------

    def _likelihoods(self, requests: Sequence[ScoreRequest]) -> list[list[list[Likelihood]]]:
        """[requests, ends, follow-ups]. Turns of one dialogue that begin at the same turn are one
        group, for which the conversation is read once."""
        units: dict[tuple[str, int], list[int]] = {}
        for i, request in enumerate(requests):
            units.setdefault((request.dialogue.id, request.payload[0]), []).append(i)
        groups = [
            [
                Continuation(
                    requests[i].payload[1][:end],
                    follow_up.text,
                    role="user",
                    score_eos=self.config.score_eos,
                )
                for i in unit
                for end in self._ends(requests[i])
                for follow_up in self.pool.follow_ups
            ]
            for unit in units.values()
        ]
        joint = self.config.likelihood == "joint"
        scored = self.llm.loglikelihood(groups, joint=joint) if groups else []
        tables: dict[int, list[list[Likelihood]]] = {}
        for unit, likelihoods in zip(units.values(), scored, strict=True):
            rest = iter(likelihoods)
            for i in unit:
                ends = self._ends(requests[i])
                tables[i] = [[next(rest) for _ in self.pool.follow_ups] for _ in ends]
        return [tables[i] for i in range(len(requests))]

    def _ends(self, request: ScoreRequest) -> list[int]:
        """The number of kept messages before the follow-ups, each time they are scored."""
        start, messages = request.payload
        if request.turn is not None:
            return [len(messages)]
        ends = [t - start + 1 for t in request.dialogue.assistant_turns if t >= start]
        return ends if self.config.answers is None else ends[-self.config.answers :]

    def _value(self, likelihood: Likelihood) -> float:
        total, tokens = likelihood.total, len(likelihood.logprobs)
        if self.config.likelihood == "joint":
            assert likelihood.prefix_logprob is not None
            total, tokens = total + likelihood.prefix_logprob, tokens + likelihood.prefix_tokens
        return total / tokens if self.config.reduce == "mean" else total

    def _prediction(
        self,
        request: ScoreRequest,
        table: np.ndarray,
        selection: FollowUpSelection | None,
        names: Sequence[str],
    ) -> Judgement:
        """``table`` [ends, follow-ups] holds the values of ``_value``."""
        scores: dict[str, float | None] = {}
        details: dict[str, dict[str, Any]] = {}
        contributions: dict[str, Contributions] = {}
        weights = self.config.decay ** np.arange(len(table))[::-1]
        weights = weights / weights.sum()
        order = np.argsort(-(weights @ table), kind="stable")[:3]
        likeliest = [self.pool.follow_ups[i].text for i in order]
        for name in names:
            wanted = self.pool.of(name)
            common = [i for i in wanted if selection is None or i in selection.indices]
            values = _contrast(table, common or list(wanted), self.pool.signs())
            raw = float(weights @ values)
            details[name] = _details(raw, selection, [self.pool.follow_ups[i].text for i in common])
            scores[name] = self._on_scale(self.dimension(name), raw)
            contributions[name] = self._contributions(request, name, values, weights)
        return Judgement(
            scores=scores,
            contributions=contributions,
            explanation="likeliest follow-ups: " + " / ".join(likeliest),
            usage={} if selection is None else selection.usage,
            details=details,
            transient=selection is not None and selection.transient,
        )

    def _on_scale(self, dimension: Dimension, raw: float) -> float:
        logit = self._logit(dimension, raw)
        unit = 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))
        return dimension.from_unit(unit)

    def _logit(self, dimension: Dimension, raw: float) -> float:
        scale = self.config.scale.get(dimension.name, LogisticScale())
        z = (raw - scale.center) / scale.spread
        return z if dimension.good == "high" else -z

    def _contributions(
        self, request: ScoreRequest, name: str, values: np.ndarray, weights: np.ndarray
    ) -> Contributions:
        """``values`` [ends], with ``weights`` that add up to 1, as logits for each turn."""
        turns = [0.0] * len(request.dialogue.turns)
        for end, value, weight in zip(self._ends(request), values, weights, strict=True):
            logit = self._logit(self.dimension(name), float(value))
            turns[request.payload[0] + end - 1] = float(weight) * logit
        return Contributions(tuple(turns), 0.0, "logit")


def _details(
    raw: float, selection: FollowUpSelection | None, texts: Sequence[str]
) -> dict[str, Any]:
    if selection is None:
        return {"raw": raw}
    common = () if selection.empty else tuple(texts)
    return known_details(
        raw=raw, selected=len(common), follow_ups=common, unread_runs=selection.unread
    )


def _unselected(selection: FollowUpSelection, names: Sequence[str]) -> Judgement:
    """No score, because no answer to the selection prompt could be read."""
    return Judgement(
        scores=dict.fromkeys(names),
        failure=selection.failure,
        usage=selection.usage,
        details={name: {"unread_runs": selection.unread} for name in names},
        transient=selection.transient,
    )


def _contrast(table: np.ndarray, used: Sequence[int], signs: Sequence[int]) -> np.ndarray:
    """[ends]: mean over the used positive follow-ups less the mean over the negative ones."""
    raw = np.zeros(len(table))
    for sign in (1, -1):
        columns = [i for i in used if signs[i] == sign]
        if columns:
            raw = raw + sign * table[:, columns].mean(axis=1)
    return raw
