"""Opens a file, recognises its container by its content, and reads its rows.

Only the current row is in memory. A bad row becomes a RecordError with the reason, and reading goes
on with the next row; after a broken element of a JSON array it ends.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import math
import re
import shutil
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, cast

from medal_judges.errors import (
    ConfigError,
    DataError,
    MedalError,
    MissingExtraError,
    RecordError,
)
from medal_judges.reading.transcripts import RULE, SPOKEN, transcript_rows
from medal_judges.storage import jsonl
from medal_judges.storage.jsonl import STDIN, damaged, standard_input

# (Number of the line or element from 1, its value or a RecordError)
NumberedRow = tuple[int, object]
# Name in --format -> name in messages.
CONTAINERS: Mapping[str, str] = {
    "jsonl": "JSON lines",
    "json": "JSON",
    "csv": "CSV",
    "tsv": "TSV",
    "text": "plain text",
    "xlsx": "XLSX",
    "parquet": "parquet",
    "hf": "a data set on the Hub",
}
TABLES = ("csv", "tsv", "xlsx", "parquet")  # every row has every column
ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".xlsx", ".parquet")
_MAGIC = {b"PAR1": "parquet", b"PK\x03\x04": "xlsx"}
_BINARY = tuple(_MAGIC.values())
_ZSTD, _GZIP = b"\x28\xb5\x2f\xfd", b"\x1f\x8b"
HUB = "hf:"
# A file with such an ending can be a transcript.
_PLAIN_ENDINGS = ("", ".txt", ".text", ".md", ".log")
_CHUNK = 1 << 16
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
# BadGzipFile is an OSError, and so are pyarrow's errors of zstd.
_STREAM_ERRORS = (EOFError, zlib.error, OSError)
# A workbook is XML in a zip. Sheets shrink to a tenth or so; a bomb shrinks to a thousandth.
_MOST_RATIO, _ALWAYS_READ, _MOST_UNPACKED = 100, 1 << 22, 1 << 31
_MOST_ROWS, _MOST_COLUMNS = 1 << 20, 1000
# of Parquet, whose equal values are stored once
_MOST_COLUMN_RATIO, _MOST_BATCH = (1000, 1 << 30)
# A formula without its last result, which openpyxl would read as an empty cell. (An empty text is
# t="str" with an empty value.)
_UNCOUNTED = re.compile(
    rb"""<(?:\w+:)?c\b(?![^<>]*t=["']str)(?:[^<>]*r=["'](\w+))?[^<>]*>\s*<(?:\w+:)?f\b[^<>]*"""
    rb"""(?:/>|>[^<]*</[^<>]*>)\s*(?:<(?:\w+:)?v\s*(?:/>|></[^<>]*>)\s*)?</(?:\w+:)?c>"""
)
_AS_CSV = "save it as .csv, which has no such limit"


def open_rows(
    path: str, kind: str | None = None, roles: Mapping[str, str] = {}
) -> tuple[str, Iterator[NumberedRow]]:
    """Opens ``path`` (a file, ``-`` or ``hf:...``) and returns its container and its rows. The
    container is recognised by the content unless ``kind`` names it. ``roles`` are those of further
    speakers in a transcript.

    Raises DataError for a missing file and for content of no known kind, and, while the rows are
    read, for a damaged file.
    """
    if path.startswith(HUB):
        return "hf", _hub_rows(path)
    if path == STDIN:
        stream = standard_input()
        if kind in (None, "jsonl") and _begins_with_record(stream):
            # each line is answered as it arrives
            return "jsonl", _rows(path, stream, "jsonl")
        stream = _copied(stream)
    else:
        try:
            stream = open(path, "rb")  # noqa: SIM115 (_rows closes it)
        except FileNotFoundError as error:
            raise DataError(path, None, "no such file") from error
        except OSError as error:
            raise DataError(
                path, None, f"cannot be opened: {error.strerror}"
            ) from error
    try:
        stream = _decompressed(path, stream)
        container = _container(path, stream, kind)
    except DataError:
        stream.close()
        raise
    except _STREAM_ERRORS as error:
        stream.close()
        raise damaged(path, 0, error) from error
    return container, _rows(path, stream, container, roles)


def _begins_with_record(stream: IO[bytes]) -> bool:
    """Says whether the first line, as far as it has been read, can be an object of JSON lines."""
    begin = b""
    if isinstance(stream, io.BufferedReader):
        begin = stream.peek(1)
    line, end, _ = begin.decode("utf-8-sig", "replace").partition("\n")
    is_broken = bool(end) and isinstance(_json_value(line), RecordError)
    return begin[:1] == b"{" and not is_broken


def _first_bytes(stream: IO[bytes]) -> bytes:
    stream.seek(0)
    begin = stream.read(4)
    stream.seek(0)
    return begin


def _decompressed(path: str, stream: IO[bytes]) -> IO[bytes]:
    """Returns the stream from its beginning, decompressed if it is zstd or gzip."""
    begin = _first_bytes(stream)
    if begin == _ZSTD:
        import pyarrow as pa

        return _copied(pa.CompressedInputStream(pa.PythonFile(stream, "r"), "zstd"))
    if not begin.startswith(_GZIP):
        return stream
    if path == STDIN:
        return _copied(cast(IO[bytes], gzip.GzipFile(fileobj=stream)))
    stream.close()
    return cast(IO[bytes], gzip.open(path))


def _container(path: str, stream: IO[bytes], kind: str | None) -> str:
    """Returns the container, ``kind`` if it is stated. Raises DataError for text in UTF-16."""
    begin = _first_bytes(stream)
    has_mark = begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if kind is None and not has_mark:
        kind = _recognised(path, stream)
        stream.seek(0)
    if kind not in _BINARY and (has_mark or b"\x00" in begin):
        raise DataError(path, None, "not UTF-8 text (UTF-16?)", hint="save it as UTF-8")
    return str(kind)


def _copied(stream: IO[bytes]) -> IO[bytes]:
    """Returns a temporary file with the rest of ``stream``, and closes ``stream``."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 (_rows closes it)
    with stream:
        shutil.copyfileobj(stream, file, 1 << 20)
    file.seek(0)
    return cast(IO[bytes], file)


def _first_line(stream: IO[bytes]) -> bytes:
    """Returns the first line that is not blank."""
    line = b"\n"
    while line and not line.strip(b"\xef\xbb\xbf \t\r\n") and stream.tell() < 1 << 20:
        line = stream.readline(1 << 20)
    return line


def _recognised(path: str, stream: IO[bytes]) -> str:
    """Returns the container: by the first bytes, else by the first line that is not blank, else by
    the ending of the name. Raises DataError for any other content."""
    begin = _first_bytes(stream)
    if begin in _MAGIC:
        return _MAGIC[begin]
    line = _first_line(stream)
    suffix = Path(path.lower().removesuffix(".gz").removesuffix(".zst")).suffix
    text = line.decode("utf-8-sig", "replace")
    if not text.strip():
        if suffix in (".csv", ".tsv"):
            return suffix[1:]
        return "jsonl"
    if suffix in _PLAIN_ENDINGS and (SPOKEN.match(text) or RULE.fullmatch(text)):
        return "text"
    delimiter = _delimiter(text)
    has_json = text.strip()[0] in "[{"
    if suffix in (".jsonl", ".ndjson") and (has_json or delimiter is None):
        return "jsonl"
    if has_json:
        # A whole array is a line only if others follow.
        is_line = text.strip()[0] == "{" or stream.readline(1 << 20).strip()
        is_broken = isinstance(_json_value(text), RecordError)
        if is_line and not is_broken:
            return "jsonl"
        return "json"
    return _table_kind(path, line, suffix, delimiter)


def _table_kind(path: str, line: bytes, suffix: str, delimiter: str | None) -> str:
    """Returns the container of a text that is no transcript.

    Its first ``line`` can show that it is a table. Otherwise the ending of the name decides. Raises
    DataError if neither does.
    """
    if b"\x00" in line or (delimiter is None and suffix not in ENDINGS):
        text = line.decode("utf-8-sig", "replace")
        hint = f"--format (in YAML: format) names its kind: {', '.join(CONTAINERS)}; gzip and "
        hint += "zstd are read"
        problem = f"not a known kind of chat file (it begins with {text[:24]!r})"
        raise DataError(path, None, problem, hint=hint)
    if suffix in (".csv", ".tsv") or (suffix == ".json" and delimiter is None):
        return suffix[1:]
    if delimiter == "\t":
        return "tsv"
    return "csv"


def _rows(
    path: str, stream: IO[bytes], kind: str, roles: Mapping[str, str] = {}
) -> Iterator[NumberedRow]:
    number = 0
    try:
        with stream:
            if kind in _BINARY:
                read = _parquet_rows
                if kind == "xlsx":
                    read = _sheet_rows
                yield from read(path, stream)
                return
            # Bytes that are not UTF-8 become surrogates, so that their row can be named.
            with io.TextIOWrapper(
                stream, "utf-8-sig", "surrogateescape", newline=""
            ) as text:
                if kind == "jsonl":
                    for number, line in enumerate(jsonl.limited_lines(text), 1):
                        if line.strip():
                            yield number, _json_value(line)
                    return
                if kind == "text":
                    yield from transcript_rows(text, roles)
                else:
                    yield from (_json_rows if kind == "json" else _table_rows)(text)
    except ConfigError as error:
        raise DataError(path, None, error.message, hint=error.hint) from error
    except _STREAM_ERRORS as error:
        raise damaged(path, number, error) from error


# -- JSON ------------------------------------------------------------------------------------------


def _json_value(text: str) -> object:
    """Returns the JSON value of ``text``, or a RecordError if it is not valid JSON."""
    if len(text) > jsonl.LONGEST_LINE and not text.endswith("\n"):
        return RecordError(
            "(line)", f"at most {jsonl.LONGEST_LINE:,} characters", text[:80]
        )
    try:
        return jsonl.load_json(text)
    except RecordError as error:
        return error
    except RecursionError:
        return RecordError("(line)", "JSON that is not nested too deep", text[:80])


def _json_rows(stream: IO[str]) -> Iterator[NumberedRow]:
    """Yields the elements of arrays, and other values. A file may hold several arrays and values in
    a row.
    """
    text, number, inside = stream.read(_CHUNK).lstrip(), 1, False
    while True:
        text = text.lstrip(" \t\r\n,")
        if text[:1] == ("]" if inside else "["):
            text, inside = text[1:], not inside
            continue
        try:
            end = json.JSONDecoder().raw_decode(text)[1]
        except (ValueError, RecursionError):  # broken, or not complete yet
            end = len(text)
        if end < len(text):
            yield number, _json_value(text[:end])
            text, number = text[end:], number + 1
            continue
        chunk = ""
        if len(text) <= jsonl.LONGEST_LINE:
            chunk = stream.read(max(_CHUNK, len(text)))
        if not chunk:
            break
        text += chunk
    last = None
    if text:
        last = _json_value(text)
    if inside and not isinstance(last, RecordError):
        last = RecordError("(row)", "the array's end, a bracket ]", text[-60:])
    elif isinstance(last, RecordError):
        last = RecordError(
            last.field, f"{last.expected}; nothing after it is read", text[:60]
        )
    if text or inside:
        yield number, last


# -- tables ----------------------------------------------------------------------------------------


def _delimiter(header: str) -> str | None:
    """Returns the most frequent delimiter in the header outside of quotes; None for none."""
    names = _QUOTED.sub("", header)
    delimiter = max(",;\t|", key=names.count)
    if delimiter in names:
        return delimiter
    return None


def _table_rows(stream: IO[str]) -> Iterator[NumberedRow]:
    """Yields each row of a CSV or TSV file with the number of its first line. Cells are texts; an
    empty cell is null.

    Quotes follow RFC 4180. After an unclosed quote each line up to the next quote is a bad row.
    """
    csv.field_size_limit(max(csv.field_size_limit(), jsonl.LONGEST_LINE))
    lines = jsonl.limited_lines(stream)
    first = next(lines, "")
    delimiter = _delimiter(first) or ","
    reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
    header: list[str] = []
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            if not header:
                raise ConfigError(f"a table without a header: {error}") from error
            expected = (
                f"a valid row of CSV (lines {number} to {reader.line_num}: {error})"
            )
            got = "an open quote, or text after a closed one"
            for line_number in range(number, reader.line_num + 1):
                yield line_number, RecordError("(row)", expected, got)
            continue
        if cells is None:
            return
        if not header:
            header = _table_header(cells)
        elif any(cells) and len(cells) != len(header):
            expected = f"{len(header)} cells, as in the header (quote a cell with {delimiter!r})"
            row = dict(zip(header, cells, strict=False))
            yield number, RecordError("(row)", expected, f"{len(cells)} cells", row)
        elif any(cells):
            values = [cell or None for cell in cells]
            try:
                "".join(cells).encode()
                yield number, dict(zip(header, values, strict=True))
            except UnicodeEncodeError as error:
                expected = f"UTF-8 (it is not at character {error.start + 1})"
                yield number, RecordError("(row)", expected, cells)


def _table_header(cells: Sequence[object]) -> list[str]:
    names = _names(cells)
    if "" in names or not names:
        raise ConfigError(f"a table whose header has a column without a name: {names}")
    return _distinct(names)


def _names(cells: Sequence[object]) -> list[str]:
    return ["" if cell is None else str(cell).strip() for cell in cells]


def _distinct(names: list[str]) -> list[str]:
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ConfigError(f"a table with two columns called {min(twice)!r}: rename one")
    return names


def _parquet_rows(path: str, file: IO[bytes]) -> Iterator[NumberedRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        # A buffer a column instead of a whole row group, which can be the whole file.
        with pq.ParquetFile(file, buffer_size=1 << 18, pre_buffer=False) as reader:
            _distinct(reader.schema_arrow.names)
            groups = map(reader.metadata.row_group, range(reader.num_row_groups))
            chunks = [
                g.column(n).total_uncompressed_size
                for g in groups
                for n in range(g.num_columns)
            ]
            size = max(_ALWAYS_READ, _MOST_COLUMN_RATIO * file.seek(0, 2))
            if max(sum(chunks), 10 * reader.metadata.num_rows) > size:
                problem = f"unpacks to more than {size:,} bytes, or has too many rows"
                raise DataError(
                    path,
                    None,
                    problem,
                    hint="save it as .jsonl, which has no such limit",
                )
            # A chat can have megabytes, and a value that stands once in the file be in every row.
            rows = max(1, min(64, _MOST_BATCH // max(chunks, default=1)))
            for batch in reader.iter_batches(batch_size=rows):
                # offsets outside of its buffers would crash the process
                batch.validate(full=True)
                for row in batch.to_pylist():
                    number += 1
                    yield number, _plain_row(row)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise damaged(path, number, error) from error


def _plain_row(row: Mapping[str, object]) -> dict[str, Any]:
    """Converts a row to JSON. Its nulls stay, so that every row has all columns."""
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: object) -> Any:
    """Converts ``value`` to JSON: times to ISO text, NaN and infinity to null, bytes to a note of
    their length. Null fields of a struct are dropped."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float | Decimal):
        if math.isfinite(value):
            return float(value)
        return None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return f"({len(value)} bytes)"
    return str(value)


def _hub_rows(spec: str) -> Iterator[NumberedRow]:
    """Yields the rows of ``hf:ID[:config]:split``, streamed through datasets; ID may be a local
    folder."""
    import datasets

    words = re.split(r":(?![\\/])", spec.removeprefix(HUB))  # C:\\folder is one word
    if len(words) not in (2, 3) or not all(words):
        hint = "hf:ID:SPLIT or hf:ID:CONFIG:SPLIT, such as hf:allenai/WildChat-1M:train"
        raise DataError(
            spec, None, "not of the form of a data set on the Hub", hint=hint
        )
    number = 0
    try:
        config = words[1] if len(words) == 3 else None
        rows = datasets.load_dataset(words[0], config, split=words[-1], streaming=True)
        for number, row in enumerate(rows, 1):
            yield number, _plain_row(row)
    except (
        OSError,
        ValueError,
        RuntimeError,
        datasets.exceptions.DatasetsError,
    ) as error:
        problem = f"not a data set that can be read: {error}"
        # lists configurations and splits
        raise DataError(spec, number or None, problem) from error


# -- workbooks -------------------------------------------------------------------------------------


@contextmanager
def open_workbook(path: str, file: IO[bytes]) -> Iterator[Any]:
    """Yields openpyxl's workbook of ``file``, read-only, with the last results of formulas.

    Raises DataError, also while rows are read, if the file is no workbook, is broken, or is too
    large when unpacked, and MissingExtraError without openpyxl.
    """
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise MissingExtraError("openpyxl", "annotate", "reading .xlsx") from error
    try:
        packed = zipfile.ZipFile(file)
        parts = packed.infolist()
        size = file.seek(0, 2)
        file.seek(0)
        if not any(part.filename.lower().startswith("xl/") for part in parts):
            hint = "unpack it, and give one of its files"
            raise DataError(
                path, None, "is a zip file, but no .xlsx workbook", hint=hint
            )
        limit = min(_MOST_UNPACKED, max(_ALWAYS_READ, _MOST_RATIO * size))
        if sum(part.file_size for part in parts) > limit:
            raise DataError(
                path, None, f"unpacks to more than {limit:,} bytes", hint=_AS_CSV
            )
        for part in parts:
            with packed.open(part) as stream:
                tail = b""
                while chunk := stream.read(1 << 20):
                    formula = _UNCOUNTED.search(tail + chunk)
                    if formula:
                        cell = (formula[1] or b"?").decode()
                        problem = f"cell {cell} is a formula without a result"
                        hint = "open it in a spreadsheet program and save it again"
                        raise DataError(path, None, problem, hint=hint)
                    tail = chunk[-(1 << 15) :]  # a formula has at most 8,192 characters
        file.seek(0)
        book = load_workbook(file, read_only=True, data_only=True, keep_links=False)
        yield book
        book.close()
    except MedalError:
        raise
    except Exception as error:  # openpyxl raises anything for a broken workbook
        problem = f"is no workbook, or a broken one: {type(error).__name__}: {error}"
        raise DataError(
            path, None, problem, hint="save it again as .xlsx or .csv"
        ) from error


def rows_of(path: str, sheet: Any) -> Iterator[tuple[int, list[Any]]]:
    """Yields (number from 1, cells) of each row of ``sheet`` that is not empty."""
    sheet.reset_dimensions()  # the size that a file states can be wrong
    blank: object = None  # one object for all rows that the file does not have
    for number, cells in enumerate(
        sheet.iter_rows(max_col=_MOST_COLUMNS, values_only=True), 1
    ):
        # a row can state any number, and openpyxl makes those before it
        if number > _MOST_ROWS:
            raise DataError(
                path, None, f"has a row beyond {_MOST_ROWS:,}", hint=_AS_CSV
            )
        if cells is blank:
            continue
        if any(cell not in (None, "") for cell in cells):
            yield number, list(cells)
        else:
            blank = cells


def _sheet_value(cell: object) -> Any:
    """Returns the JSON value of a cell. A workbook stores a date as a moment at midnight."""
    if isinstance(cell, datetime) and cell.time() == time():
        cell = cell.date()
    if cell == "":
        return None
    return _plain(cell)


def _sheet_rows(path: str, file: IO[bytes]) -> Iterator[NumberedRow]:
    """Yields the rows of all sheets that have the header of the first sheet with rows.

    Row numbers are those of a spreadsheet program. A sheet with another header is a bad row.
    """
    header: list[str] = []
    with open_workbook(path, file) as book:
        for sheet in book.worksheets:
            rows = rows_of(path, sheet)
            for number, cells in islice(rows, 1):
                while cells[-1] in (None, ""):
                    cells.pop()
                if not header:
                    header = _table_header(cells)
                elif _names(cells) != header:
                    expected = (
                        f"the header of the first sheet, {', '.join(header)[:60]}"
                    )
                    yield number, RecordError(f"sheet {sheet.title}", expected, cells)
                    rows = iter(())
            for number, cells in rows:
                if any(cell not in (None, "") for cell in cells[len(header) :]):
                    expected = f"{len(header)} cells, as in the header"
                    yield number, RecordError("(row)", expected, "more than those")
                else:
                    values = map(_sheet_value, cells)
                    yield number, dict(zip(header, values, strict=False))
    if not header:
        raise ConfigError("a table without a header: it is empty")
