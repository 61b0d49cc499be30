"""Forms in which several rows are one chat: tables of one turn a row, and OpenTelemetry spans of
GenAI calls (attributes under ``attributes``, as columns, or in OTLP's JSON export)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import datetime, timezone
from functools import partial
from itertools import groupby
from typing import Any

from medal_judges.errors import MedalError, RecordError
from medal_judges.reading.forms import (
    CONTENTS,
    CONVERSATIONS,
    ROLES,
    ColumnMap,
    Fields,
    find_key,
    lookup,
    parsed_cell,
)
from medal_judges.reading.messages import role_of

_TIMES = ("time", "timestamp", "created_at", "datetime", "date", "sent_at", "create_time", "ts")
_ORDERS = ("turn_index", "turn_number", "message_index", "order", "position", "sequence", "turn_id")
Group = list[tuple[int, Fields]]  # (number, record) of its rows in the order of the file

_SORTED = "SELECT key, number, record FROM rows ORDER BY MIN(rowid) OVER (PARTITION BY key), rowid"


def grouped_chats(
    rows: Iterable[tuple[int, object]],
    form: str,
    columns: ColumnMap,
    bad: Callable[[int, RecordError], None],
) -> Iterator[tuple[int, Callable[[], Fields]]]:
    """Yields, for each chat in the order of first rows, the number of its first row and a function
    that returns the chat as a row of messages. Calls ``bad`` for bad rows before that.

    One chat is in memory; the rest is in a temporary SQLite file.
    """

    def keyed() -> Iterator[tuple[str, int, str]]:
        for number, row in rows:
            try:
                if isinstance(row, RecordError):
                    raise row
                if not isinstance(row, Mapping):
                    raise RecordError("(line)", "a JSON object", row)
                if form == "turns":
                    column = columns.fields.get("id") or find_key(row, CONVERSATIONS) or ""
                    id: Any = lookup(row, column)
                    if isinstance(id, float) and id.is_integer():
                        id = int(id)  # tables have no whole numbers if a cell is empty
                    known = isinstance(id, str | int) and not isinstance(id, bool)
                    if not (known and str(id).strip()):
                        raise RecordError("id", "the id of the turn's conversation", id)
                    yield str(id), number, json.dumps(row)
                    continue
                for place, span in enumerate(_spans(row)):
                    yield _chat_id(span) or f"{number}.{place}", number, json.dumps(span)
            except RecordError as error:
                bad(number, error)

    with closing(sqlite3.connect("")) as base:  # "": private, on disk, deleted when closed
        try:
            base.execute("PRAGMA cache_size = -65536")  # KiB; small files never touch the disk
            base.execute("PRAGMA journal_mode = OFF")
            base.execute("CREATE TABLE rows (key TEXT, number INTEGER, record TEXT)")
            base.executemany("INSERT INTO rows VALUES (?, ?, ?)", keyed())
            for key, group in groupby(base.execute(_SORTED), key=lambda row: row[0]):
                chat = [(number, json.loads(record)) for _, number, record in group]
                make = partial(_chat_of_turns, key, chat, columns)
                yield chat[0][0], make if form == "turns" else partial(_chat_of_spans, chat)
        except sqlite3.OperationalError as error:
            hint = "set SQLITE_TMPDIR to a folder with enough space"
            raise MedalError(f"rows cannot be sorted on disk: {error}", hint=hint) from error


# -- one turn a row --------------------------------------------------------------------------------


def _chat_of_turns(key: str, rows: Group, columns: ColumnMap) -> Fields:
    """Returns a chat with its messages in order, and the columns that are equal in all rows.

    The order of turns is that of the column ``order``, else that of the times if every row has one,
    else that of the file. Columns that differ between turns are dropped, except the time of the
    first turn.
    """
    names = {
        field: columns.fields.get(field) or find_key(rows[0][1], known) or ""
        for field, known in (
            *(("id", CONVERSATIONS), ("role", ROLES), ("content", CONTENTS), ("time", _TIMES)),
            ("order", _ORDERS),
        )
    }
    for field in ("order", "time"):
        places = [_moment(lookup(record, names[field])) for _, record in rows]
        if None not in places:
            ordered = sorted(zip(places, rows, strict=True), key=lambda pair: pair[0] or 0.0)
            rows = [row for _, row in ordered]
            break
    messages: list[Fields] = []
    chat: Fields = {}
    differ = set(names.values())
    for number, record in rows:
        role = lookup(record, names["role"])
        try:
            message: Fields = {"role": role_of(role, columns.roles)}
        except RecordError as error:
            raise RecordError(f"row {number}: {names['role']}", error.expected, role) from error
        message["content"] = lookup(record, names["content"])
        messages.append(message)
        for each, value in record.items():
            filled = each not in differ and value not in (None, "")
            if filled and chat.setdefault(each, value) != value:
                differ.add(each)
    chat = {name: value for name, value in chat.items() if name not in differ}
    if (time := lookup(rows[0][1], names["time"])) is not None:
        chat["time" if "time" in columns.fields else names["time"]] = time
    return chat | {"id": key, "messages": messages}


def _moment(value: object) -> float | None:
    """Returns a number, or the seconds since 1970 of an ISO time; all times without a zone count
    as times of one zone."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
    except ValueError:
        try:
            moment = datetime.fromisoformat(str(value).strip().replace("Z", "+00:00"))
        except ValueError:
            return None
    return (moment - datetime(1970, 1, 1, tzinfo=moment.tzinfo)).total_seconds()


# -- spans -----------------------------------------------------------------------------------------

_INPUT, _OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
_SYSTEM, _CONVERSATION = "gen_ai.system_instructions", "gen_ai.conversation.id"
_MODELS = ("gen_ai.response.model", "gen_ai.request.model")
_OPERATION = "gen_ai.operation.name"
_STARTS = ("startTimeUnixNano", "start_time_unix_nano", "start_time", "timestamp")
# Other operations (execute_tool, embeddings, ...) hold no turns of a chat.
_CHATS = ("chat", "generate_content", "text_completion", None)


def _spans(record: Mapping[str, object]) -> Iterator[Fields]:
    """Yields the spans of a row that hold messages, each as its attributes with ``trace_id`` and
    ``start``."""
    spans: list[Mapping[str, Any]] = [record]
    if "resourceSpans" in record:
        resources = _objects(record["resourceSpans"])
        scopes = [scope for each in resources for scope in _objects(each.get("scopeSpans"))]
        spans = [span for scope in scopes for span in _objects(scope.get("spans"))]
    for span in spans:
        found = _attributes(span)
        if _INPUT in found or _OUTPUT in found:
            trace = span.get("traceId") or span.get("trace_id") or lookup(span, "context.trace_id")
            start = next((span[name] for name in _STARTS if span.get(name) is not None), None)
            yield found | {"trace_id": trace or None, "start": _whole(start)}


def _chat_id(span: Mapping[str, object]) -> str | None:
    """Returns the id of the conversation, else of the session, else of the trace, else None."""
    for name in (_CONVERSATION, "session.id", "trace_id"):
        if span.get(name) not in (None, ""):
            return str(span[name])
    return None


def _chat_of_spans(group: Group) -> Fields:
    """Returns the chat that the spans of one conversation contain.

    Each call of a model repeats the history, so the span with the longest history (the last of
    equal ones) has the whole chat. Calls of agents repeat calls of models, and are used only if
    there are none. Raises RecordError.
    """
    calls = [span for _, span in group]
    calls = [span for span in calls if span.get(_OPERATION) in _CHATS] or calls
    for kind in ((int, float), str):
        if all(isinstance(s.get("start"), kind) for s in calls):
            calls = sorted(calls, key=lambda span: span["start"])
    read = [(_messages(span, _INPUT), _messages(span, _OUTPUT)[:1]) for span in calls]
    longest = max(range(len(read)), key=lambda i: (len(read[i][0]), i))
    last, messages = calls[longest], [*read[longest][0], *read[longest][1]]
    instructions = parsed_cell(last.get(_SYSTEM), "[")
    roles = {message.get("role") for message in messages if isinstance(message, Mapping)}
    if instructions and not roles & {"system", "developer"}:
        messages = [{"role": "system", "content": instructions}, *messages]
    model = last.get(_MODELS[0]) or last.get(_MODELS[1])
    known = {_INPUT, _OUTPUT, _SYSTEM, _CONVERSATION, "start", *_MODELS}
    meta = {k: v for k, v in last.items() if k not in known and v is not None}
    start = calls[0].get("start")
    if isinstance(start, int) and 10**17 < start < 10**19:  # OTLP's nanoseconds since 1970
        start = datetime.fromtimestamp(start / 1e9, timezone.utc).isoformat()
    if start is not None:
        meta["time"] = start
    row = {
        "id": _chat_id(last),
        "messages": messages,
        "models": {"assistant": str(model)} if model else {},
        "meta": meta,
    }
    return {key: value for key, value in row.items() if value}


def _messages(span: Mapping[str, object], name: str) -> list[object]:
    try:
        value = parsed_cell(span.get(name), "")
    except RecordError as error:
        raise RecordError(name, "JSON", span.get(name)) from error
    if isinstance(value, Mapping):
        value = value.get("messages", value)
    if value is not None and not isinstance(value, list):
        raise RecordError(name, "a list of messages", value)
    return value or []


def _attributes(record: Mapping[str, object]) -> Fields:
    """Returns the attributes of a span, which are an object, OTLP's list of {key, value}, or the
    fields of the row."""
    stated = record.get("attributes")
    if isinstance(stated, Mapping):
        return dict(stated)
    if not isinstance(stated, list):
        return {k: v for k, v in record.items() if str(k).startswith(("gen_ai.", "session.id"))}
    found: Fields = {}
    for entry in _objects(stated):
        value = entry.get("value")
        if "key" in entry and isinstance(value, Mapping) and value:
            kind, inner = next(iter(value.items()))
            found[str(entry["key"])] = _whole(inner) if kind == "intValue" else inner
    return found


def _whole(value: object) -> Any:
    """Returns the integer if ``value`` is one as text, as OTLP writes 64-bit integers."""
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 20 else value


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
