"""Spreadsheets (xlsx) for annotators, with drop-downs, and the answers in filled ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medal_judges.data_prep.annotation.questions import (
    COMMENT,
    EMPTY,
    OTHER_TEXT,
    AnnotationQuestion,
    Answer,
)
from medal_judges.errors import FORMULA, DataError, MissingExtraError
from medal_judges.reading.containers import read_sheets
from medal_judges.records.labelled import LabelledDialogue

if TYPE_CHECKING:
    from openpyxl.cell import Cell
    from openpyxl.worksheet.worksheet import Worksheet

ANSWERS = "answers"
DIALOGUES = "dialogues"
KEY = "key"
ANNOTATOR = "annotator"
DIALOGUE = "dialogue"
CELL = 32_000  # Excel allows 32,767 characters in a cell
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def header(questions: Sequence[AnnotationQuestion]) -> list[str]:
    """Columns of the answer sheet, which has one row a dialogue."""
    fixed = ["number", KEY, ANNOTATOR, "lang", DIALOGUE]
    return [*fixed, *(question.name for question in questions), OTHER_TEXT, COMMENT]


def write_xlsx(
    path: Path,
    rows: Sequence[tuple[str, LabelledDialogue]],
    questions: Sequence[AnnotationQuestion],
    annotator: str = "",
) -> Path:
    """Write a workbook and return ``path``: ``answers`` (one row a dialogue, a drop-down a
    question) and ``dialogues`` (one row a turn, linked from the answers).

    Raises MissingExtraError without openpyxl.
    """
    try:
        from openpyxl import Workbook
    except ImportError as error:
        raise MissingExtraError(
            "openpyxl", "annotate", "an xlsx spreadsheet"
        ) from error
    from openpyxl.styles import Font, PatternFill
    from openpyxl.utils import get_column_letter
    from openpyxl.worksheet.datavalidation import DataValidation
    from openpyxl.worksheet.hyperlink import Hyperlink

    def head(sheet: Worksheet, names: Sequence[str], widths: Sequence[int]) -> None:
        for column, (cell, width) in enumerate(
            zip(_put(sheet, 1, names), widths, strict=True), 1
        ):
            cell.font = Font(bold=True)
            sheet.column_dimensions[get_column_letter(column)].width = width
        sheet.freeze_panes = "A2"

    book = Workbook()
    answers = book.active
    answers.title = ANSWERS
    dialogues = book.create_sheet(DIALOGUES)
    tint = PatternFill("solid", fgColor="EAF2F8")
    head(dialogues, ["number", KEY, "speaker", "text"], [9, 16, 11, 100])
    widths = [
        9,
        16,
        14,
        7,
        10,
        *(max(12, len(question.name) + 2) for question in questions),
        40,
        40,
    ]
    head(answers, header(questions), widths)
    at = 2
    for number, (key, row) in enumerate(rows, 1):
        *_, link = _put(
            answers, number + 1, [number, key, annotator, row.dialogue.lang, "read"]
        )
        link.hyperlink = Hyperlink(ref=link.coordinate, location=f"'{DIALOGUES}'!A{at}")
        link.font = Font(underline="single", color="0B5C8A")
        for turn in row.dialogue.turns:
            text = turn.content or EMPTY
            for start in range(0, len(text), CELL):
                cells = _put(
                    dialogues, at, [number, key, turn.role, text[start : start + CELL]]
                )
                if turn.role == "assistant":
                    for cell in cells:
                        cell.fill = tint
                at += 1
        at += 1  # a blank row between dialogues
    first = header(questions).index(DIALOGUE) + 2
    answers.freeze_panes = answers.cell(2, first)
    for column, question in enumerate(questions, first):
        colon = ":" if question.grades else ""
        criteria = [f"{name}{colon} {text}" for name, text in question.criteria]
        note = "\n".join([question.dimension.definition, *criteria])
        rule = DataValidation(
            type="list",
            formula1=f'"{",".join(question.answers)}"',
            allow_blank=True,
            error=f"Type or choose: {', '.join(question.answers)}",
            promptTitle=question.title[:32],
            prompt=note[:255],
            showErrorMessage=True,
            showInputMessage=True,
        )
        answers.add_data_validation(rule)
        letter = get_column_letter(column)
        rule.add(f"{letter}2:{letter}{len(rows) + 1}")
    path.parent.mkdir(parents=True, exist_ok=True)
    book.save(path)
    return path


def _put(sheet: Worksheet, row: int, values: Iterable[str | int]) -> list[Cell]:
    """Write the cells of a row. Text is always stored as text, never as a formula; characters that
    XML does not allow become U+FFFD."""
    from openpyxl.styles import Alignment

    cells = []
    for column, value in enumerate(values, 1):
        cell = sheet.cell(row, column)
        if isinstance(value, str):
            cell.value = _CONTROL.sub("\ufffd", value)
            cell.data_type = "s"
            # editing must not turn it into a formula
            cell.quotePrefix = value.startswith(FORMULA)
        else:
            cell.value = value
        cell.alignment = Alignment(wrap_text=isinstance(value, str), vertical="top")
        cells.append(cell)
    return cells


def read_spreadsheet(path: Path, dimensions: Sequence[str]) -> Iterator[Answer]:
    """Yields one answer for each row with a key or a value. Other columns are ignored.

    Raises DataError for another kind of file or a missing column, and MissingExtraError without
    openpyxl.
    """
    head: list[str] = []
    for number, cells in _rows_of_answers(path):
        texts = [_shown(cell) for cell in cells]
        if not head:
            head = [name.lower() for name in texts]
            needed = (KEY, ANNOTATOR, *dimensions)
            if missing := [name for name in needed if name.lower() not in head]:
                raise DataError(
                    path,
                    number,
                    f"the first row has no column {', '.join(map(repr, missing))}",
                    hint="type the name into the first row as exported",
                )
            continue
        row = dict(zip(head, texts, strict=False))
        values = {name: row.get(name.lower(), "") for name in dimensions}
        if row.get(KEY) or any(values.values()):
            free = {name: row[name] for name in (OTHER_TEXT, COMMENT) if name in row}
            where = f"{path}: row {number}"
            yield Answer(where, row.get(KEY, ""), row.get(ANNOTATOR, ""), values, free)
    if not head:
        raise DataError(path, None, "an empty sheet")


def _rows_of_answers(path: Path) -> list[tuple[int, list[object]]]:
    """Returns (number, cells) of the rows of the sheet ANSWERS, or of the first sheet."""
    sheets: dict[str, list[tuple[int, list[object]]]] = {}
    with path.open("rb") as file:
        for title, number, cells in read_sheets(str(path), file):
            sheets.setdefault(title, []).append((number, cells))
    return sheets.get(ANSWERS) or next(iter(sheets.values()), [])


def _shown(cell: object) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, bool):  # a typed TRUE
        return str(cell).lower()
    if cell is None:
        return ""
    return str(cell).strip()
