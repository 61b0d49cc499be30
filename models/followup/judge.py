"""The follow-up judge: how likely a user is to react with this or that (FED, FULL, DIET).

A dialogue is good when discontented follow-ups are unlikely after it, and better when contented
ones are likelier: their *contrast* cancels what makes any follow-up likely. One family holds all
of these; a file of configs/judges/ says which follow-ups, where, and how they are put together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Literal

import numpy as np
from pydantic import Field

from medal_judges.config import Config, build_config
from medal_judges.contributions import Contributions
from medal_judges.details import Details
from medal_judges.dimension import Dimension, load_rubric
from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import Judge, Prediction, ScoreRequest
from medal_judges.models.followup.pool import load_pool
from medal_judges.models.followup.selection import Selection, SelectionConfig, select
from medal_judges.models.llm.amounts import add_usage, likelihood_usage
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import Continuation, LanguageModel, Likelihood
from medal_judges.models.llm.window import chat_messages, first_turn_that_fits
from medal_judges.signature import Signature, content_hash


class Scale(Config):
    """From a raw value to a dimension's scale: low + (high - low) sigmoid((raw - center) / spread).

    Strictly monotone: ranks, and rank correlations, are those of the raw value. ``spread`` is above
    0; a dimension whose good end is low gets the mirror image. ``fitted_on`` says where the two
    numbers come from.
    """

    center: float = 0.0
    spread: float = Field(default=1.0, gt=0)
    fitted_on: str | None = None


class FollowUpConfig(Config):
    """A file of configs/judges/ with ``family: followup``.

    ``likelihood``: of the follow-up given the dialogue (conditional), or of both (joint, as FED).
    ``reduce``: mean or sum over tokens. ``score_eos``: the end-of-turn token is a token of the
    follow-up. ``answers``: after how many of the last answers the follow-ups are put (None: all of
    them), the values averaged with weights that fall by ``decay`` with each step back; of a judged
    turn it is always that turn alone. ``select``: DIET's selection for each dialogue.
    ``per_generator`` keeps so many of each generator's follow-ups, drawn (DIET, section 6.2).
    ``max_tokens`` bounds a dialogue with its follow-up; whole oldest turns beyond it are dropped.
    """

    name: str
    llm: Any = "embedded:smollm2"
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
    scale: Mapping[str, Scale] = {}


class FollowUpJudge(Judge):
    """Scores from the likelihoods of follow-ups; see the module.

    The raw value of a dimension, in nats (a token, with ``reduce: mean``), is the mean over its
    positive follow-ups less the mean over its negative ones (DIET, section 3.3, has negative ones
    only); it stands in ``details``. Contributions are logits: each answer's share of the raw value
    around the scale's centre, which is the middle of the dimension's scale.
    """

    family = "followup"
    window = 16  # some seconds to a minute of work: what a kill can lose

    def __init__(self, config: FollowUpConfig) -> None:
        self.config = config
        known = {d.name: d for d in load_rubric(config.rubric)}
        names = config.dimensions or tuple(known)
        if missing := [name for name in (*names, *config.scale) if name not in known]:
            raise ConfigError(
                f"{config.name}: the rubric {config.rubric} has no dimension {missing[0]!r}",
                hint=f"it has: {', '.join(known)}",
            )
        self.dimensions: tuple[Dimension, ...] = tuple(known[name] for name in names)
        self.pool = load_pool(config.pool)
        if config.per_generator is not None:
            self.pool = self.pool.sampled(config.per_generator, config.seed)
        for name in names:
            if not self.pool.of(name):
                raise ConfigError(f"{config.name}: no follow-up of {config.pool} is for {name!r}")
        self.llm = load_llm(config.llm)
        self.pool.require_judge(self.llm.name)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> FollowUpJudge:
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
            truncation=f"turns<{self._prompt_budget()}",
            seed=self.config.seed,
            version=__version__,
        )

    # -- what the base class asks for -----------------------------------------------------------

    def _prompt_budget(self) -> int:
        return min(self.config.max_tokens, self.llm.context)

    def _spare(self) -> int:
        """Tokens kept free for a follow-up: no token is shorter than a byte."""
        return 8 + max(len(f.text.encode()) for f in self.pool.follow_ups)

    def _prepare(self, items: Sequence[ScoreRequest]) -> None:
        for item in items:
            # A judged turn is what the dialogue ends with; else it ends after its last answer.
            end = item.dialogue.assistant_turns[-1] + 1
            messages = chat_messages(item.dialogue)[:end]
            start = first_turn_that_fits(messages, self.llm, self._prompt_budget() - self._spare())
            item.payload = (start, messages[start:])
            item.tokens = self.llm.count_tokens(messages[start:])
            item.truncated_turns = start

    def _too_long(self, item: ScoreRequest, dimensions: Sequence[str]) -> Prediction | None:
        """Unscored, where the last answer alone is more than the model reads."""
        if item.tokens <= self._prompt_budget() - self._spare():
            return None
        reason = f"the last answer alone takes {item.tokens} tokens of {self._prompt_budget()}"
        return Prediction(dict.fromkeys(dimensions), failure=reason)

    def _units(self, items: Sequence[ScoreRequest]) -> list[list[int]]:
        """The turns of one dialogue together, as long as they begin at the same turn."""
        units: dict[tuple[str, int], list[int]] = {}
        for i, item in enumerate(items):
            units.setdefault((item.dialogue.id, item.payload[0]), []).append(i)
        return list(units.values())

    def _score_batch(
        self, items: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Prediction]:
        refused = [self._too_long(item, dimensions) for item in items]
        fitting = [item for item, no in zip(items, refused, strict=True) if no is None]
        scored = iter(self._score_fitting(fitting, dimensions) if fitting else ())
        return [no or next(scored) for no in refused]

    def _score_fitting(
        self, items: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Prediction]:
        chosen = self._select(items)
        scores = {
            i: _unselected(choice, dimensions)
            for i, choice in enumerate(chosen)
            if choice is not None and choice.failure is not None
        }
        groups: dict[tuple[str, int], list[int]] = {}
        for i, item in enumerate(items):
            if i in scores:
                continue
            groups.setdefault((item.dialogue.id, item.payload[0]), []).append(i)
        asked = [[c for i in g for c in self._continuations(items[i])] for g in groups.values()]
        joint = self.config.likelihood == "joint"
        found = self.llm.loglikelihood(asked, joint=joint) if asked else []
        for group, likelihoods in zip(groups.values(), found, strict=True):
            rest = iter(likelihoods)
            for i in group:
                ends, width = self._ends(items[i]), len(self.pool.follow_ups)
                own = [[next(rest) for _ in range(width)] for _ in ends]
                table = np.array([[self._value(likelihood) for likelihood in row] for row in own])
                scores[i] = self._scores(items[i], table, chosen[i], dimensions)
                amounts = dict(scores[i].usage)
                add_usage(amounts, likelihood_usage(items[i].tokens, chain.from_iterable(own)))
                scores[i].usage = amounts
        return [scores[i] for i in range(len(items))]

    # -- the parts of a score -------------------------------------------------------------------

    def _select(self, items: Sequence[ScoreRequest]) -> list[Selection | None]:
        if self.config.select is None:
            return [None] * len(items)
        found: dict[int, Selection] = {}
        for turn in (False, True):
            own = [i for i, item in enumerate(items) if (item.turn is not None) == turn]
            asked = [(f"{items[i].dialogue.id}/{items[i].turn}", items[i].payload[1]) for i in own]
            chosen = select(self.llm, asked, self.pool, self.config.select, turn=turn)
            found.update(zip(own, chosen, strict=True))
        return [found[i] for i in range(len(items))]

    def _ends(self, item: ScoreRequest) -> list[int]:
        """How many of the kept messages stand before the follow-ups, each time they are put."""
        start, messages = item.payload
        if item.turn is not None:
            return [len(messages)]
        ends = [t - start + 1 for t in item.dialogue.assistant_turns if t >= start]
        return ends if self.config.answers is None else ends[-self.config.answers :]

    def _continuations(self, item: ScoreRequest) -> list[Continuation]:
        messages = item.payload[1]
        return [
            Continuation(messages[:end], f.text, role="user", score_eos=self.config.score_eos)
            for end in self._ends(item)
            for f in self.pool.follow_ups
        ]

    def _value(self, found: Likelihood) -> float:
        total, tokens = found.total, len(found.logprobs)
        if self.config.likelihood == "joint":
            assert found.prefix_logprob is not None
            total, tokens = total + found.prefix_logprob, tokens + found.prefix_tokens
        return total / tokens if self.config.reduce == "mean" else total

    def _scores(
        self, item: ScoreRequest, table: np.ndarray, chosen: Selection | None, names: Sequence[str]
    ) -> Prediction:
        """``table`` [places, follow-ups] holds the values of ``_value``."""
        scores: dict[str, float | None] = {}
        details: dict[str, Details] = {}
        contributions: dict[str, Contributions] = {}
        weights = self.config.decay ** np.arange(len(table))[::-1]
        weights = weights / weights.sum()
        for name in names:
            wanted = self.pool.of(name)
            common = [i for i in wanted if chosen is None or i in chosen.indices]
            values = _contrast(table, common or list(wanted), self.pool.signs())
            raw = float(weights @ values)
            details[name] = _details(raw, chosen, [self.pool.follow_ups[i].text for i in common])
            scores[name] = self._on_scale(self.dimension(name), raw)
            contributions[name] = self._contributions(item, name, values, weights)
        return Prediction(
            scores,
            contributions=contributions,
            explanation=self._told(weights @ table),
            usage={} if chosen is None else chosen.usage,
            details=details,
            transient=chosen is not None and chosen.transient,
        )

    def _on_scale(self, dimension: Dimension, raw: float) -> float:
        logit = self._logit(dimension, raw)
        unit = 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))
        return dimension.from_unit(unit)

    def _logit(self, dimension: Dimension, raw: float) -> float:
        scale = self.config.scale.get(dimension.name, Scale())
        z = (raw - scale.center) / scale.spread
        return z if dimension.good == "high" else -z

    def _contributions(
        self, item: ScoreRequest, name: str, values: np.ndarray, weights: np.ndarray
    ) -> Contributions:
        """``values`` [places], with ``weights`` that add up to 1, as logits for each turn."""
        turns = [0.0] * len(item.dialogue.turns)
        for end, value, weight in zip(self._ends(item), values, weights, strict=True):
            logit = self._logit(self.dimension(name), float(value))
            turns[item.payload[0] + end - 1] = float(weight) * logit
        return Contributions(tuple(turns), 0.0, "logit")

    def _told(self, values: np.ndarray) -> str:
        texts = [f.text for f in self.pool.follow_ups]
        best = sorted(range(len(texts)), key=lambda i: -values[i])[:3]
        return "likeliest follow-ups: " + " / ".join(texts[i] for i in best)


def _details(raw: float, chosen: Selection | None, texts: Sequence[str]) -> Details:
    if chosen is None:
        return Details(raw=raw)
    common = () if chosen.empty else tuple(texts)
    return Details(raw=raw, selected=len(common), follow_ups=common, unread_runs=chosen.unread)


def _unselected(chosen: Selection, names: Sequence[str]) -> Prediction:
    """No score, where no answer to the selection prompt could be read."""
    return Prediction(
        dict.fromkeys(names),
        failure=chosen.failure,
        usage=chosen.usage,
        details={name: Details(unread_runs=chosen.unread) for name in names},
        transient=chosen.transient,
    )


def _contrast(table: np.ndarray, used: Sequence[int], signs: Sequence[int]) -> np.ndarray:
    """[places]: mean over the positive follow-ups used less the mean over the negative ones."""
    raw = np.zeros(len(table))
    for sign in (1, -1):
        columns = [i for i in used if signs[i] == sign]
        if columns:
            raw = raw + sign * table[:, columns].mean(axis=1)
    return raw
