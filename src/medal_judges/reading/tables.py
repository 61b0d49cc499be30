"""CSV and TSV: a header, then one row each, as objects of the header's columns."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import IO

from medal_judges.errors import ConfigError, RecordError
from medal_judges.reading.json_rows import NumberedRow
from medal_judges.storage.jsonl import LONGEST_LINE, limited_lines

DELIMITERS = ",;\t|"
_QUOTED = re.compile(r'"(?:[^"]|"")*"')


def delimiter_of(header: str) -> str | None:
    """The delimiter that stands most often in the header outside of quotes; None for none."""
    bare = _QUOTED.sub("", header)
    best = max(DELIMITERS, key=bare.count)
    return best if bare.count(best) else None


def table_rows(stream: IO[str], delimiter: str | None = None) -> Iterator[NumberedRow]:
    """The rows with the line that each begins on; cells are texts, empty ones null.

    Quoted as RFC 4180 has it: a quoted cell may hold delimiters, line breaks and doubled quotes. A
    row with more or fewer cells than the header is bad. Where a quote is never closed, or other
    text stands behind a closed one, the line it was opened on is bad and reading goes on with the
    next. Raises ConfigError for a header with two columns of one name, or without a name.
    """
    lines = _PushedBackLines(limited_lines(stream))
    first = next(lines, "")
    if first[:4].lower() == "sep=" and len(first.strip()) == 5:  # Excel's own line
        used = first[4]
    else:
        used = delimiter or delimiter_of(first) or ","
        lines.push_back()
    header = _header(lines, used)
    while True:
        number = lines.number + 1
        cells = _next_row(lines, used)
        if cells is None:
            return
        if isinstance(cells, RecordError):
            yield number, cells
        elif not any(cells):
            continue  # a blank line
        elif len(cells) != len(header):
            expected = f"{len(header)} cells, as in the header"
            yield number, RecordError("(row)", expected, f"{len(cells)} cells")
        else:
            yield number, _record(header, cells)


def _header(lines: _PushedBackLines, delimiter: str) -> list[str]:
    cells = _next_row(lines, delimiter)
    if cells is None or isinstance(cells, RecordError):
        raise ConfigError(f"a table without a header: {cells or 'it is empty'}")
    names = [cell.strip() for cell in cells]
    if "" in names:
        raise ConfigError(f"a table whose header has a column without a name: {names}")
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigError(f"a table with two columns called {min(twice)!r}: rename one")
    return names


def _record(header: list[str], cells: list[str]) -> object:
    try:
        "".join(cells).encode()
    except UnicodeEncodeError as error:
        return RecordError("(row)", f"UTF-8 (it is not at character {error.start + 1})", cells)
    return {name: cell or None for name, cell in zip(header, cells, strict=True)}


def _next_row(lines: _PushedBackLines, delimiter: str) -> list[str] | RecordError | None:
    """The cells of the next row, what is wrong with it, or None at the end."""
    if csv.field_size_limit() < LONGEST_LINE:
        csv.field_size_limit(LONGEST_LINE)
    lines.begin_row()
    try:
        row = next(csv.reader(lines, delimiter=delimiter, strict=True), None)
    except csv.Error as error:
        if lines.spanned > 1:
            lines.keep_first()
        return RecordError("(row)", f"a valid row of CSV ({error})", lines.first.strip())
    return row


class _PushedBackLines:
    """Lines, of which those of the row at hand can be put back but for the first.

    ``number`` is that of the last line taken. What is put back is read again at most a fixed number
    of times as much as there is, so that no file of nothing but open quotes takes for ever.
    """

    _MOST_KEPT = 1 << 24  # characters of a row that can be put back

    def __init__(self, source: Iterator[str]) -> None:
        self.number = 0
        self.first = ""
        self._source = source
        self._back: list[str] = []
        self._row: list[str] = []
        self._kept = 0
        self._read_again = 0
        self._read = 0

    @property
    def spanned(self) -> int:
        """Lines of the row at hand."""
        return len(self._row)

    def __iter__(self) -> _PushedBackLines:
        return self

    def __next__(self) -> str:
        if self._back:
            line = self._back.pop()
        else:
            line = next(self._source)
            self._read += len(line)
        self.number += 1
        self._kept += len(line)
        if self._kept > LONGEST_LINE:
            raise csv.Error("a quote that is never closed")
        self._row.append(line)
        self.first = self._row[0]
        return line

    def begin_row(self) -> None:
        self._row, self._kept = [], 0

    def push_back(self) -> None:
        """Put the whole row back."""
        self.number -= len(self._row)
        self._back += reversed(self._row)
        self.begin_row()

    def keep_first(self) -> None:
        """Put back all but the first line, where that is affordable."""
        again = self._kept - len(self.first)
        if again > self._MOST_KEPT or self._read_again + again > 8 * self._read + self._MOST_KEPT:
            return
        self._read_again += again
        self.number -= len(self._row) - 1
        self._back += reversed(self._row[1:])
