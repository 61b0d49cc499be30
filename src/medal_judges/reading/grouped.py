"""Forms in which several rows are one chat: tables of one turn a row, OpenTelemetry spans of GenAI
calls (attributes under ``attributes``, as columns, or in OTLP's JSON export), and the exports of
Langfuse and LangSmith."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from itertools import groupby
from typing import Any

from medal_judges.errors import MedalError, RecordError
from medal_judges.reading.branches import LINKS, objects
from medal_judges.reading.forms import (
    FORMS,
    ColumnMap,
    Fields,
    form_of,
    lookup,
    parsed_cell,
)
from medal_judges.reading.instants import (
    Clock,
    instant,
    iso_time,
    nanoseconds,
    oldest_first,
    position,
)
from medal_judges.reading.names import (
    CONTENTS,
    CONVERSATIONS,
    ORDERS,
    ROLES,
    TIMES,
    find_key,
    plain_name,
    plain_names,
)
from medal_judges.reading.roles import role_of, stated_role
from medal_judges.reading.talks import EMPTY, Talk, talk_of
from medal_judges.reading.unread import add_unread
from medal_judges.records.validation import as_text

_TURN_COLUMNS = {
    "id": CONVERSATIONS,
    "role": ROLES,
    "content": CONTENTS,
    "time": TIMES,
    "order": ORDERS,
}
_BY = "\x1fannotator "
Group = list[tuple[int, Fields]]  # (number, record) of its rows in the order of the file

_SORTED = "SELECT key, number, record FROM rows ORDER BY MIN(rowid) OVER (PARTITION BY key), rowid"
# A run inside of another may state no session.
_KEYED = """UPDATE rows SET key = COALESCE((SELECT MAX(key) FROM rows AS other
    WHERE other.trace = rows.trace), trace) WHERE key IS NULL"""


def grouped_chats(
    rows: Iterable[tuple[int, object]],
    form: str,
    columns: ColumnMap,
    bad: Callable[[int, RecordError], None],
    counts: Counter[str],
    unread: Counter[str],
    before: Iterable[object] = (),
    stated: bool = False,
) -> Iterator[tuple[int, Callable[[], Fields]]]:
    """Yields, for each chat in the order of first rows, the number of its first row and a function
    that returns the chat as a row of messages. Calls ``bad`` for bad rows before that (rows of
    another form are, unless ``form`` is ``stated``), and for a chat that lacks the turn of a bad
    row, one of ``before`` or later.
    ``counts`` counts chats whose order is not sure, ``unread`` rows by field with text that no
    reader uses.

    One chat is in memory; the rest is in a temporary SQLite file.
    """

    def id_of(row: Any) -> str:
        """Returns the id of the row's chat; the empty text if it has none."""
        if form != "turns" or not isinstance(row, Mapping):
            return ""
        id = as_text(lookup(row, columns.fields.get("id") or find_key(row, CONVERSATIONS) or ""))
        return id if isinstance(id, str) and id.strip() else ""

    torn = {id_of(row) for row in before}  # ids of chats that lack a turn

    def keyed() -> Iterator[tuple[str | None, str, int, str]]:
        for number, row in rows:
            try:
                if isinstance(row, RecordError):
                    raise row
                if not isinstance(row, Mapping):
                    raise RecordError("(line)", "a JSON object", row)
                own = form if stated else form_of(row, columns)
                fits = own == form or (own == "prompts" and form in ("langfuse", "langsmith"))
                if not (fits or (own is None and (form != "otel" or _SPAN & row.keys()))):
                    expected = f"{FORMS[form]}, as in the rows before"
                    raise RecordError("(row)", expected, FORMS.get(own or "", row))
                if form == "turns":
                    if not (key := id_of(row)):
                        raise RecordError("id", "the id of the turn's conversation", row)
                    if "annotator" in columns.fields:  # each one's rows are a chat of their own
                        key += f"{_BY}{columns.get(row, 'annotator')}"
                    yield key, "", number, json.dumps(row)
                    continue
                for place, step in enumerate(_spans(row) if form == "otel" else _steps(row, form)):
                    trace = step["trace"] or f"{number}.{place}"
                    yield step["session"], trace, number, json.dumps(step)
            except RecordError as error:
                bad(number, error)
                torn.add(id_of(error.row))

    make = _chat_of_traces
    if form == "turns":
        make = partial(_chat_of_turns, columns=columns, counts=counts, unread=unread)
    with closing(sqlite3.connect("")) as base:  # "": private, on disk, deleted when closed
        try:
            base.execute("PRAGMA cache_size = -65536")  # KiB; small files never touch the disk
            base.execute("PRAGMA journal_mode = OFF")
            base.execute("CREATE TABLE rows (key TEXT, trace TEXT, number INTEGER, record TEXT)")
            base.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", keyed())
            if form != "turns":
                base.execute("CREATE INDEX traces ON rows (trace)")
                base.execute(_KEYED)
            for key, group in groupby(base.execute(_SORTED), key=lambda row: row[0]):
                chat = [(number, json.loads(record)) for _, number, record in group]
                if form == "turns" and (id := key.partition(_BY)[0]) in torn:
                    bad(chat[0][0], RecordError("(rows)", "a chat without a bad row", id))
                    continue
                yield chat[0][0], partial(make, key, chat)
        except sqlite3.OperationalError as error:
            hint = "set SQLITE_TMPDIR to a folder with enough space"
            raise MedalError(f"rows cannot be sorted on disk: {error}", hint=hint) from error


# -- one turn a row --------------------------------------------------------------------------------


def _chat_of_turns(
    key: str, rows: Group, columns: ColumnMap, counts: Counter[str], unread: Counter[str]
) -> Fields:
    """Returns a chat with its messages in order, and the columns that are equal in all rows.

    Columns that differ between turns are dropped, except the time of the first turn.
    """
    rows = _in_order(rows, columns, counts)
    messages: list[Fields] = []
    chat: Fields = {}
    used: set[str] = set()
    differ: set[str] = set()
    for number, record in rows:
        used.update(_column(record, field, columns) for field in _TURN_COLUMNS)
        links = {name: value for name, value in record.items() if plain_name(name) in LINKS}
        messages.append(
            {
                **links,
                "role": _role(number, record, columns),
                "content": lookup(record, _column(record, "content", columns)),
            }
        )
        for name, value in record.items():
            if value not in (None, "") and chat.setdefault(name, value) != value:
                differ.add(name)
    for _, record in rows:
        add_unread(unread, record, differ - used)
    chat = {name: value for name, value in chat.items() if name not in differ | used}
    time_column = _column(rows[0][1], "time", columns)
    if (time := lookup(rows[0][1], time_column)) is not None:
        chat["time" if "time" in columns.fields else time_column] = time
    return chat | {"id": key.partition(_BY)[0], "messages": messages}


def _column(record: Fields, field: str, columns: ColumnMap) -> str:
    """Returns the column of ``field`` in a row; rows of several services can have other ones."""
    return columns.fields.get(field) or find_key(record, _TURN_COLUMNS[field]) or ""


def _role(number: int, record: Fields, columns: ColumnMap) -> object:
    column = _column(record, "role", columns)
    word = lookup(record, column)
    try:
        return role_of(word, columns.roles)
    except RecordError as error:
        raise RecordError(f"row {number}: {column}", error.expected, word) from error


def _in_order(rows: Group, columns: ColumnMap, counts: Counter[str]) -> Group:
    """Returns the turns of a chat in the order of the column ``order``, else of the times if every
    row has one, else of the file. Raises RecordError for times that cannot be compared."""
    for field, parse in (("order", position), ("time", instant)):
        values = [lookup(record, _column(record, field, columns)) for _, record in rows]
        parsed = [parse(value) for value in values]
        places = [place for place in parsed if place is not None]
        if len(places) < len(rows):
            continue
        for (number, record), place, value in zip(rows, places, values, strict=True):
            if place.clock is not places[0].clock:
                column = f"row {number}: {_column(record, field, columns)}"
                raise RecordError(column, f"a time {places[0].clock.value}, like the first", value)
        roles = [stated_role({"role": _role(number, record, columns)}) for number, record in rows]
        ordered = oldest_first(rows, places, roles)
        if ordered != rows and places[0].clock is Clock.LOCAL:
            counts["chats sorted by times without a time zone"] += 1
        return ordered
    if any(value not in (None, "") for value in values):
        counts["chats in the order of the file: some times are missing or not readable"] += 1
    return rows


# -- spans -----------------------------------------------------------------------------------------

_INPUT, _OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
_SYSTEM, _CONVERSATION = "gen_ai.system_instructions", "gen_ai.conversation.id"
_MODELS = ("gen_ai.response.model", "gen_ai.request.model")
_SPAN = {"attributes", "context", "traceId", "trace_id"}
_OPERATION, _AGENT = "gen_ai.operation.name", "gen_ai.agent.name"
_STARTS = ("startTimeUnixNano", "start_time_unix_nano", "start_time", "timestamp")
# Other operations (execute_tool, embeddings, ...) hold no turns of a chat.
_CHATS = ("chat", "generate_content", "text_completion", None)


def _spans(record: Mapping[str, object]) -> Iterator[Fields]:
    """Yields the spans of a row that hold messages, as steps. All of a conversation (else session,
    else trace) are one trace: each call of a model repeats the history."""
    spans: list[Mapping[str, Any]] = [record]
    if "resourceSpans" in record:
        resources = objects(record["resourceSpans"])
        scopes = [scope for each in resources for scope in objects(each.get("scopeSpans"))]
        spans = [span for scope in scopes for span in objects(scope.get("spans"))]
    for span in spans:
        found = _attributes(span)
        if _INPUT not in found and _OUTPUT not in found:
            continue
        trace = span.get("traceId") or span.get("trace_id") or lookup(span, "context.trace_id")
        start = next((span[name] for name in _STARTS if span.get(name) is not None), None)
        chat = found.get(_CONVERSATION) or found.get("session.id") or trace
        asked, answered = _json(found.get(_INPUT)), _json(found.get(_OUTPUT))
        known = {_INPUT, _OUTPUT, _SYSTEM, _CONVERSATION, *_MODELS}
        others = {k: v for k, v in found.items() if k not in known} | {"trace_id": trace}
        yield {
            **dict.fromkeys(("id", "session", "parent", "metadata")),
            **{"trace": str(chat or "") or None, "start": start, "meta": others},
            "kind": "llm" if found.get(_OPERATION) in _CHATS else None,
            "model": found.get(_MODELS[0]) or found.get(_MODELS[1]),
            "input": asked and {"messages": asked, "system": _json(found.get(_SYSTEM))},
            "output": answered and {"choices": answered},
        }


def _attributes(record: Mapping[str, object]) -> Fields:
    """Returns the attributes of a span, which are an object, OTLP's list of {key, value}, or the
    fields of the row."""
    stated = record.get("attributes")
    if isinstance(stated, Mapping):
        return dict(stated)
    if not isinstance(stated, list):
        return {k: v for k, v in record.items() if str(k).startswith(("gen_ai.", "session.id"))}
    found: Fields = {}
    for entry in objects(stated):
        value = entry.get("value")
        if "key" in entry and isinstance(value, Mapping) and value:
            kind, inner = next(iter(value.items()))
            # OTLP writes 64-bit integers as text.
            is_whole = kind == "intValue" and str(inner).isdecimal() and len(str(inner)) < 20
            found[str(entry["key"])] = int(inner) if is_whole else inner
    return found


# -- traces ----------------------------------------------------------------------------------------

# Field of a step (a trace, an observation or a run) -> its columns, in any spelling, or paths to
# nested values; the first one with a value counts.
_STEP: Mapping[str, tuple[str, ...]] = {
    **{"id": ("id",), "trace": ("trace_id", "id"), "kind": ("type", "run_type")},
    "parent": ("parent_observation_id", "parent_run_id", "trace_id"),
    **{"start": ("start_time", "timestamp"), "input": ("input", "inputs")},
    **{"output": ("output", "outputs"), "metadata": ("metadata", "extra.metadata")},
    "model": ("provided_model_name", "model", "extra.metadata.ls_model_name"),
    "session": (
        *(f"extra.metadata.{key}" for key in ("session_id", "thread_id", "conversation_id")),
        *("thread_id", "session_id"),
    ),
}
_KEPT = ("name", "trace_name", "user_id", "release", "version", "environment", "tags")


def _steps(record: Mapping[str, Any], form: str) -> Iterator[Fields]:
    """Yields the fields of _STEP and ``meta`` of a row and of the observations in it."""
    # A downloaded trace is a list of its observations, in earlier versions beside itself.
    roots = objects([record.get("trace")]) or [record]
    for each in (*roots, *objects(record.get("observations"))):
        if each.keys() <= {"observations", "scores"}:
            continue
        plain = {name: each[key] for name, key in plain_names(tuple(each)).items()}
        if form == "langsmith":
            plain.pop("session_id", None)  # the project
        step: Fields = {"meta": {key: plain[key] for key in _KEPT if plain.get(key) not in EMPTY}}
        for field, columns in _STEP.items():
            values = (lookup(plain, column) for column in columns)
            step[field] = _json(next((value for value in values if value not in EMPTY), None))
        for field in ("trace", "session"):
            step[field] = step[field] and str(step[field])
        yield step


def _json(value: object) -> Any:
    with suppress(RecordError):
        return parsed_cell(value, "{", "[")
    return value  # a text that begins with a bracket


def _chat_of_traces(key: str, group: Group) -> Fields:
    """Returns the chat of the traces of a session, in order of time. Raises RecordError."""
    traces: dict[str, Group] = {}
    for number, step in group:
        traces.setdefault(step["trace"], []).append((number, step))
    used = [found for steps in traces.values() if (found := _exchange(steps))]
    if not used:
        raise RecordError("input", "a text of the session", None)
    starts = [instant(step["start"]) for _, step, _ in used]
    if len(used) > 1 and None in starts:
        raise RecordError("start time", "a time of each trace of the session", None)
    if len({start.clock for start in starts if start}) > 1:
        values = [step["start"] for _, step, _ in used]
        raise RecordError("start time", "times with a time zone in all traces or in none", values)
    chat: Talk = []
    used.sort(key=lambda exchange: nanoseconds(exchange[1]["start"]))
    for number, _, talks in used:
        for name, talk in talks.items():
            chat = _continued(chat, talk, f"row {number}: {name}")
    steps = sorted((step for _, step in group), key=lambda step: nanoseconds(step["start"]))
    last = used[-1][1]
    model = next((step["model"] for step in reversed(steps) if step["model"]), None)
    meta = last["meta"] | {"metadata": last["metadata"], "time": iso_time(steps[0]["start"])}
    return {
        "id": key if last["session"] or last["trace"] else None,
        "messages": [message for message, _ in chat],
        "models": {"assistant": str(model)} if model else {},
        "meta": {name: value for name, value in meta.items() if value is not None},
    }


def _exchange(steps: Group) -> tuple[int, Fields, dict[str, Talk]] | None:
    """Returns number, step and messages (input, output) of the step that holds the turn of a trace:
    the root, else the call of a model with the longest history (the last of equals); one with input
    and output comes first. None if all are empty; raises RecordError if none can be read."""
    ids = {str(step["id"]) for _, step in steps}
    found: list[tuple[tuple[float, ...], tuple[int, Fields, dict[str, Talk]]]] = []
    problem, missing = None, False
    for number, step in steps:
        is_root = step["parent"] == step["id"] or str(step["parent"]) not in ids
        is_call = str(step["kind"]).lower() in ("generation", "llm")
        talks: dict[str, Talk] = {}
        try:
            for name, role in (("input", "user"), ("output", "assistant")):
                if (is_root or is_call) and step[name] is not None:
                    talks[name] = talk_of(f"row {number}: {name}", step[name], role)
        except RecordError as error:
            problem = problem or error
            missing = missing or (is_root and is_call)  # turns that no other step has
            continue
        history, start = len(talks.get("input", ())), nanoseconds(step["start"])
        rank: tuple[float, ...] = (len(talks), is_root, is_call, history, start)
        found += [(rank, (number, step, talks))] if talks else []
    best = max(reversed(found), key=lambda one: one[0], default=None)
    if problem is not None and (best is None or len(best[1][2]) < 2 or missing):
        raise problem
    whole: list[Any] = []
    agent: object = None
    for own, (number, step, talks) in sorted(found, key=lambda one: one is not best):
        both = [talks.get(name, []) for name in ("input", "output")]
        asked, answered = ([turn for _, turn in talk if turn] for talk in both)
        prompts = [m for m, _ in both[0] if m.get("role") in ("system", "developer")]
        other = (step["meta"].get(_AGENT), prompts)
        whole, agent = whole or asked + answered, agent or other  # of the best, which is first
        size = len(asked)
        # The history, or only its answer: a question can be stored without what was added to it.
        same = asked == whole[:size] or (
            answered and asked[:-1] + answered == whole[: size - 1] + whole[size:][: len(answered)]
        )
        is_helper = other != agent and sum(role == "user" for role, _ in asked) < 2
        if best and own[1:3] == best[0][1:3] and not (same or is_helper):
            expected = "one chat, whose longest call repeats the turns of all others (several chats"
            expected += f" need a {_CONVERSATION} or a session each)"
            raise RecordError(f"row {number}: input", expected, [text for _, text in asked])
    return best and best[1]


def _continued(chat: Talk, talk: Talk, field: str) -> Talk:
    """Returns ``chat`` and what ``talk`` adds to it; ``talk`` may repeat all of it or its last
    turns. Raises RecordError if ``talk`` is another history."""
    old = [turn for _, turn in chat if turn]
    places = [place for place, (_, turn) in enumerate(talk) if turn]
    new = [turn for _, turn in talk if turn]
    # The last ``size`` turns of chat are those of talk before ``end``.
    sizes = [(len(old), end) for end in range(len(new), len(old) - 1, -1)]
    sizes += [(n, n) for n in range(min(len(old) - 1, len(new)), 0, -1)]
    same = (pair for pair in sizes if old and new[pair[1] - pair[0] : pair[1]] == old[-pair[0] :])
    size, end = next(same, (0, 0))
    if old and not size and len({role for role, _ in new}) > 1:
        expected = "new turns only, or a history that continues the traces before"
        raise RecordError(field, expected, [text for _, text in new])
    cut = places[end - 1] + 1 if end else 0
    if size == len(old) and (end, cut) > (size, len(chat)):
        chat = talk[:cut]
    return chat + [one for one in talk[cut:] if one[1] or one not in chat]
