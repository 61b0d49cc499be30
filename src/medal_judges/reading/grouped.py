"""Forms in which several rows are one chat: the rows are sorted by chat in a file on disk."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import groupby

from medal_judges.errors import MedalError, RecordError
from medal_judges.reading.branches import LINKS
from medal_judges.reading.columns import ColumnMap
from medal_judges.reading.forms import FORMS, form_of
from medal_judges.reading.instants import (
    Clock,
    instant,
    oldest_first,
    position,
)
from medal_judges.reading.names import (
    CONVERSATIONS,
    Counts,
    Fields,
    Record,
    plain_name,
)
from medal_judges.reading.roles import role_of, stated_role
from medal_judges.reading.rows import normal_row
from medal_judges.reading.talks import turn_in
from medal_judges.reading.traces import Steps, chat_of_traces, is_span, steps_of
from medal_judges.reading.unread import add_unread
from medal_judges.records.signature import content_hash
from medal_judges.records.validation import as_text

_TURN_FIELDS = ("role", "content", "time", "order")
_BY = "\x1fannotator "
StoredRow = tuple[str | None, str, int, str]  # key of the chat, trace, number, JSON

_TABLE = "CREATE TABLE rows (key TEXT, trace TEXT, number INTEGER, record TEXT)"
_SORTED = "SELECT key, number, record FROM rows ORDER BY MIN(rowid) OVER (PARTITION BY key), rowid"
# A run inside of another may state no session.
_KEYED = """UPDATE rows SET key = COALESCE((SELECT MAX(key) FROM rows AS other
    WHERE other.trace = rows.trace), trace) WHERE key IS NULL"""


def grouped_chats(
    rows: Iterable[tuple[int, object]],
    form: str,
    columns: ColumnMap,
    bad: Callable[[int, RecordError], None],
    counts: Counts,
    unread: Counts,
    before: Iterable[object] = (),
    form_is_stated: bool = False,
) -> Iterator[tuple[int, Callable[[], Fields]]]:
    """Yields the chats in the order of their first rows.

    Each item is the number of the chat's first row and a function that returns the chat as a row of
    messages. First, ``bad`` is called for each bad row, and for each chat that lacks the turn of a
    bad row (one of ``before``, or a later one). A row of another form is bad, unless the user has
    stated the form (``form_is_stated``). ``counts`` counts chats whose order is not certain.
    ``unread`` counts rows in which a field holds text that no reader uses. Memory holds one chat; a
    temporary SQLite file holds the rest.
    """
    has_traces = form not in ("turns", "calls")
    key_of = partial(_turn_key, columns)
    if form == "calls":
        key_of = partial(_call_key, columns, {})
    torn = {_chat_id(row, columns) for row in before}  # ids of chats that lack a turn

    def stored_rows() -> Iterator[StoredRow]:
        for number, row in rows:
            try:
                record = _checked(row, form, columns, form_is_stated)
                if not has_traces:
                    key = key_of(record, number)
                    yield key, "", number, json.dumps(record)
                    continue
                for index, step in enumerate(steps_of(record, form)):
                    trace = step["trace"] or f"{number}.{index}"
                    yield step["session"], trace, number, json.dumps(step)
            except RecordError as error:
                bad(number, error)
                torn.add(_chat_id(error.row, columns))

    for key, group in _groups(stored_rows(), has_traces=has_traces):
        number = group[0][0]
        if form == "calls":
            yield number, partial(_chat_of_calls, group, columns, counts)
            continue
        id = key.partition(_BY)[0]
        if has_traces:
            yield number, partial(chat_of_traces, key, group)
        elif id in torn:
            bad(number, RecordError("(rows)", "a chat without a bad row", id))
        else:
            yield number, partial(_chat_of_turns, id, group, columns, counts, unread)


def _checked(
    row: object, form: str, columns: ColumnMap, form_is_stated: bool
) -> Record:
    """Returns a row of the ``form``. Raises RecordError for any other one."""
    if isinstance(row, RecordError):
        raise row
    if not isinstance(row, dict):
        raise RecordError("(line)", "a JSON object", row)
    if form_is_stated:
        return row
    row_form = form_of(row, columns)
    if row_form == form:
        return row
    if row_form == "prompts" and form in ("langfuse", "langsmith"):
        return row
    if row_form is None and (form != "otel" or is_span(row)):
        return row
    expected = f"{FORMS[form]}, as in the rows before"
    raise RecordError("(row)", expected, FORMS.get(row_form or "", row))


def _groups(
    rows: Iterator[StoredRow], *, has_traces: bool
) -> Iterator[tuple[str, Steps]]:
    """Yields the key and the rows of each chat, in the order of their first rows."""
    # "": private, on disk, deleted when closed
    with closing(sqlite3.connect("")) as base:
        try:
            # KiB; small files never touch the disk
            base.execute("PRAGMA cache_size = -65536")
            base.execute("PRAGMA journal_mode = OFF")
            base.execute(_TABLE)
            base.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", rows)
            if has_traces:
                base.execute("CREATE INDEX traces ON rows (trace)")
                base.execute(_KEYED)
            for key, group in groupby(base.execute(_SORTED), key=lambda row: row[0]):
                yield key, [(number, json.loads(record)) for _, number, record in group]
        except sqlite3.OperationalError as error:
            hint = "set SQLITE_TMPDIR to a folder with enough space"
            raise MedalError(
                f"rows cannot be sorted on disk: {error}", hint=hint
            ) from error


# -- a logged call of a model a row ----------------------------------------------------------------


def _call_key(
    columns: ColumnMap, open_calls: dict[str, list[str]], row: Record, number: int
) -> str:
    """Returns the key of the call's conversation: that of the longest call with whose turns this
    one begins, else the row's number. ``open_calls``: a hash of the turns of a call -> keys of the
    conversations that end with them; the call takes the place of the one that it continues."""
    messages = normal_row(row, "calls", columns, Counter()).get("messages", [])
    begin = content_hash(_chat_id(row, columns))
    keys = [str(number)]
    for message in messages:
        keys = open_calls.get(begin) or keys
        turn = turn_in("messages", message)
        if turn:
            begin = content_hash([begin, turn])
    key = keys.pop(0)
    open_calls.setdefault(begin, []).append(key)
    return key


def _chat_of_calls(calls: Steps, columns: ColumnMap, counts: Counts) -> Fields:
    """Returns the last call of a conversation, which holds the others, with the id of the first
    one."""
    if len(calls) > 1:
        counts["calls that a later call holds"] += len(calls) - 1
    first, last = calls[0][1], calls[-1][1]
    return {**last, "id": _chat_id(first, columns) or columns.value(first, "id")}


# -- one turn a row --------------------------------------------------------------------------------


def _chat_id(row: object, columns: ColumnMap) -> str:
    """Returns the id of the row's chat; the empty text if it has none."""
    id = None
    if isinstance(row, dict):
        id = as_text(columns.value(row, "id", CONVERSATIONS))
    if isinstance(id, str) and id.strip():
        return id
    return ""


def _turn_key(columns: ColumnMap, row: Record, number: int) -> str:
    """Returns the key of the chat that the row belongs to: its id and the annotator, whose rows are
    a separate chat.
    """
    id = _chat_id(row, columns)
    if not id:
        raise RecordError("id", "the id of the turn's conversation", row)
    if "annotator" in columns.fields:
        id += f"{_BY}{columns.value(row, 'annotator')}"
    return id


def _chat_of_turns(
    id: str, rows: Steps, columns: ColumnMap, counts: Counts, unread: Counts
) -> Fields:
    """Returns a chat with its messages in order, and the columns that are equal in all rows.

    Columns that differ between turns are dropped, except the time of the first turn. ``unread``
    counts those with text.
    """
    rows = _in_order(rows, columns, counts)
    messages: list[Fields] = []
    chat: Fields = {}
    used: set[str] = set()
    different: set[str] = set()
    for number, record in rows:
        used.add(columns.column(record, "id", CONVERSATIONS))
        for field in _TURN_FIELDS:
            used.add(columns.column(record, field))
        message = {
            name: value for name, value in record.items() if plain_name(name) in LINKS
        }
        message["role"] = _role(number, record, columns)
        message["content"] = columns.value(record, "content")
        messages.append(message)
        for name, value in record.items():
            if value not in (None, "") and chat.setdefault(name, value) != value:
                different.add(name)
    for _, record in rows:
        add_unread(unread, record, different - used)
    for name in different | used:
        chat.pop(name, None)
    first = rows[0][1]
    time = columns.value(first, "time")
    if time is not None:
        if "time" in columns.fields:
            name = "time"
        else:
            name = columns.column(first, "time")
        chat[name] = time
    return chat | {"id": id, "messages": messages}


def _role(number: int, record: Record, columns: ColumnMap) -> object:
    field = f"row {number}: {columns.column(record, 'role')}"
    return role_of(columns.value(record, "role"), columns.roles, field)


def _in_order(rows: Steps, columns: ColumnMap, counts: Counts) -> Steps:
    """Returns the turns of a chat in order.

    The column ``order`` decides, else the times if every row has one, else the file. Raises
    RecordError for times that cannot be compared.
    """
    for field, parse in (("order", position), ("time", instant)):
        values = [columns.value(record, field) for _, record in rows]
        instants = list(filter(None, map(parse, values)))
        if len(instants) < len(rows):
            continue
        clock = instants[0].clock
        for (number, record), moment, value in zip(rows, instants, values, strict=True):
            if moment.clock is not clock:
                column = f"row {number}: {columns.column(record, field)}"
                raise RecordError(
                    column, f"a time {clock.value}, like the first", value
                )
        roles = [
            stated_role({"role": _role(number, record, columns)})
            for number, record in rows
        ]
        ordered_rows = oldest_first(rows, instants, roles)
        if ordered_rows != rows and clock is Clock.LOCAL:
            counts["chats sorted by times without a time zone"] += 1
        return ordered_rows
    if any(value not in (None, "") for value in values):
        counts[
            "chats in the order of the file: some times are missing or not readable"
        ] += 1
    return rows
