"""XLSX: the first sheet with a header and rows, read as a stream, with limits against bombs."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from medal_judges.errors import ConfigError, DataError, MissingExtraError, RecordError
from medal_judges.reading.arrow_rows import plain
from medal_judges.reading.json_rows import NumberedRow

ZIP = b"PK\x03\x04"
# An .xlsx is XML in a zip: kilobytes may come to gigabytes. Texts that cells share are held in
# memory, sheets are streamed.
MOST_SHARED_TEXT = 1 << 27
MOST_UNPACKED_SHEETS = 1 << 31
MOST_COLUMNS = 1000
_SHARED = "sharedstrings.xml"


def sheet_rows(path: str, file: IO[bytes]) -> Iterator[NumberedRow]:
    """The rows of the first sheet that is not empty, numbered as the program shows them; a cell's
    value as it was stored (of a formula its last result), empty cells null.

    Raises DataError for a file that is no workbook, or would come to too much unpacked.
    """
    header: list[str] = []
    number = 0
    try:
        with _workbook(path, file) as book:
            for number, cells in _first_sheet(book):
                if not header:
                    header = _header(cells)
                    continue
                row: object = {
                    name: None if cell == "" else plain(cell)
                    for name, cell in zip(header, cells, strict=False)
                }
                if any(cell not in (None, "") for cell in cells[len(header) :]):
                    expected = f"{len(header)} cells, as in the header"
                    row = RecordError("(row)", expected, "more than those")
                yield number, row
    except (DataError, ConfigError, MissingExtraError):
        raise
    except Exception as error:  # openpyxl raises whatever a broken part of a workbook makes it
        said = f"cannot read on: {type(error).__name__}: {error}"
        raise DataError(path, number + 1, said, hint="save it again as .xlsx or .csv") from error
    if not header:
        raise ConfigError("a table without a header: it is empty")


@contextmanager
def _workbook(path: str, file: IO[bytes]) -> Iterator[Any]:
    require_bounded(path, file)
    try:
        import openpyxl
    except ImportError as error:
        raise MissingExtraError("openpyxl", "annotate", "reading .xlsx") from error
    book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
    try:
        yield book
    finally:
        book.close()


def require_bounded(path: str, file: IO[bytes]) -> None:
    """Raise DataError where the workbook ``file`` says that it unpacks to more than the limits.

    It cannot be more than it says: zipfile reads a member no further.
    """
    try:
        with zipfile.ZipFile(file) as packed:
            members = {info.filename.lower(): info.file_size for info in packed.infolist()}
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise DataError(path, None, f"is no workbook: {error}") from error
    finally:
        file.seek(0)
    if not any(name.startswith("xl/") for name in members):
        hint = "unpack it, and give one of its files"
        raise DataError(path, None, "is a zip file, but no .xlsx workbook", hint=hint)
    sheets = {n: size for n, size in members.items() if n.startswith("xl/worksheets/")}
    held = sum(members.values()) - sum(sheets.values())
    media = sum(size for name, size in members.items() if name.startswith("xl/media/"))
    if held - media > MOST_SHARED_TEXT or sum(sheets.values()) > MOST_UNPACKED_SHEETS:
        problem = (
            f"comes to {sum(members.values()):,} bytes unpacked, more than is read of an .xlsx"
        )
        raise DataError(path, None, problem, hint="save it as .csv, which has no such limit")


def _first_sheet(book: Any) -> Iterator[tuple[int, list[Any]]]:
    """(Number from 1, cells) of each row that is not empty, of the first sheet that has one."""
    for sheet in book.worksheets:
        found = False
        sheet.reset_dimensions()  # what a file says of its size may be wrong
        for number, cells in enumerate(sheet.iter_rows(max_col=MOST_COLUMNS, values_only=True), 1):
            if any(cell not in (None, "") for cell in cells):
                found = True
                yield number, list(cells)
        if found:
            return


def _header(cells: list[object]) -> list[str]:
    while cells and cells[-1] in (None, ""):
        cells.pop()
    names = ["" if cell is None else str(cell).strip() for cell in cells]
    if "" in names:
        raise ConfigError(f"a table whose header has a column without a name: {names}")
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigError(f"a table with two columns called {min(twice)!r}: rename one")
    return names
