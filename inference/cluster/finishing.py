"""The end of a run on a cluster: its parts counted, bad rows listed, equal ids numbered."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from medal_judges.errors import DataError
from medal_judges.inference.scoring import ScoreReport
from medal_judges.reading.report import ReadingReport, list_beside
from medal_judges.records.judgement import parse_judgement
from medal_judges.storage.files import atomic_path, atomic_write
from medal_judges.storage.jsonl import load_json
from medal_judges.storage.judgement_parts import (
    ID,
    JUDGEMENTS,
    MANIFEST,
    PARTS,
    PROBLEM,
    ROW,
    finished_parts,
    part_lines,
)


def finish(out: Path, manifest: Mapping[str, object], *, several: bool) -> None:
    """Name the parts and their rows in the manifest of ``out``: a run with such has ended.

    Ids that ``several`` files have are numbered (``id#2``), in the order of the files; within a
    file they are numbered when it is read. A run that is stopped here does it again.
    """
    import pyarrow.parquet as pq

    parts = sorted((out / PARTS).glob("*.parquet"))
    if several:
        _number_ids(parts)
    rows = [pq.read_metadata(part).num_rows for part in parts]
    listed = [
        {"file": f"{PARTS}/{part.name}", "rows": count}
        for part, count in zip(parts, rows, strict=True)
    ]
    whole = {**manifest, "rows": sum(rows), "parts": listed}
    atomic_write(out / MANIFEST, json.dumps(whole, indent=2, ensure_ascii=False) + "\n")


def _number_ids(parts: Sequence[Path]) -> None:
    """Number ids that stand more than once, and write the parts again in which they stand."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    if not parts:
        return
    tables = [pq.read_table(part, columns=[ROW, ID]) for part in parts]
    ids = pa.concat_tables(tables)
    counts = pc.value_counts(ids[ID].drop_null())
    twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    if not len(twice):
        return
    taken = set(ids[ID].to_pylist())
    found = ids.filter(pc.is_in(ids[ID], twice)).sort_by(ROW)
    names: dict[int, str] = {}  # row -> its new id
    seen: set[str] = set()
    for row, id in zip(found[ROW].to_pylist(), found[ID].to_pylist(), strict=True):
        number, name = 1, id
        while name in seen or (name != id and name in taken):
            number += 1
            name = f"{id}#{number}"
        seen.add(name)
        if name != id:
            names[row] = name
    for part, table in zip(parts, tables, strict=True):
        if any(row in names for row in table[ROW].to_pylist()):
            _rename(part, names)


def _rename(part: Path, names: Mapping[int, str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(part)
    rows = table.to_pylist()
    for row in rows:
        if (name := names.get(row[ROW])) is not None:
            row[ID] = name
            row[JUDGEMENTS] = [
                json.dumps({**json.loads(line), "id": name}, ensure_ascii=False)
                for line in row[JUDGEMENTS]
            ]
    with atomic_path(part) as partial:
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), partial)


def report_of(part: Path) -> ScoreReport:
    """What a part adds to the report; its bad rows are ``left_out``."""
    import pyarrow.parquet as pq

    report = ScoreReport()
    for _, line in part_lines(part):
        report.add(parse_judgement(load_json(line)))
    problems = pq.read_table(part, columns=[PROBLEM])[PROBLEM]
    report.left_out = len(problems) - problems.null_count
    return report


def list_problems(out: Path, judged: int) -> ReadingReport:
    """List the bad rows beside ``out``, in the order of the input, as a run by one process does."""
    reading = ReadingReport(list_beside(out), read=judged)
    for _, line in sorted(_problems(out)):
        problem = json.loads(line)
        reading.add(DataError(problem["file"], problem["line"], problem["problem"]))
    return reading


def _problems(out: Path) -> Iterator[tuple[int, str]]:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    for part in finished_parts(out):
        table = pq.read_table(part, columns=[ROW, PROBLEM]).filter(pc.field(PROBLEM).is_valid())
        yield from zip(table[ROW].to_pylist(), table[PROBLEM].to_pylist(), strict=True)
