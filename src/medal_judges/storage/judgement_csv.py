"""Judgements as CSV: what people read, and what it gives back.

The columns have a fixed order: scores and uncertainties stand before ``failure``, the fields kept
behind ``not_in_csv``, which names what the row had besides.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from medal_judges.errors import DataError
from medal_judges.records.foreign_text import FORMULA, plain_cell
from medal_judges.records.judgement import Judgement
from medal_judges.storage.jsonl import open_text
from medal_judges.storage.judgement_table import (
    DERIVED,
    NOT_IN_CSV,
    ColumnKind,
    JudgementColumn,
    TableColumns,
    cells_of,
)

_BEGIN = ["id", "turn", "judge"]
_LONGEST = 1 << 27  # characters of a cell


def write_csv_rows(path: Path, judgements: Iterable[Judgement], columns: TableColumns) -> None:
    flat = columns.flat()
    split = sum(column.place[0] != "meta" for column in flat)
    lost = " and ".join(columns.lost_when_flat)  # without a comma: no quotes for cut(1)
    heads = [column.name for column in flat]
    with _csv_stream(path) as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(map(plain_cell, [*heads[:split], NOT_IN_CSV, *heads[split:]]))
        for values in cells_of(judgements, flat):
            cells = [_csv_cell(value) for value in values]
            writer.writerow([*cells[:split], lost, *cells[split:]])


@contextmanager
def _csv_stream(path: Path) -> Iterator[IO[str]]:
    """Text into the file; a .gz one without time and name, so that equal rows are equal bytes."""
    if path.suffix != ".gz":
        with open_text(path, "w") as stream:
            yield stream
        return
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
        io.TextIOWrapper(packed, "utf-8", newline="\n") as stream,
    ):
        yield stream


def _csv_cell(value: object) -> object:
    if isinstance(value, bool | list | dict):
        return json.dumps(value, ensure_ascii=False)
    return plain_cell(value)


def read_csv_rows(
    path: str | Path, partial: bool
) -> Iterator[tuple[int, list[JudgementColumn], list[object]]]:
    """(Line, columns, cells) of each row; without ``partial`` the file must not say that a row had
    more. Raises DataError."""
    csv.field_size_limit(_LONGEST)
    with open_text(path) as stream:
        reader = csv.reader(stream, strict=True)
        try:
            columns = _csv_columns(path, [_undone(head) for head in next(reader, [])])
            at = columns.index(None)
            known = [column for column in columns if column is not None]
            for row in reader:
                if len(row) != len(columns):
                    problem = f"{len(row)} cells under {len(columns)} columns"
                    raise DataError(path, reader.line_num, problem)
                if row[at] and not partial:
                    raise DataError(
                        path,
                        None,
                        f"a CSV does not hold the {row[at]} of its judgements",
                        hint="score to a .jsonl or .parquet file, or read what is there with "
                        "partial=True",
                    )
                cells = [_csv_value(c, cell) for c, cell in zip(columns, row, strict=True) if c]
                yield reader.line_num, known, cells
        except (csv.Error, UnicodeError) as error:
            raise DataError(path, reader.line_num, f"not valid CSV: {error}") from error


def _csv_columns(path: str | Path, heads: Sequence[str]) -> list[JudgementColumn | None]:
    """The columns of a CSV by its heads; None for ``not_in_csv``."""
    if not _is_head(heads):
        hint = "its columns are id, turn, judge, the dimensions, failure, ..., not_in_csv, ..."
        problem = "is no CSV of judgements as medal score writes it"
        raise DataError(path, None, problem, hint=hint)
    failure, end = heads.index("failure"), heads.index(NOT_IN_CSV)
    columns: list[JudgementColumn | None] = []
    ints = ("truncated_turns", "left_out_turns", "shortened_turns", "turn")
    for i, head in enumerate(heads):
        kind: ColumnKind = "bool" if head == "transient" else "int" if head in ints else "text"
        place: tuple[str, ...] = (head,)
        if i == end:
            columns.append(None)
            continue
        if i > end:
            kind, place = "text", ("meta", head.removeprefix("meta."))
        elif 2 < i < failure:
            kind = "float"
            last = head.rpartition(".")[2]
            derived = last in DERIVED and not head.startswith("scores.")
            place = (last if derived else "scores", head.removeprefix("scores."))
        elif head.startswith("usage."):
            kind, place = "float", ("usage", head.removeprefix("usage."))
        columns.append(JudgementColumn(head, place, kind))
    return columns


def _csv_value(column: JudgementColumn, cell: str) -> object:
    """The cell's value; text that is no number or flag stays, so that the record's parser says
    what is wrong with it."""
    if not cell:
        return None
    try:
        if column.kind == "float":
            return float(cell)
        if column.kind == "int":
            return int(cell)
    except ValueError:
        return cell
    if column.kind == "bool":
        return {"true": True, "false": False}.get(cell, cell)
    return _undone(cell)


def _undone(cell: str) -> str:
    """A text without the apostrophe that kept it from being a formula."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULA) else cell


def is_judgement_csv(path: Path) -> bool:
    """Whether its first line names the columns of judgements."""
    with open_text(path) as stream:
        return _is_head(next(csv.reader([stream.readline(_LONGEST)]), []))


def _is_head(heads: Sequence[str]) -> bool:
    return [*heads[:3]] == _BEGIN and {"failure", NOT_IN_CSV} <= {*heads}
