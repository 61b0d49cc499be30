"""Answers of annotators as they came in, and the checks that they pass before they are labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from medal_judges.data_prep.annotation.project import Project
from medal_judges.data_prep.annotation.questions import NO, YES
from medal_judges.dimension import Dimension
from medal_judges.errors import MedalError

_WORDS = {YES: 1.0, NO: 0.0, "true": 1.0, "false": 0.0}
_NAMED = 12  # keys named in one problem


@dataclass(frozen=True, slots=True)
class Answer:
    """What one annotator said of one dialogue, unchecked.

    ``where`` names file and row or task. ``values`` holds the text given for each dimension, empty
    where the place was left open; ``texts`` the free texts (``other_text``, ``comment``).
    """

    where: str
    key: str
    annotator: str
    values: Mapping[str, str]
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that keeps an answer from being a label: where, what was expected, what to type."""

    where: str
    said: str
    mend: str

    def __str__(self) -> str:
        return f"{self.where}: {self.said}; {self.mend}"


@dataclass(frozen=True, slots=True)
class Checked:
    """An answer whose values lie on their scales; None where none was given."""

    key: str
    annotator: str
    values: Mapping[str, float | None]
    texts: Mapping[str, str]


def check(answers: Iterable[Answer], project: Project) -> tuple[list[Checked], list[Problem]]:
    """The answers that can be used, and everything that is wrong.

    A value off its scale, and a place left open in an otherwise filled answer, is a problem and
    becomes None. An answer about an unknown dialogue, by nobody, by somebody to whom it was not
    assigned, or with nothing filled in is left out, and so are two answers of one annotator about
    one dialogue, unless they say the same.
    """
    problems: list[Problem] = []
    found: dict[tuple[str, str], list[tuple[str, Checked]]] = defaultdict(list)
    for answer in answers:
        wrong = _misplaced(answer, project)
        if wrong is not None:
            problems.append(wrong)
        elif any(answer.values.values()):
            values = _values(answer, project.dimensions, problems)
            checked = Checked(answer.key, answer.annotator, values, answer.texts)
            found[answer.key, answer.annotator].append((answer.where, checked))
    kept = []
    for same in found.values():
        if all(one.values == same[0][1].values for _, one in same):
            kept.append(same[0][1])
        else:
            problems.append(_twice(same))
    problems += _open(project, set(found))
    return kept, problems


def _misplaced(answer: Answer, project: Project) -> Problem | None:
    where = answer.where
    if answer.key not in project.rows:
        said = f"field 'key': expected a key of this project, got {answer.key!r}"
        return Problem(where, said, "type the key as it stood in the file handed out")
    if not answer.annotator:
        said = "field 'annotator': expected the name of who answered, got nothing"
        return Problem(where, said, "type a name in that column")
    assigned = project.assignments
    if not assigned:
        return None
    if answer.annotator not in assigned:
        known = ", ".join(assigned)
        said = f"field 'annotator': expected one of {known}, got {answer.annotator!r}"
        return Problem(where, said, f"type the name, or pass --name {answer.annotator}=NAME")
    if answer.key not in assigned[answer.annotator]:
        said = f"{answer.key} was not assigned to {answer.annotator!r}"
        return Problem(where, said, "check the name in 'annotator'")
    return None


def _values(
    answer: Answer, dimensions: Sequence[Dimension], problems: list[Problem]
) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    for dimension in dimensions:
        given = answer.values.get(dimension.name, "").strip()
        values[dimension.name] = value = _value(given, dimension)
        if value is None:
            said = f"field {dimension.name!r}: expected {_expected(dimension)}, got "
            said += repr(given) if given else "nothing"
            problems.append(Problem(answer.where, said, f"type {_example(dimension)}"))
    known = {dimension.name for dimension in dimensions}
    for name, given in answer.values.items():
        if name not in known and given:
            said = f"field {name!r}: expected one of {', '.join(sorted(known))}"
            problems.append(Problem(answer.where, said, "rename the field or leave it empty"))
    return values


def _value(given: str, dimension: Dimension) -> float | None:
    """The level of ``given``; None where it is none. ``4``, ``4.0`` and ``4,0`` are all 4."""
    if dimension.kind == "binary" and given.lower() in _WORDS:
        return _WORDS[given.lower()]
    try:
        value = float(given.replace(",", "."))
    except ValueError:
        return None
    return value if value in dimension.levels else None


def _expected(dimension: Dimension) -> str:
    if dimension.kind == "binary":
        return f"{YES} or {NO}"
    return f"a whole number from {dimension.low:g} to {dimension.high:g}"


def _example(dimension: Dimension) -> str:
    if dimension.kind == "binary":
        return f"{YES} or {NO}"
    return ", ".join(f"{level:g}" for level in dimension.levels[:-1]) + f" or {dimension.high:g}"


def _twice(same: Sequence[tuple[str, Checked]]) -> Problem:
    places = " and ".join(where for where, _ in same)
    one = same[0][1]
    said = f"{one.annotator!r} answered {one.key} {len(same)} times and not the same"
    return Problem(places, said, "keep one of them, or correct the name of the annotator")


def _open(project: Project, answered: set[tuple[str, str]]) -> list[Problem]:
    """What was handed out and did not come back, one problem for each annotator."""
    problems = []
    for name, keys in project.assignments.items():
        left = [key for key in keys if (key, name) not in answered]
        if left:
            said = f"{len(left)} of {len(keys)} dialogues are not annotated: {_some(left)}"
            problems.append(Problem(f"annotator {name!r}", said, "annotate them and import again"))
    if not project.assignments:
        done = {key for key, _ in answered}
        left = [key for key in project.rows if key not in done]
        if left:
            said = f"{len(left)} of {len(project.rows)} dialogues have no answer: {_some(left)}"
            problems.append(Problem("project", said, "annotate them and import again"))
    return problems


def _some(keys: Sequence[str]) -> str:
    rest = len(keys) - _NAMED
    return ", ".join(keys[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")


class AnnotationError(MedalError):
    """Answers that cannot be taken as they are; the message lists every problem."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'} in the answers"
        super().__init__(
            "\n    ".join([f"{count}:", *map(str, problems)]),
            hint="mend the files and import again, or pass --skip-bad to leave these out and "
            "take the rest",
        )
        self.problems = tuple(problems)
