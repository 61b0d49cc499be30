"""ABC-Eval: behaviours of bot turns, labelled by two people and by ChatGPT, as MEDAL's issues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from medal_judges.data_prep.labelling import MACHINE
from medal_judges.records.labelled import LabelledDialogue

# MEDAL issue -> its behaviours; any of them marks the issue.
ISSUE_BEHAVIOURS = {
    "lacks_commonsense": ("commonsense_contradiction",),
    "nonfactual": ("incorrect_fact",),
    "repetitive": ("redundant",),
    "irrelevant": ("irrelevant",),
    "incoherent": ("self_contradiction", "partner_contradiction"),
    "lacks_empathy": ("lack_of_empathy",),
}


def to_issues(row: LabelledDialogue) -> LabelledDialogue:
    """The turn row with MEDAL issue labels: per annotator position, any of the behaviours.

    An annotator position is not the same person in every row.
    """
    labels = {
        issue: _any([row.labels[b] for b in behaviours if b in row.labels])
        for issue, behaviours in ISSUE_BEHAVIOURS.items()
        if any(b in row.labels for b in behaviours)
    }
    machine = row.extra.get(MACHINE, {})
    issues = {
        issue: _any_machine([machine.get(behaviour, {}) for behaviour in behaviours])
        for issue, behaviours in ISSUE_BEHAVIOURS.items()
    }
    scales = dict.fromkeys(labels, (0.0, 1.0))
    return replace(row, labels=labels, scales=scales, extra={**row.extra, MACHINE: issues})


def lift_to_dialogues(rows: Iterable[LabelledDialogue]) -> Iterator[LabelledDialogue]:
    """Yields one dialogue-level row per conversation, with label 1 if any turn has the issue.

    A label is None if no turn has the issue and a turn has no answer. The labels by models, which
    ``to_issues`` leaves in ``extra["machine_labels"]``, become those of the conversation alike.
    """
    conversations: dict[str, list[LabelledDialogue]] = {}
    for row in rows:
        conversations.setdefault(row.group, []).append(row)
    for turns in conversations.values():
        whole = max(turns, key=lambda row: len(row.dialogue.turns))
        labels = {
            name: _any([row.labels[name] for row in turns if name in row.labels])
            for name in whole.labels
            if name in ISSUE_BEHAVIOURS
        }
        scales = {name: whole.scales[name] for name in labels}
        machine = [row.extra.get(MACHINE, {}) for row in turns]
        issues = {name: _any_machine([each.get(name, {}) for each in machine]) for name in labels}
        extra = {MACHINE: issues}
        yield replace(whole, labels=labels, scales=scales, level="dialogue", extra=extra)


def _any(columns: Sequence[Sequence[float | None]]) -> tuple[float | None, ...]:
    """By position: 1 if any column has 1, else None if one is missing, else 0."""
    return tuple(
        1.0 if any(answers) else None if None in answers else 0.0
        for answers in zip(*columns, strict=True)
    )


def _any_machine(columns: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """By model, as ``_any``."""
    models = dict.fromkeys(model for column in columns for model in column)
    return {model: _any([[column.get(model)] for column in columns])[0] for model in models}
