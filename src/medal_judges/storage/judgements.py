"""Files of judgements, and the table (DataFrame) of a file.

JSON lines (.jsonl, .jsonl.gz) and parquet hold everything. The first line states the dimensions:
name, kind, scale, good end and definition. A parquet file has the columns of `to_frame`, the column
``judgement`` with each judgement's JSON line, and the attributes of the table as metadata. CSV has
the columns only, and the attributes in the first cell of its last column.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medal_judges.errors import FORMULA, DataError, RecordError, plain_cell
from medal_judges.records.dimension import Dimension, merge_dimensions, parse_dimensions
from medal_judges.records.judgement import Judgement, judgement_parser, to_records
from medal_judges.records.validation import FINITE, LARGEST
from medal_judges.storage.files import CSV, PARQUET, atomic_path, is_table
from medal_judges.storage.jsonl import (
    LONGEST_LINE,
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
_CELL = "attributes"  # the column of a CSV whose first cell holds them
_ROWS = 4096  # of a batch
_COUNTS = ("truncated_turns", "cut_turns", "left_out_turns", "shortened_turns")
# Columns that are left out of a table if they are empty in all rows.
_TEXTS = ("explanation", "unknown_language", "detected_language", "chat")
_OPTIONAL = ("explanation", "transient", "unknown_language", "detected_language", *_COUNTS, "chat")
_OWN = ("id", "turn", "judge", "failure", *_OPTIONAL)
_DERIVED = ("uncertainty", "low", "high")


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
            raise DataError(path, None, "is empty", hint="give a file of scores or of dialogues")
        record = load_json(first)
    except (EOFError, zlib.error, OSError, RecordError, RecursionError):
        return False
    return isinstance(record, dict) and isinstance(record.get("scores"), dict)


def read_judgements(path: str | Path) -> Iterator[Judgement]:
    """Yields the judgements of a file, JSON lines, parquet or CSV, one at a time. Those of a CSV
    lack distributions, contributions, and details other than intervals.

    Raises DataError that names file and row, also for two rows of one (id, turn), and for two rows
    whose dimensions of one name differ.

    >>> from medal_judges import read_judgements, score_file
    >>> report = score_file("dialogues.jsonl", "length", "scores.parquet")
    >>> [(judgement.id, judgement.scored) for judgement in read_judgements("scores.parquet")]
    [('d0', True), ('d1', True), ('d2', True)]
    """
    seen: set[int] = set()  # hashes, 8 bytes a row
    parse_next = judgement_parser()

    def parse(record: object) -> Judgement:
        judgement = parse_next(record)
        mark = hash((judgement.id, judgement.turn))
        if mark in seen:
            raise RecordError("id", "an id and turn that no earlier row has", judgement.id)
        seen.add(mark)
        return judgement

    if not is_table(path):
        yield from read_records(path, parse)
        return
    if str(path).lower().endswith(CSV):
        rows, attributes = _read_csv(path)
        for number, row in enumerate(rows, 2):
            try:
                yield parse(_csv_record(row, attributes))
            except RecordError as error:
                raise DataError(path, number, error.message) from error
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
        return write_records(path, to_records(judgements))
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
            frame[_CELL] = [attributes, *[None] * len(frame)][: len(frame)]
            frame = frame.rename(columns=plain_cell)
            content = frame.to_csv(index=False, lineterminator="\n").encode()
            is_gzip = str(path).lower().endswith(".gz")
            partial.write_bytes(gzip.compress(content, mtime=0) if is_gzip else content)
            return len(frame)
        table = pyarrow.Table.from_pandas(frame, preserve_index=False)
        schema = table.schema.append(pyarrow.field(_LINE, pyarrow.string()))
        schema = schema.with_metadata({**(schema.metadata or {}), _ATTRIBUTES: attributes.encode()})
        lines = (to_line(record).rstrip("\n") for record in to_records(rows))
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
    if not is_table(path) or str(path).lower().endswith(CSV):
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

    ``attrs["dimensions"]`` and ``attrs["meta"]`` map a name to its column; ``attrs["rubric"]``
    lists name, kind, low, high, good and definition of each dimension. Columns without any value
    are left out. Raises MedalError for rows whose dimensions of one name differ.

    >>> from medal_judges import Judge, read_dialogues, to_frame
    >>> frame = to_frame(Judge.from_pretrained("length").score(read_dialogues("dialogues.jsonl")))
    >>> list(frame.columns)[:3]
    ['id', 'turn', 'judge']
    """
    import pandas

    columns: dict[tuple[str, str], Any] = {}  # (kind, name) -> its values
    same: dict[str, str] = {}  # one object for all rows with an equal text
    stated: list[tuple[str, Sequence[Dimension]]] = []
    rows = 0

    def put(kind: str, name: str, value: object) -> None:
        is_number = kind not in ("own", "meta")
        column = columns.setdefault((kind, name), array("d") if is_number else [])
        column.extend([math.nan if is_number else None] * (rows - len(column)))
        column.append(value)

    for judgement in judgements:
        if judgement.dimensions and (not stated or judgement.dimensions != stated[-1][1]):
            stated.append((f"the row of {judgement.id!r}", judgement.dimensions))
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
    rubric = [dimension.to_record() for dimension in merge_dimensions(stated).values()]
    frame.attrs = {"dimensions": heads["scores"], "meta": heads["meta"], "rubric": rubric}
    return frame


def stated_dimensions(frame: DataFrame) -> tuple[Dimension, ...]:
    """Returns the dimensions that the judgements of a table state."""
    return parse_dimensions(frame.attrs.get("rubric", []))


def _read_csv(path: str | Path) -> tuple[list[dict[str, str]], dict[str, Any]]:
    """Returns the rows of a CSV of judgements, without its column of attributes, and these."""
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    try:
        with open_text(path) as stream:
            rows = list(csv.DictReader(stream, restval=""))
        stated = {row.pop(_CELL) for row in rows} - {""}
        (cell,) = stated if rows else {"{}"}
        attributes = {"dimensions": {}, "meta": {}, "rubric": []} | json.loads(cell)
    except (csv.Error, ValueError, TypeError, KeyError, EOFError, zlib.error, OSError) as error:
        problem = f"is not a CSV of judgements, whose column {_CELL!r} states the scales"
        hint = "give a file that medal score has written: .jsonl, .parquet or .csv"
        raise DataError(path, None, problem, hint=hint) from error
    return rows, attributes


def _csv_record(row: Mapping[str, str], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the JSON object of a row of a CSV of judgements. Raises RecordError."""
    cells = {_unguarded(head): _unguarded(cell) or None for head, cell in row.items() if head}

    def number(head: str) -> Any:
        try:
            return None if cells.get(head) is None else json.loads(str(cells[head]))
        except ValueError as error:
            raise RecordError(head, "a number", cells[head]) from error

    record: dict[str, Any] = {name: cells.get(name) for name in ("id", "judge", "failure", *_TEXTS)}
    record |= {name: number(name) for name in ("turn", "transient", *_COUNTS)}
    record["scores"] = {name: number(head) for name, head in attributes["dimensions"].items()}
    record["meta"] = {name: cells.get(head) for name, head in attributes["meta"].items()}
    record["dimensions"] = attributes["rubric"]
    record["details"], record["usage"] = {}, {}
    for name in record["scores"]:
        interval = [number(f"{name}.low"), number(f"{name}.high")]
        if None not in interval:
            record["details"][name] = {"interval": interval}
    for head in cells:
        if head.startswith("usage.") and cells[head] is not None:
            record["usage"][head.removeprefix("usage.")] = number(head)
    return record


def _unguarded(cell: str) -> str:
    """Returns the text that ``plain_cell`` made ``cell`` of."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULA) else cell


def _attributes(path: str | Path) -> Mapping[str, Any]:
    """Returns the attributes of the table in a parquet file of judgements. Raises DataError for any
    other file."""
    from pyarrow import ArrowException
    from pyarrow.parquet import read_schema

    if not Path(path).is_file():
        raise DataError(path, None, "no such file")
    try:
        attributes: Mapping[str, Any] = json.loads((read_schema(path).metadata or {})[_ATTRIBUTES])
    except (ArrowException, OSError, KeyError, ValueError) as error:
        hint = "give a file that medal score has written: .jsonl or .parquet"
        raise DataError(path, None, "is not a parquet file of judgements", hint=hint) from error
    return attributes
