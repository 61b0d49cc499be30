"""Files of judgements: JSON lines and parquet hold everything, CSV what people read."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial as bound
from pathlib import Path
from typing import TYPE_CHECKING, overload

from medal_judges.errors import ConfigError, DataError, MissingExtraError, RecordError
from medal_judges.records.judgement import Judgement, parse_judgement
from medal_judges.storage.files import atomic_path
from medal_judges.storage.jsonl import (
    limited_lines,
    load_json,
    open_text,
    read_records,
    write_records,
)
from medal_judges.storage.judgement_csv import is_judgement_csv, read_csv_rows, write_csv_rows
from medal_judges.storage.judgement_parquet import (
    is_judgement_parquet,
    read_parquet_rows,
    write_parquet_rows,
)
from medal_judges.storage.judgement_parts import finished_parts, part_lines, read_manifest
from medal_judges.storage.judgement_table import TableColumns, cells_of, record_of

if TYPE_CHECKING:
    from pandas import DataFrame

CSV, PARQUET = (".csv", ".csv.gz"), (".parquet",)


def is_table(path: str | Path) -> bool:
    """Whether judgements are written there as parquet or CSV, by the name's ending.

    Raises ConfigError for the ending of another kind of table.
    """
    name = str(path).lower()
    if name.endswith((".tsv", ".xlsx", ".arrow", ".feather", ".parquet.gz", ".ods")):
        raise ConfigError(
            f"judgements cannot be written to {path}",
            hint="name a file that ends in .jsonl, .jsonl.gz, .parquet, .csv or .csv.gz",
        )
    return name.endswith(CSV + PARQUET)


def holds_judgements(path: str | Path) -> bool:
    """Whether a file is one of judgements, by its columns or its first line, a folder by its
    manifest. Raises DataError for a file of lines that is empty."""
    name = str(path).lower()
    if Path(path).is_dir():
        return read_manifest(Path(path)) is not None
    if name.endswith(PARQUET):
        return is_judgement_parquet(Path(path))
    if name.endswith(CSV):
        return is_judgement_csv(Path(path))
    try:
        with open_text(path) as stream:
            first = next((line for line in limited_lines(stream) if line.strip()), "")
    except (EOFError, zlib.error, OSError):
        return False  # its reader says what is wrong
    if not first:
        raise DataError(path, None, "is empty", hint="give a file of scores or of dialogues")
    try:
        record = load_json(first)
    except (RecordError, RecursionError):
        return False
    return isinstance(record, dict) and isinstance(record.get("scores"), dict)


def read_judgements(path: str | Path, *, partial: bool = False) -> Iterator[Judgement]:
    """Stream the judgements of a file: parquet or CSV by its ending, else JSON lines (.gz too); of
    a folder of parts (``medal score --ray``), part by part.

    Two rows for one (id, turn) are an error. A CSV holds no distributions, contributions and
    details: of judgements that had some it is refused, but for ``partial``, which takes what is
    there (scores, failures, amounts, fields kept as text). Raises DataError that names file and
    row.

    >>> from medal_judges import read_judgements, score_file
    >>> report = score_file("dialogues.jsonl", "length", "scores.parquet")
    >>> [(judgement.id, judgement.scored) for judgement in read_judgements("scores.parquet")]
    [('d0', True), ('d1', True), ('d2', True)]
    """
    seen: set[int] = set()  # 8 bytes a row instead of the id itself

    def parse(record: object) -> Judgement:
        judgement = parse_judgement(record)
        mark = hash((judgement.id, judgement.turn))
        if mark in seen:
            raise RecordError("id", "an id and turn that no earlier row has", judgement.id)
        seen.add(mark)
        return judgement

    if not (Path(path).is_dir() or is_table(path)):
        yield from read_records(path, parse)
        return
    for file, number, record in _table_records(Path(path), partial):
        try:
            yield parse(record())
        except RecordError as error:
            raise DataError(file, number, error.message) from error


def _table_records(
    path: Path, incomplete: bool
) -> Iterator[tuple[Path, int, Callable[[], object]]]:
    """(File, row, what makes its record) of each row of a table, or of a folder of parts."""
    if path.is_dir():
        for part in finished_parts(path):
            for number, line in part_lines(part):
                yield part, number, bound(load_json, line)
        return
    if not path.is_file():
        raise DataError(path, None, "no such file")
    name = path.name.lower()
    for number, columns, cells in (
        read_csv_rows(path, incomplete) if name.endswith(CSV) else read_parquet_rows(path)
    ):
        yield path, number, bound(record_of, columns, cells)


class Judgements(Sequence[Judgement]):
    """Judgements in memory: of a judge, or of a file.

    >>> from medal_judges import Judge, Judgements, read_dialogues
    >>> judge = Judge.from_pretrained("length")
    >>> judgements = Judgements(judge.score(read_dialogues("dialogues.jsonl")))
    >>> len(judgements), judgements[0].id
    (3, 'd0')
    >>> table = judgements.to_pandas()
    >>> list(table.columns)[:3]
    ['id', 'turn', 'judge']
    >>> judgements.write("scores.csv")
    3
    """

    def __init__(self, judgements: Iterable[Judgement]) -> None:
        self._rows = tuple(judgements)

    @classmethod
    def read(cls, path: str | Path, *, partial: bool = False) -> Judgements:
        """Those of a file, see ``read_judgements``."""
        return cls(read_judgements(path, partial=partial))

    @overload
    def __getitem__(self, index: int) -> Judgement: ...
    @overload
    def __getitem__(self, index: slice) -> Judgements: ...
    def __getitem__(self, index: int | slice) -> Judgement | Judgements:
        found = self._rows[index]
        return Judgements(found) if isinstance(found, tuple) else found

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Judgements) and self._rows == other._rows

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Judgements({len(self)})"

    def write(self, path: str | Path) -> int:
        """Write a file: parquet or CSV by its ending, else JSON lines; how many. It appears whole
        or not at all."""
        if is_table(path):
            return write_table(path, self).rows
        return write_records(path, self)

    def to_pandas(self) -> DataFrame:
        """A data frame of one row a judgement: id, turn, judge, each dimension with its uncertainty
        where there is one, failure, amounts and the fields kept. Raises MissingExtraError without
        pandas, RecordError for judgements of different dimensions."""
        try:
            import pandas
        except ImportError as error:
            raise MissingExtraError("pandas", "pandas", "a data frame of judgements") from error
        columns = TableColumns()
        for judgement in self:
            columns.add(judgement)
        flat = columns.flat()
        rows = cells_of(self, flat)
        frame = pandas.DataFrame([*rows], columns=[column.name for column in flat])
        whole = {column.name: "Int64" for column in flat if column.kind == "int"}
        numbers = {column.name: "float64" for column in flat if column.kind == "float"}
        return frame.astype(whole | numbers)


def write_table(path: str | Path, judgements: Iterable[Judgement]) -> TableColumns:
    """Write ``judgements``, which are gone through twice, as parquet or CSV; returns the columns.
    The file appears whole or not at all. Raises RecordError as TableColumns does."""
    columns = TableColumns()
    for judgement in judgements:
        columns.add(judgement)
    with atomic_path(path) as partial:
        if str(path).lower().endswith(CSV):
            write_csv_rows(partial, judgements, columns)
        else:
            write_parquet_rows(partial, judgements, columns.whole())
    return columns
