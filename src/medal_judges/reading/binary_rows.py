"""Rows of parquet, Arrow, Feather and XLSX files, and of data sets on the Hugging Face Hub."""

from __future__ import annotations

import math
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import IO, Any
from xml.parsers import expat

from medal_judges.errors import ConfigError, DataError, MissingExtraError, RecordError
from medal_judges.reading.text_rows import NumberedRow, table_header

PARQUET, ARROW_FILE, ZIP = b"PAR1", b"ARROW1", b"PK\x03\x04"
ARROW_STREAM = b"\xff\xff\xff\xff"
HUB = "hf:"
_BATCH = 64  # rows; a chat can have megabytes
# A workbook is XML in a zip. Sheets shrink to a tenth or so; a bomb shrinks to a thousandth.
_MOST_RATIO, _ALWAYS_READ, _MOST_UNPACKED = 100, 1 << 22, 1 << 31
_MOST_ROWS, _MOST_COLUMNS = 1 << 20, 1000
# Errors of openpyxl for a broken part: KeyError of a missing part, SyntaxError of XML, and whatever
# its descriptors make of an unexpected value.
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError),
    *(ValueError, TypeError, LookupError, AttributeError, SyntaxError, OverflowError),
    expat.ExpatError,
)
_AS_CSV = "save it as .csv, which has no such limit"


def arrow_rows(path: str, file: IO[bytes], kind: str) -> Iterator[NumberedRow]:
    """Yields the rows of a parquet file, an Arrow (Feather) file or an Arrow stream, numbered from
    1: ``kind`` is ``parquet``, ``arrow`` or ``stream``. Raises DataError for a damaged file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        if kind == "parquet":
            # A buffer a column instead of a whole row group, which can be the whole file.
            reader = pq.ParquetFile(file, buffer_size=1 << 18, pre_buffer=False)
            batches = reader.iter_batches(batch_size=_BATCH)
        elif kind == "stream":
            reader = batches = pa.ipc.open_stream(file)
        else:
            reader = pa.ipc.open_file(file)
            batches = map(reader.get_batch, range(reader.num_record_batches))
        with reader:
            for batch in batches:
                for start in range(0, batch.num_rows, _BATCH):
                    for row in _batch_rows(batch.slice(start, _BATCH)):
                        number += 1
                        yield number, row
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, number, error) from error


def _batch_rows(batch: Any) -> Iterator[object]:
    """Yields the rows of a record batch. A row with text that is not UTF-8, or with offsets outside
    of its buffers (which would crash the process), is bad; the others are read."""
    try:
        batch.validate(full=True)
        rows = batch.to_pylist()
    except (UnicodeDecodeError, ValueError, OverflowError) as error:  # ArrowInvalid: a ValueError
        if batch.num_rows > 1:
            for index in range(batch.num_rows):
                yield from _batch_rows(batch.slice(index, 1))
        elif isinstance(error, UnicodeDecodeError):
            yield RecordError("(row)", "UTF-8", error.object[:40])
        else:
            yield RecordError("(row)", "values that Python can hold", str(error))
        return
    # Top-level nulls stay, so that every row has all columns.
    yield from ({name: plain(value) for name, value in row.items()} for row in rows)


def plain(value: object) -> Any:
    """Returns ``value`` as JSON could hold it: times as ISO text, maps as objects, NaN and infinity
    as null, bytes as their number. Null fields of a struct are dropped."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        if value and all(isinstance(v, tuple) and len(v) == 2 for v in value):  # a map
            return {str(k): plain(v) for k, v in value if v is not None}
        return [plain(v) for v in value]
    if isinstance(value, float | Decimal):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return f"({len(value)} bytes)" if isinstance(value, bytes | bytearray) else str(value)


def hub_rows(spec: str) -> Iterator[NumberedRow]:
    """Yields the rows of ``hf:ID[:config]:split``, streamed through datasets; ID may be a local
    folder. Raises DataError that lists the configurations and splits."""
    import datasets

    words = re.split(r":(?![\\/])", spec.removeprefix(HUB))  # C:\\folder is one word
    if len(words) not in (2, 3) or not all(words):
        hint = "hf:ID:SPLIT or hf:ID:CONFIG:SPLIT, such as hf:allenai/WildChat-1M:train"
        raise DataError(spec, None, "not of the form of a data set on the Hub", hint=hint)
    name, config, split = words[0], words[1] if len(words) == 3 else None, words[-1]
    try:
        known = datasets.get_dataset_config_names(name)
        if config is None and len(known) == 1:
            config = known[0]
        if config not in known:
            problem = f"no configuration {config!r}" if config else "it has several configurations"
            hint = f"hf:{name}:CONFIG:{split}; {', '.join(known)}"
            raise DataError(spec, None, problem, hint=hint)
        splits = datasets.get_dataset_split_names(name, config)
        if split not in splits:
            hint = f"splits: {', '.join(splits)}"
            raise DataError(spec, None, f"no split {split!r}", hint=hint)
        rows = datasets.load_dataset(name, config, split=split, streaming=True)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise DataError(spec, None, f"not a data set that can be read: {error}") from error
    number = 0
    try:
        for number, row in enumerate(rows, 1):
            yield number, {key: plain(value) for key, value in row.items()}
    except (OSError, ValueError, RuntimeError) as error:  # the network, or a damaged file
        raise _damaged(spec, number, error) from error


def _damaged(path: str, number: int, error: Exception) -> DataError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    hint = "the file is damaged from here on; get or make it again"
    return DataError(path, number + 1, f"cannot read on: {reason}", hint=hint)


# -- workbooks -------------------------------------------------------------------------------------


@contextmanager
def open_workbook(path: str, file: IO[bytes]) -> Iterator[Any]:
    """Yields openpyxl's workbook of ``file``, read-only, with values as stored (the last result of
    a formula).

    Raises DataError, also while its rows are read, for a file that is no workbook, is broken, or is
    too large unpacked; MissingExtraError without openpyxl.
    """
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise MissingExtraError("openpyxl", "annotate", "reading .xlsx") from error
    try:
        with zipfile.ZipFile(file) as packed:
            parts = packed.infolist()
        size = file.seek(0, 2)
        file.seek(0)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise DataError(path, None, f"is no workbook: {error}", hint="save it again") from error
    if not any(part.filename.lower().startswith("xl/") for part in parts):
        hint = "unpack it, and give one of its files"
        raise DataError(path, None, "is a zip file, but no .xlsx workbook", hint=hint)
    most = min(_MOST_UNPACKED, max(_ALWAYS_READ, _MOST_RATIO * size))
    if sum(part.file_size for part in parts) > most:
        raise DataError(path, None, f"unpacks to more than {most:,} bytes", hint=_AS_CSV)
    try:
        book = load_workbook(file, read_only=True, data_only=True, keep_links=False)
        yield book
        book.close()
    except (DataError, MissingExtraError):
        raise
    except _BROKEN as error:
        problem = f"cannot read on: {type(error).__name__}: {error}"
        raise DataError(path, None, problem, hint="save it again as .xlsx or .csv") from error


def rows_of(path: str, sheet: Any) -> Iterator[tuple[int, list[Any]]]:
    """Yields (number from 1, cells) of each row of ``sheet`` that is not empty."""
    sheet.reset_dimensions()  # the size that a file states can be wrong
    for number, cells in enumerate(sheet.iter_rows(max_col=_MOST_COLUMNS, values_only=True), 1):
        if number > _MOST_ROWS:  # a row can state any number, and openpyxl makes those before it
            raise DataError(path, None, f"has a row beyond {_MOST_ROWS:,}", hint=_AS_CSV)
        if any(cell not in (None, "") for cell in cells):
            yield number, list(cells)


def sheet_rows(path: str, file: IO[bytes]) -> Iterator[NumberedRow]:
    """Yields the rows of the first sheet that is not empty, numbered as in the program."""
    header: list[str] = []
    with open_workbook(path, file) as book:
        for sheet in book.worksheets:
            for number, cells in rows_of(path, sheet):
                if not header:
                    while cells[-1] in (None, ""):
                        cells.pop()
                    header = table_header(cells)
                elif any(cell not in (None, "") for cell in cells[len(header) :]):
                    expected = f"{len(header)} cells, as in the header"
                    yield number, RecordError("(row)", expected, "more than those")
                else:
                    pairs = zip(header, cells, strict=False)
                    yield number, {k: None if v == "" else plain(v) for k, v in pairs}
            if header:
                return
    raise ConfigError("a table without a header: it is empty")
