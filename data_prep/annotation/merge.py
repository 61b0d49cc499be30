"""Merge: checked answers become the labels of the rows they are about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from medal_judges.data_prep.annotation.answers import Checked
from medal_judges.data_prep.annotation.project import Project
from medal_judges.labelled import LabelledDialogue

_REPLACED = ("labels_by", "comments", "label_failure")


def merge(answers: Iterable[Checked], project: Project) -> Iterator[LabelledDialogue]:
    """The rows that somebody annotated, in their order, with one value per annotator.

    ``extra["annotators"]`` names them, in the order of the values; a dimension that one of them
    left open is None there. What a machine (``labels_by``) had said moves to
    ``extra["machine_labels"]`` ({dimension: {labeller: values}}) and ``extra["machine_comments"]``,
    labels of people, or of whom nothing is said, to the list ``extra["earlier_labels"]`` with their
    scales and comments; free texts are in ``extra["annotator_comments"]``. A ``label_failure``
    goes: these labels are there.
    """
    by_key: dict[str, list[Checked]] = defaultdict(list)
    for answer in answers:
        by_key[answer.key].append(answer)
    rank = {name: i for i, name in enumerate(project.assignments)}
    for key, row in project.rows.items():
        given = sorted(
            by_key.get(key, []), key=lambda a: (rank.get(a.annotator, len(rank)), a.annotator)
        )
        if given:
            yield _labelled(row, given, project)


def _labelled(
    row: LabelledDialogue, given: Sequence[Checked], project: Project
) -> LabelledDialogue:
    dimensions = project.dimensions
    extra = {name: value for name, value in row.extra.items() if name not in _REPLACED}
    extra |= _earlier(row)
    extra["annotators"] = [answer.annotator for answer in given]
    said = {a.annotator: texts for a in given if (texts := {k: t for k, t in a.texts.items() if t})}
    if said:
        extra["annotator_comments"] = said
    return replace(
        row,
        labels={d.name: tuple(a.values[d.name] for a in given) for d in dimensions},
        scales={d.name: (d.low, d.high) for d in dimensions},
        aggregated=False,
        extra=extra,
    )


def _earlier(row: LabelledDialogue) -> dict[str, Any]:
    """The labels and comments that the row had before, under the name of what they are."""
    if not row.extra.get("labels_by"):
        told = {key: row.extra[key] for key in ("comments", "annotators") if key in row.extra}
        if not row.labels:
            return {key: value for key, value in told.items() if key == "comments"}
        record = row.to_record()
        kept = {key: record[key] for key in ("labels", "scales", "aggregated") if key in record}
        return {"earlier_labels": [*row.extra.get("earlier_labels", ()), kept | told]}
    labeller = str(row.extra["labels_by"])
    machine = {name: dict(by) for name, by in row.extra.get("machine_labels", {}).items()}
    for name, values in row.labels.items():
        machine.setdefault(name, {})[labeller] = list(values)
    found: dict[str, Any] = {"machine_labels": machine} if machine else {}
    if "comments" in row.extra:
        found["machine_comments"] = {labeller: row.extra["comments"]}
    return found
