"""Labels by construction: issues injected into clean conversations, each with a matched control.

The control of an injected dialogue has an edit without a fault in the same turns, so that a judge
cannot win by noticing that something was edited. The two agree in the number of turns, in the
place, and about in length; what they are for each issue, and what strength means, stands in the
module of its edit:

insertions.py    nonfactual, lacks_commonsense, unsafe, lacks_empathy
replacements.py  repetitive, irrelevant
incoherence.py   incoherent
garbling.py      uninterpretable

In files an injected dialogue has the kind ``planted``, its control the kind ``innocent``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from medal_judges.data_prep.perturbation.edit import CannotInject, EditContext, EditedPair
from medal_judges.data_prep.perturbation.garbling import garbling
from medal_judges.data_prep.perturbation.incoherence import incoherence
from medal_judges.data_prep.perturbation.insertions import coldness, insertion
from medal_judges.data_prep.perturbation.material import LANGUAGES, Donors, Split, stable_hash
from medal_judges.data_prep.perturbation.replacements import irrelevance, repetition
from medal_judges.errors import ConfigError
from medal_judges.records.dialogue import Turn
from medal_judges.records.labelled import LabelledDialogue

STRENGTHS = (1, 2, 3)

_EDITS: Mapping[str, Callable[[EditContext], EditedPair]] = {
    "repetitive": repetition,
    "irrelevant": irrelevance,
    "incoherent": incoherence,
    "uninterpretable": garbling,
    "lacks_empathy": coldness,
    "unsafe": partial(insertion, table="unsafe"),
    "nonfactual": partial(insertion, table="facts"),
    "lacks_commonsense": partial(insertion, table="everyday"),
}
ISSUES = tuple(_EDITS)

# Issues that neither version of an edit can bring about: a dialogue that was clean of them still
# is. Everything not named here is left without a label: an insult may well lack empathy too.
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


def inject(
    row: LabelledDialogue,
    issue: str,
    *,
    strength: int,
    rng: np.random.Generator,
    donors: Donors,
    split: Split,
) -> tuple[LabelledDialogue, LabelledDialogue]:
    """``row`` with ``issue`` injected, and its control with another edit in the same turns.

    Labels are 1 or 0 on the scale [0, 1]; an issue without a label is unknown. ``extra["planted"]``
    says what was done: ``turns`` are the assistant turns (indices into the dialogue's turns) that
    carry the issue or the control's edit, ``pair`` ties both together, ``how`` names the method.

    Turns keep their number and order, and user turns their content, but for ``lacks_empathy``,
    where a feeling is added to a user turn in both. ``split`` chooses the part of the sentence
    tables. Donors of the row's group are not used.
    Raises CannotInject with the reason where the dialogue cannot carry the issue, and ConfigError
    for an unknown issue, strength or split.
    """
    check_injectable([issue], [strength])
    edit = EditContext(row.dialogue, strength, rng, donors, split, row.group)
    if edit.lang not in LANGUAGES:
        raise CannotInject(f"no sentences in language {edit.lang!r}")
    pair = _EDITS[issue](edit)
    name = f"{row.id}+{issue}.{strength}"

    def version(contents: Mapping[int, str], id: str, kind: str, label: float) -> LabelledDialogue:
        turns = enumerate(row.dialogue.turns)
        edited = tuple(Turn(t.role, contents[i]) if i in contents else t for i, t in turns)
        labels = {issue: label} | dict.fromkeys(UNTOUCHED[issue], 0.0)
        about = {
            "issue": issue,
            "strength": strength,
            "turns": list(pair.touched),
            "kind": kind,
            "pair": name,
            "how": pair.how,
        }
        return _labelled(row, id, edited, labels, split, about)

    return (
        version(pair.injected, name, "planted", 1.0),
        version(pair.control, f"{name}.innocent", "innocent", 0.0),
    )


def clean(row: LabelledDialogue, split: Split) -> LabelledDialogue:
    """The dialogue as it is, labelled 0 for all eight issues.

    That is an assumption: real conversations have faults of their own, and this label says only
    that none was injected.
    """
    id = f"{row.id}+clean"
    about: dict[str, object] = {
        "issue": None,
        "strength": 0,
        "turns": [],
        "kind": "clean",
        "pair": id,
        "how": "none",
    }
    return _labelled(row, id, row.dialogue.turns, dict.fromkeys(ISSUES, 0.0), split, about)


def _labelled(
    row: LabelledDialogue,
    id: str,
    turns: tuple[Turn, ...],
    labels: Mapping[str, float],
    split: Split,
    about: Mapping[str, object],
) -> LabelledDialogue:
    return LabelledDialogue(
        dialogue=replace(row.dialogue, id=id, turns=turns),
        labels={name: (value,) for name, value in labels.items()},
        scales=dict.fromkeys(labels, (0.0, 1.0)),
        split=split,
        group=row.group,
        extra={"planted": about},
    )


def check_injectable(issues: Sequence[str], strengths: Sequence[int]) -> None:
    """Raise ConfigError for an issue or strength that cannot be injected."""
    if unknown := [issue for issue in issues if issue not in ISSUES]:
        raise ConfigError(
            f"cannot inject {', '.join(map(repr, unknown))}", hint=f"known: {', '.join(ISSUES)}"
        )
    if wrong := [strength for strength in strengths if strength not in STRENGTHS]:
        raise ConfigError(f"strength must be 1, 2 or 3, not {', '.join(map(str, wrong))}")


@dataclass(slots=True)
class InjectionCounts:
    """How many pairs were injected per issue, and how many dialogues were refused, and why."""

    injected: Counter[str] = field(default_factory=Counter)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)

    def lines(self) -> list[str]:
        """One line per issue, and one per reason under it."""
        issues = dict.fromkeys([*self.injected, *(issue for issue, _ in self.refused)])
        shown: list[str] = []
        for issue in issues:
            reasons = {r: n for (i, r), n in self.refused.items() if i == issue}
            shown.append(f"{issue}: {self.injected[issue]} pairs, {sum(reasons.values())} refused")
            shown += [f"  {n} x {r}" for r, n in sorted(reasons.items(), key=lambda x: -x[1])]
        return shown


def injected_set(
    dialogues: Iterable[LabelledDialogue],
    *,
    seed: int,
    per_issue: int | None = None,
    clean_count: int | None = None,
    issues: Sequence[str] = ISSUES,
    strengths: Sequence[int] = STRENGTHS,
    split: Split = "train",
    counts: InjectionCounts | None = None,
) -> Iterator[LabelledDialogue]:
    """Clean controls, then for each issue the injected dialogues, each followed by its control.

    Every dialogue is tried for every issue, at one strength of ``strengths`` drawn for it, until
    ``per_issue`` pairs are there (None: all dialogues); ``clean_count`` clean controls are drawn
    likewise (None: ``per_issue``, and with that None all). Which dialogues are taken and what is
    done to each follows from ``seed``, the dialogue's id and the issue, not from the order of the
    input. The labels the input has are dropped; ``group`` is kept. Donors are turns of
    ``dialogues`` itself, so give one split of the conversations at a time, and the ``split`` of
    the sentence tables that goes with it.

    Labels: clean 0 for all eight issues (an assumption, see ``clean``); injected 1 and control 0
    for their issue, 0 for the issues that the edit cannot bring about (``UNTOUCHED``, again
    assuming a clean conversation), and no label for the others.
    Raises ConfigError for an unknown issue, strength or split.
    """
    check_injectable(issues, strengths)
    rows = list(dialogues)
    donors = Donors.of(rows)
    counts = InjectionCounts() if counts is None else counts
    wanted = per_issue if clean_count is None else clean_count
    for row in _shuffled(rows, seed, "clean")[:wanted]:
        yield clean(row, split)
    for issue in issues:
        for row in _shuffled(rows, seed, issue):
            if per_issue is not None and counts.injected[issue] >= per_issue:
                break
            rng = np.random.default_rng(stable_hash(seed, row.id, issue))
            strength = strengths[int(rng.integers(len(strengths)))]
            try:
                pair = inject(row, issue, strength=strength, rng=rng, donors=donors, split=split)
            except CannotInject as refusal:
                counts.refused[issue, str(refusal)] += 1
                continue
            counts.injected[issue] += 1
            yield from pair


def _shuffled(rows: Sequence[LabelledDialogue], seed: int, purpose: str) -> list[LabelledDialogue]:
    """``rows`` in an order that depends on seed, purpose and ids only."""
    return sorted(rows, key=lambda row: (stable_hash(seed, purpose, row.id), row.id))
