"""Findings: a survey with its figures by part of the set, each computed once."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from medal_judges.data_prep.corpus_stats.labels import Dimension
from medal_judges.data_prep.corpus_stats.part import ALL, NOT_STATED, Part
from medal_judges.data_prep.corpus_stats.shares import Figure, figures
from medal_judges.data_prep.corpus_stats.survey import Survey
from medal_judges.dimension import load_rubric

OVERALL = "overall"
MAX_NAMES = 60  # more chatbots or user models than these are ids of people: no tables by them
_MAX_LEVELS = 11


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


@dataclass(slots=True)
class Findings:
    """What the page, the tables and the figures show. ``name`` says what was read."""

    survey: Survey
    name: str
    _figures: dict[Part, dict[Dimension, Figure]] = field(default_factory=dict)

    def figure(self, part: Part, dimension: Dimension) -> Figure:
        """Share at 1 (0 to 1) or mean of ``dimension`` in ``part``."""
        if part not in self._figures:
            self._figures[part] = figures(self.survey.labels, part)
        return self._figures[part][dimension]

    @property
    def langs(self) -> list[Part]:
        return [Part(lang) for lang in self.survey.langs]

    @property
    def chatbots(self) -> list[Part]:
        """Empty where no row names one, or they are too many to be systems."""
        return [Part(chatbot=name) for name in _systems(self.survey.chatbots)]

    @property
    def users(self) -> list[Part]:
        return [Part(user=name) for name in _systems(self.survey.users)]

    @property
    def pairs(self) -> list[Part]:
        """Languages by chatbots, only those with dialogues."""
        bots = {part.chatbot for part in self.chatbots}
        found = {(c.lang, c.chatbot) for c in self.survey.cells if c.chatbot in bots}
        return [Part(lang, bot) for lang, bot in sorted(found, key=str)]

    @property
    def parts(self) -> list[Part]:
        """All parts with figures of their own, the whole set first."""
        return [ALL, *self.langs, *self.chatbots, *self.users, *self.pairs]

    @property
    def issues(self) -> list[Dimension]:
        """MEDAL's issues and ``other`` among the labels, in the rubric's order."""
        names = [d.name for d in load_rubric("medal") if d.is_issue]
        found = [d for d in self._shares() if d.name in names]
        return sorted(found, key=lambda d: names.index(d.name))

    @property
    def other_shares(self) -> list[Dimension]:
        """Other dimensions with the answers 0 and 1; what 1 means is in their names."""
        issues = self.issues
        return [d for d in self._shares() if d not in issues]

    @property
    def graded(self) -> list[Dimension]:
        """Dimensions with more answers, overall first."""
        labels = self.survey.labels
        found = [d for d in labels.dimensions() if not labels.is_share(d)]
        return sorted(found, key=lambda d: d.name != OVERALL)

    def _shares(self) -> list[Dimension]:
        labels = self.survey.labels
        return [d for d in labels.dimensions() if labels.is_share(d)]

    def label(self, dimension: Dimension) -> str:
        """The name, with the scale where two dimensions share the name or it is graded."""
        alike = sum(d.name == dimension.name for d in self.survey.labels.dimensions())
        if self.survey.labels.is_share(dimension) and alike == 1:
            return dimension.name
        if dimension.scale is None:
            return f"{dimension.name} (no stated scale)" if alike > 1 else dimension.name
        low, high = dimension.scale
        return f"{dimension.name} ({low:g}–{high:g})"

    def distribution(self, part: Part, dimension: Dimension) -> Distribution | str:
        """Rows by level, or why there are no levels."""
        if dimension.scale is None:
            return "the source states no scale"
        low, high = dimension.scale
        if low % 1 or high % 1 or high - low >= _MAX_LEVELS:
            return "the scale has no few whole levels"
        column = self.survey.labels.dimensions().index(dimension)
        values = self.survey.labels.select(part)[2][:, column]
        given = ~np.isnan(values)
        level = np.floor(values[given] + 0.5).astype(np.int64) - int(low)
        size = int(high - low) + 1
        counts = np.bincount(level, minlength=size)
        weights = np.bincount(level, self.survey.labels.weights(part)[given], minlength=size)
        shares = weights / (weights.sum() or 1.0)
        levels = tuple(range(int(low), int(high) + 1))
        return Distribution(levels, tuple(map(int, counts)), tuple(map(float, shares)))


def _systems(names: list[str]) -> list[str]:
    if names == [NOT_STATED] or len(names) > MAX_NAMES:
        return []
    return names


def part_name(part: Part) -> str:
    """What stands at the head of a row: the names of the part, or ``all``."""
    return " · ".join(n for n in (part.lang, part.chatbot, part.user) if n is not None) or "all"
