"""The dialogues of a trial, their edits, and the plan: every version to score and the pairs to
compare.

An edit of your own is one more object in the list that ``run_trial`` takes, or an entry in a YAML
file like configs/trial/texts.yaml:

    Edit("shouting", "same", "Every turn in capitals.", lambda dialogue, rng: ...)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pandas as pd

from medal_judges.config import config_text, parse_yaml
from medal_judges.data_prep.perturbation import versions as surface
from medal_judges.data_prep.perturbation.edit import LANGUAGES, Donors, stable_hash
from medal_judges.data_prep.perturbation.injection import ISSUES, STRENGTHS
from medal_judges.data_prep.perturbation.versions import (
    Versions,
    injected,
    injected_at,
    several,
    text_insertions,
)
from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.errors import ConfigError, MissingExtraError
from medal_judges.eval.trial.config import Group, TrialConfig
from medal_judges.reading.dialogues import DEFAULT_READING, ReadingReport, ReadOptions
from medal_judges.records.dialogue import UNKNOWN_LANGUAGE, Dialogue, Role, Turn
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.signature import content_hash

SHIPPED = "chitchat:test"
LONG, DEEP = 60, (3, 6)  # turns of a long dialogue; the range of its early fault
LANGUAGE, REFERENCE = "language", "en"  # the check of a dialogue against its translations
# Checks without an edit: the same dialogues again, translations, coverage and cost.
AGAIN, ROW_ORDER, DIMENSION_ORDER = "again", "row_order", "dimension_order"
EXTRA = (AGAIN, ROW_ORDER, DIMENSION_ORDER, LANGUAGE, "use")
_SEVERAL = (("repetitive", 2), ("irrelevant", 2), ("unsafe", 1))
_PAIR = ["check", "strength", "conversation", "lang", "before", "after", "touched"]


@dataclass(slots=True)
class TrialData:
    """``groups``: the conversation of each dialogue id. ``translated``: the shipped conversations,
    by name and language. ``notes``: data that is missing on this machine."""

    dialogues: list[Dialogue]
    groups: dict[str, str]
    donors: Donors
    translated: Mapping[str, Mapping[str, Dialogue]]
    notes: list[str] = field(default_factory=list)


def load_data(
    config: TrialConfig,
    file: str | None = None,
    *,
    reading: ReadingReport | None = None,
    options: ReadOptions = DEFAULT_READING,
) -> TrialData:
    """Loads the dialogues of ``file``, or the chitchat package and the shipped conversations. Uses
    no network. Raises ConfigError if no dialogue is left."""
    notes = []
    every = dict(list(own_dialogues().items())[: config.own])
    own = {n: {lang: by[lang] for lang in config.languages} for n, by in every.items()}
    rows: list[LabelledDialogue] = []
    if file is not None:
        rows = load_spec(file, reading=reading, options=options)
    else:
        try:
            rows = load_spec(SHIPPED)
        except MissingExtraError as error:
            notes.append(f"without real conversations in English: {error}")
    chosen = []
    for row in rows:  # of the shipped dialogues only those of medium length
        turns = len(row.dialogue.turns)
        fits = turns >= 2 if file else config.min_turns <= turns <= config.max_turns
        if fits and row.level == "dialogue" and row.dialogue.assistant_turns:
            chosen.append(row)
    chosen.sort(key=lambda row: (stable_hash(config.seed, "trial", row.id), row.id))
    chosen = chosen[: config.dialogues]
    dialogues = [row.dialogue for row in chosen]
    if unknown := sum(dialogue.lang == UNKNOWN_LANGUAGE for dialogue in dialogues):
        notes.append(
            f"{unknown} of {len(dialogues)} dialogues state no language: checks that insert text "
            "skip them (add a column lang, or --column lang=NAME)"
        )
    if file is None:
        dialogues += [dialogue for by_lang in own.values() for dialogue in by_lang.values()]
    if not dialogues:
        raise ConfigError(
            f"no dialogue is left for the trial ({len(rows)} read)",
            hint=f"min_turns={config.min_turns} and max_turns={config.max_turns} skip the others; "
            "dialogues=24 sets how many take part",
        )
    ours = [LabelledDialogue(d, {}, {}, group=n) for n, by in every.items() for d in by.values()]
    groups = {row.id: row.group for row in chosen}
    groups |= {dialogue.id: name for name, by in own.items() for dialogue in by.values()}
    return TrialData(dialogues, groups, Donors.of([*rows, *ours]), own, notes)


@lru_cache(maxsize=1)
def own_dialogues() -> Mapping[str, Mapping[str, Dialogue]]:
    """Returns each conversation of configs/trial/dialogues.yaml by name and language."""
    roles: tuple[Role, Role] = ("user", "assistant")
    named = {}
    for entry in parse_yaml(config_text("trial/dialogues"), "configs/trial/dialogues.yaml"):
        name = f"own-{entry['id']}"
        turns = [(roles[i % 2], turn) for i, turn in enumerate(entry["turns"])]
        named[name] = {
            lang: Dialogue(
                f"{name}-{lang}",
                tuple(Turn(role, turn[lang]) for role, turn in turns),
                lang,
                source="trial",
            )
            for lang in entry["turns"][0]
        }
    return named


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
    make: Callable[[Dialogue, np.random.Generator], Dialogue | Versions | None]
    harm: Literal["up", "down"] = "up"
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
        if made is None or made.version.turns == (made.control or dialogue).turns:
            return None
        return made


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


def turn_edits(files: Sequence[str] = ("trial/texts",)) -> Iterator[Edit]:
    """Yields the edits that should not matter, padding that must not raise the score, and one edit
    for each entry of the files."""
    for name, group, change, languages in _SURFACE:
        what = " ".join((change.__doc__ or name).split("\n\n")[0].split())
        yield Edit(name, group, what, change, languages=languages)
    for file in files:
        for name, entry in text_insertions(file).items():
            yield Edit(name, entry.group, entry.what, entry.versions, entry.harm, entry.languages)


def issue_edits(data: TrialData, doses: Sequence[int]) -> Iterator[Edit]:
    """Yields edits that inject issues: each issue at each of ``doses``, several issues at once, one
    issue in each third of a dialogue, and one issue early in a long dialogue made of several."""
    donors, groups = data.donors, data.groups

    def plant(issue: str, strength: int, d: Dialogue, rng: np.random.Generator) -> Versions | None:
        return injected(d, issue, strength, rng, donors, groups[d.id])

    def all_at_once(d: Dialogue, rng: np.random.Generator) -> Versions | None:
        return several(d, _SEVERAL, rng, donors, groups[d.id])

    def at_third(number: int, d: Dialogue, rng: np.random.Generator) -> Versions | None:
        ends = [n * len(d.turns) // 3 for n in range(4)]
        thirds = list(pairwise(ends))
        if not all(any(a <= i < b for i in d.assistant_turns) for a, b in thirds):
            return None  # a dialogue carries an issue in each third, or in none
        return injected_at(d, *thirds[number], rng, donors, groups[d.id])

    def deep(d: Dialogue, rng: np.random.Generator) -> Versions | None:
        others = [other for other in data.dialogues if other.lang == d.lang and other.id != d.id]
        order = rng.permutation(len(others))
        turns = [turn for each in (d, *(others[i] for i in order)) for turn in each.turns][:LONG]
        long = replace(d, turns=tuple(turns))
        return None if len(turns) < LONG else injected_at(long, *DEEP, rng, donors, groups[d.id])

    fall = partial(Edit, group="must_fall", languages=LANGUAGES)
    if bad := [dose for dose in doses if dose not in STRENGTHS]:
        raise ConfigError(f"doses are 1, 2 or 3, not {bad[0]!r}")
    for issue in ISSUES:
        what = f"Issue {issue.replace('_', ' ')} injected, at strengths 1 to 3."
        for dose in doses:
            make = partial(plant, issue, dose)
            yield fall(name=issue, what=what, make=make, strength=dose, issue=issue)
    what = f"Three issues in one dialogue: {', '.join(name for name, _ in _SEVERAL)}."
    yield fall(name="several_at_once", what=what, make=all_at_once)
    for number, place in enumerate(("early", "middle", "late")):
        what = f"One fault in the {('first', 'middle', 'last')[number]} third of the dialogue."
        yield fall(name=f"place_{place}", what=what, make=partial(at_third, number))
    yield fall(name="long_dialogue", what=f"One fault about turn 5 of {LONG} turns.", make=deep)


def trial_edits(data: TrialData, config: TrialConfig, more: Sequence[Edit] = ()) -> list[Edit]:
    """Returns all edits that ``config`` selects, ``more`` included. Raises ConfigError for an
    unknown check, and for two edits of one name."""
    texts = ("trial/texts", *config.texts)
    edits = [*turn_edits(texts), *issue_edits(data, config.doses), *more]
    double = [key for key, count in Counter(edit.key for edit in edits).items() if count > 1]
    if double:
        raise ConfigError(f"two edits are called {double[0]!r}")
    known = [*dict.fromkeys(e.group for e in edits), *dict.fromkeys(e.name for e in edits)]
    if unknown := [name for name in config.checks if name not in (*known, *EXTRA)]:
        raise ConfigError(f"no check {unknown[0]!r}", hint=f"known: {', '.join(known)}")
    return [e for e in edits if config.wants(e.name, e.group)]


@dataclass(slots=True)
class TrialPlan:
    """``dialogues`` by id: originals, versions, controls and translations; those of one
    conversation are adjacent.

    ``pairs`` has one row for each two dialogues to compare: check, strength, conversation, lang,
    ``before`` and ``after`` (ids; ``after`` has the edit), ``touched`` (assistant turns with the
    edit).
    """

    edits: list[Edit]
    dialogues: dict[str, Dialogue]
    originals: list[str]
    pairs: pd.DataFrame

    @property
    def data(self) -> str:
        """A hash of everything that is scored."""
        return content_hash([d.to_record() for d in self.dialogues.values()])


def make_plan(data: TrialData, config: TrialConfig, edits: Sequence[Edit]) -> TrialPlan:
    """Applies every edit to every dialogue that can carry it, up to ``per_check`` pairs each.

    The choice of dialogues and the random numbers depend only on the seed, the dialogue's id and
    the edit's name. All strengths of an edit use the same dialogues.
    """
    made: dict[str, list[tuple[tuple[Any, ...], list[Dialogue]]]] = {}
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
                continue
            count += 1
            id, before = f"{dialogue.id}+{edit.key}", dialogue.id
            scored = [replace(versions.version, id=id)]
            if versions.control is not None:
                before = f"{id}.control"
                scored.append(replace(versions.control, id=before))
            about = edit.name, edit.strength, data.groups[dialogue.id], dialogue.lang
            pair = (*about, before, id, versions.touched)
            made.setdefault(dialogue.id, []).append((pair, scored))
    dialogues: dict[str, Dialogue] = {}
    pairs = []
    for dialogue in data.dialogues:
        dialogues[dialogue.id] = dialogue
        for pair, scored in made.get(dialogue.id, ()):
            dialogues |= {version.id: version for version in scored}
            pairs.append(pair)
    for name, by_lang in data.translated.items() if config.wants(LANGUAGE, "same") else ():
        if (reference := by_lang.get(REFERENCE)) is None:
            continue
        for lang, dialogue in by_lang.items():
            if lang != REFERENCE:
                dialogues.setdefault(reference.id, reference)
                dialogues.setdefault(dialogue.id, dialogue)
                pairs.append((LANGUAGE, 0, name, lang, reference.id, dialogue.id, ()))
    originals = [dialogue.id for dialogue in data.dialogues]
    table = pd.DataFrame(pairs, columns=_PAIR)
    return TrialPlan(list(edits), dialogues, originals, table)
