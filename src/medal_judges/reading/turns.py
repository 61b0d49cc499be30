"""Tables of one turn a row: gathers the rows of each conversation and makes a chat of them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from itertools import groupby

from medal_judges.errors import MedalError, RecordError
from medal_judges.reading.columns import ColumnMap, lookup
from medal_judges.reading.forms import CONTENTS, CONVERSATIONS, ROLES, find_key, role_of
from medal_judges.reading.text_rows import Fields

_TIMES = ("time", "timestamp", "created_at", "datetime", "date", "sent_at", "create_time", "ts")
_ORDERS = (
    *("turn_index", "turn_number", "message_index", "message_number", "order", "position"),
    *("sequence", "seq", "turn_id"),
)
_NAMES = ("name", "assistant_name", "agent_name")
Group = list[tuple[int, Fields]]  # (number, record) of its rows in the order of the file

_SORTED = """
SELECT key, number, record FROM
  (SELECT key, number, record, rowid AS place,
     MIN(rowid) OVER (PARTITION BY key) AS first FROM rows)
ORDER BY first, place
"""


def gathered(rows: Iterable[tuple[str, int, object]]) -> Iterator[tuple[str, Group]]:
    """Yields (key, rows) of each key of ``rows`` (key, number, record), in the order of first rows.
    One group is in memory; the rest is in a temporary SQLite file."""
    with closing(sqlite3.connect("")) as base:  # "": private, on disk, deleted when closed
        try:
            base.execute("PRAGMA cache_size = -65536")  # KiB; small files never touch the disk
            base.execute("PRAGMA journal_mode = OFF")
            base.execute("CREATE TABLE rows (key TEXT, number INTEGER, record TEXT)")
            lines = ((key, number, json.dumps(record)) for key, number, record in rows)
            base.executemany("INSERT INTO rows VALUES (?, ?, ?)", lines)
            for key, group in groupby(base.execute(_SORTED), key=lambda row: row[0]):
                yield key, [(number, json.loads(record)) for _, number, record in group]
        except sqlite3.OperationalError as error:
            hint = "SQLITE_TMPDIR names the folder for it"
            raise MedalError(f"rows cannot be sorted on disk: {error}", hint=hint) from error


class ConversationIds:
    """Ids of the conversations of rows. ``alone``: there are several rows, and a column that is
    merely called ``id`` has another value in each, so it names turns and not conversations."""

    def __init__(self, columns: ColumnMap) -> None:
        self._columns = columns
        self._seen: set[int] = set()
        self._unique = True

    @property
    def alone(self) -> bool:
        return self._unique and len(self._seen) > 1

    def key(self, record: Mapping[str, object]) -> str:
        """Returns the conversation's id. Raises RecordError if the row states none."""
        column = self._columns.fields.get("id") or find_key(record, CONVERSATIONS) or ""
        value = lookup(record, column)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # tables have no whole numbers if a cell is empty
        if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
            raise RecordError("id", "the conversation that the turn belongs to", value)
        guessed = column.lower() == "id" and "id" not in self._columns.fields
        self._unique = self._unique and guessed and hash(str(value)) not in self._seen
        if self._unique:
            self._seen.add(hash(str(value)))
        return str(value)


def chat_of_turns(key: str, rows: Group, columns: ColumnMap) -> Fields:
    """Returns one chat: messages in order, and the columns that are equal in all rows.

    Turns are in the order of the column ``order``, else of the times if every row has one, else of
    the file. Columns that differ from turn to turn are dropped, except the time of the first turn.
    """

    def column(record: Fields, field: str, known: Sequence[str]) -> str | None:
        return columns.fields.get(field) or find_key(record, known)

    for field, known, read in (("order", _ORDERS, _number), ("time", _TIMES, _moment)):
        places = [read(lookup(record, column(record, field, known) or "")) for _, record in rows]
        if None not in places:
            order = sorted(range(len(rows)), key=lambda i: places[i])  # type: ignore[arg-type, return-value]
            rows = [rows[i] for i in order]
            break
    first = rows[0][1]
    names = {
        field: column(first, field, known)
        for field, known in (
            *(("id", CONVERSATIONS), ("role", ROLES), ("content", CONTENTS)),
            *(("time", _TIMES), ("order", _ORDERS), ("name", _NAMES)),
        )
    }
    messages: list[Fields] = []
    chat: Fields = {}
    differ = {name for name in names.values() if name}
    for number, record in rows:
        role = lookup(record, names["role"] or "")
        try:
            message: Fields = {"role": role_of(role, columns)}
        except RecordError as error:
            raise RecordError(f"row {number}: {names['role']}", error.expected, role) from error
        message["content"] = lookup(record, names["content"] or "")
        name = lookup(record, names["name"] or "")
        if isinstance(name, str) and name:
            message["name"] = name
        messages.append(message)
        for each, value in record.items():
            filled = each not in differ and value not in (None, "")
            if filled and chat.setdefault(each, value) != value:
                differ.add(each)
    chat = {name: value for name, value in chat.items() if name not in differ}
    time = None if names["time"] is None else lookup(first, names["time"])
    if time is not None:
        chat["time" if "time" in columns.fields else str(names["time"])] = time
    return chat | {"id": key, "messages": messages}


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _moment(value: object) -> float | None:
    """Seconds of ISO text, or a number. Times without a zone are all in one zone."""
    number = _number(value)
    if number is not None or not isinstance(value, str):
        return number
    try:
        moment = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
    except ValueError:
        return None
    return (moment - datetime(1970, 1, 1, tzinfo=moment.tzinfo)).total_seconds()
