"""Pairs of scores and their figures, on the scale of quality from 1 to 5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from medal_judges.eval.benchmark.injected import area
from medal_judges.eval.trial.dialogues import QUALITY
from medal_judges.eval.trial.edits import VersionPair
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.stats.correlation import (
    Floats,
    undefined_reason,
    weighted_spearman,
    within_system_statistic,
)
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import FISHER, LOGIT, Clusters, Scale, estimated
from medal_judges.stats.means import Sample, mean_of, share_of

HALF = 0.5  # points; a larger shift counts as moved
_ROUNDING = 1e-9
Score = Callable[[VersionPair], float | None]


@dataclass(frozen=True)
class QualityScale:
    """A judge's quality from 1 (poor) to 5: its ``overall`` if it has one, else the mean of all its
    dimensions, each oriented so that high is good."""

    dimensions: tuple[Dimension, ...]

    @cached_property
    def parts(self) -> tuple[Dimension, ...]:
        return tuple(d for d in self.dimensions if d.name == "overall") or self.dimensions

    @property
    def text(self) -> str:
        names = ", ".join(d.name for d in self.parts)
        return names if len(self.parts) == 1 else f"the mean of {names}"

    def of(self, judgement: Judgement | None) -> float | None:
        """Returns the quality of a judgement; None if one of its parts has no score."""
        if judgement is None:
            return None
        values = [oriented(d, judgement.scores.get(d.name)) for d in self.parts]
        known = [v for v in values if v is not None]
        if len(known) < len(values):
            return None
        low, high = QUALITY
        return low + (high - low) * sum(known) / len(known)


def oriented(dimension: Dimension, score: float | None) -> float | None:
    """Returns ``score`` on [0, 1], with 1 as the good end."""
    if score is None:
        return None
    unit = dimension.to_unit(score)
    return unit if dimension.good == "high" else 1 - unit


@dataclass(frozen=True)
class ScoredPairs:
    """Pairs with a score on both sides: quality ``before`` and ``after``, shape (pairs,). ``asked``
    also counts pairs without a score."""

    pairs: tuple[VersionPair, ...]
    before: Floats
    after: Floats
    asked: int

    @classmethod
    def of(cls, pairs: Sequence[VersionPair], before: Score, after: Score) -> ScoredPairs:
        """Scores ``pairs`` and drops those without a score."""
        ends = [(pair, before(pair), after(pair)) for pair in pairs]
        kept = [(p, a, b) for p, a, b in ends if a is not None and b is not None]
        one, two = (np.array([end[i] for end in kept], dtype=np.float64) for i in (1, 2))
        return cls(tuple(pair for pair, *_ in kept), one, two, len(pairs))

    @cached_property
    def shift(self) -> Floats:
        """after - before, with rounding errors as 0."""
        moved = self.after - self.before
        rounded: Floats = np.where(np.abs(moved) < _ROUNDING, 0.0, moved)
        return rounded

    @property
    def conversations(self) -> tuple[str, ...]:
        return tuple(pair.conversation for pair in self.pairs)

    def where(self, chosen: Callable[[VersionPair], bool]) -> ScoredPairs:
        """Returns the pairs for which ``chosen`` is true."""
        mask = np.array([chosen(pair) for pair in self.pairs], dtype=bool)
        kept = tuple(pair for pair, yes in zip(self.pairs, mask, strict=True) if yes)
        return ScoredPairs(kept, self.before[mask], self.after[mask], len(kept))

    def mean(self, values: Floats) -> Estimate:
        """Returns the mean of ``values``, one a pair."""
        return mean_of(Sample(values, self.conversations))

    def share(self, flags: Floats | npt.NDArray[np.bool_]) -> Estimate:
        """Returns the share of pairs with a true flag."""
        return share_of(Sample(np.asarray(flags, dtype=np.float64), self.conversations))

    def auc(self) -> Estimate:
        """Returns the probability that a faulty version (``after``) scores below a sound one
        (``before``), ties half, over all dialogues."""
        if not len(self.before):
            return Estimate(None, reason="no scored pair")
        scores = -np.r_[self.after, self.before]
        labels = np.r_[np.ones(len(self.after)), np.zeros(len(self.before))]
        order = np.argsort(scores, kind="stable")
        scores, labels = scores[order], labels[order]
        names = (*self.conversations, *self.conversations)
        return estimate(lambda w: area(scores, labels, w), [names[i] for i in order], LOGIT)

    def win(self) -> Estimate:
        """Returns the share of faulty versions that score below their own control, ties half."""
        return self.share(0.5 - 0.5 * np.sign(self.shift))

    def spearman(self) -> Estimate:
        """Returns the rank correlation of before and after."""
        return spearman(self.before, self.after, self.conversations)

    def spearman_by_language(self) -> Estimate:
        """Returns the mean rank correlation within a language, weighted by pairs."""
        if not len(self.before):
            return Estimate(None, reason="no scored pair")
        statistic = within_system_statistic(self.before, self.after, [p.lang for p in self.pairs])

        def figure(weights: Floats) -> float:
            return float(statistic(weights[None])["within_system"][0])

        if not np.isfinite(figure(np.ones(len(self.pairs)))):
            return Estimate(None, reason="no language with five pairs on which the scores vary")
        return estimate(figure, self.conversations, FISHER)


def estimate(
    statistic: Callable[[Floats], float], conversations: Sequence[str], scale: Scale
) -> Estimate:
    """Returns a figure of row weights with its interval, leaving out conversations in turn."""
    return estimated(
        lambda weights: {"figure": np.array([statistic(one) for one in weights])},
        Clusters("conversation", tuple(conversations)),
        "undefined for these pairs",
        scale=lambda name: scale,
    )["figure"]


def spearman(one: Floats, two: Floats, groups: Sequence[str]) -> Estimate:
    if (reason := undefined_reason(one, two)) is not None:
        return Estimate(None, reason=reason)
    return estimate(lambda w: float(weighted_spearman(one, two, w[None])[0]), groups, FISHER)
