"""Checks of answers: everything that can be wrong, all at once, with what to type."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from medal_judges.data_prep.annotation.answers import merge_ratings, parse_annotations
from medal_judges.data_prep.annotation.project import Project
from medal_judges.data_prep.annotation.questions import Annotation

GOOD = {
    **dict.fromkeys(
        ("uninterpretable", "unsafe", "lacks_empathy", "lacks_commonsense"), "no"
    ),
    **dict.fromkeys(
        ("repetitive", "incoherent", "irrelevant", "nonfactual", "other"), "0"
    ),
    "overall": "4",
    "user_human_likeness": "5",
}


def answer(
    key: str, annotator: str = "ana", where: str = "a.csv: row 2", **more: str
) -> Annotation:
    return Annotation(where, key, annotator, GOOD | more)


def everything(project: Project) -> list[Annotation]:
    return [
        answer(key, who) for who, keys in project.assignments.items() for key in keys
    ]


def only(project: Project, answers: list[Annotation]) -> str:
    """The one problem that ``answers`` have beyond what was not annotated at all."""
    _, problems = parse_annotations(answers, project)
    (found,) = [p for p in problems if not p.startswith(("annotator", "project"))]
    return found


@pytest.mark.parametrize("text", ["4", "4.0", "4,0", " 4 "])
@pytest.mark.parametrize("yes", ["yes", "YES", "1", "true", "1.0"])
def test_values_in_their_forms(project: Project, text: str, yes: str) -> None:
    answers = [answer(next(iter(project.rows)), overall=text, unsafe=yes)]
    (checked,), _ = parse_annotations(answers, project)
    assert (checked.values["overall"], checked.values["unsafe"]) == (4.0, 1.0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"overall": "6"},
            "field 'overall': expected a whole number from 1 to 5, got '6'",
        ),
        ({"overall": "nan"}, "got 'nan'; type 1, 2, 3, 4 or 5"),
        (
            {"unsafe": "maybe"},
            "field 'unsafe': expected yes or no, got 'maybe'; type yes or no",
        ),
    ],
)
def test_a_wrong_value_is_named_and_becomes_none(
    project: Project, wrong: Mapping[str, str], said: str
) -> None:
    key = next(iter(project.rows))
    found = only(project, [answer(key, **wrong)])
    assert found.startswith("a.csv: row 2: ") and said in found
    checked, _ = parse_annotations([answer(key, **wrong)], project)
    for name in wrong:
        assert checked[0].values.get(name) is None
    assert checked[0].values["irrelevant"] == 0.0


def test_what_was_not_annotated_is_named(project: Project) -> None:
    empty = [
        replace(a, values=dict.fromkeys(GOOD, "")) for a in everything(project)[:2]
    ]
    _, problems = parse_annotations([*empty, *everything(project)[2:]], project)
    (found,) = problems
    assert found.startswith("annotator 'ana': 2 of 3 dialogues are not annotated")
    free = replace(project, assignments={})
    _, problems = parse_annotations(everything(project)[:1], free)
    assert problems[0].startswith("project: 2 of 3 dialogues are not annotated")


def test_rows_get_one_value_per_annotator_and_keep_what_a_machine_said(
    project: Project,
) -> None:
    answers = everything(project)
    answers[3] = replace(answers[3], values=GOOD | {"overall": ""})
    checked, _ = parse_annotations(reversed(answers), project)
    found = {row.id: row for row in merge_ratings(checked, project)}
    assert list(found) == [row.id for row in project.rows.values()]
    open_row = found[project.rows[answers[3].key].id]
    assert open_row.labels["overall"] == (4.0, None)
    assert open_row.extra["annotators"] == ["ana", "ben"]
    assert open_row.scales["overall"] == (1, 5) and open_row.scales["unsafe"] == (0, 1)
    (machine,) = open_row.extra["earlier_labels"]
    assert machine["labels"]["overall"] == [4.0]
    assert machine["labels_by"] == "judge:written-by-hand"
    assert machine["comments"] == {"overall": "Fine."}
    assert "labels_by" not in open_row.extra and "comments" not in open_row.extra
    again = replace(
        project, rows={key: found[row.id] for key, row in project.rows.items()}
    )
    (second, *_) = merge_ratings(checked, again)
    first, own = second.extra["earlier_labels"]
    assert first == machine and own["annotators"] == ["ana", "ben"]
