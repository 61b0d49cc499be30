"""Checks of annotators' answers, and the labels that valid answers become."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from shlex import quote

from medal_judges.data_prep.annotation.project import Project
from medal_judges.data_prep.annotation.questions import NO, YES, Annotation
from medal_judges.data_prep.labelling import (
    ANNOTATORS,
    COMMENTS,
    FAILURE,
    LABELS_BY,
    earlier_labels_field,
)
from medal_judges.records.dimension import Dimension
from medal_judges.records.labelled import LabelledDialogue

_WORDS = {
    YES: 1.0,
    NO: 0.0,
    "true": 1.0,
    "false": 0.0,
}


def parse_annotations(
    annotations: Iterable[Annotation], project: Project
) -> tuple[list[Annotation], list[str]]:
    """Checks what annotators entered, and converts ratings to numbers.

    Annotations are left out if they are empty, or if their dialogue or annotator is unknown. If an
    annotator rated one dialogue twice and differently, both annotations are left out.

    Args:
        annotations: What annotators entered, with ratings as text.
        project: The dialogues, the dimensions, and who annotates which dialogue.

    Returns:
        The valid annotations, and messages about problems. In a valid annotation, a rating that is
        missing or off its scale is None, and has a message. There is also a message for each
        annotator who has not rated all their dialogues.
    """
    problems: list[str] = []
    valid: dict[tuple[str, str], list[Annotation]] = defaultdict(list)
    for annotation in annotations:
        if problem := _find_key_or_name_problem(annotation, project):
            problems.append(f"{annotation.where}: {problem}")
        elif any(annotation.values.values()):
            checked = replace(
                annotation,
                values=_parse_ratings(annotation, project.dimensions, problems),
            )
            valid[annotation.key, annotation.annotator].append(checked)
    agreed = []
    for (key, annotator), repeated in valid.items():
        if all(annotation.values == repeated[0].values for annotation in repeated):
            agreed.append(repeated[0])
            continue
        where = " and ".join(annotation.where for annotation in repeated)
        problem = f"{where}: {annotator!r} answered {key} {len(repeated)} times and not the same"
        problems.append(
            f"{problem}; keep one of them, or correct the name of the annotator"
        )
    return agreed, problems + _missing_annotation_messages(project, valid)


def _missing_annotation_messages(
    project: Project, annotated: Collection[tuple[str, str]]
) -> list[str]:
    """Returns one message for each annotator of ``project`` who has not rated all their dialogues.

    If no dialogue is assigned to anyone, there is at most one message, for the whole project.

    Args:
        annotated: (dialogue key, annotator name) pairs that are finished.
    """
    problems = []
    for name, keys in (project.assignments or {"": [*project.rows]}).items():
        finished = {key for key, annotator in annotated if name in ("", annotator)}
        left = [key for key in keys if key not in finished]
        if left:
            who = f"annotator {name!r}" if name else "project"
            problems.append(
                f"{who}: {len(left)} of {len(keys)} dialogues are not annotated, "
                f"such as {left[0]}; annotate them and import again"
            )
    return problems


def _find_key_or_name_problem(annotation: Annotation, project: Project) -> str | None:
    """Returns why the dialogue key or the annotator's name in ``annotation`` is invalid, or None if
    both are valid.

    A key is also invalid if its dialogue is not assigned to the annotator.

    Args:
        project: The dialogues, and who annotates which.
    """
    if annotation.key not in project.rows:
        return (
            f"field 'key': expected a key of this project, got {annotation.key!r}; type the key of "
            "the exported file"
        )
    if not annotation.annotator:
        return (
            "field 'annotator': expected the annotator's name, got nothing. Type a name"
        )
    assigned = project.assignments
    if assigned and annotation.annotator not in assigned:
        return (
            f"field 'annotator': expected one of {', '.join(assigned)}, got "
            f"{annotation.annotator!r}; type the name, or pass "
            f"--name {quote(annotation.annotator)}=NAME"
        )
    if assigned and annotation.key not in assigned[annotation.annotator]:
        return f"{annotation.key} was not assigned to {annotation.annotator!r}. Check the name"
    return None


def _parse_ratings(
    annotation: Annotation, dimensions: Sequence[Dimension], problems: list[str]
) -> dict[str, float | None]:
    """Returns the ratings in ``annotation`` as numbers, and adds a message to ``problems`` for each
    invalid one.

    Args:
        dimensions: The dimensions of the project. A rating of another dimension is a problem too.
        problems: A list that the caller gives and this function extends.

    Returns:
        Dimension -> rating, None if it is missing or invalid.
    """
    values: dict[str, float | None] = {}
    for dimension in dimensions:
        text = annotation.values.get(dimension.name, "").strip()
        value = _parse_rating(text, dimension)
        values[dimension.name] = value
        if value is None:
            expected = example = f"{YES} or {NO}"
            if dimension.kind != "binary":
                expected = (
                    f"a whole number from {dimension.low:g} to {dimension.high:g}"
                )
                *levels, last = (f"{level:g}" for level in dimension.levels)
                example = f"{', '.join(levels)} or {last}"
            got = repr(text) if text else "nothing"
            problem = f"field {dimension.name!r}: expected {expected}, got {got}; type {example}"
            problems.append(f"{annotation.where}: {problem}")
    for name, text in annotation.values.items():
        if name not in values and text:
            problem = f"field {name!r}: expected one of {', '.join(sorted(values))}"
            problems.append(
                f"{annotation.where}: {problem}; rename the field or leave it empty"
            )
    return values


def _parse_rating(text: str, dimension: Dimension) -> float | None:
    """Returns the rating ``text``, such as ``4`` or ``yes``, as a number on the scale of
    ``dimension``. Returns None if the scale has no such value."""
    if dimension.kind == "binary" and text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:  # ``4``, ``4.0`` and ``4,0`` are 4
        value = float(text.replace(",", "."))
    except ValueError:
        return None
    if value in dimension.levels:
        return value
    return None


def merge_ratings(
    annotations: Iterable[Annotation], project: Project
) -> Iterator[LabelledDialogue]:
    """Yields the annotated dialogues of ``project``, with the annotators' ratings as labels.

    A label has one rating per annotator, in the order of the names in ``extra["annotators"]``.
    Labels from before the annotation move to ``extra["earlier_labels"]``.

    Args:
        annotations: Checked annotations, with ratings as numbers or None.
        project: The dialogues and the dimensions.
    """
    by_key: dict[str, list[Annotation]] = defaultdict(list)
    for annotation in annotations:
        by_key[annotation.key].append(annotation)
    names = list(project.assignments)

    def rank(annotation: Annotation) -> tuple[int, str]:
        name = annotation.annotator
        return names.index(name) if name in names else len(names), name

    for key, row in project.rows.items():
        in_order = sorted(by_key[key], key=rank)
        if not in_order:
            continue
        extra = {**row.extra, **earlier_labels_field(row)}
        for name in (LABELS_BY, COMMENTS, FAILURE):
            extra.pop(name, None)
        extra[ANNOTATORS] = [annotation.annotator for annotation in in_order]
        comments = {}
        for annotation in in_order:
            if texts := {name: text for name, text in annotation.texts.items() if text}:
                comments[annotation.annotator] = texts
        if comments:
            extra["annotator_comments"] = comments
        labels = {}
        scales = {}
        for dimension in project.dimensions:
            name = dimension.name
            labels[name] = tuple(annotation.values[name] for annotation in in_order)
            scales[name] = (dimension.low, dimension.high)
        yield replace(row, labels=labels, scales=scales, aggregated=False, extra=extra)
