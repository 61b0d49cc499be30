"""Opens a file, recognises its container by its content, and reads its rows.

JSON lines, CSV, Parquet and data sets of the Hub are streams. JSON, plain text and workbooks are
read whole, at most LARGEST bytes. A bad row becomes a RecordError with the reason, and reading goes
on with the next row.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import math
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain, zip_longest
from pathlib import Path
from typing import IO, Any, cast

from medal_judges.errors import (
    ConfigError,
    DataError,
    MedalError,
    MissingExtraError,
    RecordError,
)
from medal_judges.reading.transcripts import begins_transcript, chats_of_transcript
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
HUB = "hf:"
LARGEST = 1_000_000_000  # bytes of a file that is read whole
_MAGIC = {b"PAR1": "parquet", b"PK\x03\x04": "xlsx"}
_ZSTD, _GZIP = b"\x28\xb5\x2f\xfd", b"\x1f\x8b"
_PLAIN_ENDINGS = ("", ".txt", ".text", ".md", ".log")  # a transcript can have these
_BEGIN = 1 << 16  # bytes by which a file is recognised
_MOST_BLANK = 1_000_000  # blank lines in a row
_MOST_TEXT = 64_000_000  # characters of a transcript
# Sheets shrink to a tenth or so, a bomb to a thousandth; equal values are once in Parquet.
_ALWAYS_READ, _SHEET_RATIO, _PARQUET_RATIO = 1 << 22, 100, 1000
_MOST_BATCH = 1 << 30  # bytes
_MOST_ROWS, _MOST_COLUMNS = 1 << 20, 1000  # of a sheet
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_SEP = re.compile(r'"?sep=(.)"?\s*')  # Excel's first line of a CSV file
_ERRORS = (EOFError, zlib.error, OSError)  # gzip's and pyarrow's are OSErrors


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
    try:
        stream = _open(path)
        begin = stream.peek(_BEGIN)[:_BEGIN]
    except FileNotFoundError as error:
        raise DataError(path, None, "no such file") from error
    except _ERRORS as error:
        reason = getattr(error, "strerror", None)
        if reason:
            raise DataError(path, None, f"cannot be opened: {reason}") from error
        raise damaged(path, 0, error) from error
    has_mark = begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if kind is None and not has_mark:
        kind = _MAGIC.get(begin[:4]) or _recognise(path, begin)
    if kind not in _MAGIC.values() and (has_mark or b"\x00" in begin[:4]):
        raise DataError(path, None, "not UTF-8 text (UTF-16?)", hint="save it as UTF-8")
    return str(kind), _rows(path, stream, str(kind), roles)


def _open(path: str) -> Any:
    """Opens a file or standard input, decompressed if it is gzip or zstd."""
    if path == STDIN:
        raw = standard_input()
    else:
        raw = open(path, "rb")  # noqa: SIM115
    stream = io.BufferedReader(cast(Any, raw), _BEGIN)
    begin = stream.peek(4)
    if begin.startswith(_GZIP):
        return gzip.GzipFile(fileobj=stream)
    if begin.startswith(_ZSTD):
        import pyarrow as pa

        file = pa.PythonFile(stream, "r")
        return io.BufferedReader(pa.CompressedInputStream(file, "zstd"), _BEGIN)
    return stream


def _recognise(path: str, begin: bytes) -> str:
    """Returns the container of a text by its first line that is not blank, and by the ending of the
    name. Raises DataError for any other content."""
    suffix = Path(path.lower().removesuffix(".gz").removesuffix(".zst")).suffix
    text = begin.decode("utf-8-sig", "replace").lstrip()
    line, _, further = text.partition("\n")
    if not line:
        return {".csv": "csv", ".tsv": "tsv"}.get(suffix, "jsonl")
    if suffix in _PLAIN_ENDINGS and begins_transcript(line):
        return "text"
    delimiter = _delimiter(line)
    is_json = line[0] in "[{"
    if suffix in (".jsonl", ".ndjson") and (is_json or delimiter is None):
        return "jsonl"
    if is_json:
        return _json_kind(line, is_last=not further.strip())
    is_known = delimiter is not None or suffix in ENDINGS
    if b"\x00" in begin[:1024] or not is_known:
        hint = f"--format (in YAML: format) names its kind: {', '.join(CONTAINERS)}; gzip and "
        hint += "zstd are read"
        problem = f"not a known kind of chat file (it begins with {line[:24]!r})"
        raise DataError(path, None, problem, hint=hint)
    if suffix in (".csv", ".tsv", ".json"):
        return suffix[1:]
    if delimiter == "\t":
        return "tsv"
    return "csv"


def _json_kind(line: str, is_last: bool) -> str:
    """Returns ``jsonl`` or ``json``: an object over several lines, or one array, is no line."""
    if not is_last and isinstance(_json_value(line), RecordError):
        return "json"
    if line[0] == "{" or not is_last:
        return "jsonl"
    return "json"


def _rows(
    path: str, stream: Any, kind: str, roles: Mapping[str, str]
) -> Iterator[NumberedRow]:
    number = 0
    readers: Mapping[str, Callable[[IO[str]], Iterator[NumberedRow]]] = {
        "jsonl": _json_lines,
        "json": _json_elements,
        "text": lambda text: chats_of_transcript(_whole(text, _MOST_TEXT), roles),
    }
    try:
        with stream:
            if kind == "parquet":
                rows = _parquet_rows(path, stream)
            elif kind == "xlsx":
                rows = _sheet_rows(path, stream)
            else:
                # Bytes that are not UTF-8 become surrogates, so that their row can be named.
                text = io.TextIOWrapper(
                    stream, "utf-8-sig", "surrogateescape", newline=""
                )
                rows = readers.get(kind, _table_rows)(text)
            for number, row in rows:
                yield number, row
    except ConfigError as error:
        raise DataError(path, None, error.message, hint=error.hint) from error
    except _ERRORS as error:
        raise damaged(path, number, error) from error


def _whole(stream: IO[Any], limit: int = LARGEST) -> Any:
    """Returns the rest of a stream. Raises ConfigError if it is longer than ``limit``."""
    content = stream.read(limit + 1)
    if len(content) > limit:
        problem = f"larger than {limit:,}, the most that is read whole"
        raise ConfigError(
            problem, hint="save it as .jsonl, which has no such limit, or in parts"
        )
    return content


# -- JSON ------------------------------------------------------------------------------------------


def _json_lines(stream: IO[str]) -> Iterator[NumberedRow]:
    blank_lines = 0
    for number, line in enumerate(jsonl.limited_lines(stream), 1):
        if line.isspace():
            blank_lines += 1
            if blank_lines > _MOST_BLANK:
                raise ConfigError(f"more than {_MOST_BLANK:,} blank lines in a row")
            continue
        blank_lines = 0
        yield number, _json_value(line)


def _json_value(text: str) -> object:
    """Returns the JSON value of ``text``, or a RecordError if it is not valid JSON."""
    if len(text) > jsonl.LONGEST_LINE and not text.endswith("\n"):
        expected = f"at most {jsonl.LONGEST_LINE:,} characters"
        return RecordError("(line)", expected, text[:80])
    try:
        return jsonl.load_json(text, nan_is_null=True)
    except RecordError as error:
        return error
    except RecursionError:
        return RecordError("(line)", "JSON that is not nested too deep", text[:80])


def _json_elements(stream: IO[str]) -> Iterator[NumberedRow]:
    """Yields the elements of an array, or the only value."""
    try:
        value = jsonl.load_json(_whole(stream), nan_is_null=True)
    except RecordError as error:
        raise ConfigError(error.message, hint="one JSON value, or .jsonl") from error
    except RecursionError as error:
        raise ConfigError("JSON that is nested too deep") from error
    if not isinstance(value, list):
        value = [value]
    yield from enumerate(value, 1)


# -- tables ----------------------------------------------------------------------------------------


def _delimiter(header: str) -> str | None:
    """Returns the delimiter that Excel's line ``sep=;`` states, or the most frequent one outside of
    quotes; None for none."""
    sep_line = _SEP.fullmatch(header)
    if sep_line:
        return sep_line[1]
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
    skipped_lines = 0
    if _SEP.fullmatch(first):
        first, skipped_lines = next(lines, ""), 1
    reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
    header: list[str] = []
    while True:
        number = reader.line_num + 1 + skipped_lines
        try:
            cells = next(reader, None)
        except csv.Error as error:
            if not header:
                raise ConfigError(f"a table without a header: {error}") from error
            end = reader.line_num + skipped_lines
            expected = f"a valid row of CSV (lines {number} to {end}: {error})"
            got = "an open quote, or text after a closed one"
            for line_number in range(number, end + 1):
                yield line_number, RecordError("(row)", expected, got)
            continue
        if cells is None:
            return
        if not header:
            header = _header(cells)
        elif any(cells):
            yield number, _table_row(header, cells, delimiter)


def _table_row(header: Sequence[str], cells: Sequence[str], delimiter: str) -> object:
    row = dict(zip(header, [cell or None for cell in cells], strict=False))
    if len(cells) != len(header):
        expected = (
            f"{len(header)} cells, as in the header (quote a cell with {delimiter!r})"
        )
        return RecordError("(row)", expected, f"{len(cells)} cells", row)
    try:
        "".join(cells).encode()
    except UnicodeEncodeError as error:
        expected = f"UTF-8 (it is not at character {error.start + 1})"
        return RecordError("(row)", expected, cells, row)
    return row


def _header(cells: Sequence[object]) -> list[str]:
    names = ["" if cell is None else str(cell).strip() for cell in cells]
    if "" in names or not names:
        raise ConfigError(f"a table whose header has a column without a name: {names}")
    _require_distinct(names)
    return names


def _require_distinct(names: Sequence[str]) -> None:
    for name in sorted(names):
        if names.count(name) > 1:
            raise ConfigError(f"a table with two columns called {name!r}: rename one")


def _parquet_rows(path: str, stream: Any) -> Iterator[NumberedRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file: IO[bytes] = stream
    if not stream.seekable():
        file = io.BytesIO(_whole(stream))
    number = 0
    try:
        # A buffer a column instead of a whole row group, which can be the whole file.
        with pq.ParquetFile(file, buffer_size=1 << 18, pre_buffer=False) as reader:
            _require_distinct(reader.schema_arrow.names)
            chunks = [0]
            for index in range(reader.num_row_groups):
                group = reader.metadata.row_group(index)
                for column in range(group.num_columns):
                    chunks.append(group.column(column).total_uncompressed_size)
            size = max(_ALWAYS_READ, _PARQUET_RATIO * file.seek(0, 2))
            if max(sum(chunks), 10 * reader.metadata.num_rows) > size:
                problem = f"unpacks to more than {size:,} bytes, or has too many rows"
                hint = "save it as .jsonl, which has no such limit"
                raise DataError(path, None, problem, hint=hint)
            # A value that stands once in the file can be in every row.
            size = max(1, min(64, _MOST_BATCH // max(1, *chunks)))
            for batch in reader.iter_batches(batch_size=size):
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
    if isinstance(value, datetime) and value.time() == time() and not value.tzinfo:
        value = value.date()  # a workbook stores a date as a moment at midnight
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
        problem = "not of the form of a data set on the Hub"
        raise DataError(spec, None, problem, hint=hint)
    number = 0
    try:
        rows = datasets.load_dataset(*words[:-1], split=words[-1], streaming=True)
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


def read_sheets(path: str, file: IO[bytes]) -> Iterator[tuple[str, int, list[Any]]]:
    """Yields (name of the sheet, number from 1, cells) of each row of a workbook that is not empty.
    Cells of formulas have their last results.

    Raises DataError if the file is no workbook, is broken, has a formula without a result, or is
    too large when unpacked. Raises MissingExtraError without openpyxl.
    """
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise MissingExtraError("openpyxl", "annotate", "reading .xlsx") from error
    try:
        content = io.BytesIO(_whole(file))
        parts = zipfile.ZipFile(content).infolist()
        limit = max(_ALWAYS_READ, _SHEET_RATIO * len(content.getbuffer()))
        if sum(part.file_size for part in parts) > min(LARGEST, limit):
            problem = f"unpacks to more than {min(LARGEST, limit):,} bytes"
            raise DataError(path, None, problem, hint="save it as .csv")
        options: dict[str, Any] = {"read_only": True, "keep_links": False}
        results = load_workbook(content, data_only=True, **options)
        formulas = load_workbook(content, data_only=False, **options)
        for sheet in results.worksheets:
            rows = zip_longest(_cells_of(sheet), _cells_of(formulas[sheet.title]))
            blank: object = None  # one object for all rows that the file does not have
            for number, (cells, contents) in enumerate(rows, 1):
                if number > _MOST_ROWS:
                    problem = f"has a row beyond {_MOST_ROWS:,}"
                    raise DataError(path, None, problem, hint="save it as .csv")
                if contents is blank:
                    continue
                if not any(map(_is_filled, contents)):
                    blank = contents
                    continue
                _require_results(path, number, cells, contents)
                yield sheet.title, number, list(cells)
    except MedalError:
        raise
    except Exception as error:  # openpyxl raises anything for a broken workbook
        problem = f"is not a workbook, or a broken one: {type(error).__name__}: {error}"
        hint = "save it again as .xlsx or .csv"
        raise DataError(path, None, problem, hint=hint) from error


def _cells_of(sheet: Any) -> Any:
    sheet.reset_dimensions()  # the size that a file states can be wrong
    return sheet.iter_rows(max_col=_MOST_COLUMNS, values_only=True)


def _require_results(path: str, number: int, cells: Any, contents: Any) -> None:
    for cell, content in zip(cells, contents, strict=True):
        if cell is None and content is not None:
            problem = f"a formula without a result: {content}"
            hint = "open it in a spreadsheet program and save it again"
            raise DataError(path, number, problem, hint=hint)


def _is_filled(cell: object) -> bool:
    return cell not in (None, "")


def _sheet_rows(path: str, file: IO[bytes]) -> Iterator[NumberedRow]:
    """Yields the rows of all sheets that have the header of the first sheet with rows.

    Row numbers are those of a spreadsheet program. A sheet with another header is a bad row.
    """
    header: list[str] = []
    fits = {}  # whether a sheet has the header
    for title, number, cells in read_sheets(path, file):
        while not _is_filled(cells[-1]):
            cells.pop()
        if title not in fits:
            names = [str(cell).strip() for cell in cells]
            header = header or _header(cells)
            fits[title] = names == header
            if names != header:
                expected = f"the header of the first sheet, {', '.join(header)[:60]}"
                yield number, RecordError(f"sheet {title}", expected, cells)
        elif fits[title] and len(cells) > len(header):
            expected = f"{len(header)} cells, as in the header"
            yield number, RecordError("(row)", expected, "more than those")
        elif fits[title]:
            row = dict.fromkeys(header)
            for name, cell in zip(header, cells, strict=False):
                if _is_filled(cell):
                    row[name] = _plain(cell)
            yield number, row
    if not header:
        raise ConfigError("a table without a header: it is empty")
