"""Files of judgements and their table.

JSON lines (.jsonl, .jsonl.gz) and parquet hold everything. A parquet file has the columns of
`to_frame` and, in the column ``judgement``, each judgement as the JSON of its line. CSV is for
people: it is written and never read.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medal_judges.errors import DataError, RecordError
from medal_judges.foreign_text import plain_cell
from medal_judges.records.judgement import Judgement, parse_judgement
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
_ABOUT = b"medal_judges"  # the key of a parquet file's metadata
_ROWS = 4096  # of a batch
_TEXTS = ("failure", "explanation", "unknown_language", "detected_language")
_COUNTS = ("truncated_turns", "left_out_turns", "shortened_turns")
_OPTIONAL = ("explanation", "transient", *_TEXTS[2:], *_COUNTS)  # left out if all are empty
_OWN = ("id", "turn", "judge", "failure", *_OPTIONAL)
_DERIVED = ("uncertainty", "low", "high")


def holds_judgements(path: str | Path) -> bool:
    """Returns whether a file holds judgements, also as a CSV (which cannot be read back)."""
    name = str(path).lower()
    if name.endswith(PARQUET):
        return _about(path) is not None
    try:
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
    """Streams the judgements of a file, JSON lines or parquet.

    Raises DataError that names file and row, also for two rows of one (id, turn).

    >>> from medal_judges import read_judgements, score_file
    >>> report = score_file("dialogues.jsonl", "length", "scores.parquet")
    >>> [(judgement.id, judgement.scored) for judgement in read_judgements("scores.parquet")]
    [('d0', True), ('d1', True), ('d2', True)]
    """
    seen: set[int] = set()  # 8 bytes a row instead of the id

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
    _require_parquet(path)
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
    """Writes a file, by its ending parquet, CSV or JSON lines; returns how many judgements.

    The file appears whole or not at all. A table reads ``judgements`` twice.

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
    about = json.dumps(frame.attrs)
    is_csv = str(path).lower().endswith(CSV)
    for name in frame.columns:
        if frame[name].dtype == object:
            frame[name] = [  # text of mixed values
                v if v is None or isinstance(v, str) else json.dumps(v, ensure_ascii=False)
                for v in frame[name].array
            ]
    with atomic_path(path) as partial:
        if is_csv:
            for name in frame.columns:
                if frame[name].dtype.kind == "b":
                    frame[name] = frame[name].map({True: "true", False: "false"})
                elif frame[name].dtype.kind == "O":
                    frame[name] = frame[name].map(plain_cell, na_action="ignore")
            frame = frame.rename(columns=plain_cell)
            content = frame.to_csv(index=False, lineterminator="\n").encode()
            is_packed = str(path).lower().endswith(".gz")
            partial.write_bytes(gzip.compress(content, mtime=0) if is_packed else content)
            return len(frame)
        table = pyarrow.Table.from_pandas(frame, preserve_index=False)
        schema = table.schema.append(pyarrow.field(_LINE, pyarrow.string()))
        schema = schema.with_metadata({**(schema.metadata or {}), _ABOUT: about.encode()})
        lines = (to_line(judgement).rstrip("\n") for judgement in rows)
        with parquet.ParquetWriter(partial, schema, compression="zstd") as writer:
            for batch in table.to_batches(_ROWS):
                column = pyarrow.array(islice(lines, len(batch)), pyarrow.string())
                writer.write_batch(pyarrow.record_batch([*batch.columns, column], schema=schema))
    return len(frame)


def read_frame(path: str | Path, *, brief: bool = False) -> DataFrame:
    """Returns the table of a file of judgements, see ``to_frame``. ``brief`` leaves out
    explanations and amounts, which are half of it.

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
    about = _require_parquet(path)
    from pyarrow import ArrowException, parquet

    try:
        names = [name for name in parquet.read_schema(path).names if name != _LINE]
        if brief:
            names = [name for name in names if not name.startswith(("explanation", "usage."))]
        frame: DataFrame = parquet.read_table(path, columns=names).to_pandas()
    except (ArrowException, OSError) as error:
        raise DataError(path, None, f"cannot be read: {error}") from error
    frame.attrs = dict(about)
    return frame


def to_frame(judgements: Iterable[Judgement]) -> DataFrame:
    """Returns a table with one row a judgement: id, turn, judge, each dimension, what follows from
    it (``overall.uncertainty``, ``overall.low``, ``overall.high``), failure, amounts, metadata.

    ``attrs["dimensions"]`` and ``attrs["meta"]`` map a name to its column. What no row has makes no
    column, and what a row lacks is missing there.

    >>> from medal_judges import Judge, read_dialogues, to_frame
    >>> frame = to_frame(Judge.from_pretrained("length").score(read_dialogues("dialogues.jsonl")))
    >>> list(frame.columns)[:3]
    ['id', 'turn', 'judge']
    """
    import pandas

    own: dict[str, list[Any]] = {name: [] for name in _OWN}
    meta: dict[str, list[Any]] = {}
    numbers: dict[tuple[str, str], array[float]] = {}
    same: dict[str, str] = {}  # one object for all rows with an equal text
    rows = 0
    for judgement in judgements:
        for name, column in own.items():
            value = getattr(judgement, name)
            column.append(same.setdefault(value, value) if name == "judge" else value)
        for name, value in judgement.meta.items():
            column = meta.setdefault(name, [])
            column += [None] * (rows - len(column))
            column.append(same.setdefault(value, value) if isinstance(value, str) else value)
        for key, number in _numbers_of(judgement):
            floats = numbers.setdefault(key, array("d"))
            floats.extend([math.nan] * (rows - len(floats)))
            floats.append(number)
        rows += 1
    for column in meta.values():
        column += [None] * (rows - len(column))
    for floats in numbers.values():
        floats.extend([math.nan] * (rows - len(floats)))

    def integers(values: list[int | None]) -> Any:
        return pandas.array(values, dtype="Int64")

    columns = {"id": own["id"], "turn": integers(own["turn"]), "judge": own["judge"]}
    taken = {*own, _LINE}

    def add(kind: str, name: str, values: Any, head: str) -> str:
        while head in taken:  # a dimension called "failure", metadata called like a dimension
            head = f"{kind}.{head}"
        taken.add(head)
        columns[head] = values
        return head

    dimensions, fields = {}, {}
    for (kind, name), floats in numbers.items():
        if kind == "scores":
            # A dimension "risk.low" is no end of an interval.
            head = f"scores.{name}" if name.rpartition(".")[2] in _DERIVED else name
            dimensions[name] = add(kind, name, floats, head)
    for kinds in (("uncertainty",), ("low", "high")):
        for (kind, name), floats in numbers.items():
            if kind in kinds:
                add(kind, name, floats, f"{name}.{kind}")
    for name in ("failure", *_OPTIONAL):
        if name == "failure" or any(own[name]):
            columns[name] = integers(own[name]) if name in _COUNTS else own[name]
    for (kind, name), floats in numbers.items():
        if kind == "usage":
            add(kind, name, floats, f"usage.{name}")
    for name, column in meta.items():
        whole = all(v is None or (type(v) is int and abs(v) < 1 << 63) for v in column)
        fields[name] = add("meta", name, integers(column) if whole else column, name)
    frame = pandas.DataFrame(columns)
    frame.attrs = {"dimensions": dimensions, "meta": fields}
    return frame


def _numbers_of(judgement: Judgement) -> Iterator[tuple[tuple[str, str], float]]:
    for name, score in judgement.scores.items():
        yield ("scores", name), math.nan if score is None else score
        if (value := judgement.uncertainty(name)) is not None:
            yield ("uncertainty", name), value
        low, high = judgement.details.get(name, {}).get("interval") or (math.nan, math.nan)
        if low == low:
            yield ("low", name), low
            yield ("high", name), high
    yield from ((("usage", name), amount) for name, amount in judgement.usage.items())


def _require_parquet(path: str | Path) -> Mapping[str, Any]:
    """Returns what a parquet file says about its judgements. Raises DataError for other files."""
    if str(path).lower().endswith(CSV):
        hint = "score to a .jsonl or .parquet file; write_judgements makes a CSV of it"
        raise DataError(path, None, "a CSV of judgements cannot be read back", hint=hint)
    if not Path(path).is_file():
        raise DataError(path, None, "no such file")
    if (about := _about(path)) is None:
        hint = "give a file that medal score has written: .jsonl or .parquet"
        raise DataError(path, None, "is no parquet file of judgements", hint=hint)
    return about


def _about(path: str | Path) -> Mapping[str, Any] | None:
    """What the metadata of a parquet file says about its judgements; None for any other file."""
    from pyarrow import ArrowException
    from pyarrow.parquet import read_schema

    try:
        about: Mapping[str, Any] | None = json.loads((read_schema(path).metadata or {})[_ABOUT])
    except (ArrowException, OSError, KeyError, ValueError):
        return None
    return about
