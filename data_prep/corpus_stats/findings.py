"""Findings: the figures of a survey by subset of the set, each computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from medal_judges.data_prep.corpus_stats.lemmas import Unit
from medal_judges.data_prep.corpus_stats.mtld import UNDEFINED
from medal_judges.data_prep.corpus_stats.survey import (
    ALL,
    NOT_STATED,
    Floats,
    ScaledDimension,
    Side,
    Subset,
    Survey,
)
from medal_judges.records.dimension import load_rubric
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import (
    LOGIT,
    MIN_CLUSTERS,
    PLAIN,
    spanned,
    spread_of,
    variance,
    wilson,
)
from medal_judges.stats.weights import effective_size

OVERALL = "overall"
MAX_NAMES = 60  # more chatbots or user models than these are ids of people: no tables by them
_MAX_LEVELS = 11

Method = Literal["Wilson", "Wilson over groups", "jackknife of groups", "none"]


@dataclass(frozen=True, slots=True)
class LabelFigure:
    """Share of rows at 1 (0 to 1), or mean on the raw scale, of ``n`` rows in ``groups`` groups.

    ``method`` says how the interval was made.
    """

    estimate: Estimate
    n: int
    groups: int
    method: Method


@dataclass(frozen=True, slots=True)
class Distribution:
    """How many rows lie at each whole level of a scale, and the share (0 to 1) by their weights;
    means of several answers go to the nearest one, halves up."""

    levels: tuple[int, ...]
    counts: tuple[int, ...]
    shares: tuple[float, ...]

    @property
    def n(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class Tries:
    """Tries of ``turns`` user turns, ``most`` at a time; mean, and share of turns with one try."""

    turns: int
    mean: Estimate
    at_once: Estimate
    most: int


@dataclass(slots=True)
class Findings:
    """What the page, the tables and the figures show. ``name`` says what was read."""

    survey: Survey
    name: str
    _figures: dict[tuple[Subset, ScaledDimension], LabelFigure] = field(default_factory=dict)
    _selected: tuple[Subset, dict[str, Floats]] | None = None  # tables go subset by subset

    def figure(self, subset: Subset, dimension: ScaledDimension) -> LabelFigure:
        """Share at 1 (0 to 1) or mean of ``dimension`` in ``subset``."""
        key = (subset, dimension)
        if key not in self._figures:
            values, rows = self.survey.labels(subset, dimension), self._rows(subset)
            share = self.survey.is_share(dimension)
            self._figures[key] = label_figure(values, rows["group"], rows["weight"], share)
        return self._figures[key]

    def count(self, subset: Subset, column: str = "", unit: Unit | None = None) -> int:
        """Dialogues of ``subset``, or the sum of a column over those measured in ``unit``."""
        rows = self._rows(subset)
        values = rows[column] if column else np.ones_like(rows["weight"])
        return int(values.sum() if unit is None else values @ rows[unit])

    def turns(self, subset: Subset, side: Side = "all") -> Estimate:
        """Turns per dialogue."""
        return self._mean(subset, f"turns_{side}", "", "no dialogue")

    def length(self, subset: Subset, unit: Unit, side: Side = "all") -> Estimate:
        """Units per turn, over the languages measured in ``unit``; empty turns have length 0."""
        reason = f"no turn of this side in a language measured in {unit}"
        return self._mean(subset, f"length_{side}", f"turns_{side}", reason, unit)

    def mtld(self, subset: Subset, side: Side = "all") -> Estimate:
        """Mean over the dialogues in which MTLD is defined."""
        langs = {str(each.lang) for each in self.survey.subsets if subset.holds(each)}
        tools = [self.survey.lemmatisers[lang] for lang in langs]
        if tools and all(tool.split is None for tool in tools):
            return Estimate(None, reason=self.survey.unsplit(subset))
        reason = f"no dialogue has a value: {UNDEFINED}"
        return self._mean(subset, f"mtld_{side}", f"diverse_{side}", reason)

    def tries(self, subset: Subset, which: Literal["first", "later"]) -> Tries:
        """Tries of the first or the later user turns of generated dialogues."""
        turns, reason = f"{which}_turns", "no tries recorded"
        return Tries(
            self.count(subset, turns),
            self._mean(subset, f"{which}_tries", turns, reason),
            self._mean(subset, f"{which}_at_once", turns, reason),
            int(self._rows(subset)[f"{which}_most"].max(initial=0)),
        )

    def endings(self, subset: Subset) -> dict[str, tuple[int, float]]:
        """How dialogues ended: rows, and their share (0 to 1, by their weights) of those that
        say."""
        rows, names = self._rows(subset), self.survey.endings
        stated = rows["ended"] >= 0
        codes = rows["ended"][stated].astype(int)
        counts = np.bincount(codes, minlength=len(names))
        weights = np.bincount(codes, rows["weight"][stated], minlength=len(names))
        shares = weights / (weights.sum() or 1.0)
        return {n: (int(counts[i]), float(shares[i])) for i, n in enumerate(names) if counts[i]}

    def _rows(self, subset: Subset) -> dict[str, Floats]:
        if self._selected is None or self._selected[0] != subset:
            self._selected = (subset, self.survey.select(subset))
        return self._selected[1]

    def _mean(
        self, subset: Subset, total: str, per: str, reason: str, unit: Unit | None = None
    ) -> Estimate:
        """A column over another (``per``, or dialogues), both weighted."""
        rows = self._rows(subset)
        weight = rows["weight"] if unit is None else rows["weight"] * rows[unit]
        count = float(weight @ rows[per] if per else weight.sum())
        if not count:
            return Estimate(None, reason=reason)
        return Estimate(float(weight @ rows[total]) / count)

    def names(self, which: Literal["lang", "chatbot", "user"]) -> list[str]:
        """Languages, chatbots or user models, sorted."""
        return sorted({str(getattr(subset, which)) for subset in self.survey.subsets})

    @property
    def langs(self) -> list[Subset]:
        return [Subset(lang) for lang in self.names("lang")]

    @property
    def chatbots(self) -> list[Subset]:
        """Empty where no row names one, or they are too many to be systems."""
        return [Subset(chatbot=name) for name in _systems(self.names("chatbot"))]

    @property
    def users(self) -> list[Subset]:
        return [Subset(user=name) for name in _systems(self.names("user"))]

    @property
    def pairs(self) -> list[Subset]:
        """Languages by chatbots, only those with dialogues."""
        bots = {subset.chatbot for subset in self.chatbots}
        pairs = {(p.lang, p.chatbot) for p in self.survey.subsets if p.chatbot in bots}
        return [Subset(lang, bot) for lang, bot in sorted(pairs, key=str)]

    @property
    def subsets(self) -> list[Subset]:
        """All subsets with figures of their own, the whole set first."""
        return [ALL, *self.langs, *self.chatbots, *self.users, *self.pairs]

    @property
    def issues(self) -> list[ScaledDimension]:
        """MEDAL's issues and ``other`` among the labels, in the rubric's order."""
        order = [d.name for d in load_rubric("medal") if d.is_issue]
        issues = [d for d in self._dimensions(share=True) if d.name in order]
        return sorted(issues, key=lambda d: order.index(d.name))

    @property
    def other_shares(self) -> list[ScaledDimension]:
        """Other dimensions with the answers 0 and 1; what 1 means is in their names."""
        issues = self.issues
        return [d for d in self._dimensions(share=True) if d not in issues]

    @property
    def graded(self) -> list[ScaledDimension]:
        """Dimensions with more answers, overall first."""
        return sorted(self._dimensions(share=False), key=lambda d: d.name != OVERALL)

    def _dimensions(self, *, share: bool) -> list[ScaledDimension]:
        return [d for d in self.survey.dimensions if self.survey.is_share(d) == share]

    def label(self, dimension: ScaledDimension) -> str:
        """The name, with the scale where two dimensions share the name or it is graded."""
        alike = sum(d.name == dimension.name for d in self.survey.dimensions)
        if self.survey.is_share(dimension) and alike == 1:
            return dimension.name
        if dimension.scale is None:
            return f"{dimension.name} (no stated scale)" if alike > 1 else dimension.name
        low, high = dimension.scale
        return f"{dimension.name} ({low:g}–{high:g})"

    def distribution(self, subset: Subset, dimension: ScaledDimension) -> Distribution | str:
        """Rows by level, or why there are no levels."""
        if dimension.scale is None:
            return "the source states no scale"
        low, high = dimension.scale
        if low % 1 or high % 1 or high - low >= _MAX_LEVELS:
            return "the scale has no few whole levels"
        values, weight = self.survey.labels(subset, dimension), self._rows(subset)["weight"]
        given = ~np.isnan(values)
        level = np.floor(values[given] + 0.5).astype(np.int64) - int(low)
        size = int(high - low) + 1
        counts = np.bincount(level, minlength=size)
        weights = np.bincount(level, weight[given], minlength=size)
        shares = weights / (weights.sum() or 1.0)
        levels = tuple(range(int(low), int(high) + 1))
        return Distribution(levels, tuple(map(int, counts)), tuple(map(float, shares)))


def label_figure(values: Floats, member: Floats, weights: Floats, is_share: bool) -> LabelFigure:
    """The figure of rows, NaN where a row has no label, by the group that each is a member of.

    A share in rows that each are a conversation of their own has Wilson's interval; else groups
    are left out one by one (stats/intervals.py). A share of 0 or 1 stays so whichever is left out:
    there Wilson's interval stands, with one trial a group, which is too wide rather than too
    narrow. Rows count by their weights; where these differ, a share has the interval of groups
    left out, and at its ends Wilson's with as many trials as groups of one weight would tell as
    much.
    """
    given = ~np.isnan(values)
    n = int(given.sum())
    if not n:
        reason = "no label" if len(values) else "no dialogue"
        return LabelFigure(Estimate(None, reason=reason), 0, 0, "none")
    _, group = np.unique(member[given], return_inverse=True)
    rows, counts = np.bincount(group), np.bincount(group, weights[given])
    totals = np.bincount(group, weights[given] * values[given])
    groups, value = len(rows), float(totals.sum() / counts.sum())
    alike = bool((rows == counts).all())
    if is_share and ((alike and n == groups) or value in (0, 1)):
        trials = groups if alike else effective_size(counts.tolist())
        low, high = wilson(value * trials, trials)
        method: Method = "Wilson" if n == groups else "Wilson over groups"
        return LabelFigure(Estimate(value, low, high), n, groups, method)
    if groups < MIN_CLUSTERS:
        return LabelFigure(Estimate(value), n, groups, "none")
    left = (totals.sum() - totals) / (counts.sum() - counts)
    spread = spread_of(left, float(variance(left, np.array(value))))
    estimate = spanned(Estimate(value), spread, LOGIT if is_share else PLAIN)
    method = "none" if estimate.low is None else "jackknife of groups"
    return LabelFigure(estimate, n, groups, method)


def _systems(names: Sequence[str]) -> Sequence[str]:
    if names == [NOT_STATED] or len(names) > MAX_NAMES:
        return []
    return names
