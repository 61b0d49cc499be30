"""Course: how generated dialogues ended, and the tries that their user turns took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from medal_judges.data_prep.corpus_stats.sums import Sums
from medal_judges.stats.results import Estimate


@dataclass(slots=True)
class Tries:
    """Tries of ``turns`` turns, ``most`` at a time. ``total`` tries, and the turns that took a
    single one (``at_once``), are sums by the turns' weights, which add up to ``weight``."""

    total: float = 0
    turns: int = 0
    at_once: float = 0
    most: int = 0
    weight: float = 0

    def add(self, other: Tries) -> None:
        self.total += other.total
        self.turns += other.turns
        self.at_once += other.at_once
        self.most = max(self.most, other.most)
        self.weight += other.weight

    def add_turn(self, tries: int, weight: float = 1) -> None:
        self.add(Tries(weight * tries, 1, weight * (tries == 1), tries, weight))

    @property
    def mean(self) -> Estimate:
        return self._of(self.total)

    @property
    def share_at_once(self) -> Estimate:
        """From 0 to 1."""
        return self._of(self.at_once)

    def _of(self, total: float) -> Estimate:
        if not self.turns:
            return Estimate(None, reason="no tries recorded")
        return Estimate(total / self.weight)


@dataclass(slots=True)
class Course:
    """``ended`` counts what the rows say in ``ended``, ``ended_weights`` by their weights;
    ``first`` and ``later`` are user turns. ``unreadable`` rows have a field of another form than
    ``medal generate`` writes."""

    ended: Counter[str] = field(default_factory=Counter)
    ended_weights: Sums = field(default_factory=Sums)
    first: Tries = field(default_factory=Tries)
    later: Tries = field(default_factory=Tries)
    unreadable: int = 0

    def add(self, other: Course) -> None:
        self.ended.update(other.ended)
        self.ended_weights.add(other.ended_weights)
        self.first.add(other.first)
        self.later.add(other.later)
        self.unreadable += other.unreadable

    def add_row(self, extra: Mapping[str, Any], weight: float = 1) -> None:
        ended, tries = extra.get("ended"), extra.get("tries")
        if isinstance(ended, str):
            self.ended[ended] += 1
            self.ended_weights[ended] += weight
        whole = isinstance(tries, list) and all(type(n) is int and n > 0 for n in tries)
        for i, n in enumerate(tries if whole and tries else ()):
            (self.later if i else self.first).add_turn(n, weight)
        odd = not (ended is None or isinstance(ended, str)) or not (tries is None or whole)
        self.unreadable += odd
