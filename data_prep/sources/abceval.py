"""ABC-Eval: behaviours of bot turns, labelled by two people and by ChatGPT, as MEDAL's issues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

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
    """Returns ``row``, of a turn, with the labels of MEDAL's issues. An annotator's label of an
    issue is whether any of its behaviours has the annotator's mark.

    An annotator position is not the same person in every row.
    """
    labels = {}
    machine = {}
    by_behaviour = row.extra.get("machine_labels", {})
    for issue, behaviours in ISSUE_BEHAVIOURS.items():
        machine[issue] = _any_machine(
            [by_behaviour.get(name, {}) for name in behaviours]
        )
        if columns := [row.labels[name] for name in behaviours if name in row.labels]:
            labels[issue] = _any(columns)
    scales = dict.fromkeys(labels, (0.0, 1.0))
    return replace(
        row,
        labels=labels,
        scales=scales,
        extra={**row.extra, "machine_labels": machine},
    )


def lift_to_dialogues(rows: Iterable[LabelledDialogue]) -> Iterator[LabelledDialogue]:
    """Yields one dialogue-level row for each conversation of ``rows``, with label 1 if any turn has
    the issue.

    A label is None if no turn has the issue and a turn has no answer. The labels by models, which
    ``to_issues`` leaves in ``extra["machine_labels"]``, become labels of the conversation alike.
    """
    conversations: dict[str, list[LabelledDialogue]] = {}
    for row in rows:
        conversations.setdefault(row.group, []).append(row)
    for turns in conversations.values():
        longest = max(turns, key=lambda row: len(row.dialogue.turns))
        labels = {}
        machine = {}
        for name in longest.labels:
            if name in ISSUE_BEHAVIOURS:
                labels[name] = _any(
                    [row.labels[name] for row in turns if name in row.labels]
                )
                by_turn = [
                    row.extra.get("machine_labels", {}).get(name, {}) for row in turns
                ]
                machine[name] = _any_machine(by_turn)
        scales = {name: longest.scales[name] for name in labels}
        extra = {"machine_labels": machine}
        yield replace(
            longest,
            labels=labels,
            scales=scales,
            level="dialogue",
            extra=extra,
        )


def _any(columns: Sequence[Sequence[float | None]]) -> tuple[float | None, ...]:
    """By position: 1 if any column has 1, else None if one is missing, else 0."""
    labels: list[float | None] = []
    for answers in zip(*columns, strict=True):
        if any(answers):
            labels.append(1.0)
        else:
            labels.append(None if None in answers else 0.0)
    return tuple(labels)


def _any_machine(
    columns: Sequence[Mapping[str, float | None]],
) -> dict[str, float | None]:
    """By model, as ``_any``."""
    labels = {}
    for model in chain.from_iterable(columns):
        (labels[model],) = _any([[column.get(model)] for column in columns])
    return labels
