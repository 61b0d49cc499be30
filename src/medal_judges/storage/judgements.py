"""Files of judgements, and the table (DataFrame) of a file.

JSON lines hold everything. The first line states the dimensions: name, kind, scale, good end and
definition. A table (.csv, .parquet) has the columns of `to_frame`. Beside it is a JSONL file with
everything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medal_judges.errors import DataError, RecordError, safe_cell
from medal_judges.records.dimension import Dimension, merge_dimensions, parse_dimensions
from medal_judges.records.judgement import Judgement, judgement_parser, to_records
from medal_judges.storage.files import atomic_path
from medal_judges.storage.jsonl import (
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


def jsonl_path(path: str | Path) -> Path:
    """Returns the JSONL file that holds the judgements of the file ``path``.

    For the table ``scores.csv`` it is ``scores.csv.jsonl``. For a JSONL file it is the file itself.
    """
    path = Path(path)
    if path.suffix in TABLES:
        return path.with_name(f"{path.name}.jsonl")
    return path


def holds_judgements(path: str | Path) -> bool:
    """Returns whether the first line of the file ``path`` is a judgement (the scores of one
    dialogue).

    For a table such as ``scores.csv``, the JSONL file beside it is read. False if the file is
    missing or is not JSONL.

    Raises:
        DataError: The file is empty.
    """
    try:
        record = next(read_records(jsonl_path(path), lambda record: record), "")
    except DataError:
        return False
    if record == "":
        hint = "Give a file of scores or of dialogues"
        raise DataError(path, None, "the file is empty", hint=hint)
    return isinstance(record, dict) and isinstance(record.get("scores"), dict)


def read_judgements(path: str | Path) -> Iterator[Judgement]:
    """Yields the judgements (scores of one dialogue each) in the file ``path``.

    For a table such as ``scores.csv``, the JSONL file beside it is read.

    Raises:
        DataError: The file is missing, a line is not a judgement, or two rows have the same id and
            turn.

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

    yield from read_records(jsonl_path(path), parse)


def write_judgements(path: str | Path, judgements: Iterable[Judgement]) -> int:
    """Writes ``judgements`` to the file ``path``, complete or not at all, and returns their number.

    Args:
        path: The ending selects the format: ``.parquet``, ``.csv``, or JSON lines for any other.

    Raises:
        MedalError: In a table, two judgements have different scales or definitions for one
            dimension.

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
                frame[name] = frame[name].map(safe_cell)
    with atomic_path(path) as partial:
        if is_csv:
            frame = frame.rename(columns=safe_cell)
            frame.to_csv(partial, index=False, lineterminator="\n")
        else:
            frame.to_parquet(partial, index=False, compression="zstd")
    return len(frame)


def read_frame(path: str | Path) -> DataFrame:
    """Returns the judgements in the file ``path`` as a pandas table, one row for each. It has
    columns such as ``id``, ``turn`` and ``overall``.

    Raises:
        DataError: The file is missing, a line is not a judgement, or two rows have the same id and
            turn.
        MedalError: Two judgements have different scales or definitions for one dimension.

    >>> from medal_judges import read_frame, score_file
    >>> report = score_file("dialogues.jsonl", "length", "scores.jsonl")
    >>> len(read_frame("scores.jsonl"))
    3
    """
    return to_frame(read_judgements(path))


def _cells_by_kind(judgement: Judgement) -> dict[str, dict[str, Any]]:
    """Returns the cells of a table row for ``judgement``: kind of column -> column -> value.

    The kinds are in _KINDS: ``{"scores": {"overall": 4.2}, "usage": {"usage.tokens": 812}, ...}``.
    """
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
    """Returns ``judgements`` as a pandas table, one row for each.

    Its columns are ``id``, ``turn``, ``judge``, the score of each dimension (``overall``) and the
    ends of its interval (``overall.low``, ``overall.high``), ``failure``, usage and metadata.
    ``frame.attrs`` describes the columns:

    - ``dimensions``: dimension -> column of its scores
    - ``meta``: field of metadata -> its column
    - ``rubric``: name, scale and definition of each dimension

    Raises:
        MedalError: Two judgements have different scales or definitions for one dimension.

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
        for kind, cells in _cells_by_kind(judgement).items():
            rows[kind].append(cells)
    columns: dict[str, Any] = {}
    heads: dict[str, dict[str, str]] = {}
    for kind, records in rows.items():
        part = _columns_of_kind(kind, records)
        heads[kind] = {}
        for name in part:
            head = name
            while head in columns or (kind not in ("key", "own") and head in _FIELDS):
                head = f"{kind}.{head}"
            heads[kind][name] = head
            columns[head] = part[name]
    frame = pandas.DataFrame(columns)
    rubric = merge_dimensions(rubrics).values()
    frame.attrs = {
        "dimensions": heads["scores"],
        "meta": heads["meta"],
        "rubric": [dimension.to_record() for dimension in rubric],
    }
    return frame


def _columns_of_kind(kind: str, records: list[dict[str, Any]]) -> DataFrame:
    """Returns the columns of one kind as a table, with the right type for each column. Optional
    columns without a value are left out.

    Args:
        kind: Kind of the columns: ``scores``, ``interval`` or another of _KINDS.
        records: Column -> value, one mapping for each row of the table.
    """
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
            # Int64 allows missing values.
            with suppress(OverflowError, TypeError):  # beyond 64 bits
                part[name] = column.astype("Int64")
    return part.infer_objects()


def frame_dimensions(frame: DataFrame) -> tuple[Dimension, ...]:
    """Returns the dimensions (name, scale and definition) of the scores in ``frame``, a table from
    ``to_frame``. Empty for any other table."""
    return parse_dimensions(frame.attrs.get("rubric", []))
