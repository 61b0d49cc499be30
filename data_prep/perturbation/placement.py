"""Issues at a chosen place of a dialogue: early, in the middle, late, deep in a long one; and
several issues in one dialogue.

An issue is injected into a few turns in a row as into a dialogue of its own (injection.py), and
these are put back. So the matched control is the same as there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from medal_judges.data_prep.perturbation.edit import CannotInject
from medal_judges.data_prep.perturbation.injection import inject
from medal_judges.data_prep.perturbation.material import Donors
from medal_judges.data_prep.perturbation.surface import Versions
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.labelled import LabelledDialogue

# Issues that a single turn can carry, each with the strength that one turn can have.
SINGLE_TURN = (("irrelevant", 2), ("uninterpretable", 2), ("unsafe", 1))


def labelled(dialogue: Dialogue, group: str) -> LabelledDialogue:
    """``dialogue`` as a row without labels, which is what issues are injected into."""
    return LabelledDialogue(dialogue, {}, {}, group=group)


def injected(
    dialogue: Dialogue,
    issue: str,
    strength: int,
    rng: np.random.Generator,
    donors: Donors,
    group: str,
) -> Versions | None:
    """The dialogue with ``issue`` and its control, with sentences of the test split; None where it
    cannot carry the issue."""
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
    """An issue that one turn can carry, in the turns from ``start`` up to ``end``; None where none
    of them can carry any."""
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
    """All ``issues`` (name, strength) in one dialogue, and all their controls in the other. None
    where the dialogue cannot carry one of them."""
    faulty = sound = dialogue
    touched: set[int] = set()
    for issue, strength in issues:
        seed = int(rng.integers(2**32))
        # The same draws for both, so that their edits stand in about the same turns.
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
    """(start, end) of the first (0), middle (1) or last (2) third of the turns; None where a third
    has no answer."""
    count = len(dialogue.turns)
    start, end = number * count // 3, (number + 1) * count // 3
    return (start, end) if any(start <= i < end for i in dialogue.assistant_turns) else None


def chained(dialogues: Sequence[Dialogue], turns: int) -> Dialogue | None:
    """One dialogue of ``turns`` turns: the first, then the next ones of the same language until it
    is long enough; None where they do not suffice. Two people who talk for an hour change the
    subject too."""
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
