"""Spreadsheets for annotators (xlsx with drop-downs, or CSV), and the answers in filled ones."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medal_judges.data_prep.annotation.label_studio import EMPTY
from medal_judges.data_prep.annotation.questions import (
    COMMENT,
    OTHER_TEXT,
    AnnotationQuestion,
    Guidelines,
    RawAnswer,
)
from medal_judges.errors import DataError, MissingExtraError
from medal_judges.foreign_text import FORMULA, no_formula
from medal_judges.reading.containers import open_workbook, rows_of
from medal_judges.records.labelled import LabelledDialogue

if TYPE_CHECKING:
    from openpyxl.cell import Cell
    from openpyxl.worksheet.worksheet import Worksheet

ANSWERS, DIALOGUES, GUIDELINES = "answers", "dialogues", "guidelines"
KEY, ANNOTATOR, DIALOGUE = "key", "annotator", "dialogue"
CELL = 32_000  # Excel allows 32,767 characters in a cell
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
Keyed = Sequence[tuple[str, LabelledDialogue]]


def header(asked: Sequence[AnnotationQuestion]) -> list[str]:
    """Columns of the answer sheet, which has one row a dialogue."""
    fixed = ["number", KEY, ANNOTATOR, "lang", DIALOGUE]
    return [*fixed, *(question.name for question in asked), OTHER_TEXT, COMMENT]


def write_csv(
    path: Path, rows: Keyed, asked: Sequence[AnnotationQuestion], annotator: str = ""
) -> Path:
    """Write one row a dialogue, its text in one cell; returns ``path``. A cell that looks like a
    formula gets an apostrophe, which reading removes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8-sig", newline="") as file:  # Excel needs the mark
        writer = csv.DictWriter(file, header(asked), restval="")
        writer.writeheader()
        for number, (key, row) in enumerate(rows, 1):
            text = "\n\n".join(f"{t.role}: {t.content or EMPTY}" for t in row.dialogue.turns)
            cells = {"number": str(number), KEY: key, ANNOTATOR: annotator}
            cells |= {"lang": row.dialogue.lang, DIALOGUE: text}
            writer.writerow({name: no_formula(cell) for name, cell in cells.items()})
    return path


def write_xlsx(
    path: Path,
    rows: Keyed,
    asked: Sequence[AnnotationQuestion],
    guidelines: Guidelines,
    annotator: str = "",
) -> Path:
    """Write a workbook and return ``path``: ``answers`` (one row a dialogue, a drop-down a
    question), ``dialogues`` (one row a turn, linked from the answers) and ``guidelines``.

    Raises MissingExtraError without openpyxl.
    """
    try:
        from openpyxl import Workbook
    except ImportError as error:
        raise MissingExtraError("openpyxl", "annotate", "an xlsx spreadsheet") from error
    book = Workbook()
    answers, dialogues = book.active, book.create_sheet(DIALOGUES)
    answers.title = ANSWERS
    first_rows = _write_dialogues(dialogues, rows)
    _write_answers(answers, rows, asked, annotator, first_rows)
    _write_guidelines(book.create_sheet(GUIDELINES), guidelines, asked)
    path.parent.mkdir(parents=True, exist_ok=True)
    book.save(path)
    return path


def _write_dialogues(sheet: Worksheet, rows: Keyed) -> dict[str, int]:
    """Write the turns; returns the first sheet row of each dialogue."""
    from openpyxl.styles import PatternFill

    tint = PatternFill("solid", fgColor="EAF2F8")
    _head(sheet, ["number", KEY, "speaker", "text"], [9, 16, 11, 100])
    first_rows: dict[str, int] = {}
    at = 2
    for number, (key, row) in enumerate(rows, 1):
        first_rows[key] = at
        for turn in row.dialogue.turns:
            text = turn.content or EMPTY
            for start in range(0, len(text), CELL):
                cells = _put(sheet, at, [number, key, turn.role, text[start : start + CELL]])
                for cell in cells if turn.role == "assistant" else ():
                    cell.fill = tint
                at += 1
        at += 1  # a blank row between dialogues
    return first_rows


def _write_answers(
    sheet: Worksheet,
    rows: Keyed,
    asked: Sequence[AnnotationQuestion],
    annotator: str,
    first_rows: dict[str, int],
) -> None:
    from openpyxl.comments import Comment
    from openpyxl.styles import Font
    from openpyxl.utils import get_column_letter
    from openpyxl.worksheet.hyperlink import Hyperlink

    head = header(asked)
    widths = [9, 16, 14, 7, 10, *[max(12, len(q.name) + 2) for q in asked], 40, 40]
    _head(sheet, head, widths)
    for number, (key, row) in enumerate(rows, 1):
        *_, link = _put(sheet, number + 1, [number, key, annotator, row.dialogue.lang, "read"])
        target = f"'{DIALOGUES}'!A{first_rows[key]}"
        link.hyperlink = Hyperlink(ref=link.coordinate, location=target)
        link.font = Font(underline="single", color="0B5C8A")
    for column, question in enumerate(asked, head.index(DIALOGUE) + 2):
        sheet.cell(1, column).comment = Comment(_note(question), "medal", width=360, height=170)
        letter = get_column_letter(column)
        _add_list(sheet, question, f"{letter}2:{letter}{len(rows) + 1}")
    sheet.freeze_panes = sheet.cell(2, head.index(DIALOGUE) + 2)


def _add_list(sheet: Worksheet, question: AnnotationQuestion, cells: str) -> None:
    from openpyxl.worksheet.datavalidation import DataValidation

    rule = DataValidation(
        type="list",
        formula1=f'"{",".join(question.answers)}"',
        allow_blank=True,
        error=f"Type or choose: {', '.join(question.answers)}",
        errorTitle=question.title[:32],
        promptTitle=question.title[:32],
        prompt=_note(question)[:255],
        showErrorMessage=True,
        showInputMessage=True,
    )
    sheet.add_data_validation(rule)
    rule.add(cells)


def _note(question: AnnotationQuestion) -> str:
    colon = ":" if question.grades else ""
    criteria = [f"{name}{colon} {text}" for name, text in question.criteria]
    return "\n".join([question.dimension.definition, *criteria])


def _write_guidelines(
    sheet: Worksheet, guidelines: Guidelines, asked: Sequence[AnnotationQuestion]
) -> None:
    from openpyxl.styles import Font

    lines = [(guidelines.title, True), *((text, False) for text in guidelines.intro)]
    for question in asked:
        lines += [(question.title, True), (_note(question), False)]
    sheet.column_dimensions["A"].width = 110
    for at, (text, bold) in enumerate(lines, 1):
        _put(sheet, at, [text])[0].font = Font(bold=bold)


def _head(sheet: Worksheet, names: Sequence[str], widths: Sequence[int]) -> None:
    from openpyxl.styles import Font
    from openpyxl.utils import get_column_letter

    for cell in _put(sheet, 1, names):
        cell.font = Font(bold=True)
    for column, width in enumerate(widths, 1):
        sheet.column_dimensions[get_column_letter(column)].width = width
    sheet.freeze_panes = "A2"


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
            cell.quotePrefix = value.startswith(FORMULA)  # editing must not turn it into a formula
        else:
            cell.value = value
        cell.alignment = Alignment(wrap_text=isinstance(value, str), vertical="top")
        cells.append(cell)
    return cells


def read_spreadsheet(path: Path, dimensions: Sequence[str]) -> Iterator[RawAnswer]:
    """Yields one answer for each row with a key or a value. Other columns are ignored.

    Raises DataError for another kind of file or a missing column, and MissingExtraError for xlsx
    without openpyxl.
    """
    lines = _xlsx(path) if path.suffix.lower() == ".xlsx" else _csv(path)
    head = [name.strip().lower() for name in next(lines, [])]
    missing = [name for name in (KEY, ANNOTATOR, *dimensions) if name.lower() not in head]
    if missing:
        raise DataError(
            path,
            1,
            f"the first row has no column {', '.join(map(repr, missing))}",
            hint="type the name into the first row as exported",
        )
    for number, line in enumerate(lines, 2):
        cells = [_plain(cell) for cell in line] + [""] * (len(head) - len(line))
        row = dict(reversed(list(zip(head, cells, strict=False))))  # the first of a name counts
        values = {name: row[name.lower()] for name in dimensions}
        if row[KEY] or any(values.values()):
            texts = {name: row[name] for name in (OTHER_TEXT, COMMENT) if name in row}
            yield RawAnswer(f"{path}: row {number}", row[KEY], row[ANNOTATOR], values, texts)


def _plain(cell: str) -> str:
    """The cell without the apostrophe that prevents a formula."""
    text = cell.strip()
    return text[1:] if text[:1] == "'" and text[1:].startswith(FORMULA) else text


def _csv(path: Path) -> Iterator[Sequence[str]]:
    """Rows of a file with comma, semicolon or tab between cells (Excel's choice depends on the
    country)."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        hint = "save it as CSV UTF-8 (Excel: Save as, CSV UTF-8)"
        raise DataError(path, None, "not UTF-8 text", hint=hint) from error
    first = text.split("\n", 1)[0]
    between = max(",;\t", key=first.count)
    try:
        yield from csv.reader(io.StringIO(text, newline=""), delimiter=between, strict=True)
    except csv.Error as error:
        raise DataError(path, None, f"not a CSV table: {error}") from error


def _xlsx(path: Path) -> Iterator[Sequence[str]]:
    with path.open("rb") as file, open_workbook(str(path), file) as book:
        sheet = book[ANSWERS] if ANSWERS in book.sheetnames else book.worksheets[0]
        at = 0
        for number, cells in rows_of(str(path), sheet):
            yield from ([] for _ in range(at + 1, number))  # keeps row numbers correct
            yield [_shown(cell) for cell in cells]
            at = number


def _shown(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, bool):  # a typed TRUE
        return str(cell).lower()
    return str(cell)
