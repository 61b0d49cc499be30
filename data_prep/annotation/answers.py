"""Checks of annotators' answers, and the labels that valid answers become."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from shlex import quote

from medal_judges.data_prep.annotation.project import Project
from medal_judges.data_prep.annotation.questions import NO, YES, Answer
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


def screen_answers(
    answers: Iterable[Answer], project: Project
) -> tuple[list[Answer], list[str]]:
    """Splits ``answers`` to ``project`` into valid ones and problems.

    Args:
        answers: Left out if empty, if dialogue or annotator is wrong, or if an annotator gives two
            different answers.

    Returns:
        The valid answers, with numbers as values (None for a bad value), and problem texts.
    """
    problems: list[str] = []
    valid: dict[tuple[str, str], list[Answer]] = defaultdict(list)
    for answer in answers:
        if problem := _find_key_problem(answer, project):
            problems.append(f"{answer.where}: {problem}")
        elif any(answer.values.values()):
            checked = replace(
                answer, values=_parse_values(answer, project.dimensions, problems)
            )
            valid[answer.key, answer.annotator].append(checked)
    agreed = []
    for (key, annotator), repeated in valid.items():
        if all(answer.values == repeated[0].values for answer in repeated):
            agreed.append(repeated[0])
            continue
        where = " and ".join(answer.where for answer in repeated)
        problem = f"{where}: {annotator!r} answered {key} {len(repeated)} times and not the same"
        problems.append(
            f"{problem}; keep one of them, or correct the name of the annotator"
        )
    return agreed, problems + _list_missing(project, valid)


def _list_missing(
    project: Project, annotated: Collection[tuple[str, str]]
) -> list[str]:
    """Returns one problem text for each annotator with dialogues left to annotate.

    Without assignments, there is at most one text, for the whole project.

    Args:
        annotated: Finished (dialogue key, annotator) pairs.
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


def _find_key_problem(answer: Answer, project: Project) -> str | None:
    """Returns what is wrong with the key or the annotator of ``answer``, or None."""
    if answer.key not in project.rows:
        return (
            f"field 'key': expected a key of this project, got {answer.key!r}; type the key of the "
            "exported file"
        )
    if not answer.annotator:
        return (
            "field 'annotator': expected the annotator's name, got nothing. Type a name"
        )
    assigned = project.assignments
    if assigned and answer.annotator not in assigned:
        return (
            f"field 'annotator': expected one of {', '.join(assigned)}, got {answer.annotator!r}; "
            f"type the name, or pass --name {quote(answer.annotator)}=NAME"
        )
    if assigned and answer.key not in assigned[answer.annotator]:
        return f"{answer.key} was not assigned to {answer.annotator!r}. Check the name"
    return None


def _parse_values(
    answer: Answer, dimensions: Sequence[Dimension], problems: list[str]
) -> dict[str, float | None]:
    """Returns the level that ``answer`` gives to each of ``dimensions``, None for a bad value.

    Args:
        problems: Gets one text for each bad value.
    """
    values: dict[str, float | None] = {}
    for dimension in dimensions:
        text = answer.values.get(dimension.name, "").strip()
        value = _parse_level(text, dimension)
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
            problems.append(f"{answer.where}: {problem}")
    for name, text in answer.values.items():
        if name not in values and text:
            problem = f"field {name!r}: expected one of {', '.join(sorted(values))}"
            problems.append(
                f"{answer.where}: {problem}; rename the field or leave it empty"
            )
    return values


def _parse_level(text: str, dimension: Dimension) -> float | None:
    """Returns the level of ``dimension`` that ``text`` names, or None."""
    if dimension.kind == "binary" and text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:  # ``4``, ``4.0`` and ``4,0`` are 4
        value = float(text.replace(",", "."))
    except ValueError:
        return None
    if value in dimension.levels:
        return value
    return None


def merge_answers(
    answers: Iterable[Answer], project: Project
) -> Iterator[LabelledDialogue]:
    """Yields the annotated rows of ``project``, with ``answers`` as their labels.

    A label has one value for each annotator of the row, in the order of ``extra["annotators"]``.
    Earlier labels move to ``extra["earlier_labels"]``."""
    by_key: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        by_key[answer.key].append(answer)
    names = list(project.assignments)

    def rank(answer: Answer) -> tuple[int, str]:
        name = answer.annotator
        return names.index(name) if name in names else len(names), name

    for key, row in project.rows.items():
        in_order = sorted(by_key[key], key=rank)
        if not in_order:
            continue
        extra = {**row.extra, **earlier_labels_field(row)}
        for name in (LABELS_BY, COMMENTS, FAILURE):
            extra.pop(name, None)
        extra[ANNOTATORS] = [answer.annotator for answer in in_order]
        comments = {}
        for answer in in_order:
            if texts := {name: text for name, text in answer.texts.items() if text}:
                comments[answer.annotator] = texts
        if comments:
            extra["annotator_comments"] = comments
        labels = {}
        scales = {}
        for dimension in project.dimensions:
            name = dimension.name
            labels[name] = tuple(answer.values[name] for answer in in_order)
            scales[name] = (dimension.low, dimension.high)
        yield replace(row, labels=labels, scales=scales, aggregated=False, extra=extra)
