"""Texts: counts of dialogues, turns, lengths and lexical diversity, added up without the texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from medal_judges.data_prep.stats.mtld import UNDEFINED, mtld
from medal_judges.data_prep.stats.units import Unit
from medal_judges.dialogue import Role
from medal_judges.eval.results import Estimate

Side = Literal["all", "user", "assistant"]
SIDES: tuple[Side, ...] = ("all", "user", "assistant")


@dataclass(slots=True)
class SideCounts:
    """One side of the dialogues: turns by the unit of their length, lengths summed by unit, MTLD
    summed over the ``diverse`` dialogues in which it is defined."""

    turns_by: Counter[Unit] = field(default_factory=Counter)
    length_by: Counter[Unit] = field(default_factory=Counter)
    mtld: float = 0.0
    diverse: int = 0

    @property
    def turns(self) -> int:
        return self.turns_by.total()

    def add(self, other: SideCounts) -> None:
        self.turns_by.update(other.turns_by)
        self.length_by.update(other.length_by)
        self.mtld += other.mtld
        self.diverse += other.diverse


@dataclass(slots=True)
class TextCounts:
    """Sums over some dialogues. ``unsplit`` of them are in a language without tokens here, for
    the reasons in ``why``."""

    dialogues: int = 0
    unsplit: int = 0
    why: set[str] = field(default_factory=set)
    sides: dict[Side, SideCounts] = field(default_factory=lambda: {s: SideCounts() for s in SIDES})

    def add(self, other: TextCounts) -> None:
        self.dialogues += other.dialogues
        self.unsplit += other.unsplit
        self.why |= other.why
        for side, counts in other.sides.items():
            self.sides[side].add(counts)

    def add_turn(self, role: Role, length: int, unit: Unit) -> None:
        for side in ("all", role):
            self.sides[side].turns_by[unit] += 1
            self.sides[side].length_by[unit] += length

    def add_tokens(self, turns: Sequence[tuple[Role, Sequence[str]]]) -> list[str]:
        """MTLD of one dialogue and of its sides, each as one text; all its tokens."""
        tokens: dict[Side, list[str]] = {side: [] for side in SIDES}
        for role, found in turns:
            tokens["all"] += found
            tokens[role] += found
        for side, text in tokens.items():
            value = mtld(text)
            if value is not None:
                self.sides[side].mtld += value
                self.sides[side].diverse += 1
        return tokens["all"]

    def mean_turns(self, side: Side = "all") -> Estimate:
        """Turns per dialogue."""
        return _ratio(self.sides[side].turns, self.dialogues, "no dialogue")

    def mean_length(self, unit: Unit, side: Side = "all") -> Estimate:
        """Units per turn, over the languages measured in ``unit``; empty turns have length 0."""
        counts = self.sides[side]
        reason = f"no turn of this side in a language measured in {unit}"
        return _ratio(counts.length_by[unit], counts.turns_by[unit], reason)

    def mean_mtld(self, side: Side = "all") -> Estimate:
        """Mean over the dialogues in which MTLD is defined."""
        if self.dialogues and self.unsplit == self.dialogues:
            return Estimate(None, reason="; ".join(sorted(self.why)))
        counts = self.sides[side]
        return _ratio(counts.mtld, counts.diverse, f"no dialogue has a value: {UNDEFINED}")


def _ratio(total: float, count: int, reason: str) -> Estimate:
    return Estimate(total / count) if count else Estimate(None, reason=reason)
