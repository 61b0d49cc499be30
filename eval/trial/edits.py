"""The dialogues of a trial, their edits, and the plan: every version to score and the pairs to
compare.

An edit of your own is one more object in the list that ``run_trial`` takes, or an entry in a YAML
file like configs/trial/texts.yaml:

    Edit("shouting", "same", "Every turn in capitals.", lambda dialogue, rng: ...)
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import islice, pairwise
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
# the check of a dialogue against its translations
LANGUAGE, REFERENCE = ("language", "en")
# Checks without an edit: the same dialogues again, translations, coverage and cost.
AGAIN, ROW_ORDER, DIMENSION_ORDER = "again", "row_order", "dimension_order"
EXTRA = (AGAIN, ROW_ORDER, DIMENSION_ORDER, LANGUAGE, "use")
_SEVERAL = (("repetitive", 2), ("irrelevant", 2), ("unsafe", 1))
_THIRDS = {"early": "first", "middle": "middle", "late": "last"}
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
    notes: list[str] = []
    rows: list[LabelledDialogue] = []
    if file is not None:
        rows = load_spec(file, reading=reading, options=options)
    else:
        try:
            rows = load_spec(SHIPPED)
        except MissingExtraError as error:
            notes.append(f"without real conversations in English: {error}")
    turn_range = range(config.min_turns, config.max_turns + 1)
    if file is not None:
        turn_range = range(2, sys.maxsize)
    chosen_rows = _chosen_rows(rows, config, turn_range)
    dialogues = [row.dialogue for row in chosen_rows]
    unknown_count = sum(dialogue.lang == UNKNOWN_LANGUAGE for dialogue in dialogues)
    if unknown_count:
        notes.append(
            f"{unknown_count} of {len(dialogues)} dialogues state no language: checks that insert "
            "text skip them (add a column lang, or --column lang=NAME)"
        )
    groups = {row.id: row.group for row in chosen_rows}
    translated: dict[str, Mapping[str, Dialogue]] = {}
    donors = list(rows)
    for name, by_language in list(own_dialogues().items())[: config.own]:
        donors += [
            LabelledDialogue(d, {}, {}, group=name) for d in by_language.values()
        ]
        translated[name] = {
            language: by_language[language] for language in config.languages
        }
        for dialogue in translated[name].values():
            groups[dialogue.id] = name
            if file is None:
                dialogues.append(dialogue)
    if not dialogues:
        raise ConfigError(
            f"no dialogue is left for the trial ({len(rows)} read)",
            hint=f"min_turns={config.min_turns} and max_turns={config.max_turns} skip the others; "
            "dialogues=24 sets how many take part",
        )
    return TrialData(dialogues, groups, Donors.of(donors), translated, notes)


def _chosen_rows(
    rows: Sequence[LabelledDialogue], config: TrialConfig, turn_range: range
) -> list[LabelledDialogue]:
    """Returns as many dialogues as ``config`` asks for, by chance (its seed), of those with an
    answer and a number of turns in ``turn_range``."""
    candidates = []
    for row in rows:
        has_answer = row.level == "dialogue" and row.dialogue.assistant_turns
        if has_answer and len(row.dialogue.turns) in turn_range:
            candidates.append(row)
    candidates.sort(key=lambda row: (stable_hash(config.seed, "trial", row.id), row.id))
    return candidates[: config.dialogues]


@lru_cache(maxsize=1)
def own_dialogues() -> Mapping[str, Mapping[str, Dialogue]]:
    """Returns each conversation of configs/trial/dialogues.yaml by name and language."""
    roles: tuple[Role, Role] = ("user", "assistant")
    conversations: dict[str, dict[str, Dialogue]] = {}
    for entry in parse_yaml(
        config_text("trial/dialogues"), "configs/trial/dialogues.yaml"
    ):
        name = f"own-{entry['id']}"
        by_language = conversations[name] = {}
        for language in entry["turns"][0]:
            texts = [turn[language] for turn in entry["turns"]]
            turns = tuple(Turn(roles[i % 2], text) for i, text in enumerate(texts))
            by_language[language] = Dialogue(
                f"{name}-{language}", turns, language, source="trial"
            )
    return conversations


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
    description: str
    make: Callable[[Dialogue, np.random.Generator], Dialogue | Versions | None]
    harm: Literal["up", "down"] = "up"
    languages: tuple[str, ...] | None = None
    strength: int = 0
    issue: str | None = None

    @property
    def about(self) -> tuple[Group, str, str]:
        """Group, name and description of its check."""
        return self.group, self.name, self.description

    @property
    def key(self) -> str:
        """Name and strength, unique in a trial."""
        return f"{self.name}.{self.strength}" if self.strength else self.name

    def versions(self, dialogue: Dialogue, rng: np.random.Generator) -> Versions | None:
        """Returns the result of ``make``; None if there is none or nothing changed."""
        if self.languages is not None and dialogue.lang not in self.languages:
            return None
        versions = self.make(dialogue, rng)
        if isinstance(versions, Dialogue):
            versions = Versions(versions)
        if (
            versions is None
            or versions.version.turns == (versions.control or dialogue).turns
        ):
            return None
        return versions


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
        first_paragraph = (change.__doc__ or name).split("\n\n")[0]
        description = " ".join(first_paragraph.split())
        yield Edit(name, group, description, change, languages=languages)
    for file in files:
        for name, entry in text_insertions(file).items():
            yield Edit(
                name,
                entry.group,
                entry.what,
                entry.versions,
                entry.harm,
                entry.languages,
            )


def issue_edits(data: TrialData, doses: Sequence[int]) -> Iterator[Edit]:
    """Yields edits that inject issues: each issue at each of ``doses``, several issues at once, one
    issue in each third of a dialogue, and one issue early in a long dialogue made of several."""
    for dose in doses:
        if dose not in STRENGTHS:
            raise ConfigError(f"doses are 1, 2 or 3, not {dose!r}")
    injector = _Injector(data)
    fall = partial(Edit, group="must_fall", languages=LANGUAGES)
    for issue in ISSUES:
        text = f"Issue {issue.replace('_', ' ')} injected, at strengths 1 to 3."
        for dose in doses:
            make = partial(injector.issue, issue, dose)
            yield fall(
                name=issue, description=text, make=make, strength=dose, issue=issue
            )
    text = f"Three issues in one dialogue: {', '.join(name for name, _ in _SEVERAL)}."
    yield fall(name="several_at_once", description=text, make=injector.all_at_once)
    for third, (position, ordinal) in enumerate(_THIRDS.items()):
        text = f"One fault in the {ordinal} third of the dialogue."
        make = partial(injector.in_third, third)
        yield fall(name=f"place_{position}", description=text, make=make)
    text = f"One fault about turn 5 of {LONG} turns."
    yield fall(name="long_dialogue", description=text, make=injector.in_long_dialogue)


@dataclass(frozen=True, slots=True)
class _Injector:
    """Injects issues into a dialogue. Each method returns None if the dialogue cannot carry it."""

    data: TrialData

    def issue(
        self, issue: str, strength: int, dialogue: Dialogue, rng: np.random.Generator
    ) -> Versions | None:
        group = self.data.groups[dialogue.id]
        return injected(dialogue, issue, strength, rng, self.data.donors, group)

    def all_at_once(
        self, dialogue: Dialogue, rng: np.random.Generator
    ) -> Versions | None:
        group = self.data.groups[dialogue.id]
        return several(dialogue, _SEVERAL, rng, self.data.donors, group)

    def in_third(
        self, third: int, dialogue: Dialogue, rng: np.random.Generator
    ) -> Versions | None:
        """A dialogue carries an issue in each third, or in none."""
        ends = [number * len(dialogue.turns) // 3 for number in range(4)]
        thirds = list(pairwise(ends))
        for start, end in thirds:
            if not any(start <= i < end for i in dialogue.assistant_turns):
                return None
        return self._between(thirds[third], dialogue, rng)

    def in_long_dialogue(
        self, dialogue: Dialogue, rng: np.random.Generator
    ) -> Versions | None:
        """The long dialogue is this one and, in random order, others of its language."""
        same_language_dialogues = []
        for other_dialogue in self.data.dialogues:
            if (
                other_dialogue.lang == dialogue.lang
                and other_dialogue.id != dialogue.id
            ):
                same_language_dialogues.append(other_dialogue)
        turns = list(dialogue.turns)
        for i in rng.permutation(len(same_language_dialogues)):
            turns += same_language_dialogues[i].turns
        if len(turns) < LONG:
            return None
        return self._between(DEEP, replace(dialogue, turns=tuple(turns[:LONG])), rng)

    def _between(
        self, turn_range: tuple[int, int], dialogue: Dialogue, rng: np.random.Generator
    ) -> Versions | None:
        start, end = turn_range
        group = self.data.groups[dialogue.id]
        return injected_at(dialogue, start, end, rng, self.data.donors, group)


def trial_edits(
    data: TrialData, config: TrialConfig, further: Sequence[Edit] = ()
) -> list[Edit]:
    """Returns all edits that ``config`` selects, of the shipped ones and ``further``. Raises
    ConfigError for an unknown check, and for two edits of one name."""
    texts = ("trial/texts", *config.texts)
    edits = [*turn_edits(texts), *issue_edits(data, config.doses), *further]
    for key, count in Counter(edit.key for edit in edits).items():
        if count > 1:
            raise ConfigError(f"two edits are called {key!r}")
    groups = dict.fromkeys(edit.group for edit in edits)
    names = dict.fromkeys(edit.name for edit in edits)
    checks = [*groups, *names]
    for name in config.checks:
        if name not in (*checks, *EXTRA):
            raise ConfigError(f"no check {name!r}", hint=f"known: {', '.join(checks)}")
    return [edit for edit in edits if config.wants(edit.name, edit.group)]


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


@dataclass(frozen=True, slots=True)
class _EditedPair:
    """A row of ``pairs`` (see TrialPlan), and the dialogues to score for it beside the original."""

    row: tuple[Any, ...]
    dialogues: list[Dialogue]


def make_plan(data: TrialData, config: TrialConfig, edits: Sequence[Edit]) -> TrialPlan:
    """Applies every edit to every dialogue that can carry it, up to ``per_check`` pairs each.

    The choice of dialogues and the random numbers depend only on the seed, the dialogue's id and
    the edit's name. All strengths of an edit use the same dialogues.
    """
    pairs_of: dict[str, list[_EditedPair]] = {
        dialogue.id: [] for dialogue in data.dialogues
    }
    for edit in edits:
        for dialogue_id, pair in islice(_edited(data, config, edit), config.per_check):
            pairs_of[dialogue_id].append(pair)
    dialogues: dict[str, Dialogue] = {}
    rows = []
    for dialogue in data.dialogues:
        dialogues[dialogue.id] = dialogue
        for pair in pairs_of[dialogue.id]:
            dialogues |= {version.id: version for version in pair.dialogues}
            rows.append(pair.row)
    translated = data.translated
    if not config.wants(LANGUAGE, "same"):
        translated = {}
    for name, by_language in translated.items():
        reference = by_language.get(REFERENCE)
        for language, dialogue in by_language.items():
            if reference is not None and language != REFERENCE:
                dialogues.setdefault(reference.id, reference)
                dialogues.setdefault(dialogue.id, dialogue)
                rows.append(
                    (LANGUAGE, 0, name, language, reference.id, dialogue.id, ())
                )
    originals = [dialogue.id for dialogue in data.dialogues]
    return TrialPlan(
        list(edits), dialogues, originals, pd.DataFrame(rows, columns=_PAIR)
    )


def _edited(
    data: TrialData, config: TrialConfig, edit: Edit
) -> Iterator[tuple[str, _EditedPair]]:
    """Yields the id of each dialogue that can carry the edit, with the pair, in random order."""

    def order(dialogue: Dialogue) -> tuple[int, str]:
        return stable_hash(config.seed, edit.name, dialogue.id), dialogue.id

    for dialogue in sorted(data.dialogues, key=order):
        seed = stable_hash(config.seed, dialogue.id, edit.name, edit.strength)
        versions = edit.versions(dialogue, np.random.default_rng(seed))
        if versions is None:
            continue
        after = f"{dialogue.id}+{edit.key}"
        before = dialogue.id
        scored = [replace(versions.version, id=after)]
        if versions.control is not None:
            before = f"{after}.control"
            scored.append(replace(versions.control, id=before))
        about = edit.name, edit.strength, data.groups[dialogue.id], dialogue.lang
        yield (
            dialogue.id,
            _EditedPair((*about, before, after, versions.touched), scored),
        )
