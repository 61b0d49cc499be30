"""Tables of one turn a row: the chat that the rows of one conversation make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from medal_judges.errors import RecordError
from medal_judges.reading.columns import ColumnMap, lookup
from medal_judges.reading.forms import CONTENTS, CONVERSATIONS, ROLES, find_key, role_of
from medal_judges.reading.grouping import Group
from medal_judges.reading.json_rows import Fields

TIMES = ("time", "timestamp", "created_at", "datetime", "date", "sent_at", "create_time", "ts")
ORDERS = (
    *("turn_index", "turn_number", "message_index", "message_number", "order", "position"),
    *("sequence", "seq", "turn_id"),
)
_NAMES = ("name", "assistant_name", "agent_name")


class ConversationIds:
    """Which conversation each row belongs to, and whether a column that is merely called ``id`` is
    one of turns: then no id comes twice."""

    def __init__(self, columns: ColumnMap) -> None:
        self._columns = columns
        self._seen: set[int] | None = set()  # None: two rows had the same

    @property
    def alone(self) -> bool:
        """Whether there were several rows, each with an ``id`` of its own."""
        return self._seen is not None and len(self._seen) > 1

    def key(self, record: Mapping[str, object]) -> str:
        """The conversation's id. Raises RecordError where the row says none."""
        column = _column(record, self._columns, "id", CONVERSATIONS) or ""
        value = lookup(record, column)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # tables have no whole numbers where a cell is empty
        if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
            raise RecordError("id", "the conversation that the turn belongs to", value)
        guessed = column.lower() == "id" and "id" not in self._columns.fields
        if not guessed or hash(str(value)) in (self._seen or ()):
            self._seen = None
        elif self._seen is not None:
            self._seen.add(hash(str(value)))
        return str(value)


def chat_of_turns(key: str, rows: Group, columns: ColumnMap) -> Fields:
    """The row of one chat, as ``form_of`` knows it: messages in order, and what all rows agree on.

    Turns are in the order of the column ``order``, else of the times, where every row has one that
    can be read, else of the file. Columns that differ from turn to turn are left out, but for the
    time of the first turn. Raises RecordError that names the row.
    """
    rows = _ordered(rows, columns)
    first = rows[0][1]
    names = {
        field: _column(first, columns, field, known)
        for field, known in (
            *(("id", CONVERSATIONS), ("role", ROLES), ("content", CONTENTS)),
            *(("time", TIMES), ("order", ORDERS), ("name", _NAMES)),
        )
    }
    messages = [_message(number, record, names, columns) for number, record in rows]
    chat = _shared([record for _, record in rows], {c for c in names.values() if c})
    time = None if names["time"] is None else lookup(first, names["time"])
    if time is not None:
        chat["time" if "time" in columns.fields else str(names["time"])] = time
    return chat | {"id": key, "messages": messages}


def _message(
    number: int, record: Mapping[str, object], names: Mapping[str, str | None], columns: ColumnMap
) -> Fields:
    role = lookup(record, names["role"] or "")
    try:
        word = role_of(role, columns)
    except RecordError as error:
        raise RecordError(f"row {number}: {names['role']}", error.expected, role) from error
    message: Fields = {"role": word, "content": lookup(record, names["content"] or "")}
    name = lookup(record, names["name"] or "")
    return message | ({"name": name} if isinstance(name, str) and name else {})


def _column(
    record: Mapping[str, object], columns: ColumnMap, field: str, known: Sequence[str]
) -> str | None:
    return columns.fields.get(field) or find_key(record, known)


def _shared(records: Sequence[Fields], used: set[str]) -> Fields:
    """The columns on which all rows that fill them agree."""
    values: Fields = {}
    differ: set[str] = set()
    for record in records:
        for name, value in record.items():
            if name in used or name in differ or value in (None, ""):
                continue
            if values.setdefault(name, value) != value:
                differ.add(name)
    return {name: value for name, value in values.items() if name not in differ}


def _ordered(rows: Group, columns: ColumnMap) -> Group:
    for field, known in (("order", ORDERS), ("time", TIMES)):
        read = _number if field == "order" else _moment
        places = [
            read(lookup(record, _column(record, columns, field, known) or "")) for _, record in rows
        ]
        if all(place is not None for place in places):
            order = sorted(range(len(rows)), key=lambda i: places[i])  # type: ignore[arg-type, return-value]
            return [rows[i] for i in order]
    return rows


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _moment(value: object) -> float | None:
    """Seconds of ISO text (without a zone: of a zone of its own, the same for all) or a number."""
    number = _number(value)
    if number is not None or not isinstance(value, str):
        return number
    try:
        said = value.strip().replace("Z", "+00:00")
        moment = datetime.fromisoformat(said)
    except ValueError:
        return None
    zone = datetime(1970, 1, 1, tzinfo=moment.tzinfo)
    return (moment - zone).total_seconds()
