"""Spreadsheets (xlsx) for annotators, and the answers in filled ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from medal_judges.data_prep.annotation.questions import (
    COMMENT,
    EMPTY,
    OTHER_TEXT,
    Annotation,
    AnnotationQuestion,
)
from medal_judges.errors import FORMULA, DataError, MissingExtraError
from medal_judges.reading.containers import read_workbook_rows
from medal_judges.records.labelled import LabelledDialogue

ANSWERS = "answers"
DIALOGUES = "dialogues"
KEY = "key"
ANNOTATOR = "annotator"
CELL = 32_000  # Excel allows 32,767 characters in a cell
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def answer_sheet_columns(questions: Sequence[AnnotationQuestion]) -> list[str]:
    """Returns the column names of the sheet in which annotators answer.

    They are ``number``, ``key`` (which stands for the dialogue), ``annotator``, ``lang``, the name
    of each of ``questions``, and ``other_text`` and ``comment`` for free texts.
    """
    names = [question.name for question in questions]
    return ["number", KEY, ANNOTATOR, "lang", *names, OTHER_TEXT, COMMENT]


def write_xlsx(
    path: Path,
    rows: Sequence[tuple[str, LabelledDialogue]],
    questions: Sequence[AnnotationQuestion],
    annotator: str = "",
) -> Path:
    """Writes a workbook for ``annotator`` to ``path``, and returns ``path``.

    It has three sheets: ``answers`` (a row for each dialogue, to fill in), ``dialogues`` (a row for
    each turn) and ``questions``.

    Args:
        path: The file to write.
        rows: (key, dialogue) pairs. Annotators see the key in place of the id.
        questions: The questions, one for each dimension.
        annotator: The name to fill in. If it is empty, annotators type theirs.

    Raises:
        MissingExtraError: openpyxl is not installed.
    """
    answers = []
    turns = []
    for number, (key, row) in enumerate(rows, 1):
        about = {"number": number, KEY: key}
        answers.append(about | {ANNOTATOR: annotator, "lang": row.dialogue.lang})
        for turn in row.dialogue.turns:
            text = turn.content or EMPTY
            for start in range(0, len(text), CELL):
                part = text[start : start + CELL]
                turns.append(about | {"speaker": turn.role, "text": part})
    criteria = []
    for question in questions:
        choices = ", ".join(question.answers)
        entry = {"column": question.name, "question": question.ask, "type": choices}
        criteria.append(entry | dict(question.criteria))
    sheets = {
        ANSWERS: pd.DataFrame(answers, columns=answer_sheet_columns(questions)),
        DIALOGUES: pd.DataFrame(turns),
        "questions": pd.DataFrame(criteria),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with pd.ExcelWriter(path, engine="openpyxl") as writer:
            for name, sheet in sheets.items():
                # XML does not allow control characters
                allowed = sheet.replace(_CONTROL, "\ufffd", regex=True)
                allowed.to_excel(writer, sheet_name=name, index=False)
            for sheet in writer.book.worksheets:
                _format_text_cells(sheet)
    except ImportError as error:
        raise MissingExtraError(
            "openpyxl", "annotate", "an xlsx spreadsheet"
        ) from error
    return path


def _format_text_cells(sheet: Any) -> None:
    """Formats the text cells of ``sheet``: Excel shows them as text, never as a formula, and
    wraps them."""
    from openpyxl.styles import Alignment

    for cells in sheet.iter_rows():
        for cell in cells:
            if isinstance(cell.value, str):
                cell.data_type = "s"
                cell.quotePrefix = cell.value.startswith(FORMULA)
                cell.alignment = Alignment(wrap_text=True, vertical="top")


def read_spreadsheet(path: Path, dimensions: Sequence[str]) -> Iterator[Annotation]:
    """Yields an annotation for each row of a workbook that has a dialogue key or a rating.

    The sheet ``answers`` is read, or the first sheet if there is none of that name.

    Args:
        path: The workbook.
        dimensions: Names of the columns with ratings.

    Raises:
        DataError: The file is not a workbook, is empty or lacks a column.
        MissingExtraError: openpyxl is not installed.
    """
    head: list[str] = []
    for number, cells in _read_answer_rows(path):
        texts = [_cell_text(cell) for cell in cells]
        if not head:
            head = [name.lower() for name in texts]
            needed = (KEY, ANNOTATOR, *dimensions)
            if missing := [name for name in needed if name.lower() not in head]:
                raise DataError(
                    path,
                    number,
                    f"the first row has no column {', '.join(map(repr, missing))}",
                    hint="Type the name into the first row as exported",
                )
            continue
        row = dict(zip(head, texts, strict=False))
        values = {name: row.get(name.lower(), "") for name in dimensions}
        if row.get(KEY) or any(values.values()):
            free = {name: row[name] for name in (OTHER_TEXT, COMMENT) if name in row}
            where = f"{path}: row {number}"
            yield Annotation(
                where, row.get(KEY, ""), row.get(ANNOTATOR, ""), values, free
            )
    if not head:
        raise DataError(
            path, None, "the sheet is empty. Give the sheet that an annotator filled"
        )


def _read_answer_rows(path: Path) -> list[tuple[int, list[object]]]:
    """Returns (row number, cell values) for each row of the sheet ``answers`` in the workbook
    ``path``. If no sheet has this name, the first sheet is read."""
    sheets: dict[str, list[tuple[int, list[object]]]] = {}
    with path.open("rb") as file:
        for title, number, cells in read_workbook_rows(str(path), file):
            sheets.setdefault(title, []).append((number, cells))
    return sheets.get(ANSWERS) or next(iter(sheets.values()), [])


def _cell_text(cell: object) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, bool):  # a typed TRUE
        return str(cell).lower()
    if cell is None:
        return ""
    return str(cell).strip()
