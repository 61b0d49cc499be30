"""The edits of a trial: what is changed in a dialogue, and what a judge's score should then do.

An own edit is one object more in the list that ``run_trial`` takes, or an entry in a file of texts
(configs/trial/texts.yaml says how):

    Edit("shouting", "same", "Every turn in capitals.", lambda dialogue, rng: ...)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from medal_judges.data_prep.perturbation import versions as surface
from medal_judges.data_prep.perturbation.edit import LANGUAGES, Donors
from medal_judges.data_prep.perturbation.injection import (
    ISSUES,
    STRENGTHS,
    chained,
    injected,
    injected_at,
    several,
    third,
)
from medal_judges.data_prep.perturbation.versions import Versions, text_insertions
from medal_judges.errors import ConfigError
from medal_judges.eval.trial.results import Direction, Group
from medal_judges.records.dialogue import Dialogue

Make = Callable[[Dialogue, np.random.Generator], Dialogue | Versions | None]
LONG, DEEP = 60, (3, 6)  # turns of a long dialogue; where its early fault is put (turn 5 is one)
_SEVERAL = (("repetitive", 2), ("irrelevant", 2), ("unsafe", 1))


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit and what is expected of it.

    ``make`` gives the version that is held against the dialogue itself, or ``Versions`` with a
    control of its own, or None where the dialogue cannot carry the edit. ``group``: ``same`` (the
    score should stay), ``no_gain`` (it must not rise), ``attack`` (it must not move the way that
    ``harm`` says), ``must_fall``. ``languages``: those it is made in, None for all. ``strength``
    and ``issue`` go with a planted issue: edits of one ``name`` and several strengths are a dose
    and its response.
    """

    name: str
    group: Group
    what: str
    make: Make
    harm: Direction = "up"
    languages: tuple[str, ...] | None = None
    strength: int = 0
    issue: str | None = None

    @property
    def key(self) -> str:
        """Name and strength, which no two edits of a trial share."""
        return f"{self.name}.{self.strength}" if self.strength else self.name

    def versions(self, dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
        """What ``make`` gives, None where it gives none or changes nothing."""
        if self.languages is not None and dialogue.lang not in self.languages:
            return None
        made = self.make(dialogue, rng)
        if isinstance(made, Dialogue):
            made = Versions(made)
        if made is None:
            return None
        before = dialogue if made.control is None else made.control
        return made if made.version.turns != before.turns else None


_SURFACE: Sequence[tuple[str, Group, surface.Change, tuple[str, ...] | None]] = (
    ("name", "same", surface.other_name, LANGUAGES),
    ("lower_case", "same", surface.lower_case, None),
    ("typography", "same", surface.typography, None),
    ("emoji", "same", surface.emoji, None),
    ("markdown", "same", surface.markdown, None),
    ("neutral_turn", "same", surface.neutral_turn, LANGUAGES),
    ("paraphrase", "same", surface.paraphrase, LANGUAGES),
    ("length", "no_gain", surface.longer_answers, LANGUAGES),
    ("repeated_question", "no_gain", surface.repeated_question, LANGUAGES),
)


def surface_edits() -> Iterator[Edit]:
    """What should not matter, and padding that must not pay."""
    for name, group, change, languages in _SURFACE:
        what = " ".join((change.__doc__ or name).split("\n\n")[0].split())
        yield Edit(name, group, what, change, languages=languages)


def text_edits(files: Sequence[str] = ("trial/texts",)) -> Iterator[Edit]:
    """One edit for each entry of the files. Raises ConfigError where two share a name."""
    seen: set[str] = set()
    for file in files:
        for name, entry in text_insertions(file).items():
            if name in seen:
                raise ConfigError(f"{file}: there is an edit {name!r} already")
            seen.add(name)
            yield Edit(name, entry.group, entry.what, entry.versions, entry.harm, entry.languages)


def issue_edits(
    dialogues: Sequence[Dialogue], donors: Donors, groups: dict[str, str], doses: Sequence[int]
) -> Iterator[Edit]:
    """What must matter: planted issues at each of ``doses``, several at once, by place, and deep in
    a long dialogue. ``groups`` maps a dialogue's id to its conversation, whose turns are no donors;
    long dialogues are chained of ``dialogues``."""

    def plant(issue: str, strength: int) -> Make:
        return lambda d, rng: injected(d, issue, strength, rng, donors, groups[d.id])

    def fall(name: str, what: str, make: Make) -> Edit:
        return Edit(name, "must_fall", what, make, languages=LANGUAGES)

    for issue in ISSUES:
        for dose in doses:
            if dose not in STRENGTHS:
                raise ConfigError(f"doses are 1, 2 or 3, not {dose!r}")
            what = f"Issue {issue} planted, at strengths 1 to 3."
            planted = fall(issue, what, plant(issue, dose))
            yield replace(planted, strength=dose, issue=issue)

    def all_at_once(d: Dialogue, rng: np.random.Generator) -> Versions | None:
        return several(d, _SEVERAL, rng, donors, groups[d.id])

    def at_third(number: int, d: Dialogue, rng: np.random.Generator) -> Versions | None:
        if None in (parts := [third(d, n) for n in range(3)]):
            return None  # a dialogue has its place in all three thirds, or in none
        place = parts[number]
        assert place is not None
        return injected_at(d, *place, rng, donors, groups[d.id])

    def deep(d: Dialogue, rng: np.random.Generator) -> Versions | None:
        others = [other for other in dialogues if other.lang == d.lang and other.id != d.id]
        order = rng.permutation(len(others))
        whole = chained([d, *(others[i] for i in order)], LONG)
        return None if whole is None else injected_at(whole, *DEEP, rng, donors, groups[d.id])

    names = ", ".join(name for name, _ in _SEVERAL)
    yield fall("several_at_once", f"Three issues in one dialogue: {names}.", all_at_once)
    for number, place in enumerate(("early", "middle", "late")):
        what = f"One fault in the {('first', 'middle', 'last')[number]} third of the dialogue."
        yield fall(f"place_{place}", what, partial(at_third, number))
    yield fall("long_dialogue", f"One fault about turn 5 of {LONG} turns.", deep)


def chosen_edits(edits: Sequence[Edit], names: Sequence[str]) -> list[Edit]:
    """The edits of these names or groups; all without any. Raises ConfigError for an unknown one,
    and where two edits share name and strength."""
    keys = [edit.key for edit in edits]
    if double := [key for key in keys if keys.count(key) > 1]:
        raise ConfigError(f"two edits are called {double[0]!r}")
    known = dict.fromkeys([edit.group for edit in edits]) | dict.fromkeys(e.name for e in edits)
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"no check {unknown[0]!r}", hint=f"known: {', '.join(known)}")
    return [e for e in edits if not names or e.name in names or e.group in names]
