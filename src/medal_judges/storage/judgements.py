"""Files of judgements, and the table (DataFrame) of a file.

JSON lines (.jsonl, .jsonl.gz) and parquet hold everything. A parquet file has the columns of
`to_frame`, and the column ``judgement`` with each judgement's JSON line. CSV is for people: it is
written and cannot be read back.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medal_judges.errors import DataError, RecordError, plain_cell
from medal_judges.records.judgement import Judgement, parse_judgement
from medal_judges.records.validation import FINITE, LARGEST
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
_COUNTS = ("truncated_turns", "cut_turns", "left_out_turns", "shortened_turns")
# Columns that are left out of a table if they are empty in all rows.
_OPTIONAL = ("explanation", "transient", "unknown_language", "detected_language", *_COUNTS)
_OWN = ("id", "turn", "judge", "failure", *_OPTIONAL)
_DERIVED = ("uncertainty", "low", "high")


def holds_judgements(path: str | Path) -> bool:
    """Returns whether a file holds judgements, also if it is a CSV, which cannot be read back."""
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
            raise DataError(path, None, "is empty", hint="give a file of scores or of dialogues")
        record = load_json(first)
    except (EOFError, zlib.error, OSError, RecordError, RecursionError):
        return False
    return isinstance(record, dict) and isinstance(record.get("scores"), dict)


def read_judgements(path: str | Path) -> Iterator[Judgement]:
    """Yields the judgements of a file, JSON lines or parquet, one at a time.

    Raises DataError that names file and row, also for two rows of one (id, turn).

    >>> from medal_judges import read_judgements, score_file
    >>> report = score_file("dialogues.jsonl", "length", "scores.parquet")
    >>> [(judgement.id, judgement.scored) for judgement in read_judgements("scores.parquet")]
    [('d0', True), ('d1', True), ('d2', True)]
    """
    seen: set[int] = set()  # hashes, 8 bytes a row

    def parse(record: object) -> Judgement:
        judgement = parse_judgement(record)
        mark = hash((judgement.id, judgement.turn))
        if mark in seen:
            raise RecordError("id", "an id and turn that no earlier row has", judgement.id)
        seen.add(mark)
        return judgement

    if not is_table(path):
        yield from read_records(path, parse)
        return
    _attributes(path)
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    number = 0
    try:
        with ParquetFile(path) as table:
            for batch in table.iter_batches(_ROWS, columns=[_LINE]):
                for line in batch.column(0).to_pylist():
                    number += 1
                    yield parse_line(path, number, line, parse)
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
        return write_records(path, judgements)
    import pyarrow
    from pyarrow import parquet

    rows = list(judgements) if isinstance(judgements, Iterator) else judgements
    frame = to_frame(rows)
    attributes = json.dumps(frame.attrs)
    for name in frame.columns:
        if frame[name].dtype == object:
            frame[name] = [  # text of mixed values
                v if v is None or isinstance(v, str) else json.dumps(v, ensure_ascii=False)
                for v in frame[name].array
            ]
    with atomic_path(path) as partial:
        if not str(path).lower().endswith(PARQUET):
            for name in frame.columns:
                if frame[name].dtype.kind == "b":
                    frame[name] = frame[name].map({True: "true", False: "false"})
                elif frame[name].dtype.kind == "O":
                    frame[name] = frame[name].map(plain_cell, na_action="ignore")
            frame = frame.rename(columns=plain_cell)
            content = frame.to_csv(index=False, lineterminator="\n").encode()
            is_gzip = str(path).lower().endswith(".gz")
            partial.write_bytes(gzip.compress(content, mtime=0) if is_gzip else content)
            return len(frame)
        table = pyarrow.Table.from_pandas(frame, preserve_index=False)
        schema = table.schema.append(pyarrow.field(_LINE, pyarrow.string()))
        schema = schema.with_metadata({**(schema.metadata or {}), _ATTRIBUTES: attributes.encode()})
        lines = (to_line(judgement).rstrip("\n") for judgement in rows)
        with parquet.ParquetWriter(partial, schema, compression="zstd") as writer:
            for batch in table.to_batches(_ROWS):
                column = pyarrow.array(islice(lines, len(batch)), pyarrow.string())
                writer.write_batch(pyarrow.record_batch([*batch.columns, column], schema=schema))
    return len(frame)


def read_frame(path: str | Path, *, brief: bool = False) -> DataFrame:
    """Returns the table of a file of judgements, see ``to_frame``. With ``brief`` it lacks
    explanations and usage, which are half of its size.

    >>> from medal_judges import read_frame, score_file
    >>> report = score_file("dialogues.jsonl", "length", "scores.parquet")
    >>> len(read_frame("scores.parquet"))
    3
    """
    if not is_table(path):
        judgements = read_judgements(path)
        if brief:
            judgements = (replace(each, explanation=None, usage={}) for each in judgements)
        return to_frame(judgements)
    attributes = _attributes(path)
    from pyarrow import ArrowException, parquet

    try:
        names = [name for name in parquet.read_schema(path).names if name != _LINE]
        if brief:
            names = [name for name in names if not name.startswith(("explanation", "usage."))]
        frame: DataFrame = parquet.read_table(path, columns=names).to_pandas()
    except (ArrowException, OSError) as error:
        raise DataError(path, None, f"cannot be read: {error}") from error
    frame.attrs = dict(attributes)
    own = [n for n in frame.select_dtypes("number") if n not in attributes.get("meta", {}).values()]
    if (huge := frame[own].abs() >= LARGEST).any(axis=None):
        column = next(n for n in own if huge[n].any())
        raise DataError(
            path, int(huge[column].argmax()) + 1, f"field {column!r}: expected {FINITE}"
        )
    return frame


def to_frame(judgements: Iterable[Judgement]) -> DataFrame:
    """Returns a table with one row for each judgement: id, turn, judge, each dimension's score,
    uncertainty and interval (``overall.uncertainty``, ``overall.low``, ``overall.high``), failure,
    usage and metadata.

    ``attrs["dimensions"]`` and ``attrs["meta"]`` map a name to its column. Columns without any
    value are left out.

    >>> from medal_judges import Judge, read_dialogues, to_frame
    >>> frame = to_frame(Judge.from_pretrained("length").score(read_dialogues("dialogues.jsonl")))
    >>> list(frame.columns)[:3]
    ['id', 'turn', 'judge']
    """
    import pandas

    columns: dict[tuple[str, str], Any] = {}  # (kind, name) -> its values
    same: dict[str, str] = {}  # one object for all rows with an equal text
    rows = 0

    def put(kind: str, name: str, value: object) -> None:
        is_number = kind not in ("own", "meta")
        column = columns.setdefault((kind, name), array("d") if is_number else [])
        column.extend([math.nan if is_number else None] * (rows - len(column)))
        column.append(value)

    for judgement in judgements:
        for name in _OWN:
            value = getattr(judgement, name)
            put("own", name, same.setdefault(value, value) if name == "judge" else value)
        for name, score in judgement.scores.items():
            put("scores", name, math.nan if score is None else score)
            if (spread := judgement.uncertainty(name)) is not None:
                put("uncertainty", name, spread)
            low, high = judgement.details.get(name, {}).get("interval") or (math.nan, math.nan)
            if low == low:
                put("low", name, low)
                put("high", name, high)
        for name, amount in judgement.usage.items():
            put("usage", name, amount)
        for name, value in judgement.meta.items():
            put("meta", name, same.setdefault(value, value) if isinstance(value, str) else value)
        rows += 1
    for (kind, _), column in columns.items():
        column.extend([None if kind in ("own", "meta") else math.nan] * (rows - len(column)))
    table: dict[str, Any] = {}
    heads: dict[str, dict[str, str]] = {"scores": {}, "meta": {}}

    def add(*kinds: str) -> None:
        for (kind, name), column in columns.items():
            if kind not in kinds:
                continue
            head = {"usage": f"usage.{name}", "meta": name}.get(kind, f"{name}.{kind}")
            if kind == "scores":  # a dimension "risk.low" is no end of an interval
                head = f"scores.{name}" if name.rpartition(".")[2] in _DERIVED else name
            while head in table or head in (*_OWN, _LINE):  # a dimension called "failure"
                head = f"{kind}.{head}"
            whole = kind == "meta" and all(
                v is None or (type(v) is int and abs(v) < 1 << 63) for v in column
            )
            table[head] = pandas.array(column, dtype="Int64") if whole else column
            heads.setdefault(kind, {})[name] = head

    def add_own(*names: str) -> None:
        for name in names:
            column = columns.get(("own", name), [])
            if name not in _OPTIONAL or any(column):
                is_integer = name == "turn" or name in _COUNTS
                table[name] = pandas.array(column, dtype="Int64") if is_integer else column

    add_own("id", "turn", "judge")
    add("scores")
    add("uncertainty")
    add("low", "high")
    add_own("failure", *_OPTIONAL)
    add("usage")
    add("meta")
    frame = pandas.DataFrame(table)
    frame.attrs = {"dimensions": heads["scores"], "meta": heads["meta"]}
    return frame


def _attributes(path: str | Path) -> Mapping[str, Any]:
    """Returns the attributes of the table in a parquet file of judgements. Raises DataError for any
    other file."""
    from pyarrow import ArrowException
    from pyarrow.parquet import read_schema

    if str(path).lower().endswith(CSV):
        hint = "score to a .jsonl or .parquet file; write_judgements makes a CSV of it"
        raise DataError(path, None, "a CSV of judgements cannot be read back", hint=hint)
    if not Path(path).is_file():
        raise DataError(path, None, "no such file")
    try:
        attributes: Mapping[str, Any] = json.loads((read_schema(path).metadata or {})[_ATTRIBUTES])
    except (ArrowException, OSError, KeyError, ValueError) as error:
        hint = "give a file that medal score has written: .jsonl or .parquet"
        raise DataError(path, None, "is not a parquet file of judgements", hint=hint) from error
    return attributes
