"""From judgements to numbers: quality from 1 to 5, pairs of scores, figures with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from medal_judges.eval.benchmark.injected import area
from medal_judges.eval.trial.dialogues import QUALITY
from medal_judges.eval.trial.plan import VersionPair
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.stats.correlation import (
    Floats,
    undefined_reason,
    weighted_spearman,
    within_system_statistic,
)
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import (
    FISHER,
    LOGIT,
    Clusters,
    Scale,
    with_intervals,
)
from medal_judges.stats.means import Sample, mean_of, share_of

HALF = 0.5  # points that a score has to move by to count as moved
_ROUNDING = 1e-9


@dataclass(frozen=True)
class QualityScale:
    """A judge's quality from 1 (poor) to 5: its ``overall`` where it has one, else the mean of all
    its dimensions, each turned so that high is good."""

    dimensions: tuple[Dimension, ...]

    @cached_property
    def parts(self) -> tuple[Dimension, ...]:
        """The dimensions that quality is made of."""
        return tuple(d for d in self.dimensions if d.name == "overall") or self.dimensions

    @property
    def told(self) -> str:
        """What quality is, in words."""
        names = ", ".join(d.name for d in self.parts)
        return names if len(self.parts) == 1 else f"the mean of {names}"

    def of(self, judgement: Judgement | None) -> float | None:
        """Quality of one judgement; None where one of its parts has no score."""
        if judgement is None:
            return None
        values = [oriented(d, judgement.scores.get(d.name)) for d in self.parts]
        known = [v for v in values if v is not None]
        if len(known) < len(values):
            return None
        low, high = QUALITY
        return low + (high - low) * sum(known) / len(known)


def oriented(dimension: Dimension, score: float | None) -> float | None:
    """``score`` on [0, 1], 1 the good end."""
    if score is None:
        return None
    unit = dimension.to_unit(score)
    return unit if dimension.good == "high" else 1 - unit


@dataclass(frozen=True)
class ScoredPairs:
    """Pairs of which both sides have a score: quality ``before`` and ``after``, shape (pairs,).
    ``asked`` counts those without a score too."""

    pairs: tuple[VersionPair, ...]
    before: Floats
    after: Floats
    asked: int

    @classmethod
    def of(cls, pairs: Sequence[VersionPair], score: Callable[[str], float | None]) -> ScoredPairs:
        """``pairs`` with the scores of their ids."""
        kept, before, after = [], [], []
        for pair in pairs:
            one, other = score(pair.before), score(pair.after)
            if one is not None and other is not None:
                kept.append(pair)
                before.append(one)
                after.append(other)
        return cls(tuple(kept), np.array(before), np.array(after), len(pairs))

    @property
    def shift(self) -> Floats:
        """after - before; what rounding makes is 0."""
        moved = self.after - self.before
        rounded: Floats = np.where(np.abs(moved) < _ROUNDING, 0.0, moved)
        return rounded

    @property
    def conversations(self) -> tuple[str, ...]:
        return tuple(pair.conversation for pair in self.pairs)

    def where(self, chosen: Callable[[VersionPair], bool]) -> ScoredPairs:
        """The pairs that ``chosen`` is true of."""
        mask = np.array([chosen(pair) for pair in self.pairs], dtype=bool)
        kept = tuple(pair for pair, yes in zip(self.pairs, mask, strict=True) if yes)
        return ScoredPairs(kept, self.before[mask], self.after[mask], len(kept))

    # -- figures ---------------------------------------------------------------------------------

    def mean(self, values: Floats) -> Estimate:
        """Mean of ``values``, one a pair."""
        return mean_of(Sample(values, self.conversations))

    def share(self, flags: Floats | npt.NDArray[np.bool_]) -> Estimate:
        """Share of the pairs whose flag is true."""
        return share_of(Sample(np.asarray(flags, dtype=np.float64), self.conversations))

    def auc(self) -> Estimate:
        """Chance that a faulty version (``after``) scores below a sound one (``before``), ties
        half, over all dialogues."""
        if not len(self.before):
            return Estimate(None, reason="no scored pair")
        scores = -np.r_[self.after, self.before]
        labels = np.r_[np.ones(len(self.after)), np.zeros(len(self.before))]
        order = np.argsort(scores, kind="stable")
        scores, labels = scores[order], labels[order]
        names = (*self.conversations, *self.conversations)
        clusters = tuple(names[i] for i in order)
        return estimate(lambda w: area(scores, labels, w), clusters, LOGIT)

    def win(self) -> Estimate:
        """Share of pairs whose faulty version scores below its own control, ties half."""
        return self.share(0.5 - 0.5 * np.sign(self.shift))

    def spearman(self) -> Estimate:
        """Rank correlation of before and after."""
        if (reason := undefined_reason(self.before, self.after)) is not None:
            return Estimate(None, reason=reason)
        return estimate(
            lambda w: float(weighted_spearman(self.before, self.after, w[None])[0]),
            self.conversations,
            FISHER,
        )

    def spearman_by_language(self) -> Estimate:
        """Mean of the rank correlations of the single languages, weighted by pairs."""
        if not len(self.before):
            return Estimate(None, reason="no scored pair")
        langs = [pair.lang for pair in self.pairs]
        statistic = within_system_statistic(self.before, self.after, langs)
        value = float(statistic(np.ones((1, len(langs))))["within_system"][0])
        if not np.isfinite(value):
            return Estimate(None, reason="no language with five pairs on which the scores vary")
        return estimate(
            lambda w: float(statistic(w[None])["within_system"][0]), self.conversations, FISHER
        )


def estimate(
    statistic: Callable[[Floats], float], conversations: Sequence[str], scale: Scale
) -> Estimate:
    """A figure of row weights with its interval, conversations left out in turn."""
    value = statistic(np.ones(len(conversations)))
    if not np.isfinite(value):
        return Estimate(None, reason="undefined for these pairs")

    def of_many(weights: Floats) -> Mapping[str, Floats]:
        return {"figure": np.array([statistic(one) for one in weights])}

    clusters = Clusters("conversation", tuple(conversations))
    made = with_intervals(
        {"figure": Estimate(value)}, lambda w: dict(of_many(w)), clusters, lambda name: scale
    )
    return made["figure"]
