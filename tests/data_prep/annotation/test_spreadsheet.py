"""Spreadsheets: what stands in them, that nothing runs in them, and the way back."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook

from medal_judges.data_prep.annotation.answers import CheckedAnswer, check
from medal_judges.data_prep.annotation.project import Project, keyed
from medal_judges.data_prep.annotation.questions import (
    AnnotationQuestion,
    load_guidelines,
    questions,
)
from medal_judges.data_prep.annotation.spreadsheet import (
    CELL,
    Keyed,
    header,
    read_spreadsheet,
    write_csv,
    write_xlsx,
)
from medal_judges.errors import DataError
from medal_judges.foreign_text import FORMULA
from medal_judges.records.labelled import LabelledDialogue, parse_labelled

GUIDELINES = load_guidelines()


def asked(project: Project) -> list[AnnotationQuestion]:
    return questions(project.dimensions, GUIDELINES)


def share(project: Project, annotator: str = "ana") -> Keyed:
    return [(key, project.rows[key]) for key in project.assignments[annotator]]


def exported_sheet(project: Project, path: Path, annotator: str) -> None:
    rows = share(project, annotator)
    if path.suffix == ".xlsx":
        write_xlsx(path, rows, asked(project), GUIDELINES, annotator)
    else:
        write_csv(path, rows, asked(project), annotator)


Fill = Callable[[int, str], str]


def filled(project: Project, path: Path, annotator: str, fill: Fill) -> None:
    """The file as somebody hands it back: ``fill(row, column)`` is what they typed."""
    exported_sheet(project, path, annotator)
    names = [*(d.name for d in project.dimensions), "other_text", "comment"]
    if path.suffix == ".xlsx":
        book = load_workbook(path)
        sheet = book["answers"]
        places = {cell.value: cell.column for cell in sheet[1]}
        for i in range(len(project.assignments[annotator])):
            for name in names:
                typed: Any = fill(i, name)
                sheet.cell(i + 2, places[name]).value = int(typed) if typed.isdigit() else typed
        book.save(path)
        return
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = list(csv.DictReader(file))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), delimiter=";")  # as Excel does in Europe
        writer.writeheader()
        for i, line in enumerate(lines):
            writer.writerow(line | {name: fill(i, name) for name in names})


def typed(i: int, name: str) -> str:
    if name in ("overall", "user_human_likeness"):
        return str(i % 5 + 1)
    if name in ("other_text", "comment"):
        return 'one, two; "three"\nfour' if name == "comment" else ""
    return "Yes" if (i + len(name)) % 2 else "no"


@pytest.mark.parametrize("ending", [".xlsx", ".csv"])
def test_there_and_back(project: Project, tmp_path: Path, ending: str) -> None:
    answers = []
    for annotator in project.assignments:
        path = tmp_path / f"{annotator}{ending}"
        filled(project, path, annotator, typed)
        answers += list(read_spreadsheet(path, [d.name for d in project.dimensions]))
    checked, problems = check(answers, project)
    assert problems == []
    expected = [
        CheckedAnswer(
            key,
            annotator,
            {d.name: value_of(typed(i, d.name)) for d in project.dimensions},
            {"other_text": "", "comment": typed(i, "comment")},
        )
        for annotator, keys in project.assignments.items()
        for i, key in enumerate(keys)
    ]
    assert checked == expected


def value_of(text: str) -> float:
    return float(text) if text.isdigit() else {"yes": 1.0, "no": 0.0}[text.lower()]


def hostile(text: str) -> LabelledDialogue:
    said = [{"role": "user", "content": text}, {"role": "assistant", "content": text}]
    row = parse_labelled({"id": "x", "dialogue": said})
    return replace(row, dialogue=replace(row.dialogue, lang=text))  # a line may not say that


@pytest.mark.parametrize("start", FORMULA)
def test_no_cell_is_a_formula(project: Project, tmp_path: Path, start: str) -> None:
    text = f'{start}HYPERLINK("http://example.org";"click")'
    rows = list(keyed([hostile(text)]).items())
    write_xlsx(tmp_path / "x.xlsx", rows, asked(project), GUIDELINES, text)
    book = load_workbook(tmp_path / "x.xlsx")
    for sheet in book:
        for line in sheet.iter_rows():
            assert not any(cell.data_type == "f" for cell in line)
    cell = book["dialogues"]["D2"]
    assert str(cell.value).strip() == text.strip() and cell.quotePrefix
    write_csv(tmp_path / "x.csv", rows, asked(project), text)
    with (tmp_path / "x.csv").open(encoding="utf-8-sig", newline="") as file:
        (line,) = list(csv.reader(file))[1:]
    assert any(text in cell for cell in line)
    assert not any(cell.startswith(FORMULA) for cell in line)


def test_a_comment_that_looks_like_a_formula_comes_back_as_typed(
    project: Project, tmp_path: Path
) -> None:
    path = tmp_path / "ana.csv"
    filled(project, path, "ana", lambda i, name: "'=1+1" if name == "comment" else typed(i, name))
    found = list(read_spreadsheet(path, [d.name for d in project.dimensions]))
    assert {a.texts["comment"] for a in found} == {"=1+1"}


def test_drop_downs_hold_the_scale_of_each_question(project: Project, tmp_path: Path) -> None:
    exported_sheet(project, tmp_path / "ana.xlsx", "ana")
    sheet = load_workbook(tmp_path / "ana.xlsx")["answers"]
    head = [cell.value for cell in sheet[1]]
    assert head == header(asked(project))
    rules = {str(rule.sqref): rule for rule in sheet.data_validations.dataValidation}
    for question in asked(project):
        letter = sheet.cell(1, head.index(question.name) + 1).column_letter
        rule = rules[f"{letter}2:{letter}4"]
        assert rule.type == "list" and rule.showErrorMessage
        graded = question.dimension.kind == "ordinal"
        assert rule.formula1 == ('"1,2,3,4,5"' if graded else '"no,yes"')


def test_dialogues_are_linked_and_whole(project: Project, tmp_path: Path) -> None:
    exported_sheet(project, tmp_path / "ana.xlsx", "ana")
    book = load_workbook(tmp_path / "ana.xlsx")
    for i, (key, row) in enumerate(share(project)):
        place = str(book["answers"].cell(i + 2, 5).hyperlink.location)
        at = int(place.rsplit("A", 1)[1])
        lines = list(book["dialogues"].iter_rows(min_row=at, max_row=at + 3, values_only=True))
        assert {line[1] for line in lines} == {key}
        assert [line[3] for line in lines] == [
            t.content or "[empty message]" for t in row.dialogue.turns
        ]


def test_long_and_broken_text(project: Project, tmp_path: Path) -> None:
    said = "word " * 10_000 + "\x07end"
    rows = list(keyed([hostile(said)]).items())
    write_xlsx(tmp_path / "x.xlsx", [(k, replace(r)) for k, r in rows], asked(project), GUIDELINES)
    cells = [line[3].value for line in load_workbook(tmp_path / "x.xlsx")["dialogues"].iter_rows()]
    parts = [str(cell) for cell in cells[1:3]]
    assert "".join(parts) == said.replace("\x07", "\ufffd") and max(map(len, parts)) <= CELL


def test_files_that_are_no_answers(project: Project, tmp_path: Path) -> None:
    names = [d.name for d in project.dimensions]
    (tmp_path / "a.csv").write_text("key,annotator,unsafe\nd1,ana,yes\n", encoding="utf-8")
    with pytest.raises(DataError, match="no column 'uninterpretable'"):
        list(read_spreadsheet(tmp_path / "a.csv", names))
    (tmp_path / "b.xlsx").write_bytes(b"not a workbook")
    with pytest.raises(DataError, match="is no workbook"):
        list(read_spreadsheet(tmp_path / "b.xlsx", names))
    (tmp_path / "c.csv").write_bytes("clé;é".encode("latin-1"))
    with pytest.raises(DataError, match="not UTF-8"):
        list(read_spreadsheet(tmp_path / "c.csv", names))
    (tmp_path / "d.csv").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="no column 'key'"):
        list(read_spreadsheet(tmp_path / "d.csv", names))
