"""The plan of a trial: every version that is scored, each once, and the pairs that are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from medal_judges.data_prep.perturbation.edit import stable_hash
from medal_judges.eval.trial.config import TrialConfig
from medal_judges.eval.trial.dialogues import TrialData
from medal_judges.eval.trial.edits import Edit, chosen_edits, issue_edits, surface_edits, text_edits
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.signature import content_hash

LANGUAGE = "language"  # the check that holds a dialogue against its translation
REFERENCE = "en"


@dataclass(frozen=True, slots=True)
class VersionPair:
    """Two dialogues (by id) that are compared: ``after`` carries the edit, ``before`` does not.
    ``touched``: assistant turns (indices) that carry it."""

    check: str
    strength: int
    conversation: str
    lang: str
    before: str
    after: str
    touched: tuple[int, ...] = ()

    def to_record(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "strength": self.strength,
            "conversation": self.conversation,
            "lang": self.lang,
            "before": self.before,
            "after": self.after,
            "touched": list(self.touched),
        }


@dataclass(slots=True)
class TrialPlan:
    """``dialogues`` by id: originals, versions, controls and translations, those of one
    conversation next to each other. ``originals`` are the ids of the dialogues as they are.
    ``refused`` counts dialogues that could not carry an edit, by its key."""

    edits: list[Edit]
    dialogues: dict[str, Dialogue] = field(default_factory=dict)
    originals: list[str] = field(default_factory=list)
    pairs: list[VersionPair] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def data(self) -> str:
        """A hash of everything that is scored."""
        return content_hash([d.to_record() for d in self.dialogues.values()])

    def add(self, dialogue: Dialogue) -> str:
        """Take ``dialogue`` in; its id."""
        self.dialogues[dialogue.id] = dialogue
        return dialogue.id


def trial_edits(data: TrialData, config: TrialConfig, more: Sequence[Edit] = ()) -> list[Edit]:
    """All edits that ``config`` asks for: those of code, those of texts, planted issues, and
    ``more``. Raises ConfigError for an unknown check and for two edits of one name."""
    every = [
        *surface_edits(),
        *text_edits(("trial/texts", *config.texts)),
        *issue_edits(data.dialogues, data.donors, data.groups, config.doses),
        *more,
    ]
    wanted = [name for name in config.checks if name not in (*EXTRA, "use")]
    return chosen_edits(every, wanted) if wanted or not config.checks else []


# Checks that no edit makes: another way of asking, translations, rated rows.
EXTRA = ("again", "row_order", "dimension_order", LANGUAGE, "calibration")


def wants(config: TrialConfig, check: str) -> bool:
    """Whether the check ``check``, which is none of an edit, takes part."""
    group = "use" if check == "calibration" else "same"
    return not config.checks or check in config.checks or group in config.checks


def make_plan(data: TrialData, config: TrialConfig, edits: Sequence[Edit]) -> TrialPlan:
    """Every edit on every dialogue that can carry it, up to ``per_check`` pairs each.

    Which dialogues are taken and what is done to each follows from the seed, the dialogue's id and
    the edit's name alone. All strengths of an edit are tried on the same dialogues.
    """
    plan = TrialPlan(list(edits))
    made: dict[str, list[tuple[VersionPair, list[Dialogue]]]] = {}
    for edit in edits:
        count = 0
        for dialogue in _shuffled(data.dialogues, config.seed, edit.name):
            if config.per_check is not None and count >= config.per_check:
                break
            if (pair := _pair(edit, dialogue, data.groups[dialogue.id], config.seed)) is None:
                plan.refused[edit.key] += 1
                continue
            count += 1
            made.setdefault(dialogue.id, []).append(pair)
    for dialogue in data.dialogues:
        plan.originals.append(plan.add(dialogue))
        for version_pair, versions in made.get(dialogue.id, ()):
            for version in versions:
                plan.add(version)
            plan.pairs.append(version_pair)
    if wants(config, LANGUAGE):
        for translated in _translations(data):
            for id in (translated.before, translated.after):
                plan.dialogues.setdefault(id, _parallel_dialogue(data, translated, id))
            plan.pairs.append(translated)
    return plan


def _pair(
    edit: Edit, dialogue: Dialogue, group: str, seed: int
) -> tuple[VersionPair, list[Dialogue]] | None:
    rng = np.random.default_rng(stable_hash(seed, dialogue.id, edit.name, edit.strength))
    made = edit.versions(dialogue, rng)
    if made is None:
        return None
    id = f"{dialogue.id}+{edit.key}"
    versions = [replace(made.version, id=id)]
    before = dialogue.id
    if made.control is not None:
        before = f"{id}.control"
        versions.append(replace(made.control, id=before))
    pair = VersionPair(edit.name, edit.strength, group, dialogue.lang, before, id, made.touched)
    return pair, versions


def _shuffled(dialogues: Sequence[Dialogue], seed: int, name: str) -> list[Dialogue]:
    return sorted(dialogues, key=lambda d: (stable_hash(seed, name, d.id), d.id))


def _translations(data: TrialData) -> Iterator[VersionPair]:
    for name, versions in data.parallel.items():
        if REFERENCE not in versions:
            continue
        for lang, dialogue in versions.items():
            if lang != REFERENCE:
                yield VersionPair(LANGUAGE, 0, name, lang, versions[REFERENCE].id, dialogue.id)


def _parallel_dialogue(data: TrialData, pair: VersionPair, id: str) -> Dialogue:
    lang = REFERENCE if id == pair.before else pair.lang
    return data.parallel[pair.conversation][lang]
