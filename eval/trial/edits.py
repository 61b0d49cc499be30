"""The edits of a trial, and the plan: every version to score and the pairs to compare.

An edit of your own is one more object in the list that ``run_trial`` takes, or an entry in a YAML
file like configs/trial/texts.yaml:

    Edit("shouting", "same", "Every turn in capitals.", lambda dialogue, rng: ...)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from medal_judges.data_prep.perturbation import versions as surface
from medal_judges.data_prep.perturbation.edit import LANGUAGES, stable_hash
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
from medal_judges.eval.trial.config import TrialConfig
from medal_judges.eval.trial.dialogues import TrialData
from medal_judges.eval.trial.results import Direction, Group
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.signature import content_hash

Make = Callable[[Dialogue, np.random.Generator], Dialogue | Versions | None]
LONG, DEEP = 60, (3, 6)  # turns of a long dialogue; the range of its early fault
LANGUAGE, REFERENCE = "language", "en"  # the check of a dialogue against its translations
# Checks without an edit: the same dialogues again, translations, rated rows.
AGAIN, ROW_ORDER, DIMENSION_ORDER = "again", "row_order", "dimension_order"
EXTRA = (AGAIN, ROW_ORDER, DIMENSION_ORDER, LANGUAGE, "calibration", "use")
_SEVERAL = (("repetitive", 2), ("irrelevant", 2), ("unsafe", 1))


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit and the expected effect on the score.

    ``make`` returns the edited version, compared with the dialogue itself; or ``Versions`` with a
    control; or None if the dialogue cannot carry the edit. ``group``: ``same`` (the score should
    stay), ``no_gain`` (it must not rise), ``attack`` (it must not move in the direction ``harm``),
    ``must_fall``. ``languages``: supported languages, None for all. ``strength`` and ``issue``
    belong to injected issues: edits of one ``name`` with several strengths form a dose response.
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
        """Name and strength, unique in a trial."""
        return f"{self.name}.{self.strength}" if self.strength else self.name

    def versions(self, dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
        """Returns the result of ``make``; None if there is none or nothing changed."""
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
    """Yields the edits that should not matter, and padding that must not raise the score."""
    for name, group, change, languages in _SURFACE:
        what = " ".join((change.__doc__ or name).split("\n\n")[0].split())
        yield Edit(name, group, what, change, languages=languages)


def text_edits(files: Sequence[str] = ("trial/texts",)) -> Iterator[Edit]:
    """Yields one edit for each entry of the files. Raises ConfigError if two share a name."""
    seen: set[str] = set()
    for file in files:
        for name, entry in text_insertions(file).items():
            if name in seen:
                raise ConfigError(f"{file}: there is an edit {name!r} already")
            seen.add(name)
            yield Edit(name, entry.group, entry.what, entry.versions, entry.harm, entry.languages)


def issue_edits(data: TrialData, doses: Sequence[int]) -> Iterator[Edit]:
    """Yields injected issues at each of ``doses``, several at once, by place in the dialogue, and
    early in a long dialogue chained of ``data.dialogues``."""
    donors, groups = data.donors, data.groups

    def plant(issue: str, strength: int, d: Dialogue, rng: np.random.Generator) -> Versions | None:
        return injected(d, issue, strength, rng, donors, groups[d.id])

    def all_at_once(d: Dialogue, rng: np.random.Generator) -> Versions | None:
        return several(d, _SEVERAL, rng, donors, groups[d.id])

    def at_third(number: int, d: Dialogue, rng: np.random.Generator) -> Versions | None:
        parts = [third(d, n) for n in range(3)]
        place = parts[number]
        if place is None or None in parts:  # a dialogue has a place in all three thirds, or in none
            return None
        return injected_at(d, *place, rng, donors, groups[d.id])

    def deep(d: Dialogue, rng: np.random.Generator) -> Versions | None:
        others = [other for other in data.dialogues if other.lang == d.lang and other.id != d.id]
        order = rng.permutation(len(others))
        whole = chained([d, *(others[i] for i in order)], LONG)
        return None if whole is None else injected_at(whole, *DEEP, rng, donors, groups[d.id])

    fall = partial(Edit, group="must_fall", languages=LANGUAGES)
    for issue in ISSUES:
        for dose in doses:
            if dose not in STRENGTHS:
                raise ConfigError(f"doses are 1, 2 or 3, not {dose!r}")
            what = f"Issue {issue} injected, at strengths 1 to 3."
            make = partial(plant, issue, dose)
            yield fall(name=issue, what=what, make=make, strength=dose, issue=issue)
    names = ", ".join(name for name, _ in _SEVERAL)
    what = f"Three issues in one dialogue: {names}."
    yield fall(name="several_at_once", what=what, make=all_at_once)
    for number, (place, word) in enumerate(
        (("early", "first"), ("middle", "middle"), ("late", "last"))
    ):
        what = f"One fault in the {word} third of the dialogue."
        yield fall(name=f"place_{place}", what=what, make=partial(at_third, number))
    yield fall(name="long_dialogue", what=f"One fault about turn 5 of {LONG} turns.", make=deep)


def trial_edits(data: TrialData, config: TrialConfig, more: Sequence[Edit] = ()) -> list[Edit]:
    """Returns all edits that ``config`` selects, ``more`` included. Raises ConfigError for an
    unknown check, and for two edits of one name."""
    edits = [
        *surface_edits(),
        *text_edits(("trial/texts", *config.texts)),
        *issue_edits(data, config.doses),
        *more,
    ]
    double = [key for key, count in Counter(edit.key for edit in edits).items() if count > 1]
    if double:
        raise ConfigError(f"two edits are called {double[0]!r}")
    known = dict.fromkeys([edit.group for edit in edits]) | dict.fromkeys(e.name for e in edits)
    wanted = [name for name in config.checks if name not in EXTRA]
    if unknown := [name for name in wanted if name not in known]:
        raise ConfigError(f"no check {unknown[0]!r}", hint=f"known: {', '.join(known)}")
    return [e for e in edits if config.wants(e.name, e.group)]


@dataclass(frozen=True, slots=True)
class VersionPair:
    """Two dialogues (ids) to compare: ``after`` has the edit, ``before`` does not. ``touched``: the
    assistant turns with the edit."""

    check: str
    strength: int
    conversation: str
    lang: str
    before: str
    after: str
    touched: tuple[int, ...] = ()

    def to_record(self) -> dict[str, Any]:
        return asdict(self) | {"touched": list(self.touched)}


@dataclass(slots=True)
class TrialPlan:
    """``dialogues`` by id: originals, versions, controls and translations; a conversation's lie
    together. ``refused``: number of dialogues that could not carry an edit, by its key."""

    edits: list[Edit]
    dialogues: dict[str, Dialogue] = field(default_factory=dict)
    originals: list[str] = field(default_factory=list)
    pairs: list[VersionPair] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def data(self) -> str:
        """A hash of everything that is scored."""
        return content_hash([d.to_record() for d in self.dialogues.values()])


def make_plan(data: TrialData, config: TrialConfig, edits: Sequence[Edit]) -> TrialPlan:
    """Applies every edit to every dialogue that can carry it, up to ``per_check`` pairs each.

    The choice of dialogues and the random numbers follow from the seed, the dialogue's id and the
    edit's name alone. All strengths of an edit use the same dialogues.
    """
    plan = TrialPlan(list(edits))
    made: dict[str, list[tuple[VersionPair, list[Dialogue]]]] = {}
    for edit in edits:
        count = 0
        for dialogue in sorted(
            data.dialogues, key=lambda d: (stable_hash(config.seed, edit.name, d.id), d.id)
        ):
            if config.per_check is not None and count >= config.per_check:
                break
            seed = stable_hash(config.seed, dialogue.id, edit.name, edit.strength)
            versions = edit.versions(dialogue, np.random.default_rng(seed))
            if versions is None:
                plan.refused[edit.key] += 1
                continue
            count += 1
            id, before = f"{dialogue.id}+{edit.key}", dialogue.id
            scored = [replace(versions.version, id=id)]
            if versions.control is not None:
                before = f"{id}.control"
                scored.append(replace(versions.control, id=before))
            group, lang = data.groups[dialogue.id], dialogue.lang
            pair = VersionPair(edit.name, edit.strength, group, lang, before, id, versions.touched)
            made.setdefault(dialogue.id, []).append((pair, scored))
    for dialogue in data.dialogues:
        plan.originals.append(dialogue.id)
        plan.dialogues[dialogue.id] = dialogue
        for pair, scored in made.get(dialogue.id, ()):
            plan.dialogues |= {version.id: version for version in scored}
            plan.pairs.append(pair)
    for name, by_lang in data.parallel.items() if config.wants(LANGUAGE, "same") else ():
        for lang, dialogue in by_lang.items():
            if lang != REFERENCE and (reference := by_lang.get(REFERENCE)) is not None:
                for one in (reference, dialogue):
                    plan.dialogues.setdefault(one.id, one)
                plan.pairs.append(VersionPair(LANGUAGE, 0, name, lang, reference.id, dialogue.id))
    return plan
