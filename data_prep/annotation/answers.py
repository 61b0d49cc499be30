"""Checks of annotators' answers, and the labels that valid answers become."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from medal_judges.data_prep.annotation.project import Project
from medal_judges.data_prep.annotation.questions import NO, YES, Answer
from medal_judges.data_prep.labelling import (
    ANNOTATORS,
    COMMENTS,
    FAILURE,
    LABELS_BY,
    earlier_labels,
)
from medal_judges.records.dimension import Dimension
from medal_judges.records.labelled import LabelledDialogue

_WORDS = {YES: 1.0, NO: 0.0, "true": 1.0, "false": 0.0}
_NAMED = 12  # keys named in one problem


def check(answers: Iterable[Answer], project: Project) -> tuple[list[Answer], list[str]]:
    """Returns the valid answers, with values on their scales, and all problems: place, problem, and
    what to type instead.

    A missing value, or one outside its scale, is a problem and becomes None. Skipped are answers
    about an unknown dialogue, without an annotator, by an annotator who was not assigned the
    dialogue, without any value, and contradicting answers of one annotator.
    """
    problems: list[str] = []
    valid: dict[tuple[str, str], list[Answer]] = defaultdict(list)
    for answer in answers:
        if wrong := _misplaced(answer, project):
            problems.append(f"{answer.where}: {wrong}")
        elif any(answer.values.values()):
            checked = replace(answer, values=_values(answer, project.dimensions, problems))
            valid[answer.key, answer.annotator].append(checked)
    kept = []
    for (key, annotator), same in valid.items():
        if all(one.values == same[0].values for one in same):
            kept.append(same[0])
            continue
        places = " and ".join(one.where for one in same)
        problem = f"{places}: {annotator!r} answered {key} {len(same)} times and not the same"
        problems.append(f"{problem}; keep one of them, or correct the name of the annotator")
    shares = project.assignments or {"": list(project.rows)}
    for name, keys in shares.items():
        done = {key for key, by in valid if name in ("", by)}
        if left := [key for key in keys if key not in done]:
            some = ", ".join(left[:_NAMED])
            some += f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
            who = f"annotator {name!r}" if name else "project"
            problem = f"{len(left)} of {len(keys)} dialogues are not annotated: {some}"
            problems.append(f"{who}: {problem}; annotate them and import again")
    return kept, problems


def _misplaced(answer: Answer, project: Project) -> str | None:
    """What is wrong with the key or the annotator of the answer."""
    if answer.key not in project.rows:
        return (
            f"field 'key': expected a key of this project, got {answer.key!r}; type the key of the "
            "exported file"
        )
    if not answer.annotator:
        return "field 'annotator': expected the annotator's name, got nothing; type a name"
    assigned = project.assignments
    if assigned and answer.annotator not in assigned:
        known = ", ".join(assigned)
        return (
            f"field 'annotator': expected one of {known}, got {answer.annotator!r}; type the name, "
            f"or pass --name {answer.annotator}=NAME"
        )
    if assigned and answer.key not in assigned[answer.annotator]:
        return f"{answer.key} was not assigned to {answer.annotator!r}; check the name"
    return None


def _values(
    answer: Answer, dimensions: Sequence[Dimension], problems: list[str]
) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    for dimension in dimensions:
        given = answer.values.get(dimension.name, "").strip()
        value = _WORDS.get(given.lower()) if dimension.kind == "binary" else None
        if value is None:
            try:  # ``4``, ``4.0`` and ``4,0`` are 4
                value = float(given.replace(",", "."))
            except ValueError:
                value = None
        values[dimension.name] = value if value in dimension.levels else None
        if values[dimension.name] is None:
            expected = example = f"{YES} or {NO}"
            if dimension.kind != "binary":
                expected = f"a whole number from {dimension.low:g} to {dimension.high:g}"
                levels = [f"{level:g}" for level in dimension.levels]
                example = f"{', '.join(levels[:-1])} or {levels[-1]}"
            got = repr(given) if given else "nothing"
            problem = f"field {dimension.name!r}: expected {expected}, got {got}; type {example}"
            problems.append(f"{answer.where}: {problem}")
    for name, given in answer.values.items():
        if name not in values and given:
            problem = f"field {name!r}: expected one of {', '.join(sorted(values))}"
            problems.append(f"{answer.where}: {problem}; rename the field or leave it empty")
    return values


def merge(answers: Iterable[Answer], project: Project) -> Iterator[LabelledDialogue]:
    """Yields the annotated rows in their order, with one value per annotator (None if missing).

    ``extra["annotators"]`` names the annotators in the order of the values; free texts are in
    ``extra["annotator_comments"]``. Earlier labels, with their comments and labeller, join the list
    ``extra["earlier_labels"]``. ``label_failure`` is dropped.
    """
    by_key: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        by_key[answer.key].append(answer)
    rank = {name: i for i, name in enumerate(project.assignments)}
    for key, row in project.rows.items():
        given = sorted(by_key[key], key=lambda a: (rank.get(a.annotator, len(rank)), a.annotator))
        if not given:
            continue
        extra = {k: v for k, v in row.extra.items() if k not in (LABELS_BY, COMMENTS, FAILURE)}
        extra |= earlier_labels(row)
        extra[ANNOTATORS] = [answer.annotator for answer in given]
        texts = {a.annotator: {k: text for k, text in a.texts.items() if text} for a in given}
        if any(texts.values()):
            extra["annotator_comments"] = {who: text for who, text in texts.items() if text}
        yield replace(
            row,
            labels={d.name: tuple(a.values[d.name] for a in given) for d in project.dimensions},
            scales={d.name: (d.low, d.high) for d in project.dimensions},
            aggregated=False,
            extra=extra,
        )
