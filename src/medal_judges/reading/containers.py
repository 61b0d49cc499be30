"""Opens a file, recognises its container by its content, and reads its rows.

JSON lines, CSV, Parquet and data sets of the Hub are streams. JSON, plain text and workbooks are
read whole, at most LARGEST bytes. A bad row becomes a RecordError with the reason, and reading goes
on with the next row.
"""

from __future__ import annotations

import csv
import io
import math
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain, zip_longest
from pathlib import Path
from typing import IO, Any

from medal_judges.errors import (
    ConfigError,
    DataError,
    MedalError,
    MissingExtraError,
    RecordError,
)
from medal_judges.reading.transcripts import may_begin_transcript
from medal_judges.storage import jsonl
from medal_judges.storage.jsonl import STDIN, damage_error, open_standard_input

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
_GZIP = b"\x1f\x8b"
_PLAIN_ENDINGS = ("", ".txt", ".text", ".md", ".log")  # a transcript can have these
_BEGIN = 1 << 16  # bytes by which a file is recognised
_MOST_TEXT = 64_000_000  # characters of a transcript
# Sheets shrink to a tenth or so, a bomb to a thousandth; equal values are once in Parquet.
_PARQUET_RATIO = 1000
_MOST_BATCH = 1 << 30  # bytes
_MOST_ROWS = 1 << 20  # of a sheet
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_SEP = re.compile(r'"?sep=(.)"?\s*')  # Excel's first line of a CSV file
_ERRORS = (EOFError, zlib.error, OSError)  # gzip's and pyarrow's are OSErrors


def open_rows(path: str, kind: str | None = None) -> tuple[str, Iterator[NumberedRow]]:
    """Opens a file of chats, and detects what kind of file it is.

    Args:
        path: A file, ``-`` for standard input, or ``hf:...`` for a data set on the Hub.
        kind: ``jsonl``, ``json``, ``csv``, ``tsv``, ``text``, ``xlsx`` or ``parquet``. None:
            detected from the content.

    Returns:
        The kind of file, and an iterator over (number, value) pairs, one for each row. The number
        is that of the line or row, from 1. The value is the content of the row, or a RecordError if
        the row is bad. A file of kind ``text`` is one row.

    Raises:
        DataError: The file is missing, damaged or of an unknown kind. Damage may be found only
            while the rows are read.
        MissingExtraError: The file is a workbook, and openpyxl is not installed. Raised while the
            rows are read.
    """
    if path.startswith(HUB):
        return "hf", _hub_rows(path)
    try:
        stream = _open_decompressed(path)
        begin = stream.peek(_BEGIN)[:_BEGIN]
    except FileNotFoundError as error:
        raise DataError(path, None, "no such file. Check the path") from error
    except _ERRORS as error:
        reason = getattr(error, "strerror", None)
        if reason is None:
            raise damage_error(path, 0, error) from error
        raise DataError(
            path, None, f"check the file, it cannot be opened: {reason}"
        ) from error
    kind = kind or _MAGIC.get(begin[:4]) or _detect_container(path, begin)
    if kind not in _MAGIC.values() and b"\x00" in begin[:1024]:
        raise DataError(
            path, None, "not UTF-8 text: binary, or UTF-16", hint="Save it as UTF-8"
        )
    return kind, _read_container(path, stream, kind)


def _open_decompressed(path: str) -> Any:
    """Opens ``path`` (``-`` for standard input) as a binary stream, and decompresses it if it
    is gzip."""
    raw: Any = open_standard_input() if path == STDIN else open(path, "rb")  # noqa: SIM115
    stream: Any = io.BufferedReader(raw, _BEGIN)
    if stream.peek(2).startswith(_GZIP):
        if not stream.seekable():
            stream = io.BytesIO(_read_whole(stream))
        stream = jsonl.Gzip(fileobj=stream)
    return stream


def _detect_container(path: str, begin: bytes) -> str:
    """Returns the kind of a text file, such as ``csv``, by its first line and the ending of
    its name.

    Args:
        path: The file.
        begin: The first bytes of the file.

    Raises:
        DataError: The kind is unknown.
    """
    suffix = Path(path.lower().removesuffix(".gz")).suffix
    line, _, further = begin.decode("utf-8-sig", "replace").lstrip().partition("\n")
    delimiter = _find_delimiter(line)
    if suffix in _PLAIN_ENDINGS and may_begin_transcript(line):
        return "text"
    is_object = line.startswith("{") and (line.rstrip().endswith("}") or not further)
    if is_object or suffix in (".jsonl", ".ndjson") or (not line and suffix != ".json"):
        return "jsonl"
    if line.startswith(("[", "{")) or suffix == ".json":
        return "json"
    if delimiter is not None or suffix in (".csv", ".tsv"):
        return "tsv" if delimiter == "\t" else "csv"
    problem = f"not a known kind of chat file (its text begins with {line[:24]!r})"
    hint = f"Type --format KIND (in YAML: format: KIND) with one of: {', '.join(CONTAINERS)}"
    raise DataError(path, None, problem, hint=hint)


def _read_container(path: str, stream: Any, kind: str) -> Iterator[NumberedRow]:
    """Yields (row number, value) for each row of ``stream``, a file of ``kind`` such as ``csv``.
    Raises DataError if the file is damaged."""
    number = 0
    try:
        with stream:
            for number, row in _READERS[kind](path, stream):
                yield number, row
    except ConfigError as error:
        raise DataError(path, None, error.message, hint=error.hint) from error
    except _ERRORS as error:
        raise damage_error(path, number, error) from error


def _text_stream(stream: Any) -> IO[str]:
    """Returns ``stream`` as a stream of text, decoded as UTF-8."""
    # Bytes that are not UTF-8 become surrogates, so that their row can be named.
    return io.TextIOWrapper(stream, "utf-8-sig", "surrogateescape", newline="")


def _read_whole(stream: IO[Any], limit: int = LARGEST) -> Any:
    """Returns the remaining content of ``stream``. Raises ConfigError if it is longer than
    ``limit``: characters for a text stream, bytes for a binary stream."""
    content = stream.read(limit + 1)
    if len(content) > limit:
        problem = f"larger than {limit:,}, the most that is read whole"
        hint = "Save it as .jsonl, which has no such limit, or as several files"
        raise ConfigError(problem, hint=hint)
    return content


# -- JSON ------------------------------------------------------------------------------------------


def _json_lines(path: str, stream: Any) -> Iterator[NumberedRow]:
    for number, line in enumerate(jsonl.cut_long_lines(_text_stream(stream)), 1):
        if line.isspace():
            continue
        if len(line) > jsonl.LONGEST_LINE:
            expected = f"at most {jsonl.LONGEST_LINE:,} characters"
            yield number, RecordError("(line)", expected, line[:80])
            continue
        try:
            value = jsonl.parse_json(line, nan_is_null=True)
        except RecordError as error:
            value = error
        except RecursionError:
            value = RecordError("(line)", "JSON not nested too deep", line[:80])
        yield number, value


def _json_elements(path: str, stream: Any) -> Iterator[NumberedRow]:
    """Yields (number, element) for each element of a JSON array. A file with any other JSON value
    yields the value as its only row."""
    try:
        value = jsonl.parse_json(_read_whole(_text_stream(stream)), nan_is_null=True)
    except (RecordError, RecursionError) as error:
        problem = getattr(error, "message", "JSON that is nested too deep")
        raise ConfigError(
            problem,
            hint="Give a file of one JSON value, or save one value a line as .jsonl",
        ) from error
    if not isinstance(value, list):
        value = [value]
    yield from enumerate(value, 1)


# -- tables ----------------------------------------------------------------------------------------


def _find_delimiter(header: str) -> str | None:
    """Returns the delimiter of a table with the first line ``header``, None if there is none.

    It is the most frequent of comma, semicolon, tab and ``|``, unless a line such as ``sep=;``
    (from Excel) names it.
    """
    sep_line = _SEP.fullmatch(header)
    if sep_line:
        return sep_line[1]
    names = _QUOTED.sub("", header)
    delimiter = max(",;\t|", key=names.count)
    if delimiter in names:
        return delimiter
    return None


def _csv_rows(path: str, stream: Any) -> Iterator[NumberedRow]:
    """Yields (line number, row) for each row of a CSV or TSV file. The row maps a column to its
    text, or to None for an empty cell.

    Rows with an unclosed quote or another error are RecordErrors.
    """
    csv.field_size_limit(max(csv.field_size_limit(), jsonl.LONGEST_LINE))
    lines = jsonl.cut_long_lines(_text_stream(stream))
    first = next(lines, "")
    delimiter = _find_delimiter(first) or ","
    skipped_lines = 0
    if _SEP.fullmatch(first):
        first, skipped_lines = next(lines, ""), 1
    reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
    try:
        header = _read_column_names(next(reader, []))
    except csv.Error as error:
        raise ConfigError(
            f"the first row cannot be read as column names. Correct it: {error}"
        ) from error
    while True:
        number = reader.line_num + 1 + skipped_lines
        try:
            cells = next(reader, None)
        except csv.Error as error:
            last = reader.line_num + skipped_lines
            expected = f"valid rows of CSV in lines {number} to {last} ({error})"
            got = "an open quote, or text after a closed one"
            yield number, RecordError("(row)", expected, got)
            continue
        if cells is None:
            return
        if any(cells):
            yield number, _csv_row_or_error(header, cells, delimiter)


def _csv_row_or_error(
    header: Sequence[str], cells: Sequence[str], delimiter: str
) -> object:
    """Returns column -> cell, or a RecordError if the number of ``cells`` differs from ``header``
    or a cell is not UTF-8.

    Args:
        header: Names of the columns.
        cells: Texts of one row.
        delimiter: Delimiter of the file, which an error names.
    """
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


def _read_column_names(cells: Sequence[object]) -> list[str]:
    """Returns the column names in ``cells``. Raises ConfigError if a name is blank or repeated."""
    names = [str(cell or "").strip() for cell in cells]
    name, times = Counter(["", *names]).most_common(1)[0]
    if times > 1:
        raise ConfigError(
            f"a header with {name!r:.80} twice or blank. Rename a column: {cells!s:.400}"
        )
    return names


def _parquet_rows(path: str, stream: Any) -> Iterator[NumberedRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file: IO[bytes] = stream
    if not stream.seekable():
        file = io.BytesIO(_read_whole(stream))
    number = 0
    try:
        # A buffer a column instead of a whole row group, which can be the whole file.
        with pq.ParquetFile(file, buffer_size=1 << 18, pre_buffer=False) as reader:
            _read_column_names(reader.schema_arrow.names)
            groups = range(reader.num_row_groups)
            sizes = [reader.metadata.row_group(i).total_byte_size for i in groups]
            limit = max(jsonl.ALWAYS_READ, _PARQUET_RATIO * file.seek(0, 2))
            if max(sum(sizes), 10 * reader.metadata.num_rows) > limit:
                problem = f"unpacks to more than {limit:,} bytes, or has too many rows"
                hint = "Save it as .jsonl, which has no such limit"
                raise DataError(path, None, problem, hint=hint)
            # A value that stands once in the file can be in every row.
            size = max(1, min(64, _MOST_BATCH // max(1, *sizes, 1)))
            for batch in reader.iter_batches(batch_size=size):
                # offsets outside of its buffers would crash the process
                batch.validate(full=True)
                for row in batch.to_pylist():
                    number += 1
                    yield number, _json_row(row)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise damage_error(path, number, error) from error


def _json_row(row: Mapping[str, object]) -> dict[str, Any]:
    """Converts the values of ``row`` to JSON values. Null values stay, so that every row has
    all columns."""
    return {name: _json_value(value) for name, value in row.items()}


def _json_value(value: object) -> Any:
    """Converts ``value`` to a JSON value: times to ISO strings, NaN and infinity to None, bytes to
    ``(12 bytes)``. Null fields of a mapping are left out."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, dict):
        return {k: _json_value(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_json_value(v) for v in value]
    if isinstance(value, float | Decimal):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, datetime) and value.time() == time() and not value.tzinfo:
        value = value.date()  # a workbook stores a date as a moment at midnight
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return f"({len(value)} bytes)"
    return str(value)


def _hub_rows(spec: str) -> Iterator[NumberedRow]:
    """Streams the numbered rows of a data set on the Hub.

    Args:
        spec: ``hf:ID:SPLIT`` or ``hf:ID:CONFIG:SPLIT``. ID may be a local folder.

    Raises:
        DataError: The data set is not found or cannot be read.
    """
    import datasets

    words = re.split(r":(?![\\/])", spec.removeprefix(HUB))  # C:\\folder is one word
    if len(words) not in (2, 3) or not all(words):
        hint = "Type hf:ID:SPLIT or hf:ID:CONFIG:SPLIT, such as hf:allenai/WildChat-1M:train"
        problem = "not the name of a data set on the Hub"
        raise DataError(spec, None, problem, hint=hint)
    number = 0
    try:
        rows = datasets.load_dataset(*words[:-1], split=words[-1], streaming=True)
        for number, row in enumerate(rows, 1):
            yield number, _json_row(row)
    except (
        OSError,
        ValueError,
        RuntimeError,
        datasets.exceptions.DatasetsError,
    ) as error:
        problem = f"the data set cannot be read. Correct its name, or split: {error}"
        # lists configurations and splits
        raise DataError(spec, number or None, problem) from error


# -- workbooks -------------------------------------------------------------------------------------


def read_workbook_rows(
    path: str, file: IO[bytes]
) -> Iterator[tuple[str, int, list[Any]]]:
    """Yields the rows of all sheets of an Excel workbook, in order. Empty rows are left out.

    Args:
        path: Name of the workbook in errors.
        file: The open workbook.

    Yields:
        (title of the sheet, row number from 1, list of cell values)

    Raises:
        DataError: The file is not a workbook or is damaged, has a cell with a formula, or unpacks
            to far more than its size.
        ConfigError: The file is larger than 1 GB.
        MissingExtraError: openpyxl is not installed.
    """
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise MissingExtraError("openpyxl", "annotate", "reading .xlsx") from error
    try:
        content = io.BytesIO(_read_whole(file))
        parts = zipfile.ZipFile(content).infolist()
        limit = max(jsonl.ALWAYS_READ, jsonl.RATIO * len(content.getbuffer()))
        if sum(part.file_size for part in parts) > min(LARGEST, limit):
            problem = (
                f"unpacks to {jsonl.RATIO} times its size, or above {LARGEST:,} bytes"
            )
            raise DataError(path, None, problem, hint="Save it as .csv")
        workbook = load_workbook(content, read_only=True, keep_links=False)
        for sheet in workbook.worksheets:
            sheet.reset_dimensions()  # the size that a file states can be wrong
            for number, cells in enumerate(sheet.iter_rows(), 1):
                if number > _MOST_ROWS:
                    problem = f"has a row beyond {_MOST_ROWS:,}. Save it as .csv"
                    raise DataError(path, number, problem)
                if any(cell.data_type == "f" for cell in cells):
                    problem = "a cell holds a formula, whose result is not read"
                    raise DataError(path, number, problem, hint="Save it as .csv")
                values = [cell.value for cell in cells]
                if any(map(_is_filled, values)):
                    yield sheet.title, number, values
    except MedalError:
        raise
    except Exception as error:  # openpyxl raises anything for a broken workbook
        problem = f"is not a workbook, or a broken one: {type(error).__name__}: {error}"
        hint = "Save it again as .xlsx or .csv"
        raise DataError(path, None, problem, hint=hint) from error


def _is_filled(cell: object) -> bool:
    return cell not in (None, "")


def _first_sheet_rows(path: str, stream: Any) -> Iterator[NumberedRow]:
    """Yields (row number, mapping from column to cell) for the first sheet of a workbook that
    has rows.

    For each further sheet with rows, it yields one RecordError, because only one sheet is read.
    """
    header: list[str] = []
    titles: list[str] = []  # of the sheets with rows
    for title, number, cells in read_workbook_rows(path, stream):
        while not _is_filled(cells[-1]):
            cells.pop()
        if not titles:
            titles.append(title)
            header = _read_column_names(cells)
        elif title != titles[0]:
            if title not in titles:
                titles.append(title)
                expected = f"one sheet with rows ({titles[0]}): save this one as .csv"
                yield number, RecordError(f"sheet {title}", expected, cells)
        elif len(cells) > len(header):
            expected = f"{len(header)} cells, as in the header"
            yield number, RecordError("(row)", expected, "more than those")
        else:
            filled = [_json_value(cell) if _is_filled(cell) else None for cell in cells]
            yield number, dict(zip_longest(header, filled))


_READERS: Mapping[str, Callable[[str, Any], Iterator[NumberedRow]]] = {
    "jsonl": _json_lines,
    "json": _json_elements,
    "csv": _csv_rows,
    "tsv": _csv_rows,
    "text": lambda path, stream: iter(
        [(1, _read_whole(_text_stream(stream), _MOST_TEXT))]
    ),
    "xlsx": _first_sheet_rows,
    "parquet": _parquet_rows,
}
