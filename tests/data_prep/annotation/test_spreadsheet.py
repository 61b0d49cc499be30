"""Spreadsheets: what stands in them, that nothing runs in them, and the way back."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook

from medal_judges.data_prep.annotation.answers import parse_annotations
from medal_judges.data_prep.annotation.project import Project
from medal_judges.data_prep.annotation.questions import (
    AnnotationQuestion,
    load_guidelines,
    make_questions,
)
from medal_judges.data_prep.annotation.spreadsheet import (
    answer_sheet_columns,
    read_spreadsheet,
    write_xlsx,
)
from medal_judges.errors import FORMULA
from medal_judges.records.labelled import LabelledDialogue, parse_labelled

GUIDELINES = load_guidelines()


def asked(project: Project) -> list[AnnotationQuestion]:
    return make_questions(project.dimensions, GUIDELINES)


def share(
    project: Project, annotator: str = "ana"
) -> list[tuple[str, LabelledDialogue]]:
    return [(key, project.rows[key]) for key in project.assignments[annotator]]


def exported_sheet(project: Project, path: Path, annotator: str) -> None:
    write_xlsx(path, share(project, annotator), asked(project), annotator)


Fill = Callable[[int, str], str]


def filled(project: Project, path: Path, annotator: str, fill: Fill) -> None:
    """The file as somebody hands it back: ``fill(row, column)`` is what they typed."""
    exported_sheet(project, path, annotator)
    book = load_workbook(path)
    sheet = book["answers"]
    places = {cell.value: cell.column for cell in sheet[1]}
    for i in range(len(project.assignments[annotator])):
        for name in (*(d.name for d in project.dimensions), "other_text", "comment"):
            typed: Any = fill(i, name)
            sheet.cell(i + 2, places[name]).value = (
                int(typed) if typed.isdigit() else typed
            )
    book.save(path)


def typed(i: int, name: str) -> str:
    if name in ("overall", "user_human_likeness"):
        return str(i % 5 + 1)
    if name in ("other_text", "comment"):
        return 'one, two; "three"\nfour' if name == "comment" else ""
    return "Yes" if (i + len(name)) % 2 else "no"


def test_there_and_back(project: Project, tmp_path: Path) -> None:
    answers = []
    for annotator in project.assignments:
        path = tmp_path / f"{annotator}.xlsx"
        filled(project, path, annotator, typed)
        answers += list(read_spreadsheet(path, [d.name for d in project.dimensions]))
    checked, problems = parse_annotations(answers, project)
    assert problems == []
    assert [(a.key, a.annotator, a.values, a.texts) for a in checked] == [
        (
            key,
            annotator,
            {d.name: value_of(typed(i, d.name)) for d in project.dimensions},
            {"other_text": "", "comment": typed(i, "comment")},
        )
        for annotator, keys in project.assignments.items()
        for i, key in enumerate(keys)
    ]


def value_of(text: str) -> float:
    return float(text) if text.isdigit() else {"yes": 1.0, "no": 0.0}[text.lower()]


def hostile(text: str) -> LabelledDialogue:
    said = [{"role": "user", "content": text}, {"role": "assistant", "content": text}]
    row = parse_labelled({"id": "x", "dialogue": said})
    # a line may not say that
    return replace(row, dialogue=replace(row.dialogue, lang=text))


@pytest.mark.parametrize("start", FORMULA)
def test_no_cell_is_a_formula(project: Project, tmp_path: Path, start: str) -> None:
    text = f'{start}HYPERLINK("http://example.org";"click")'
    rows = [("d1", hostile(text))]
    write_xlsx(tmp_path / "x.xlsx", rows, asked(project), text)
    book = load_workbook(tmp_path / "x.xlsx")
    for sheet in book:
        for line in sheet.iter_rows():
            assert not any(cell.data_type == "f" for cell in line)
    cell = book["dialogues"]["D2"]
    assert str(cell.value).strip() == text.strip() and cell.quotePrefix


def test_the_sheets_hold_the_dialogues_and_the_questions(
    project: Project, tmp_path: Path
) -> None:
    exported_sheet(project, tmp_path / "ana.xlsx", "ana")
    book = load_workbook(tmp_path / "ana.xlsx")
    head = [cell.value for cell in book["answers"][1]]
    assert head == answer_sheet_columns(asked(project))
    lines = [*book["dialogues"].iter_rows(min_row=2, values_only=True)]
    for key, row in share(project):
        texts = [line[3] for line in lines if line[1] == key]
        assert texts == [t.content or "[empty message]" for t in row.dialogue.turns]
    choices = {
        line[0]: line[2]
        for line in book["questions"].iter_rows(min_row=2, values_only=True)
    }
    for question in asked(project):
        graded = question.dimension.kind == "ordinal"
        expected = "1, 2, 3, 4, 5" if graded else "no, yes"
        assert choices[question.name] == expected
