"""Spreadsheets to annotate in: xlsx with drop-downs, or CSV where that is all somebody can open."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medal_judges.cells import FORMULA, no_formula
from medal_judges.data_prep.annotation.label_studio import EMPTY
from medal_judges.data_prep.annotation.questions import COMMENT, OTHER_TEXT, Guidelines, Question
from medal_judges.errors import MissingExtraError
from medal_judges.labelled import LabelledDialogue

ANSWERS, DIALOGUES, GUIDELINES = "answers", "dialogues", "guidelines"
KEY, ANNOTATOR, DIALOGUE = "key", "annotator", "dialogue"
CELL = 32_000  # Excel takes 32,767 characters in a cell
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
Keyed = Sequence[tuple[str, LabelledDialogue]]


def header(asked: Sequence[Question]) -> list[str]:
    """Columns of the sheet of answers, one row a dialogue."""
    fixed = ["number", KEY, ANNOTATOR, "lang", DIALOGUE]
    return [*fixed, *(question.name for question in asked), OTHER_TEXT, COMMENT]


def write_csv(path: Path, rows: Keyed, asked: Sequence[Question], annotator: str = "") -> None:
    """One row a dialogue, its text in one cell.

    A cell that a spreadsheet would take for a formula begins with an apostrophe; reading takes it
    away again.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8-sig", newline="") as file:  # Excel wants the mark
        writer = csv.writer(file)
        head = header(asked)
        writer.writerow(head)
        for number, (key, row) in enumerate(rows, 1):
            shown = [str(number), key, annotator, row.dialogue.lang, transcript(row)]
            cells = [*shown, *[""] * (len(head) - len(shown))]
            writer.writerow([no_formula(cell) for cell in cells])


def transcript(row: LabelledDialogue) -> str:
    """The dialogue as text, a blank line between turns."""
    return "\n\n".join(f"{t.role}: {t.content or EMPTY}" for t in row.dialogue.turns)


def write_xlsx(
    path: Path,
    rows: Keyed,
    asked: Sequence[Question],
    guidelines: Guidelines,
    annotator: str = "",
) -> None:
    """A workbook: ``answers`` (one row a dialogue, a drop-down for each question), ``dialogues``
    (one row a turn, linked from the answers) and ``guidelines``.

    Raises MissingExtraError without openpyxl.
    """
    try:
        from openpyxl import Workbook
    except ImportError as error:
        raise MissingExtraError("openpyxl", "annotate", "an xlsx spreadsheet") from error
    book = Workbook()
    answers, dialogues = book.active, book.create_sheet(DIALOGUES)
    answers.title = ANSWERS
    places = _write_dialogues(dialogues, rows)
    _write_answers(answers, rows, asked, annotator, places)
    _write_guidelines(book.create_sheet(GUIDELINES), guidelines, asked)
    path.parent.mkdir(parents=True, exist_ok=True)
    book.save(path)


def _write_dialogues(sheet: Any, rows: Keyed) -> dict[str, int]:
    """Write the turns; the row of the sheet in which each dialogue begins."""
    from openpyxl.styles import PatternFill

    tint = PatternFill("solid", fgColor="EAF2F8")
    _head(sheet, ["number", KEY, "speaker", "text"], [9, 16, 11, 100])
    places: dict[str, int] = {}
    at = 2
    for number, (key, row) in enumerate(rows, 1):
        places[key] = at
        for turn in row.dialogue.turns:
            for part in _parts(turn.content or EMPTY):
                cells = [_put(sheet, at, 1, number), _put(sheet, at, 2, key)]
                cells += [_put(sheet, at, 3, turn.role), _put(sheet, at, 4, part)]
                for cell in cells if turn.role == "assistant" else ():
                    cell.fill = tint
                at += 1
        at += 1  # a blank row between dialogues
    return places


def _parts(text: str) -> list[str]:
    return [text[i : i + CELL] for i in range(0, len(text), CELL)]


def _write_answers(
    sheet: Any, rows: Keyed, asked: Sequence[Question], annotator: str, places: dict[str, int]
) -> None:
    from openpyxl.comments import Comment
    from openpyxl.styles import Font
    from openpyxl.utils import get_column_letter
    from openpyxl.worksheet.hyperlink import Hyperlink

    head = header(asked)
    widths = [9, 16, 14, 7, 10, *[max(12, len(q.name) + 2) for q in asked], 40, 40]
    _head(sheet, head, widths)
    for number, (key, row) in enumerate(rows, 1):
        at = number + 1
        shown: list[str | int] = [number, key, annotator, row.dialogue.lang, "read"]
        for column, value in enumerate(shown, 1):
            _put(sheet, at, column, value)
        link = sheet.cell(at, head.index(DIALOGUE) + 1)
        target = f"'{DIALOGUES}'!A{places[key]}"
        link.hyperlink = Hyperlink(ref=link.coordinate, location=target)
        link.font = Font(underline="single", color="0B5C8A")
    for question in asked:
        column = head.index(question.name) + 1
        sheet.cell(1, column).comment = Comment(_note(question), "medal", width=360, height=170)
        letter = get_column_letter(column)
        _add_list(sheet, question, f"{letter}2:{letter}{len(rows) + 1}")
    sheet.freeze_panes = sheet.cell(2, head.index(DIALOGUE) + 2)


def _add_list(sheet: Any, question: Question, cells: str) -> None:
    from openpyxl.worksheet.datavalidation import DataValidation

    listed = ",".join(question.answers)
    rule = DataValidation(type="list", formula1=f'"{listed}"', allow_blank=True)
    rule.error = f"Type or choose: {', '.join(question.answers)}"
    rule.errorTitle, rule.promptTitle = question.title[:32], question.title[:32]
    rule.prompt = _note(question)[:255]
    rule.showErrorMessage = rule.showInputMessage = True
    sheet.add_data_validation(rule)
    rule.add(cells)


def _note(question: Question) -> str:
    parts = [question.dimension.definition]
    if question.grades:
        pairs = zip(question.answers, question.grades, strict=True)
        parts += [f"{answer}: {grade}" for answer, grade in pairs]
    parts += [f"yes if {question.mark}"] if question.mark else []
    parts += [f"no if {question.leave}"] if question.leave else []
    return "\n".join(parts)


def _write_guidelines(sheet: Any, guidelines: Guidelines, asked: Sequence[Question]) -> None:
    from openpyxl.styles import Alignment, Font

    lines = [(guidelines.title, True), *((text, False) for text in guidelines.intro)]
    for question in asked:
        lines += [(question.title, True), (_note(question), False)]
    sheet.column_dimensions["A"].width = 110
    for at, (text, bold) in enumerate(lines, 1):
        cell = _put(sheet, at, 1, text)
        cell.font, cell.alignment = Font(bold=bold), Alignment(wrap_text=True, vertical="top")


def _head(sheet: Any, names: Sequence[str], widths: Sequence[int]) -> None:
    from openpyxl.styles import Font
    from openpyxl.utils import get_column_letter

    for column, (name, width) in enumerate(zip(names, widths, strict=True), 1):
        _put(sheet, 1, column, name).font = Font(bold=True)
        sheet.column_dimensions[get_column_letter(column)].width = width
    sheet.freeze_panes = "A2"


def _put(sheet: Any, row: int, column: int, value: str | int) -> Any:
    """Write a cell. Text is always stored as text, whatever it begins with, and what XML cannot
    hold becomes U+FFFD."""
    from openpyxl.styles import Alignment

    cell = sheet.cell(row, column)
    if isinstance(value, int):
        cell.value = value
        cell.alignment = Alignment(vertical="top")
        return cell
    cell.value = _CONTROL.sub("\ufffd", value)
    cell.data_type = "s"
    cell.quotePrefix = value.startswith(FORMULA)  # so that editing it makes no formula either
    cell.alignment = Alignment(wrap_text=True, vertical="top")
    return cell
