"""Texts: counts of dialogues, turns, lengths and lexical diversity, added up without the texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from medal_judges.data_prep.corpus_stats.mtld import UNDEFINED, mtld
from medal_judges.data_prep.corpus_stats.sums import Sums
from medal_judges.data_prep.corpus_stats.units import Unit
from medal_judges.dialogue import Role
from medal_judges.stats.results import Estimate

Side = Literal["all", "user", "assistant"]
SIDES: tuple[Side, ...] = ("all", "user", "assistant")


@dataclass(slots=True)
class SideCounts:
    """One side of the dialogues: turns by the unit of their length, and ``diverse`` dialogues in
    which MTLD is defined. ``turn_weights``, ``length_by`` and ``mtld`` are sums by the weights of
    the dialogues, ``diverse_weight`` what the diverse ones count for."""

    turns_by: Counter[Unit] = field(default_factory=Counter)
    turn_weights: Sums = field(default_factory=Sums)
    length_by: Sums = field(default_factory=Sums)
    mtld: float = 0.0
    diverse: int = 0
    diverse_weight: float = 0.0

    def add(self, other: SideCounts) -> None:
        self.turns_by.update(other.turns_by)
        self.turn_weights.add(other.turn_weights)
        self.length_by.add(other.length_by)
        self.mtld += other.mtld
        self.diverse += other.diverse
        self.diverse_weight += other.diverse_weight


@dataclass(slots=True)
class TextCounts:
    """Sums over some dialogues, which count for ``weight``. ``unsplit`` of them are in a language
    without tokens here, for the reasons in ``why``."""

    dialogues: int = 0
    weight: float = 0.0
    unsplit: int = 0
    why: set[str] = field(default_factory=set)
    sides: dict[Side, SideCounts] = field(default_factory=lambda: {s: SideCounts() for s in SIDES})

    def add(self, other: TextCounts) -> None:
        self.dialogues += other.dialogues
        self.weight += other.weight
        self.unsplit += other.unsplit
        self.why |= other.why
        for side, counts in other.sides.items():
            self.sides[side].add(counts)

    def add_turn(self, role: Role, length: int, unit: Unit, weight: float = 1) -> None:
        for side in ("all", role):
            self.sides[side].turns_by[unit] += 1
            self.sides[side].turn_weights[unit] += weight
            self.sides[side].length_by[unit] += weight * length

    def add_tokens(
        self, turns: Sequence[tuple[Role, Sequence[str]]], weight: float = 1
    ) -> list[str]:
        """MTLD of one dialogue and of its sides, each as one text; all its tokens."""
        tokens: dict[Side, list[str]] = {side: [] for side in SIDES}
        for role, found in turns:
            tokens["all"] += found
            tokens[role] += found
        for side, text in tokens.items():
            value = mtld(text)
            if value is not None:
                self.sides[side].mtld += weight * value
                self.sides[side].diverse += 1
                self.sides[side].diverse_weight += weight
        return tokens["all"]

    def mean_turns(self, side: Side = "all") -> Estimate:
        """Turns per dialogue."""
        return _ratio(self.sides[side].turn_weights.total(), self.weight, "no dialogue")

    def mean_length(self, unit: Unit, side: Side = "all") -> Estimate:
        """Units per turn, over the languages measured in ``unit``; empty turns have length 0."""
        counts = self.sides[side]
        reason = f"no turn of this side in a language measured in {unit}"
        return _ratio(counts.length_by[unit], counts.turn_weights[unit], reason)

    def mean_mtld(self, side: Side = "all") -> Estimate:
        """Mean over the dialogues in which MTLD is defined."""
        if self.dialogues and self.unsplit == self.dialogues:
            return Estimate(None, reason="; ".join(sorted(self.why)))
        counts = self.sides[side]
        return _ratio(counts.mtld, counts.diverse_weight, f"no dialogue has a value: {UNDEFINED}")


def _ratio(total: float, count: float, reason: str) -> Estimate:
    return Estimate(total / count) if count else Estimate(None, reason=reason)
