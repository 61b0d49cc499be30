"""Rows of text files: JSON lines, one JSON array (a row an element) or value, CSV and TSV.

Only the current row is in memory, and a broken row does not affect the others.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from typing import IO, Any

from medal_judges.errors import ConfigError, RecordError
from medal_judges.storage import jsonl

# (Number of the line or element from 1, its value, or what is wrong with it)
NumberedRow = tuple[int, object]
Fields = dict[str, Any]  # of one row, values as in JSON

_MARK = re.compile(r'[\[\]{}",\\]')
_IN_TEXT = re.compile(r'["\\]')
_CHUNK = 1 << 16
_DELIMITERS = ",;\t|"
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_MOST_LINES = 10_000  # lines of a quoted cell; more are a quote that is never closed


def json_lines(stream: IO[str]) -> Iterator[NumberedRow]:
    """Yields a row for each line that is not blank."""
    for number, line in enumerate(jsonl.limited_lines(stream), 1):
        if line.strip():
            yield number, json_value(line)


def json_document(stream: IO[str]) -> Iterator[NumberedRow]:
    """Yields the one value of a document."""
    yield 1, json_value(stream.read(jsonl.LONGEST_LINE + 1))


def json_value(text: str) -> object:
    """Returns the JSON value of ``text``, or the RecordError that says why there is none."""
    if len(text) > jsonl.LONGEST_LINE and not text.endswith("\n"):
        return RecordError("(line)", f"at most {jsonl.LONGEST_LINE:,} characters", text[:80])
    try:
        return jsonl.load_json(text)
    except RecordError as error:
        return error
    except RecursionError:
        return RecordError("(line)", "JSON that is not nested too deep", text[:80])


def json_array(stream: IO[str]) -> Iterator[NumberedRow]:
    """Yields a row for each element of the array that is the document. Text after its end, and a
    missing end, are bad rows."""
    for number, (text, whole, closed) in enumerate(_elements(stream), 1):
        if whole:
            yield number, json_value(text)
        elif text.strip() or not closed:
            yield number, RecordError("(row)", "the array's end, a bracket ]", text.strip()[-60:])


def _elements(stream: IO[str]) -> Iterator[tuple[str, bool, bool]]:
    """Yields (text of an element, True, whether the array ends), and at the end (what is left,
    False, whether the array has ended). Counts brackets outside of texts, so that an element that
    is no JSON leaves the next one whole; of a very long one it yields the beginning."""
    parts: list[str] = []
    length = depth = 0
    in_text = escaped = False
    chunk = stream.read(_CHUNK).lstrip()
    while chunk.strip() == "" and (more := stream.read(_CHUNK)):
        chunk = more.lstrip()
    chunk = chunk[1:]  # its bracket
    while chunk:
        start, at = 0, int(escaped)
        escaped = False
        while match := (_IN_TEXT if in_text else _MARK).search(chunk, at):
            at, mark = match.end(), match.group()
            if mark == "\\":
                escaped = at == len(chunk)
                at += 1
            elif mark == '"':
                in_text = not in_text
            elif mark in "[{":
                depth += 1
            elif mark in "]}" and depth:
                depth -= 1
            elif not depth and mark in ",]":
                text = ("".join(parts) + chunk[start : at - 1])[: jsonl.LONGEST_LINE + 1]
                parts, length, start = [], 0, at
                if text.strip():
                    yield text, True, mark == "]"
                if mark == "]":
                    yield (chunk[at:].strip() or stream.read(_CHUNK).strip())[:200], False, True
                    return
        if length <= jsonl.LONGEST_LINE:
            parts.append(chunk[start:])
            length += len(chunk) - start
        chunk = stream.read(_CHUNK)
    yield "".join(parts), False, False


# -- tables ----------------------------------------------------------------------------------------


def delimiter_of(header: str) -> str | None:
    """Returns the most frequent delimiter in the header outside of quotes; None for none."""
    bare = _QUOTED.sub("", header)
    best = max(_DELIMITERS, key=bare.count)
    return best if bare.count(best) else None


def table_rows(stream: IO[str], delimiter: str | None = None) -> Iterator[NumberedRow]:
    """Yields the rows with their first lines; cells are texts, empty ones null.

    Quoted as in RFC 4180. A row with more or fewer cells than the header is bad. If a quote is
    never closed, or other text follows a closed one, the line that opened it is bad and reading
    continues with the next line. Raises ConfigError for a header with an empty or repeated name.
    """
    csv.field_size_limit(max(csv.field_size_limit(), jsonl.LONGEST_LINE))
    lines = _Lines(jsonl.limited_lines(stream))
    first = next(lines, "")
    if first[:4].lower() == "sep=" and len(first.strip()) == 5:  # Excel's own line
        delimiter = first[4]
    else:
        delimiter = delimiter or delimiter_of(first) or ","
        lines.put_back(0)
    header: list[str] = []
    while True:
        lines.row = []
        number = lines.number + 1
        try:
            cells = next(csv.reader(lines, delimiter=delimiter, strict=True), None)
        except csv.Error as error:
            bad = RecordError("(row)", f"a valid row of CSV ({error})", lines.row[0].strip())
            if not header:
                raise ConfigError(f"a table without a header: {bad}") from error
            lines.put_back(1)
            yield number, bad
            continue
        if not header:
            header = table_header(cells or [])
        elif cells is None:
            return
        elif any(cells):
            yield number, _record(header, cells)


def table_header(cells: Sequence[object]) -> list[str]:
    """Returns the names of columns. Raises ConfigError for an empty or repeated one."""
    names = ["" if cell is None else str(cell).strip() for cell in cells]
    if not any(names):
        raise ConfigError("a table without a header: it is empty")
    if "" in names:
        raise ConfigError(f"a table whose header has a column without a name: {names}")
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigError(f"a table with two columns called {min(twice)!r}: rename one")
    return names


def _record(header: list[str], cells: list[str]) -> object:
    if len(cells) != len(header):
        return RecordError("(row)", f"{len(header)} cells, as in the header", f"{len(cells)} cells")
    try:
        "".join(cells).encode()
    except UnicodeEncodeError as error:
        return RecordError("(row)", f"UTF-8 (it is not at character {error.start + 1})", cells)
    return {name: cell or None for name, cell in zip(header, cells, strict=True)}


class _Lines:
    """Lines with the number of the last one; those of the current ``row`` can be put back."""

    def __init__(self, source: Iterator[str]) -> None:
        self.number = 0
        self.row: list[str] = []
        self._source = source
        self._back: list[str] = []

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        if len(self.row) >= _MOST_LINES:
            raise csv.Error("a quote that is never closed")
        line = self._back.pop() if self._back else next(self._source)
        self.number += 1
        self.row.append(line)
        return line

    def put_back(self, first: int) -> None:
        """Puts the lines of the current row back, from the one at index ``first`` on."""
        back = self.row[first:]
        self.number -= len(back)
        self._back += reversed(back)
