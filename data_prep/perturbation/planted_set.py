"""planted_set: a labelled set for training or for the behavioural test of a judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from medal_judges.data_prep.perturbation.donors import Donors, stable_hash
from medal_judges.data_prep.perturbation.plant import (
    ISSUES,
    STRENGTHS,
    Refusal,
    check_plan,
    clean,
    plant,
)
from medal_judges.data_prep.perturbation.tables import Split
from medal_judges.labelled import LabelledDialogue


@dataclass(slots=True)
class Tally:
    """How many pairs were planted per issue, and how many dialogues were passed over, and why."""

    planted: Counter[str] = field(default_factory=Counter)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add_refusal(self, refusal: Refusal) -> None:
        self.refused[refusal.issue, refusal.reason] += 1

    def lines(self) -> list[str]:
        """One line per issue, and one per reason under it."""
        issues = dict.fromkeys([*self.planted, *(issue for issue, _ in self.refused)])
        shown: list[str] = []
        for issue in issues:
            reasons = {r: n for (i, r), n in self.refused.items() if i == issue}
            shown.append(f"{issue}: {self.planted[issue]} pairs, {sum(reasons.values())} refused")
            shown += [f"  {n} x {r}" for r, n in sorted(reasons.items(), key=lambda x: -x[1])]
        return shown


def planted_set(
    dialogues: Iterable[LabelledDialogue],
    *,
    seed: int,
    per_issue: int | None = None,
    clean_count: int | None = None,
    issues: Sequence[str] = ISSUES,
    strengths: Sequence[int] = STRENGTHS,
    split: Split = "train",
    tally: Tally | None = None,
) -> Iterator[LabelledDialogue]:
    """Clean controls, then for each issue the planted dialogues, each followed by its control.

    Every dialogue is tried for every issue, at one strength of ``strengths`` drawn for it, until
    ``per_issue`` pairs are there (None: all dialogues); ``clean_count`` clean controls are drawn
    likewise (None: ``per_issue``, and with that None all). Which dialogues are taken and what is
    done to each follows from ``seed``, the dialogue's id and the issue, not from the order of the
    input. The labels the input has are dropped; ``group`` is kept. Donors are turns of
    ``dialogues`` itself, so give one split of the conversations at a time, and the ``split`` of
    the sentence tables that goes with it.

    Labels: clean 0 for all eight issues (an assumption, see ``clean``); planted 1 and innocent 0
    for their issue, 0 for the issues that the edit cannot bring about (``plant.UNTOUCHED``, again
    assuming a clean conversation), and no label for the others.
    Raises ConfigError for an unknown issue, strength or split.
    """
    check_plan(list(issues), list(strengths))
    rows = list(dialogues)
    donors = Donors.of(rows)
    tally = Tally() if tally is None else tally
    wanted = per_issue if clean_count is None else clean_count
    for row in _shuffled(rows, seed, "clean")[:wanted]:
        yield clean(row.dialogue).labelled(group=row.group, split=split)
    for issue in issues:
        yield from _of_issue(rows, donors, issue, strengths, seed, per_issue, split, tally)


def _of_issue(
    rows: Sequence[LabelledDialogue],
    donors: Donors,
    issue: str,
    strengths: Sequence[int],
    seed: int,
    wanted: int | None,
    split: Split,
    tally: Tally,
) -> Iterator[LabelledDialogue]:
    for row in _shuffled(rows, seed, issue):
        if wanted is not None and tally.planted[issue] >= wanted:
            return
        rng = np.random.default_rng(stable_hash(seed, row.id, issue))
        strength = strengths[int(rng.integers(len(strengths)))]
        pair = plant(
            row.dialogue,
            issue,
            strength=strength,
            rng=rng,
            donors=donors,
            split=split,
            group=row.group,
        )
        if isinstance(pair, Refusal):
            tally.add_refusal(pair)
            continue
        tally.planted[issue] += 1
        yield pair.planted.labelled(group=row.group, split=split)
        yield pair.innocent.labelled(group=row.group, split=split)


def _shuffled(rows: Sequence[LabelledDialogue], seed: int, purpose: str) -> list[LabelledDialogue]:
    """``rows`` in an order that depends on seed, purpose and ids only."""
    return sorted(rows, key=lambda row: (stable_hash(seed, purpose, row.id), row.id))
