"""Files of judgements, and the table (DataFrame) of a file.

JSON lines and parquet hold everything. The first line states the dimensions:
name, kind, scale, good end and definition. A parquet file has the columns of `to_frame`, the column
``judgement`` with each judgement's JSON line, and the attributes of the table as metadata. A CSV
has the columns only: it is written for people and never read.
"""

from __future__ import annotations

import json
import math
import zlib
from array import array
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medal_judges.errors import DataError, RecordError, plain_cell
from medal_judges.records.dimension import Dimension, merge_dimensions, parse_dimensions
from medal_judges.records.judgement import Judgement, judgement_parser, to_records
from medal_judges.storage.files import CSV, PARQUET, atomic_path, is_table
from medal_judges.storage.jsonl import (
    limited_lines,
    load_json,
    open_text,
    parse_line,
    read_records,
    to_line,
    write_records,
)

if TYPE_CHECKING:
    from pandas import DataFrame

_LINE = "judgement"  # the column of a parquet file that holds the JSON lines
_ATTRIBUTES = b"medal_judges"  # the key in a parquet file's metadata
_ROWS = 4096  # of a batch
_KEY = ("id", "turn", "judge")
# Fields of Judgement whose columns are left out of a table if they are empty in all rows.
_OPTIONAL = (
    *("explanation", "transient", "unknown_language", "detected_language"),
    *("truncated_turns", "cut_turns", "left_out_turns", "shortened_turns", "chat"),
)
# Kinds of columns, in the order of a table: ``own`` ones are fields of Judgement.
_KINDS = ("key", "scores", "uncertainty", "interval", "own", "usage", "meta")
_NUMBERS = ("scores", "uncertainty", "interval", "usage")
_DERIVED = (".uncertainty", ".low", ".high")


def holds_judgements(path: str | Path) -> bool:
    """Returns whether a file holds judgements."""
    name = str(path).lower()
    try:
        if name.endswith(PARQUET):
            with suppress(DataError):
                return bool(_attributes(path))
            return False
        with open_text(path) as stream:
            first = next((line for line in limited_lines(stream) if line.strip()), "")
        if name.endswith(CSV):
            return first.startswith("id,turn,judge,")
        if not first:
            raise DataError(
                path, None, "is empty", hint="give a file of scores or of dialogues"
            )
        record = load_json(first)
    except (EOFError, zlib.error, OSError, RecordError, RecursionError):
        return False
    return isinstance(record, dict) and isinstance(record.get("scores"), dict)


def read_judgements(path: str | Path) -> Iterator[Judgement]:
    """Yields the judgements of a file, JSON lines or parquet, one at a time.

    Raises DataError that names file and row, also for two rows of one (id, turn), and for two rows
    whose dimensions of one name differ.

    >>> from medal_judges import read_judgements, score_file
    >>> report = score_file("dialogues.jsonl", "length", "scores.parquet")
    >>> [(judgement.id, judgement.scored) for judgement in read_judgements("scores.parquet")]
    [('d0', True), ('d1', True), ('d2', True)]
    """
    row_hashes: set[int] = set()  # 8 bytes a row
    parse_next = judgement_parser()

    def parse(record: object) -> Judgement:
        judgement = parse_next(record)
        row_hash = hash((judgement.id, judgement.turn))
        if row_hash in row_hashes:
            raise RecordError(
                "id", "an id and turn that no earlier row has", judgement.id
            )
        row_hashes.add(row_hash)
        return judgement

    if is_table(path):
        for number, line in _lines_of_parquet(path):
            yield parse_line(path, number, line, parse)
    else:
        yield from read_records(path, parse)


def _is_parquet(path: str | Path) -> bool:
    return str(path).lower().endswith(PARQUET)


def _lines_of_parquet(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yields the number and the JSON line of each judgement in a parquet file. Raises DataError."""
    _attributes(path)
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    number = 0
    try:
        with ParquetFile(path) as table:
            for batch in table.iter_batches(_ROWS, columns=[_LINE]):
                yield from enumerate(batch.column(0).to_pylist(), number + 1)
                number += len(batch)
    except (ArrowException, OSError) as error:
        raise DataError(path, number or None, f"cannot be read: {error}") from error


def write_judgements(path: str | Path, judgements: Iterable[Judgement]) -> int:
    """Writes a file, by its ending parquet, CSV or JSON lines; returns the number of judgements.

    The file appears whole or not at all. For parquet and CSV ``judgements`` is read twice.

    >>> from medal_judges import Judge, read_dialogues, write_judgements
    >>> judge = Judge.from_pretrained("length")
    >>> write_judgements("scores.csv", judge.score(read_dialogues("dialogues.jsonl")))
    3
    """
    if not is_table(path):
        return write_records(path, to_records(judgements))
    if isinstance(judgements, Iterator):
        judgements = list(judgements)
    frame = to_frame(judgements)
    for name in frame.columns:
        if frame[name].dtype == object:  # a text as it is, other values as JSON
            frame[name] = [
                value if value is None or isinstance(value, str) else json.dumps(value)
                for value in frame[name].array
            ]
    with atomic_path(path) as partial:
        if _is_parquet(path):
            lines = (to_line(record).rstrip("\n") for record in to_records(judgements))
            _write_parquet(partial, frame, lines)
        else:
            partial.write_bytes(_csv_bytes(frame))
    return len(frame)


def _csv_bytes(frame: DataFrame) -> bytes:
    """Returns the table as CSV, in which no cell is a formula."""
    for name in frame.columns:
        if frame[name].dtype.kind == "b":
            frame[name] = frame[name].map({True: "true", False: "false"})
        elif frame[name].dtype.kind == "O":
            frame[name] = frame[name].map(plain_cell, na_action="ignore")
    content: str = frame.rename(columns=plain_cell).to_csv(
        index=False, lineterminator="\n"
    )
    return content.encode()


def _write_parquet(path: Path, frame: DataFrame, lines: Iterator[str]) -> None:
    """Writes the table and, in its last column, each judgement's JSON line, batch by batch."""
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    schema = table.schema.append(pyarrow.field(_LINE, pyarrow.string()))
    attributes = json.dumps(frame.attrs).encode()
    schema = schema.with_metadata({**(schema.metadata or {}), _ATTRIBUTES: attributes})
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in table.to_batches(_ROWS):
            column = pyarrow.array(islice(lines, len(batch)), pyarrow.string())
            writer.write_batch(
                pyarrow.record_batch([*batch.columns, column], schema=schema)
            )


def read_frame(path: str | Path, *, brief: bool = False) -> DataFrame:
    """Returns the table of a file of judgements, see ``to_frame``. With ``brief`` it lacks
    explanations and usage, which are half of its size.

    >>> from medal_judges import read_frame, score_file
    >>> report = score_file("dialogues.jsonl", "length", "scores.parquet")
    >>> len(read_frame("scores.parquet"))
    3
    """
    if is_table(path):
        return _read_parquet_frame(path, brief)
    return to_frame(read_judgements(path), brief=brief)


def _read_parquet_frame(path: str | Path, brief: bool) -> DataFrame:
    """Returns the table of a parquet file. Raises DataError."""
    attributes = _attributes(path)
    from pyarrow import ArrowException, parquet

    try:
        names = parquet.read_schema(path).names
        names.remove(_LINE)
        if brief:
            left_out = ("explanation", "usage.")
            names = [name for name in names if not name.startswith(left_out)]
        frame: DataFrame = parquet.read_table(path, columns=names).to_pandas()
    except (ArrowException, OSError) as error:
        raise DataError(path, None, f"cannot be read: {error}") from error
    frame.attrs = dict(attributes)
    return frame


def _cells(judgement: Judgement) -> Iterator[tuple[str, str, Any]]:
    """Yields kind, name and value of the columns that have a value in the row of a judgement."""
    for name in _KEY:
        yield "key", name, getattr(judgement, name)
    for name in ("failure", *_OPTIONAL):
        yield "own", name, getattr(judgement, name)
    for name, score in judgement.scores.items():
        yield "scores", name, math.nan if score is None else score
        spread = judgement.uncertainty(name)
        if spread is not None:
            yield "uncertainty", f"{name}.uncertainty", spread
        if interval := judgement.details.get(name, {}).get("interval"):
            yield "interval", f"{name}.low", interval[0]
            yield "interval", f"{name}.high", interval[1]
    for name, amount in judgement.usage.items():
        yield "usage", f"usage.{name}", amount
    for name, value in judgement.meta.items():
        yield "meta", name, value


def _columns(
    judgements: Iterable[Judgement],
) -> tuple[dict[tuple[str, str], Any], dict[str, Dimension]]:
    """Returns the values of all rows by kind and name of the column, and the dimensions by name."""
    columns: dict[tuple[str, str], Any] = {}
    for name in _KEY:
        columns["key", name] = []
    columns["own", "failure"] = []
    rubrics: list[tuple[str, Sequence[Dimension]]] = []
    rows = 0
    for judgement in judgements:
        dimensions = judgement.dimensions
        if dimensions and (not rubrics or dimensions != rubrics[-1][1]):
            rubrics.append((f"the row of {judgement.id!r}", dimensions))
        for kind, name, value in _cells(judgement):
            if (kind, name) not in columns:
                columns[kind, name] = array("d") if kind in _NUMBERS else []
            _fill(columns[kind, name], rows)
            columns[kind, name].append(value)
        rows += 1
    for column in columns.values():
        _fill(column, rows)
    return columns, merge_dimensions(rubrics)


def to_frame(judgements: Iterable[Judgement], *, brief: bool = False) -> DataFrame:
    """Returns a table with one row for each judgement: id, turn, judge, each dimension's score,
    uncertainty and interval (``overall.uncertainty``, ``overall.low``, ``overall.high``), failure,
    usage and metadata.

    With ``brief`` it lacks explanations and usage.
    ``attrs["dimensions"]`` and ``attrs["meta"]`` map a name to its column; ``attrs["rubric"]``
    lists name, kind, low, high, good and definition of each dimension. Columns without any value
    are left out. Raises MedalError for rows whose dimensions of one name differ.

    >>> from medal_judges import Judge, read_dialogues, to_frame
    >>> frame = to_frame(Judge.from_pretrained("length").score(read_dialogues("dialogues.jsonl")))
    >>> list(frame.columns)[:3]
    ['id', 'turn', 'judge']
    """
    import pandas
    from pandas.api.types import infer_dtype

    if brief:
        judgements = (replace(row, explanation=None, usage={}) for row in judgements)
    columns, dimensions = _columns(judgements)
    table: dict[str, Any] = {}
    heads: dict[str, dict[str, str]] = {"scores": {}, "meta": {}}
    for kind, name in sorted(columns, key=lambda column: _KINDS.index(column[0])):
        column = columns[kind, name]
        if name in _OPTIONAL and kind == "own" and not any(column):
            continue
        head = _head(kind, name, table)
        if kind in heads:
            heads[kind][name] = head
        table[head] = column
        is_integer = name == "turn" or infer_dtype(column, skipna=True) == "integer"
        if kind in ("key", "own", "meta") and is_integer:
            with suppress(OverflowError, TypeError, ValueError):  # beyond 64 bits
                table[head] = pandas.array(column, dtype="Int64")  # may lack values
    frame = pandas.DataFrame(table)
    rubric = [dimension.to_record() for dimension in dimensions.values()]
    frame.attrs = {
        "dimensions": heads["scores"],
        "meta": heads["meta"],
        "rubric": rubric,
    }
    return frame


def _head(kind: str, name: str, table: Container[str]) -> str:
    """Returns the name of a new column of ``table``."""
    if kind in ("key", "own"):
        return name
    head = name
    if kind == "scores" and name.endswith(_DERIVED):
        head = f"scores.{name}"  # a dimension "risk.low" is not an end of an interval
    while head in table or head in ("failure", *_OPTIONAL, _LINE):
        head = f"{kind}.{head}"
    return head


def _fill(column: Any, rows: int) -> None:
    """Adds a missing value for each row, up to ``rows``, that has none."""
    missing = math.nan if isinstance(column, array) else None
    column.extend([missing] * (rows - len(column)))


def stated_dimensions(frame: DataFrame) -> tuple[Dimension, ...]:
    """Returns the dimensions that the judgements of a table state."""
    return parse_dimensions(frame.attrs.get("rubric", []))


def _attributes(path: str | Path) -> Mapping[str, Any]:
    """Returns the attributes of the table in a parquet file of judgements. Raises DataError for any
    other file."""
    from pyarrow import ArrowException
    from pyarrow.parquet import read_schema

    if not Path(path).is_file():
        raise DataError(path, None, "no such file")
    if not _is_parquet(path):
        problem = "is a table for people, which holds only a part of the judgements"
        hint = f"give the lines beside it, {path}.jsonl, or score to a .parquet file"
        raise DataError(path, None, problem, hint=hint)
    try:
        attributes: Mapping[str, Any] = json.loads(
            (read_schema(path).metadata or {})[_ATTRIBUTES]
        )
    except (ArrowException, OSError, KeyError, ValueError) as error:
        hint = "give a file that medal score has written: .jsonl or .parquet"
        raise DataError(
            path, None, "is not a parquet file of judgements", hint=hint
        ) from error
    return attributes
