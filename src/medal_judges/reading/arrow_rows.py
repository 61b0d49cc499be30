"""Parquet, Arrow and Feather files, record batch by record batch; rows of the Hugging Face Hub."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, cast

from medal_judges.errors import DataError, RecordError
from medal_judges.reading.json_rows import NumberedRow

PARQUET, ARROW_FILE = b"PAR1", b"ARROW1"
ARROW_STREAM = b"\xff\xff\xff\xff"
FEATHER_V1 = b"FEA1"
HUB = "hf:"
_BATCH = 64  # rows at a time: a chat may be of megabytes


def parquet_rows(path: str, file: IO[bytes]) -> Iterator[NumberedRow]:
    """The rows of a parquet file, numbered from 1. Raises DataError for a damaged one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        # A buffer a column instead of all its bytes in a row group, which may be the whole file.
        with pq.ParquetFile(file, buffer_size=1 << 18, pre_buffer=False) as table:
            for batch in table.iter_batches(batch_size=_BATCH):
                for row in _batch_rows(batch):
                    number += 1
                    yield number, row
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, number, error) from error


def arrow_rows(path: str, file: IO[bytes], *, stream: bool) -> Iterator[NumberedRow]:
    """The rows of an Arrow (Feather) file, or of an Arrow ``stream``. Raises DataError."""
    import pyarrow as pa

    number = 0
    try:
        with pa.ipc.open_stream(file) if stream else pa.ipc.open_file(file) as reader:
            batches = reader if stream else map(reader.get_batch, range(reader.num_record_batches))
            for whole in batches:
                for start in range(0, whole.num_rows, _BATCH):
                    for row in _batch_rows(whole.slice(start, _BATCH)):
                        number += 1
                        yield number, row
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, number, error) from error


def parquet_count(path: str | Path) -> int:
    """Rows that the footer of a parquet file promises."""
    import pyarrow.parquet as pq

    return int(pq.read_metadata(path).num_rows)


def hub_rows(spec: str) -> Iterator[NumberedRow]:
    """The rows of ``hf:ID[:config]:split``, streamed through datasets; ID may be a folder here.

    Raises DataError that lists the configurations and splits there are.
    """
    import datasets

    name, config, split = _hub_spec(spec)
    try:
        known = datasets.get_dataset_config_names(name)
        if config is None and len(known) == 1:
            config = known[0]
        if config not in known:
            said = f"no configuration {config!r}" if config else "it has several configurations"
            raise DataError(spec, None, said, hint=f"hf:{name}:CONFIG:{split}; {', '.join(known)}")
        splits = datasets.get_dataset_split_names(name, config)
        if split not in splits:
            hint = f"splits: {', '.join(splits)}"
            raise DataError(spec, None, f"no split {split!r}", hint=hint)
        rows = datasets.load_dataset(name, config, split=split, streaming=True)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise DataError(spec, None, f"not a data set that can be read: {error}") from error
    yield from _hub_rows(spec, cast(Iterable[Mapping[str, object]], rows))


def _hub_rows(spec: str, rows: Iterable[Mapping[str, object]]) -> Iterator[NumberedRow]:
    number = 0
    try:
        for number, row in enumerate(rows, 1):
            yield number, _row(dict(row))
    except (OSError, ValueError, RuntimeError) as error:  # the network, or a damaged file
        raise _damaged(spec, number, error) from error


def _hub_spec(spec: str) -> tuple[str, str | None, str]:
    """(ID, configuration, split) of a spec; the last word is the split."""
    words = re.split(r":(?![\\/])", spec.removeprefix(HUB))  # C:\\folder is one word
    if len(words) not in (2, 3) or not all(words):
        hint = "hf:ID:SPLIT or hf:ID:CONFIG:SPLIT, such as hf:allenai/WildChat-1M:train"
        raise DataError(spec, None, "not of the form of a data set on the Hub", hint=hint)
    return words[0], words[1] if len(words) == 3 else None, words[-1]


def _damaged(path: str, number: int, error: Exception) -> DataError:
    said = (str(error).strip().splitlines() or [type(error).__name__])[0]
    hint = "the file is damaged from here on; get or make it again"
    return DataError(path, number + 1, f"cannot read on: {said}", hint=hint)


def _batch_rows(batch: Any) -> list[object]:
    """The rows of a record batch; one with text that is not UTF-8, or whose offsets lead out of
    its buffers (then reading it would end the process), is bad, and it alone."""
    try:
        batch.validate(full=True)
        return [_row(each) for each in batch.to_pylist()]
    except (UnicodeDecodeError, ValueError, OverflowError):  # ArrowInvalid is a ValueError
        return [_checked_row(batch.slice(i, 1)) for i in range(batch.num_rows)]


def _row(row: dict[str, object]) -> object:
    """A row of plain values; its own nulls stay, so that every row has all columns."""
    return {name: plain(value) for name, value in row.items()}


def _checked_row(one: Any) -> object:
    try:
        one.validate(full=True)
        return _row(one.to_pylist()[0])
    except UnicodeDecodeError as error:
        return RecordError("(row)", "UTF-8", error.object[:40])
    except (ValueError, OverflowError) as error:
        return RecordError("(row)", "values that Python can hold", str(error))


def plain(value: object) -> Any:
    """``value`` as JSON could have it: times as ISO text, maps as objects, NaN and infinity as
    null, bytes by their number. Null fields of a struct are absent: every row has all of them."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        if value and all(isinstance(v, tuple) and len(v) == 2 for v in value):  # a map
            return {str(k): plain(v) for k, v in value if v is not None}
        return [plain(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return plain(float(value))
    if isinstance(value, bytes | bytearray):
        return f"({len(value)} bytes)"
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value if value is None or isinstance(value, str | int) else str(value)
