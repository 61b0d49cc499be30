"""Course: how generated dialogues ended, and the tries that their user turns took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from medal_judges.eval.results import Estimate


@dataclass(slots=True)
class Tries:
    """Sum, count and largest number of tries; ``at_once`` turns took a single one."""

    total: int = 0
    turns: int = 0
    at_once: int = 0
    most: int = 0

    def add(self, other: Tries) -> None:
        self.total += other.total
        self.turns += other.turns
        self.at_once += other.at_once
        self.most = max(self.most, other.most)

    def add_turn(self, tries: int) -> None:
        self.add(Tries(tries, 1, int(tries == 1), tries))

    @property
    def mean(self) -> Estimate:
        return self._of(self.total)

    @property
    def share_at_once(self) -> Estimate:
        """From 0 to 1."""
        return self._of(self.at_once)

    def _of(self, total: int) -> Estimate:
        if not self.turns:
            return Estimate(None, reason="no tries recorded")
        return Estimate(total / self.turns)


@dataclass(slots=True)
class Course:
    """``ended`` counts what the rows say in ``ended``; ``first`` and ``later`` are user turns.
    ``unreadable`` rows have a field of another form than ``medal generate`` writes."""

    ended: Counter[str] = field(default_factory=Counter)
    first: Tries = field(default_factory=Tries)
    later: Tries = field(default_factory=Tries)
    unreadable: int = 0

    def add(self, other: Course) -> None:
        self.ended.update(other.ended)
        self.first.add(other.first)
        self.later.add(other.later)
        self.unreadable += other.unreadable

    def add_row(self, extra: Mapping[str, Any]) -> None:
        ended, tries = extra.get("ended"), extra.get("tries")
        if isinstance(ended, str):
            self.ended[ended] += 1
        whole = isinstance(tries, list) and all(type(n) is int and n > 0 for n in tries)
        for i, n in enumerate(tries if whole and tries else ()):
            (self.later if i else self.first).add_turn(n)
        odd = not (ended is None or isinstance(ended, str)) or not (tries is None or whole)
        self.unreadable += odd
