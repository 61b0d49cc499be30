"""Labels by construction: issues injected into clean conversations, each with a matched control.

The control has a harmless edit in the same turns, so a judge cannot win by detecting edits. Both
versions agree in the number of turns, the place and roughly the length; issues.py describes them.
In files an injected dialogue has the kind ``planted``, its control the kind ``innocent``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from medal_judges.data_prep.perturbation.edit import (
    LANGUAGES,
    CannotInject,
    Donors,
    EditContext,
    EditedPair,
    Split,
    stable_hash,
)
from medal_judges.data_prep.perturbation.issues import (
    coldness,
    garbling,
    incoherence,
    insertion,
    irrelevance,
    repetition,
)
from medal_judges.data_prep.perturbation.versions import Versions
from medal_judges.errors import ConfigError
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.labelled import LabelledDialogue

# Issues that a single turn can carry, with their strength.
SINGLE_TURN = (("irrelevant", 2), ("uninterpretable", 2), ("unsafe", 1))


def labelled(dialogue: Dialogue, group: str) -> LabelledDialogue:
    """``dialogue`` as a row without labels."""
    return LabelledDialogue(dialogue, {}, {}, group=group)


def injected(
    dialogue: Dialogue,
    issue: str,
    strength: int,
    rng: np.random.Generator,
    donors: Donors,
    group: str,
) -> Versions | None:
    """The dialogue with ``issue``, and its control, with sentences of the test split; None if the
    dialogue cannot carry the issue."""
    row = labelled(dialogue, group)
    try:
        faulty, sound = inject(row, issue, strength=strength, rng=rng, donors=donors, split="test")
    except CannotInject:
        return None
    touched = tuple(faulty.extra["planted"]["turns"])
    return Versions(faulty.dialogue, sound.dialogue, touched)


def injected_at(
    dialogue: Dialogue,
    start: int,
    end: int,
    rng: np.random.Generator,
    donors: Donors,
    group: str,
) -> Versions | None:
    """A single-turn issue in the turns from ``start`` up to ``end``; None if none fits."""
    part = replace(dialogue, turns=dialogue.turns[start:end])
    for i in rng.permutation(len(SINGLE_TURN)):
        issue, strength = SINGLE_TURN[i]
        if (made := injected(part, issue, strength, rng, donors, group)) is not None:
            assert made.control is not None

            def back(edited: Dialogue) -> Dialogue:
                before, after = dialogue.turns[:start], dialogue.turns[end:]
                return replace(dialogue, turns=(*before, *edited.turns, *after))

            touched = tuple(start + turn for turn in made.touched)
            return Versions(back(made.version), back(made.control), touched)
    return None


def several(
    dialogue: Dialogue,
    issues: Sequence[tuple[str, int]],
    rng: np.random.Generator,
    donors: Donors,
    group: str,
) -> Versions | None:
    """All ``issues`` (name, strength) in one dialogue, and all their controls in the other; None if
    the dialogue cannot carry one of them."""
    faulty = sound = dialogue
    touched: set[int] = set()
    for issue, strength in issues:
        seed = int(rng.integers(2**32))
        # The same draws for both, so that their edits are in about the same turns.
        one, other = (
            injected(d, issue, strength, np.random.default_rng(seed), donors, group)
            for d in (faulty, sound)
        )
        if one is None or other is None or other.control is None:
            return None
        faulty, sound = one.version, other.control
        touched.update(one.touched)
    return Versions(faulty, sound, tuple(sorted(touched)))


def third(dialogue: Dialogue, number: int) -> tuple[int, int] | None:
    """(start, end) of the first (0), middle (1) or last (2) third of the turns; None if it has no
    answer."""
    count = len(dialogue.turns)
    start, end = number * count // 3, (number + 1) * count // 3
    return (start, end) if any(start <= i < end for i in dialogue.assistant_turns) else None


def chained(dialogues: Sequence[Dialogue], turns: int) -> Dialogue | None:
    """One dialogue of ``turns`` turns, joined from dialogues of the first one's language; None if
    there are too few."""
    first = dialogues[0]
    whole = list(first.turns)
    for other in dialogues[1:]:
        if len(whole) >= turns:
            break
        if other.lang == first.lang:
            whole += other.turns
    if len(whole) < turns:
        return None
    return replace(first, turns=tuple(whole[:turns]))


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

# Issues that neither version can cause. All others get no label: an insult may lack empathy too.
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

    Labels are 1 or 0; an issue without a label is unknown. ``extra["planted"]`` has the edited
    assistant ``turns``, the ``pair`` that both rows share and the method (``how``). ``split``
    selects the part of the sentence tables. Donors of the row's own group are not used.

    Raises CannotInject if the dialogue cannot carry the issue, and ConfigError for an unknown
    issue, strength or split.
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
    """The unchanged dialogue, labelled 0 for all eight issues. Real conversations may have issues:
    the label only says that none was injected."""
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
    """Pairs injected per issue, and dialogues refused per issue and reason."""

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
    """Yields clean dialogues, then for each issue the injected dialogues, each before its control.

    For each issue, dialogues are tried at a random strength until there are ``per_issue`` pairs
    (None: all dialogues). ``clean_count`` defaults to ``per_issue``. The draws depend on ``seed``,
    the dialogue's id and the issue, not on the order of the input. Labels of the input are dropped.
    Donors are turns of ``dialogues``: pass one split of the conversations at a time, with the
    matching ``split`` of the sentence tables.

    Clean dialogues are labelled 0 for all issues. Injected ones are 1 and controls 0 for their
    issue; both are 0 for the issues in ``UNTOUCHED`` and have no label for the others.
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
    """``rows`` in an order that depends only on seed, purpose and ids."""
    return sorted(rows, key=lambda row: (stable_hash(seed, purpose, row.id), row.id))
