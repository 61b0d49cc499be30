"""Findings: the figures of a survey by part of the set, each computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from medal_judges.data_prep.corpus_stats.lemmas import Unit, unit_of
from medal_judges.data_prep.corpus_stats.mtld import UNDEFINED
from medal_judges.data_prep.corpus_stats.survey import (
    ALL,
    NOT_STATED,
    Floats,
    Part,
    ScaledDimension,
    Side,
    Survey,
)
from medal_judges.dimension import load_rubric
from medal_judges.stats.intervals import (
    LOGIT,
    MIN_CLUSTERS,
    PLAIN,
    spanned,
    spread_of,
    variance,
    wilson,
)
from medal_judges.stats.results import Estimate
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
class TextFigures:
    """Turns, lengths and lexical diversity of a part; every dialogue counts by its weight."""

    rows: dict[str, Floats]
    in_words: Floats  # 1 where the language is measured in words, 0 where in characters
    unsplit: str  # why no language of the part has tokens; empty where one has

    @property
    def dialogues(self) -> int:
        return len(self.rows["weight"])

    def mean_turns(self, side: Side = "all") -> Estimate:
        """Turns per dialogue."""
        weight = self.rows["weight"]
        return _ratio(weight @ self._sum("turns", side), weight.sum(), "no dialogue")

    def turns(self, unit: Unit, side: Side) -> int:
        """Turns in languages measured in ``unit``."""
        return int(self._sum("turns", side) @ self._measured(unit))

    def mean_length(self, unit: Unit, side: Side = "all") -> Estimate:
        """Units per turn, over the languages measured in ``unit``; empty turns have length 0."""
        weight = self.rows["weight"] * self._measured(unit)
        reason = f"no turn of this side in a language measured in {unit}"
        total = weight @ self._sum("length", side)
        return _ratio(total, weight @ self._sum("turns", side), reason)

    def diverse(self, side: Side) -> int:
        """Dialogues in which MTLD is defined."""
        return int(np.isfinite(self.rows[f"mtld_{side}"]).sum())

    def mean_mtld(self, side: Side = "all") -> Estimate:
        """Mean over the dialogues in which MTLD is defined."""
        if self.unsplit:
            return Estimate(None, reason=self.unsplit)
        values = self.rows[f"mtld_{side}"]
        weight = self.rows["weight"] * np.isfinite(values)
        reason = f"no dialogue has a value: {UNDEFINED}"
        return _ratio(weight @ np.nan_to_num(values), weight.sum(), reason)

    def _sum(self, name: str, side: Side) -> Floats:
        sides = ("user", "assistant") if side == "all" else (side,)
        total: Floats = np.sum([self.rows[f"{name}_{one}"] for one in sides], axis=0)
        return total

    def _measured(self, unit: Unit) -> Floats:
        return self.in_words if unit == "words" else 1 - self.in_words


@dataclass(frozen=True, slots=True)
class Tries:
    """Tries of ``turns`` user turns, ``most`` at a time; mean, and share of turns with one try."""

    turns: int
    mean: Estimate
    at_once: Estimate
    most: int


@dataclass(frozen=True, slots=True)
class Course:
    """How the dialogues of a part ended: rows and share (0 to 1, by their weights) of each end,
    and the tries of first and later user turns."""

    ended: dict[str, int]
    shares: dict[str, float]
    first: Tries
    later: Tries


@dataclass(slots=True)
class Findings:
    """What the page, the tables and the figures show. ``name`` says what was read."""

    survey: Survey
    name: str
    _figures: dict[tuple[Part, ScaledDimension], LabelFigure] = field(default_factory=dict)

    def figure(self, part: Part, dimension: ScaledDimension) -> LabelFigure:
        """Share at 1 (0 to 1) or mean of ``dimension`` in ``part``."""
        key = (part, dimension)
        if key not in self._figures:
            values, rows = self.survey.labels(part, dimension), self.survey.select(part)
            share = self.survey.is_share(dimension)
            self._figures[key] = label_figure(values, rows["group"], rows["weight"], share)
        return self._figures[key]

    def texts(self, part: Part) -> TextFigures:
        """Turns, lengths and lexical diversity of ``part``."""
        rows, parts = self.survey.select(part), self.survey.parts
        in_words = np.array([unit_of(str(each.lang)) == "words" for each in parts], dtype=float)
        langs = {str(each.lang) for each in parts if part.holds(each)}
        split = any(self.survey.lemmatisers[lang].split is not None for lang in langs)
        unsplit = "" if split else self.survey.unsplit(part)
        return TextFigures(rows, in_words[rows["part"].astype(int)], unsplit)

    def course(self, part: Part) -> Course:
        """Ends and tries of ``part``."""
        rows = self.survey.select(part)
        weight, said = rows["weight"], rows["ended"] >= 0
        codes = rows["ended"][said].astype(int)
        counts = np.bincount(codes, minlength=len(self.survey.endings))
        weights = np.bincount(codes, weight[said], minlength=len(self.survey.endings))
        names = [(i, name) for i, name in enumerate(self.survey.endings) if counts[i]]
        first = rows["first"]
        once = (first == 1).astype(np.float64)
        later = (
            rows["later_turns"],
            rows["later_tries"],
            rows["later_at_once"],
            rows["later_most"],
        )
        return Course(
            {name: int(counts[i]) for i, name in names},
            {name: float(weights[i] / weights.sum()) for i, name in names},
            _tries(weight, first.clip(0, 1), first, once, first),
            _tries(weight, *later),
        )

    @property
    def langs(self) -> list[Part]:
        return [Part(lang) for lang in sorted({str(part.lang) for part in self.survey.parts})]

    @property
    def chatbots(self) -> list[Part]:
        """Empty where no row names one, or they are too many to be systems."""
        return [Part(chatbot=name) for name in _systems(self.chatbot_names)]

    @property
    def users(self) -> list[Part]:
        return [Part(user=name) for name in _systems(self.user_names)]

    @property
    def chatbot_names(self) -> list[str]:
        return sorted({str(part.chatbot) for part in self.survey.parts})

    @property
    def user_names(self) -> list[str]:
        return sorted({str(part.user) for part in self.survey.parts})

    @property
    def pairs(self) -> list[Part]:
        """Languages by chatbots, only those with dialogues."""
        bots = {part.chatbot for part in self.chatbots}
        pairs = {(p.lang, p.chatbot) for p in self.survey.parts if p.chatbot in bots}
        return [Part(lang, bot) for lang, bot in sorted(pairs, key=str)]

    @property
    def parts(self) -> list[Part]:
        """All parts with figures of their own, the whole set first."""
        return [ALL, *self.langs, *self.chatbots, *self.users, *self.pairs]

    @property
    def issues(self) -> list[ScaledDimension]:
        """MEDAL's issues and ``other`` among the labels, in the rubric's order."""
        names = [d.name for d in load_rubric("medal") if d.is_issue]
        issues = [d for d in self._shares() if d.name in names]
        return sorted(issues, key=lambda d: names.index(d.name))

    @property
    def other_shares(self) -> list[ScaledDimension]:
        """Other dimensions with the answers 0 and 1; what 1 means is in their names."""
        issues = self.issues
        return [d for d in self._shares() if d not in issues]

    @property
    def graded(self) -> list[ScaledDimension]:
        """Dimensions with more answers, overall first."""
        graded = [d for d in self.survey.dimensions if not self.survey.is_share(d)]
        return sorted(graded, key=lambda d: d.name != OVERALL)

    def _shares(self) -> list[ScaledDimension]:
        return [d for d in self.survey.dimensions if self.survey.is_share(d)]

    def label(self, dimension: ScaledDimension) -> str:
        """The name, with the scale where two dimensions share the name or it is graded."""
        alike = sum(d.name == dimension.name for d in self.survey.dimensions)
        if self.survey.is_share(dimension) and alike == 1:
            return dimension.name
        if dimension.scale is None:
            return f"{dimension.name} (no stated scale)" if alike > 1 else dimension.name
        low, high = dimension.scale
        return f"{dimension.name} ({low:g}–{high:g})"

    def distribution(self, part: Part, dimension: ScaledDimension) -> Distribution | str:
        """Rows by level, or why there are no levels."""
        if dimension.scale is None:
            return "the source states no scale"
        low, high = dimension.scale
        if low % 1 or high % 1 or high - low >= _MAX_LEVELS:
            return "the scale has no few whole levels"
        values, weight = self.survey.labels(part, dimension), self.survey.select(part)["weight"]
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


def _tries(weight: Floats, turns: Floats, tries: Floats, at_once: Floats, most: Floats) -> Tries:
    counted, reason = weight @ turns, "no tries recorded"
    return Tries(
        int(turns.sum()),
        _ratio(weight @ tries, counted, reason),
        _ratio(weight @ at_once, counted, reason),
        int(most.max(initial=0)),
    )


def _ratio(total: float | Floats, count: float | Floats, reason: str) -> Estimate:
    return Estimate(float(total / count)) if count else Estimate(None, reason=reason)


def _systems(names: Sequence[str]) -> Sequence[str]:
    if names == [NOT_STATED] or len(names) > MAX_NAMES:
        return []
    return names
