"""Sums of weights by name."""

from __future__ import annotations

from collections.abc import Mapping


class Sums(dict[str, float]):
    """A number for each name; 0 for a name that never came."""

    def __missing__(self, name: str) -> float:
        return 0.0

    def add(self, other: Mapping[str, float]) -> None:
        for name, number in other.items():
            self[name] += number

    def total(self) -> float:
        return sum(self.values())
