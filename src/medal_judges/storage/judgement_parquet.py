"""Judgements as parquet: everything that they hold, in typed columns.

Each field says in its metadata where its values stand in a judgement, so that reading gives back
what was written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medal_judges.errors import DataError
from medal_judges.records.judgement import Judgement
from medal_judges.storage.judgement_table import JudgementColumn, cells_of

if TYPE_CHECKING:
    from pyarrow import Field

_PLACE = b"medal_judges.place"  # of a field's metadata: its column's kind and place
_ROWS = 4096  # a batch


def write_parquet_rows(
    path: Path, judgements: Iterable[Judgement], columns: Sequence[JudgementColumn]
) -> None:
    """Write the ``columns`` of ``judgements``, in batches."""
    import pyarrow
    from pyarrow import parquet

    schema = pyarrow.schema([_field(column) for column in columns])
    rows = cells_of(judgements, columns)
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while batch := list(islice(rows, _ROWS)):
            arrays = [
                pyarrow.array([_cell(column, value) for value in values], type=each.type)
                for column, values, each in zip(
                    columns, zip(*batch, strict=True), schema, strict=True
                )
            ]
            writer.write_batch(pyarrow.record_batch(arrays, schema=schema))


def _cell(column: JudgementColumn, value: object) -> object:
    as_json = column.kind == "json" and value is not None
    return json.dumps(value, ensure_ascii=False) if as_json else value


def _field(column: JudgementColumn) -> Field[Any]:
    import pyarrow

    types = {
        "text": pyarrow.string(),
        "json": pyarrow.string(),
        "int": pyarrow.int64(),
        "float": pyarrow.float64(),
        "bool": pyarrow.bool_(),
        "floats": pyarrow.list_(pyarrow.float64()),
    }
    place = json.dumps([column.kind, *column.place])
    return pyarrow.field(column.name, types[column.kind], metadata={_PLACE: place})


def read_parquet_rows(
    path: str | Path,
) -> Iterator[tuple[int, list[JudgementColumn], tuple[object, ...]]]:
    """(Row from 1, columns, cells) of each row. Raises DataError."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    number = 0
    try:
        with ParquetFile(path) as file:
            columns = [_column(path, each) for each in file.schema_arrow]
            for batch in file.iter_batches(_ROWS):
                lists = [array.to_pylist() for array in batch.columns]
                for cells in zip(*lists, strict=True):
                    number += 1
                    yield number, columns, cells
    except (ArrowException, OSError) as error:
        raise DataError(path, number or None, f"cannot be read as parquet: {error}") from error


def _column(path: str | Path, field: Field[Any]) -> JudgementColumn:
    stated = (field.metadata or {}).get(_PLACE)
    if stated is None:
        hint = "of another table make JSON lines: {id, judge, scores: {dimension: number}}"
        raise DataError(
            path, None, "is no parquet file of judgements as medal score writes it", hint=hint
        )
    kind, *place = json.loads(stated)
    return JudgementColumn(field.name, tuple(place), kind)


def is_judgement_parquet(path: Path) -> bool:
    """Whether its fields say that they are of judgements. False for what is no parquet."""
    from pyarrow import ArrowException
    from pyarrow.parquet import read_schema

    try:
        return all(_PLACE in (each.metadata or {}) for each in read_schema(path))
    except (ArrowException, OSError):
        return False
