"""plant: one issue into one dialogue, with its matched control."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from medal_judges.data_prep.perturbation.coldness import coldness
from medal_judges.data_prep.perturbation.donors import Donors
from medal_judges.data_prep.perturbation.garbling import garbling
from medal_judges.data_prep.perturbation.incoherence import incoherence
from medal_judges.data_prep.perturbation.insertions import insertion
from medal_judges.data_prep.perturbation.irrelevance import irrelevance
from medal_judges.data_prep.perturbation.job import CannotPlant, Job, Twin
from medal_judges.data_prep.perturbation.repetition import repetition
from medal_judges.data_prep.perturbation.tables import LANGUAGES, Split
from medal_judges.dialogue import Dialogue, Turn
from medal_judges.errors import ConfigError
from medal_judges.labelled import LabelledDialogue

Kind = Literal["planted", "innocent", "clean"]
STRENGTHS = (1, 2, 3)

_EDITS: Mapping[str, Callable[[Job, str], Twin]] = {
    "repetitive": repetition,
    "irrelevant": irrelevance,
    "incoherent": incoherence,
    "uninterpretable": garbling,
    "lacks_empathy": coldness,
    "unsafe": insertion,
    "nonfactual": insertion,
    "lacks_commonsense": insertion,
}
ISSUES = tuple(_EDITS)

# Issues that neither twin of an edit can bring about: a dialogue that was clean of them still is.
# Everything not named here is left without a label: an insult may well lack empathy too.
UNTOUCHED: Mapping[str, tuple[str, ...]] = {
    "repetitive": ("unsafe", "nonfactual", "uninterpretable"),
    "irrelevant": ("unsafe", "uninterpretable", "repetitive"),
    "incoherent": ("unsafe", "nonfactual", "uninterpretable"),
    "uninterpretable": ("unsafe", "nonfactual", "repetitive"),
    "lacks_empathy": ("nonfactual", "uninterpretable", "repetitive"),
    "unsafe": ("repetitive", "uninterpretable"),
    "nonfactual": ("repetitive", "uninterpretable", "unsafe"),
    "lacks_commonsense": ("repetitive", "uninterpretable", "unsafe"),
}


@dataclass(frozen=True, slots=True)
class Planted:
    """One version of a dialogue whose label is known by construction.

    ``labels`` maps issue to 1 or 0; an issue that is absent is unknown. ``turns`` are the assistant
    turns (indices into ``dialogue.turns``) that carry the issue, or the innocent edit; empty when
    clean. ``strength`` is 0 when clean. ``pair`` ties a planted version to its control. ``how``
    names the method.
    """

    dialogue: Dialogue
    issue: str | None
    labels: Mapping[str, float]
    turns: tuple[int, ...]
    strength: int
    kind: Kind
    pair: str
    how: str

    def labelled(self, *, group: str, split: str | None = None) -> LabelledDialogue:
        """The line for a file: labels on the scale [0, 1], the rest under ``planted``."""
        about: dict[str, Any] = {
            "issue": self.issue,
            "strength": self.strength,
            "turns": list(self.turns),
            "kind": self.kind,
            "pair": self.pair,
            "how": self.how,
        }
        return LabelledDialogue(
            dialogue=self.dialogue,
            labels={name: (value,) for name, value in self.labels.items()},
            scales={name: (0.0, 1.0) for name in self.labels},
            split=split,
            group=group,
            extra={"planted": about},
        )


@dataclass(frozen=True, slots=True)
class Pair:
    """A planted dialogue and its matched control."""

    planted: Planted
    innocent: Planted


@dataclass(frozen=True, slots=True)
class Refusal:
    """A dialogue that cannot carry an issue, and why."""

    dialogue_id: str
    issue: str
    strength: int
    reason: str


def plant(
    dialogue: Dialogue,
    issue: str,
    *,
    strength: int,
    rng: np.random.Generator,
    donors: Donors,
    split: Split,
    group: str | None = None,
) -> Pair | Refusal:
    """``dialogue`` with ``issue`` planted, and with an innocent edit in the same turns.

    Turns keep their number and order, and user turns their content, but for ``lacks_empathy``,
    where a feeling is added to a user turn in both. What each issue and its control are, and what
    ``strength`` means, stands in the module of the issue. ``split`` chooses the part of the
    sentence tables. Donors of ``group`` (default: the dialogue's id) are not used.
    Raises ConfigError for an unknown issue, strength or split.
    """
    check_plan([issue], [strength])
    job = Job(dialogue, strength, rng, donors, split, group or dialogue.id)
    try:
        if job.lang not in LANGUAGES:
            raise CannotPlant(f"no sentences in language {job.lang!r}")
        twin = _EDITS[issue](job, issue)
    except CannotPlant as refusal:
        return Refusal(dialogue.id, issue, strength, str(refusal))
    name = f"{dialogue.id}+{issue}.{strength}"
    zeros = dict.fromkeys(UNTOUCHED[issue], 0.0)

    def version(turns: tuple[Turn, ...], kind: Kind, label: float, ending: str = "") -> Planted:
        made = replace(dialogue, id=name + ending, turns=turns)
        labels = {issue: label} | zeros
        return Planted(made, issue, labels, twin.touched, strength, kind, name, twin.how)

    return Pair(
        planted=version(twin.planted, "planted", 1.0),
        innocent=version(twin.innocent, "innocent", 0.0, ".innocent"),
    )


def clean(dialogue: Dialogue) -> Planted:
    """``dialogue`` as it is, labelled 0 for all eight issues.

    That is an assumption: real conversations have faults of their own, and this label says only
    that none was planted.
    """
    name = f"{dialogue.id}+clean"
    labels = dict.fromkeys(ISSUES, 0.0)
    return Planted(replace(dialogue, id=name), None, labels, (), 0, "clean", name, "none")


def check_plan(issues: list[str], strengths: list[int]) -> None:
    """Raises ConfigError for an issue or strength that cannot be planted."""
    if unknown := [issue for issue in issues if issue not in ISSUES]:
        raise ConfigError(
            f"cannot plant {', '.join(map(repr, unknown))}", hint=f"known: {', '.join(ISSUES)}"
        )
    if wrong := [strength for strength in strengths if strength not in STRENGTHS]:
        raise ConfigError(f"strength must be 1, 2 or 3, not {', '.join(map(str, wrong))}")
