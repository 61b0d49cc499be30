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

from medal_judges.data_prep.perturbation import issues as by_issue
from medal_judges.data_prep.perturbation.edit import (
    LANGUAGES,
    CannotInject,
    Donors,
    Edit,
    Split,
    stable_hash,
)
from medal_judges.data_prep.perturbation.versions import Versions, with_contents
from medal_judges.errors import ConfigError
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.labelled import LabelledDialogue

STRENGTHS = (1, 2, 3)
# Issues that a single turn can carry, with their strength.
SINGLE_TURN = (("irrelevant", 2), ("uninterpretable", 2), ("unsafe", 1))
_EDITS: Mapping[str, Callable[[Edit], None]] = {
    "repetitive": by_issue.repetition,
    "irrelevant": by_issue.irrelevance,
    "incoherent": by_issue.incoherence,
    "uninterpretable": by_issue.garbling,
    "lacks_empathy": by_issue.coldness,
    "unsafe": partial(by_issue.insertion, table="unsafe"),
    "nonfactual": partial(by_issue.insertion, table="facts"),
    "lacks_commonsense": partial(by_issue.insertion, table="everyday"),
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


def _edited(issue: str, edit: Edit) -> Edit:
    if edit.lang not in LANGUAGES:
        raise CannotInject(f"no sentences in language {edit.lang!r}")
    _EDITS[issue](edit)
    return edit


# -- versions of one dialogue, for trials ----------------------------------------------------------


def injected(
    dialogue: Dialogue,
    issue: str,
    strength: int,
    rng: np.random.Generator,
    donors: Donors,
    group: str,
    start: int = 0,
    end: int | None = None,
) -> Versions | None:
    """The dialogue with ``issue`` in the turns from ``start`` up to ``end``, and its control, with
    sentences of the test split; None if these turns cannot carry the issue."""
    part = replace(dialogue, turns=dialogue.turns[start:end])
    try:
        edit = _edited(issue, Edit(part, strength, rng, donors, "test", group))
    except CannotInject:
        return None
    faulty, sound = (
        with_contents(dialogue, {start + i: text for i, text in contents.items()})
        for contents in (edit.injected, edit.control)
    )
    return Versions(faulty, sound, tuple(start + i for i in edit.touched))


def injected_at(
    dialogue: Dialogue, start: int, end: int, rng: np.random.Generator, donors: Donors, group: str
) -> Versions | None:
    """A single-turn issue in the turns from ``start`` up to ``end``; None if none fits."""
    for i in rng.permutation(len(SINGLE_TURN)):
        made = injected(dialogue, *SINGLE_TURN[i], rng, donors, group, start, end)
        if made is not None:
            return made
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
    whole = [turn for each in dialogues if each.lang == first.lang for turn in each.turns]
    return replace(first, turns=tuple(whole[:turns])) if len(whole) >= turns else None


# -- labelled rows ---------------------------------------------------------------------------------


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

    An issue without a label is unknown. ``extra["planted"]`` has the edited assistant ``turns``,
    the ``pair`` that both rows share and the method (``how``). Donors of the row's own group are
    not used. Raises CannotInject if the dialogue cannot carry the issue, and ConfigError for an
    unknown issue, strength or split.
    """
    _check_injectable([issue], [strength])
    edit = _edited(issue, Edit(row.dialogue, strength, rng, donors, split, row.group))
    pair = f"{row.id}+{issue}.{strength}"
    others = dict.fromkeys(UNTOUCHED[issue], 0.0)
    about = (issue, strength, list(edit.touched))
    return (
        _row(row, pair, edit.injected, {issue: 1.0} | others, split,
             (*about, "planted", pair, edit.how)),
        _row(row, f"{pair}.innocent", edit.control, {issue: 0.0} | others, split,
             (*about, "innocent", pair, edit.how)),
    )  # fmt: skip


def _row(
    row: LabelledDialogue,
    id: str,
    contents: Mapping[int, str],
    labels: Mapping[str, float],
    split: Split,
    about: Sequence[object],
) -> LabelledDialogue:
    names = ("issue", "strength", "turns", "kind", "pair", "how")
    return LabelledDialogue(
        dialogue=replace(with_contents(row.dialogue, contents), id=id),
        labels={name: (value,) for name, value in labels.items()},
        scales=dict.fromkeys(labels, (0.0, 1.0)),
        split=split,
        group=row.group,
        extra={"planted": dict(zip(names, about, strict=True))},
    )


def _check_injectable(issues: Sequence[str], strengths: Sequence[int]) -> None:
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
        lines: list[str] = []
        for issue in dict.fromkeys([*self.injected, *(issue for issue, _ in self.refused)]):
            reasons = {r: n for (i, r), n in self.refused.most_common() if i == issue}
            lines.append(f"{issue}: {self.injected[issue]} pairs, {sum(reasons.values())} refused")
            lines += [f"  {n} x {r}" for r, n in reasons.items()]
        return lines


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
    the dialogue's id and the issue, not on the order of the input. Donors are turns of
    ``dialogues``: pass one split of the conversations at a time, with the matching ``split`` of the
    sentence tables.

    The labels are new: clean dialogues are 0 for all issues, which only says that none was
    injected. Injected ones are 1 and controls 0 for their issue, both are 0 for those in
    ``UNTOUCHED``. Raises ConfigError for an unknown issue, strength or split.
    """
    _check_injectable(issues, strengths)
    rows = list(dialogues)
    donors = Donors.of(rows)
    counts = InjectionCounts() if counts is None else counts

    def shuffled(purpose: str) -> list[LabelledDialogue]:
        return sorted(rows, key=lambda row: (stable_hash(seed, purpose, row.id), row.id))

    for row in shuffled("clean")[: per_issue if clean_count is None else clean_count]:
        id = f"{row.id}+clean"
        labels = dict.fromkeys(ISSUES, 0.0)
        yield _row(row, id, {}, labels, split, (None, 0, [], "clean", id, "none"))
    for issue in issues:
        for row in shuffled(issue):
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
