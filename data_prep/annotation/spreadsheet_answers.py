"""Answers out of a filled spreadsheet, xlsx or CSV."""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from medal_judges.cells import FORMULA
from medal_judges.data_prep.annotation.answers import Answer
from medal_judges.data_prep.annotation.questions import COMMENT, OTHER_TEXT
from medal_judges.data_prep.annotation.spreadsheet import ANNOTATOR, ANSWERS, KEY
from medal_judges.errors import DataError, MissingExtraError

_TEXTS = (OTHER_TEXT, COMMENT)
Row = Sequence[str]
_UNPACKED = 64 << 20  # bytes: a hundred dialogues take less than one megabyte


def read_spreadsheet(path: Path, dimensions: Sequence[str]) -> Iterator[Answer]:
    """One answer for each row with a key or a value, by the names in the first row.

    Columns that are neither a dimension nor a free text are notes of the annotator. Raises
    DataError for a file of another form or without such a column, and MissingExtraError for xlsx
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
            hint="type the name into the first row as it was handed out",
        )
    places = {name: head.index(name.lower()) for name in (KEY, ANNOTATOR, *dimensions)}
    free = {name: head.index(name) for name in _TEXTS if name in head and name not in places}
    for number, line in enumerate(lines, 2):
        cells = [_plain(cell) for cell in [*line, *[""] * (len(head) - len(line))]]
        values = {name: cells[places[name]] for name in dimensions}
        if cells[places[KEY]] or any(values.values()):
            yield Answer(
                where=f"{path}: row {number}",
                key=cells[places[KEY]],
                annotator=cells[places[ANNOTATOR]],
                values=values,
                texts={name: cells[place] for name, place in free.items()},
            )


def _plain(cell: str) -> str:
    """The cell as somebody typed it: without the apostrophe that keeps it from being a formula."""
    text = cell.strip()
    return text[1:] if text[:1] == "'" and text[1:].startswith(FORMULA) else text


def _csv(path: Path) -> Iterator[Row]:
    """Rows, whichever of comma, semicolon and tab stands between cells (Excel's choice hangs on the
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


def _xlsx(path: Path) -> Iterator[Row]:
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise MissingExtraError("openpyxl", "annotate", "reading an xlsx spreadsheet") from error
    from zipfile import BadZipFile, ZipFile

    try:
        with ZipFile(path) as archive:  # before openpyxl, which holds all texts in memory
            unpacked = sum(part.file_size for part in archive.infolist())
        if unpacked > _UNPACKED:
            raise DataError(
                path,
                None,
                f"unpacks to {unpacked >> 20} MB, more than {_UNPACKED >> 20} MB",
                hint="a sheet that was handed out is far smaller: delete what was added, or save "
                "it as .csv",
            )
        book = load_workbook(path, read_only=True, data_only=True)
        sheet = book[ANSWERS] if ANSWERS in book.sheetnames else book.worksheets[0]
        for line in sheet.iter_rows(values_only=True):
            yield [_shown(cell) for cell in line]
        book.close()
    except (BadZipFile, KeyError, ValueError, OSError, EOFError, SyntaxError, zlib.error) as error:
        hint = "save it as .xlsx or .csv again"  # SyntaxError: what XML that breaks off raises
        raise DataError(path, None, f"not an xlsx workbook: {error}", hint=hint) from error


def _shown(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, bool):  # a typed TRUE
        return str(cell).lower()
    return str(cell)
