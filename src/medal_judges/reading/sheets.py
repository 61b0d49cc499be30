"""XLSX: the first sheet with a header and rows, read as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

from medal_judges.errors import ConfigError, RecordError
from medal_judges.reading.arrow_rows import plain
from medal_judges.reading.json_rows import NumberedRow
from medal_judges.reading.workbooks import open_workbook, rows_of

ZIP = b"PK\x03\x04"


def sheet_rows(path: str, file: IO[bytes]) -> Iterator[NumberedRow]:
    """The rows of the first sheet that is not empty, numbered as the program shows them; a cell's
    value as it was stored (of a formula its last result), empty cells null.

    Raises DataError for a file that is no workbook, or would come to too much unpacked.
    """
    header: list[str] = []
    with open_workbook(path, file) as book:
        for number, cells in _first_sheet(path, book):
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
    if not header:
        raise ConfigError("a table without a header: it is empty")


def _first_sheet(path: str, book: Any) -> Iterator[tuple[int, list[Any]]]:
    """The rows of the first sheet that has one."""
    for sheet in book.worksheets:
        found = False
        for row in rows_of(path, sheet):
            found = True
            yield row
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
