"""Files of judgements, and the table (DataFrame) of a file.

JSON lines hold everything. The first line states the dimensions: name, kind, scale, good end and
definition. A table (.csv, .parquet) has the columns of `to_frame`, and the file of lines beside it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medal_judges.errors import DataError, RecordError, plain_cell
from medal_judges.records.dimension import Dimension, merge_dimensions, parse_dimensions
from medal_judges.records.judgement import Judgement, judgement_parser, to_records
from medal_judges.storage.files import atomic_path
from medal_judges.storage.jsonl import (
    limited_lines,
    load_json,
    open_text,
    read_records,
    write_records,
)

if TYPE_CHECKING:
    from pandas import DataFrame

TABLES = (".csv", ".parquet")
_KEY = ("id", "turn", "judge")
# Fields of Judgement; all but the first are left out of a table if they are empty in all rows.
_FIELDS = (
    *("failure", "explanation", "transient", "unknown_language", "detected_language"),
    *("truncated_turns", "cut_turns", "left_out_turns", "shortened_turns", "chat"),
)
# Kinds of columns, in the order of a table.
_KINDS = ("key", "scores", "interval", "own", "usage", "meta")
_NUMBERS = ("scores", "interval", "usage")


def lines_file(path: str | Path) -> Path:
    """Returns the file of lines of the judgements in ``path``: the file itself, or of a table the
    file beside it (``scores.csv.jsonl``)."""
    path = Path(path)
    if path.suffix in TABLES:
        return path.with_name(f"{path.name}.jsonl")
    return path


def holds_judgements(path: str | Path) -> bool:
    """Returns whether the file ``path`` holds judgements. A table without its file of lines does
    not. Raises DataError if there is no such file, or if it is empty."""
    lines = lines_file(path)
    if lines != Path(path) and not lines.is_file():
        return False
    try:
        with open_text(lines) as stream:
            first = next(filter(str.strip, limited_lines(stream)), None)
        if first is None:
            hint = "give a file of scores or of dialogues"
            raise DataError(path, None, "is empty", hint=hint)
        record = load_json(first)
    except (EOFError, zlib.error, OSError, RecordError, RecursionError):
        return False
    return isinstance(record, dict) and isinstance(record.get("scores"), dict)


def read_judgements(path: str | Path) -> Iterator[Judgement]:
    """Yields the judgements of the file ``path``, one at a time; of a table those of the lines
    beside it.

    Raises DataError that names file and row if the file is missing, if a line is not a judgement,
    if two rows have one (id, turn), and if two rows state one dimension differently.

    >>> from medal_judges import read_judgements, score_file
    >>> report = score_file("dialogues.jsonl", "length", "scores.jsonl")
    >>> [(judgement.id, judgement.scored) for judgement in read_judgements("scores.jsonl")]
    [('d0', True), ('d1', True), ('d2', True)]
    """
    row_hashes: set[int] = set()  # 8 bytes a row
    parse_next = judgement_parser()

    def parse(record: object) -> Judgement:
        judgement = parse_next(record)
        row_hash = hash((judgement.id, judgement.turn))
        if row_hash in row_hashes:
            expected = "an id and turn that no earlier row has"
            raise RecordError("id", expected, judgement.id)
        row_hashes.add(row_hash)
        return judgement

    yield from read_records(lines_file(path), parse)


def write_judgements(path: str | Path, judgements: Iterable[Judgement]) -> int:
    """Writes ``judgements`` to the file ``path``, by its ending Parquet, CSV or JSON lines. Returns
    their number. The file appears whole or not at all.

    >>> from medal_judges import Judge, read_dialogues, write_judgements
    >>> judge = Judge.from_pretrained("length")
    >>> write_judgements("scores.csv", judge.score(read_dialogues("dialogues.jsonl")))
    3
    """
    if Path(path).suffix not in TABLES:
        return write_records(path, to_records(judgements))
    frame = to_frame(judgements)
    is_csv = Path(path).suffix == ".csv"
    for name in frame.columns:
        if frame[name].dtype.kind == "O":
            # a text as it is, other values as JSON
            texts = frame[name].map(
                lambda c: c if isinstance(c, str) else json.dumps(c)
            )
            frame[name] = texts.where(frame[name].notna(), None)
            if is_csv:
                frame[name] = frame[name].map(plain_cell)
    with atomic_path(path) as partial:
        if is_csv:
            frame = frame.rename(columns=plain_cell)
            frame.to_csv(partial, index=False, lineterminator="\n")
        else:
            frame.to_parquet(partial, index=False, compression="zstd")
    return len(frame)


def read_frame(path: str | Path) -> DataFrame:
    """Returns the table of the judgements in the file ``path``, as ``to_frame`` makes it. Raises
    DataError as ``read_judgements`` does.

    >>> from medal_judges import read_frame, score_file
    >>> report = score_file("dialogues.jsonl", "length", "scores.jsonl")
    >>> len(read_frame("scores.jsonl"))
    3
    """
    return to_frame(read_judgements(path))


def _cells(judgement: Judgement) -> dict[str, dict[str, Any]]:
    """Returns the cells in the row of a judgement by the kind and the name of their column."""
    interval = {}
    for name, details in judgement.details.items():
        if ends := details.get("interval"):
            interval[f"{name}.low"], interval[f"{name}.high"] = ends
    return {
        "key": {name: getattr(judgement, name) for name in _KEY},
        "scores": dict(judgement.scores),
        "interval": interval,
        "own": {name: getattr(judgement, name) for name in _FIELDS},
        "usage": {f"usage.{name}": count for name, count in judgement.usage.items()},
        "meta": dict(judgement.meta),
    }


def to_frame(judgements: Iterable[Judgement]) -> DataFrame:
    """Returns a table with one row for each of ``judgements``: id, turn, judge, each dimension's
    score and interval (``overall.low``, ``overall.high``), failure, usage and metadata.

    ``attrs["dimensions"]`` and ``attrs["meta"]`` map a name to its column. ``attrs["rubric"]``
    lists name, kind, low, high, good and definition of each dimension. Columns without any value
    are left out. Raises MedalError for rows whose dimensions of one name differ.

    >>> from medal_judges import Judge, read_dialogues, to_frame
    >>> frame = to_frame(Judge.from_pretrained("length").score(read_dialogues("dialogues.jsonl")))
    >>> list(frame.columns)[:3]
    ['id', 'turn', 'judge']
    """
    import pandas

    rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in _KINDS}
    rubrics: list[tuple[str, tuple[Dimension, ...]]] = []
    for judgement in judgements:
        dimensions = judgement.dimensions
        if dimensions and (not rubrics or dimensions != rubrics[-1][1]):
            rubrics.append((f"the row of {judgement.id!r}", dimensions))
        for kind, cells in _cells(judgement).items():
            rows[kind].append(cells)
    columns: dict[str, Any] = {}
    heads: dict[str, dict[str, str]] = {}
    for kind, records in rows.items():
        part = _part(kind, records)
        heads[kind] = {}
        for name in part:
            heads[kind][name] = head = _head(kind, name, columns)
            columns[head] = part[name]
    frame = pandas.DataFrame(columns)
    rubric = merge_dimensions(rubrics).values()
    frame.attrs = {
        "dimensions": heads["scores"],
        "meta": heads["meta"],
        "rubric": [dimension.to_record() for dimension in rubric],
    }
    return frame


def _part(kind: str, records: list[dict[str, Any]]) -> DataFrame:
    """Returns the columns of one kind. Whole numbers are Int64, which may lack values."""
    from pandas import DataFrame
    from pandas.api.types import infer_dtype

    if kind in _NUMBERS:
        return DataFrame(records, dtype=float)
    names = {"key": _KEY, "own": _FIELDS}.get(kind)
    part = DataFrame(records, columns=names, dtype=object)
    part = part.where(part.notna(), None)
    for name in part.columns:
        column = part[name]
        if name in _FIELDS[1:] and kind == "own" and not column.any():
            part = part.drop(columns=name)
        elif name == "turn" or infer_dtype(column, skipna=True) == "integer":
            with suppress(OverflowError, TypeError):  # beyond 64 bits
                part[name] = column.astype("Int64")
    return part.infer_objects()


def _head(kind: str, name: str, columns: Container[str]) -> str:
    """Returns the name of a new column beside ``columns``."""
    while name in columns or (kind not in ("key", "own") and name in _FIELDS):
        name = f"{kind}.{name}"
    return name


def stated_dimensions(frame: DataFrame) -> tuple[Dimension, ...]:
    """Returns the dimensions that the judgements of the table ``frame`` state."""
    return parse_dimensions(frame.attrs.get("rubric", []))
