"""What an edit works with and what it makes: a faulty and an innocent version of one dialogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from medal_judges.data_prep.perturbation.donors import Donors
from medal_judges.data_prep.perturbation.tables import Split, entries
from medal_judges.data_prep.perturbation.text import has_words
from medal_judges.dialogue import Dialogue, Turn


class CannotPlant(Exception):
    """This dialogue cannot carry this issue; the message is the reason that gets counted."""


@dataclass(frozen=True)
class Job:
    """One issue to plant into one dialogue, and where the material comes from."""

    dialogue: Dialogue
    strength: int
    rng: np.random.Generator
    donors: Donors
    split: Split
    group: str

    @property
    def lang(self) -> str:
        return self.dialogue.lang

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """Contents of all turns."""
        return tuple(turn.content for turn in self.dialogue.turns)

    def table(self, name: str) -> tuple[Any, ...]:
        """The table's entries for this language and split. Raises CannotPlant when it has none."""
        found = entries(name, self.lang, self.split)
        if not found:
            raise CannotPlant(f"no sentences in language {self.lang!r}")
        return found

    def answers(self, words: int = 1) -> list[int]:
        """Indices of the assistant turns of at least ``words`` words."""
        turns = self.dialogue.assistant_turns
        return [i for i in turns if has_words(self.texts[i], self.lang, words)]

    def some(self, options: Sequence[Any], count: int) -> list[Any]:
        """``count`` of ``options`` (or all when fewer), without repeats, in their order."""
        count = min(count, len(options))
        return [options[i] for i in sorted(self.rng.permutation(len(options))[:count])]

    def one(self, options: Sequence[Any]) -> Any:
        """One of ``options``, all equally likely."""
        return options[int(self.rng.integers(len(options)))]

    def chance(self, probability: float = 0.5) -> bool:
        return bool(self.rng.random() < probability)


@dataclass(frozen=True, slots=True)
class Twin:
    """Two versions of a dialogue's turns that differ in the issue and, as far as can be, in
    nothing else. ``touched``: assistant turns that carry the issue in ``planted``; the innocent
    edit stands in the same turns. ``how`` names the method."""

    planted: tuple[Turn, ...]
    innocent: tuple[Turn, ...]
    touched: tuple[int, ...]
    how: str


def twin(
    job: Job,
    planted: Mapping[int, str],
    innocent: Mapping[int, str],
    how: str,
    touched: Sequence[int] | None = None,
) -> Twin:
    """Twin of the new contents by turn index; ``touched`` defaults to the turns of ``planted``."""
    marked = tuple(sorted(planted if touched is None else touched))
    if any(planted[i] == innocent.get(i, job.texts[i]) for i in marked):
        raise CannotPlant("the edit would change nothing")
    return Twin(_edited(job, planted), _edited(job, innocent), marked, how)


def _edited(job: Job, contents: Mapping[int, str]) -> tuple[Turn, ...]:
    turns = enumerate(job.dialogue.turns)
    return tuple(Turn(t.role, contents[i]) if i in contents else t for i, t in turns)
