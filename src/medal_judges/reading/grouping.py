"""Rows that belong together and may stand apart: gathered on disk, one group after the other."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing

from medal_judges.errors import MedalError, RecordError
from medal_judges.reading.json_rows import Fields

# A conversation of more turns than this is somebody's whole log under one id.
MOST_ROWS = 100_000

Group = list[tuple[int, Fields]]  # (number, record) of its rows in the order of the file


def gathered(rows: Iterable[tuple[str, int, object]]) -> Iterator[tuple[str, Group | RecordError]]:
    """(Key, rows) of each key of ``rows`` (key, number, record as JSON has it), in the order in
    which keys come first. Memory holds one group: the rest lies in a temporary file of SQLite's.

    A group of more than MOST_ROWS rows is a RecordError. Raises MedalError where the disk is full.
    """
    with closing(sqlite3.connect("")) as base:  # "": private, on disk, gone when it is closed
        try:
            base.execute("PRAGMA cache_size = -65536")  # KiB; small files never touch the disk
            base.execute("PRAGMA journal_mode = OFF")
            base.execute("CREATE TABLE rows (key TEXT, number INTEGER, record TEXT)")
            base.executemany(
                "INSERT INTO rows VALUES (?, ?, ?)",
                ((key, number, json.dumps(record)) for key, number, record in rows),
            )
            yield from _groups(base)
        except sqlite3.OperationalError as error:
            raise MedalError(
                f"rows cannot be sorted on disk: {error}",
                hint="SQLITE_TMPDIR names the folder for it",
            ) from error


_SORTED = """
SELECT key, number, record FROM
  (SELECT key, number, record, rowid AS place,
     MIN(rowid) OVER (PARTITION BY key) AS first FROM rows)
ORDER BY first, place
"""


def _groups(base: sqlite3.Connection) -> Iterator[tuple[str, Group | RecordError]]:
    current: str | None = None
    count = 0
    group: Group = []
    for key, number, record in base.execute(_SORTED):
        if key != current:
            if current is not None:
                yield current, _bounded(group, count)
            current, count, group = key, 0, []
        count += 1
        if count <= MOST_ROWS:
            group.append((number, json.loads(record)))
        else:
            group.clear()
    if current is not None:
        yield current, _bounded(group, count)


def _bounded(group: Group, count: int) -> Group | RecordError:
    if count <= MOST_ROWS:
        return group
    return RecordError("(rows)", f"at most {MOST_ROWS:,} rows of one conversation", count)
