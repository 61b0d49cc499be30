"""Checks of annotators' answers, and the labels that valid answers become."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from medal_judges.data_prep.annotation.project import Project
from medal_judges.data_prep.annotation.questions import NO, YES, RawAnswer
from medal_judges.data_prep.labelling.labels import (
    ANNOTATORS,
    COMMENTS,
    FAILURE,
    LABELS_BY,
    earlier_labels,
)
from medal_judges.errors import MedalError
from medal_judges.records.dimension import Dimension
from medal_judges.records.labelled import LabelledDialogue

_WORDS = {YES: 1.0, NO: 0.0, "true": 1.0, "false": 0.0}
_NAMED = 12  # keys named in one problem


@dataclass(frozen=True, slots=True)
class AnswerProblem:
    """A reason why an answer is no label: place, problem, and what to type instead."""

    where: str
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}; {self.fix}"


class AnnotationError(MedalError):
    """Invalid answers; the message lists every problem."""

    def __init__(self, problems: Sequence[AnswerProblem]) -> None:
        count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'} in the answers"
        super().__init__(
            "\n    ".join([f"{count}:", *map(str, problems)]),
            hint="fix the files and import again, or drop --strict to import the rest",
        )
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """An answer with values on their scales; None if a value is missing."""

    key: str
    annotator: str
    values: Mapping[str, float | None]
    texts: Mapping[str, str]


def check(
    answers: Iterable[RawAnswer], project: Project
) -> tuple[list[CheckedAnswer], list[AnswerProblem]]:
    """Returns the valid answers and all problems.

    A missing value, or one outside its scale, is a problem and becomes None. Skipped are answers
    about an unknown dialogue, without an annotator, by an annotator who was not assigned the
    dialogue, without any value, and contradicting answers of one annotator.
    """
    problems: list[AnswerProblem] = []
    valid: dict[tuple[str, str], list[tuple[str, CheckedAnswer]]] = defaultdict(list)
    for answer in answers:
        if wrong := _misplaced(answer, project):
            problems.append(AnswerProblem(answer.where, *wrong))
        elif any(answer.values.values()):
            values = _values(answer, project.dimensions, problems)
            checked = CheckedAnswer(answer.key, answer.annotator, values, answer.texts)
            valid[answer.key, answer.annotator].append((answer.where, checked))
    kept = []
    for (key, annotator), same in valid.items():
        if all(one.values == same[0][1].values for _, one in same):
            kept.append(same[0][1])
            continue
        places = " and ".join(where for where, _ in same)
        problem = f"{annotator!r} answered {key} {len(same)} times and not the same"
        fix = "keep one of them, or correct the name of the annotator"
        problems.append(AnswerProblem(places, problem, fix))
    return kept, problems + _missing(project, set(valid))


def _misplaced(answer: RawAnswer, project: Project) -> tuple[str, str] | None:
    """(Problem, fix) if the key or the annotator of the answer is wrong."""
    if answer.key not in project.rows:
        problem = f"field 'key': expected a key of this project, got {answer.key!r}"
        return problem, "type the key of the exported file"
    if not answer.annotator:
        problem = "field 'annotator': expected the annotator's name, got nothing"
        return problem, "type a name in that column"
    assigned = project.assignments
    if assigned and answer.annotator not in assigned:
        known = ", ".join(assigned)
        problem = f"field 'annotator': expected one of {known}, got {answer.annotator!r}"
        return problem, f"type the name, or pass --name {answer.annotator}=NAME"
    if assigned and answer.key not in assigned[answer.annotator]:
        problem = f"{answer.key} was not assigned to {answer.annotator!r}"
        return problem, "check the name in 'annotator'"
    return None


def _values(
    answer: RawAnswer, dimensions: Sequence[Dimension], problems: list[AnswerProblem]
) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    for dimension in dimensions:
        given = answer.values.get(dimension.name, "").strip()
        values[dimension.name] = value = _value(given, dimension)
        if value is None:
            expected = example = f"{YES} or {NO}"
            if dimension.kind != "binary":
                expected = f"a whole number from {dimension.low:g} to {dimension.high:g}"
                levels = [f"{level:g}" for level in dimension.levels]
                example = f"{', '.join(levels[:-1])} or {levels[-1]}"
            got = repr(given) if given else "nothing"
            problem = f"field {dimension.name!r}: expected {expected}, got {got}"
            problems.append(AnswerProblem(answer.where, problem, f"type {example}"))
    for name, given in answer.values.items():
        if name not in values and given:
            problem = f"field {name!r}: expected one of {', '.join(sorted(values))}"
            fix = "rename the field or leave it empty"
            problems.append(AnswerProblem(answer.where, problem, fix))
    return values


def _value(given: str, dimension: Dimension) -> float | None:
    """The level that ``given`` states; None if it is no level. ``4``, ``4.0`` and ``4,0`` are 4."""
    if dimension.kind == "binary" and given.lower() in _WORDS:
        return _WORDS[given.lower()]
    try:
        value = float(given.replace(",", "."))
    except ValueError:
        return None
    return value if value in dimension.levels else None


def _missing(project: Project, answered: set[tuple[str, str]]) -> list[AnswerProblem]:
    """One problem for each annotator with unanswered dialogues."""
    problems = []
    fix = "annotate them and import again"
    for name, keys in project.assignments.items():
        if left := [key for key in keys if (key, name) not in answered]:
            problem = f"{len(left)} of {len(keys)} dialogues are not annotated: {_some(left)}"
            problems.append(AnswerProblem(f"annotator {name!r}", problem, fix))
    done = {key for key, _ in answered}
    left = [key for key in project.rows if key not in done]
    if left and not project.assignments:
        problem = f"{len(left)} of {len(project.rows)} dialogues have no answer: {_some(left)}"
        problems.append(AnswerProblem("project", problem, fix))
    return problems


def _some(keys: Sequence[str]) -> str:
    rest = len(keys) - _NAMED
    return ", ".join(keys[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def merge(answers: Iterable[CheckedAnswer], project: Project) -> Iterator[LabelledDialogue]:
    """Yields the annotated rows in their order, with one value per annotator (None if missing).

    ``extra["annotators"]`` names the annotators in the order of the values; free texts are in
    ``extra["annotator_comments"]``. Labels of a model (``labels_by``) move to
    ``extra["machine_labels"]`` ({dimension: {labeller: values}}) and ``extra["machine_comments"]``,
    other earlier labels to the list ``extra["earlier_labels"]``. ``label_failure`` is dropped.
    """
    by_key: dict[str, list[CheckedAnswer]] = defaultdict(list)
    for answer in answers:
        by_key[answer.key].append(answer)
    rank = {name: i for i, name in enumerate(project.assignments)}
    for key, row in project.rows.items():
        given = by_key.get(key, [])
        given.sort(key=lambda a: (rank.get(a.annotator, len(rank)), a.annotator))
        if given:
            yield _labelled(row, given, project.dimensions)


def _labelled(
    row: LabelledDialogue, given: Sequence[CheckedAnswer], dimensions: Sequence[Dimension]
) -> LabelledDialogue:
    extra = {k: v for k, v in row.extra.items() if k not in (LABELS_BY, COMMENTS, FAILURE)}
    extra |= _earlier(row)
    extra[ANNOTATORS] = [answer.annotator for answer in given]
    texts = {a.annotator: {k: text for k, text in a.texts.items() if text} for a in given}
    if any(texts.values()):
        extra["annotator_comments"] = {who: given for who, given in texts.items() if given}
    return replace(
        row,
        labels={d.name: tuple(a.values[d.name] for a in given) for d in dimensions},
        scales={d.name: (d.low, d.high) for d in dimensions},
        aggregated=False,
        extra=extra,
    )


def _earlier(row: LabelledDialogue) -> dict[str, Any]:
    comments = {COMMENTS: row.extra[COMMENTS]} if COMMENTS in row.extra else {}
    if not row.extra.get(LABELS_BY):
        return earlier_labels(row) or comments
    labeller = str(row.extra[LABELS_BY])
    machine = {name: dict(by) for name, by in row.extra.get("machine_labels", {}).items()}
    for name, values in row.labels.items():
        machine.setdefault(name, {})[labeller] = list(values)
    extra: dict[str, Any] = {"machine_labels": machine} if machine else {}
    return extra | ({"machine_comments": {labeller: comments[COMMENTS]}} if comments else {})
