"""The follow-up judge: how likely a user is to react with this or that (FED, FULL, DIET).

A dialogue is good if discontented follow-ups are unlikely after it, and better if contented ones
are likelier: their *contrast* cancels what makes any follow-up likely. The contrast leaves the
end-of-turn token out and sums over tokens, chosen on validation dialogues of Dialogue-Eval and
DSTC9: the end token measures how short the reply would be, and means over tokens gave single-word
reactions the largest swing. A file of configs/judges/ sets the follow-ups and how they are
combined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Literal

import numpy as np
from pydantic import Field
from scipy.special import expit

from medal_judges.config import Config, build_config
from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import Judge, ScoreRequest
from medal_judges.models.followup.pool import load_pool
from medal_judges.models.followup.selection import FollowUpSelection, SelectionConfig, select
from medal_judges.models.llm.cost import add_usage
from medal_judges.models.llm.protocol import (
    Continuation,
    LanguageModel,
    Likelihood,
    chat_messages,
    first_turn_that_fits,
    likelihood_usage,
)
from medal_judges.models.llm.settings import EMBEDDED, LLMSetting, load_llm
from medal_judges.records.dimension import load_rubric
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
        self.config, self.name = config, config.name
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

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> FollowUpJudge:
        """The judge of a YAML file's settings; see FollowUpConfig."""
        where = f"judge {settings.get('name', '')}".strip()
        return cls(build_config(FollowUpConfig, dict(settings), where=where))

    def language_models(self) -> list[LanguageModel]:
        return [self.llm]

    def signature(self) -> Signature:
        method = self.config.model_dump(exclude={"llm", "pool", "rubric", "name"})
        prompt = self.config.select.loaded().model_dump() if self.config.select else None
        return self.signed(
            revision=content_hash([method, dict(self.llm.fingerprint())]),
            base=self.llm.name,
            prompt=content_hash([self.pool.hash, prompt]),
            dtype=self.llm.fingerprint().get("dtype"),
            truncation=f"turns<{self._window_tokens()}",
            seed=self.config.seed,
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
        judged: dict[int, Judgement] = {}
        for i, request in enumerate(requests):
            if request.tokens > budget:
                reason = f"the last answer alone takes {request.tokens} tokens of {window}"
                judged[i] = Judgement(scores=dict.fromkeys(dimensions), failure=reason)
        left = [i for i in range(len(requests)) if i not in judged]
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
                judged[i] = Judgement(
                    scores=dict.fromkeys(dimensions),
                    failure=selection.failure,
                    usage=selection.usage,
                    details={name: {"unread_runs": selection.unread} for name in dimensions},
                    transient=selection.transient,
                )
        left = [i for i in left if i not in judged]
        tables = self._likelihoods([requests[i] for i in left])
        for i, likelihoods in zip(left, tables, strict=True):
            table = np.array([[self._value(each) for each in row] for row in likelihoods])
            judgement = self._judged(requests[i], table, selections.get(i), dimensions)
            usage = dict(judgement.usage)
            add_usage(usage, likelihood_usage(requests[i].tokens, chain(*likelihoods)))
            judged[i] = replace(judgement, usage=usage)
        return [judged[i] for i in range(len(requests))]

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

    def _judged(
        self,
        request: ScoreRequest,
        table: np.ndarray,
        selection: FollowUpSelection | None,
        names: Sequence[str],
    ) -> Judgement:
        """``table`` [ends, follow-ups] holds the values of ``_value``."""
        follow_ups, signs = self.pool.follow_ups, np.array(self.pool.signs())
        scores: dict[str, float | None] = {}
        details: dict[str, dict[str, Any]] = {}
        contributions: dict[str, Contributions] = {}
        weights = self.config.decay ** np.arange(len(table))[::-1]
        weights = weights / weights.sum()
        likeliest = np.argsort(-(weights @ table), kind="stable")[:3]
        for name in names:
            dimension, wanted = self.dimension(name), self.pool.of(name)
            common = [i for i in wanted if selection is None or i in selection.indices]
            used = np.array(common or list(wanted))
            values = np.zeros(len(table))  # positive less negative follow-ups, after each answer
            for sign in (1, -1):
                if len(columns := used[signs[used] == sign]):
                    values = values + sign * table[:, columns].mean(axis=1)
            raw = float(weights @ values)
            details[name] = {"raw": raw}
            if selection is not None:
                chosen = () if selection.empty else tuple(follow_ups[i].text for i in common)
                details[name] = known_details(
                    raw=raw, selected=len(chosen), follow_ups=chosen, unread_runs=selection.unread
                )
            scale = self.config.scale.get(name, LogisticScale())
            slope = (1 if dimension.good == "high" else -1) / scale.spread
            scores[name] = dimension.from_unit(float(expit((raw - scale.center) * slope)))
            turns = [0.0] * len(request.dialogue.turns)
            for end, value, weight in zip(self._ends(request), values, weights, strict=True):
                turn = request.payload[0] + end - 1
                turns[turn] = float(weight) * float(value - scale.center) * slope
            contributions[name] = Contributions(tuple(turns), 0.0, "logit")
        return Judgement(
            scores=scores,
            contributions=contributions,
            explanation="likeliest follow-ups: "
            + " / ".join(follow_ups[i].text for i in likeliest),
            usage={} if selection is None else selection.usage,
            details=details,
            transient=selection is not None and selection.transient,
        )
