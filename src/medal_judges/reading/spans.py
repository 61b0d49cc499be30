"""OpenTelemetry spans of GenAI calls: their messages, and the conversation that spans make.

Attributes are those of the semantic conventions for generative AI: ``gen_ai.input.messages``,
``gen_ai.output.messages`` and ``gen_ai.system_instructions``, JSON text or structured; on a span,
on one of its events, or on a log record. Rows are single spans (attributes under ``attributes`` or
as columns), or OTLP's JSON export (``resourceSpans``, ``resourceLogs``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import pairwise
from typing import Any

from medal_judges.errors import RecordError
from medal_judges.reading.json_rows import Fields

INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
SYSTEM = "gen_ai.system_instructions"
CONVERSATION = "gen_ai.conversation.id"
_CONTENT = (INPUT, OUTPUT, SYSTEM)
_EXPORTS = {
    "resourceSpans": ("scopeSpans", "spans"),
    "resource_spans": ("scope_spans", "spans"),
    "resourceLogs": ("scopeLogs", "logRecords"),
    "resource_logs": ("scope_logs", "log_records"),
}
_STARTS = ("startTimeUnixNano", "start_time_unix_nano", "timeUnixNano", "start_time", "timestamp")
# Other operations of the conventions (execute_tool, embeddings, ...) hold no turns of a chat.
_CHATS = ("chat", "generate_content", "text_completion", None)
_AGENTS = ("invoke_agent", "invoke_workflow")


def is_spans(record: Mapping[str, object]) -> bool:
    """Whether a row is a span of a GenAI call, or an export of spans."""
    if any(isinstance(record.get(name), list) for name in _EXPORTS):
        return True
    return any(name.startswith("gen_ai.") for name in _attributes(record))


def spans_of(record: Mapping[str, object]) -> Iterator[Fields]:
    """The spans of a row that hold messages, each as an object of its attributes, with
    ``trace_id`` and ``start``."""
    for name, (scopes, inner) in _EXPORTS.items():
        for resource in _objects(record.get(name)):
            shared = _attributes({"attributes": _of(resource, "resource").get("attributes")})
            for scope in _objects(resource.get(scopes)):
                for span in _objects(scope.get(inner)):
                    yield from _span(span, shared)
    if not any(name in record for name in _EXPORTS):
        yield from _span(record, {})


def _span(span: Mapping[str, object], shared: Fields) -> Iterator[Fields]:
    found = _attributes(span)
    for event in _objects(span.get("events")):
        found = {k: v for k, v in _attributes(event).items() if k in _CONTENT} | found
    if not any(name in found for name in (INPUT, OUTPUT)):
        return
    context = _of(span, "context")
    trace = next(
        (v for v in (span.get("traceId"), span.get("trace_id"), context.get("trace_id")) if v), None
    )
    start = next((span[name] for name in _STARTS if span.get(name) is not None), None)
    service = shared.get("service.name")
    named = {} if service is None else {"service.name": service}
    yield named | found | {"trace_id": trace, "start": _whole(start)}


def conversation_of(span: Mapping[str, object]) -> str | None:
    """What spans of one chat share: the conversation's id, else the trace's."""
    for name in (CONVERSATION, "session.id", "trace_id"):
        if span.get(name) not in (None, ""):
            return str(span[name])
    return None


def chat_of_spans(spans: Sequence[Fields]) -> Fields:
    """The chat that ``spans`` of one conversation make, as ``normal_row`` has it.

    A call is sent the history so far, so the span with the longest history, and of equal ones the
    last, holds the chat. Where each span of a conversation holds only what is new (the server
    keeps the history), no input holds what came before it: they are joined in order of time.
    Calls of models come before those of agents, which repeat them. Raises RecordError.
    """
    calls = [s for s in spans if s.get("gen_ai.operation.name") in _CHATS]
    calls = calls or [s for s in spans if s.get("gen_ai.operation.name") in _AGENTS] or [*spans]
    if all(isinstance(s.get("start"), int | float) for s in calls):
        calls = sorted(calls, key=lambda span: span["start"])
    elif all(isinstance(s.get("start"), str) for s in calls):
        calls = sorted(calls, key=lambda span: str(span["start"]))
    read = [(span, _messages(span, INPUT), _messages(span, OUTPUT)[:1]) for span in calls]
    longest = max(range(len(read)), key=lambda i: (len(read[i][1]), i))
    last, said, answer = read[longest]
    messages = [*said, *answer]
    if CONVERSATION in last and _only_new(read):
        messages = [m for _, asked, answered in read for m in (*asked, *answered)]
    system = [m for m in messages if _is_system(m)]
    instructions = [] if system else _instructions(last)
    return _row(calls, last, [*instructions, *messages])


def _only_new(read: Sequence[tuple[Fields, list[object], list[object]]]) -> bool:
    """Whether no call was sent anything of the calls before it."""
    if len(read) < 2:
        return False
    for (_, before, answered), (_, asked, _) in pairwise(read):
        known = [m for m in (*before, *answered) if not _is_system(m)]
        if any(m in known for m in asked if not _is_system(m)):
            return False
        if len([m for m in asked if not _is_system(m)]) > 2:
            return False
    return True


def _is_system(message: object) -> bool:
    return isinstance(message, Mapping) and message.get("role") in ("system", "developer")


def _row(calls: Sequence[Fields], last: Fields, messages: list[object]) -> Fields:
    model = last.get("gen_ai.response.model") or last.get("gen_ai.request.model")
    known = {*_CONTENT, CONVERSATION, "start", "gen_ai.response.model", "gen_ai.request.model"}
    meta = {k: v for k, v in last.items() if k not in known and v is not None}
    if calls[0].get("start") is not None:
        meta["time"] = _time(calls[0]["start"])
    row = {
        "id": conversation_of(last),
        "messages": [_plain_message(m) for m in messages],
        "models": {"assistant": str(model)} if model else {},
        "meta": meta,
    }
    return {key: value for key, value in row.items() if value}


def _time(start: object) -> object:
    """ISO text of OTLP's nanoseconds since 1970; anything else as it is."""
    if isinstance(start, int) and 10**17 < start < 10**19:
        return datetime.fromtimestamp(start / 1e9, timezone.utc).isoformat()
    return start


def _plain_message(message: object) -> object:
    """A message without what is of the call: why it ended."""
    if not isinstance(message, Mapping):
        return message
    return {k: v for k, v in message.items() if k != "finish_reason"}


def _messages(span: Mapping[str, object], name: str) -> list[object]:
    value = span.get(name)
    if isinstance(value, str):
        value = _json(name, value)
    if isinstance(value, Mapping) and isinstance(value.get("messages"), list):
        value = value["messages"]
    if value is None:
        return []
    if not isinstance(value, list):
        raise RecordError(name, "a list of messages", value)
    return value


def _instructions(span: Mapping[str, object]) -> list[Fields]:
    value = span.get(SYSTEM)
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = _json(SYSTEM, value)
    return [{"role": "system", "content": value}] if value else []


def _json(name: str, said: str) -> Any:
    try:
        return json.loads(said)
    except (ValueError, RecursionError) as error:
        raise RecordError(name, "JSON", said) from error


# -- attributes ------------------------------------------------------------------------------------


def _attributes(record: Mapping[str, object]) -> Fields:
    """The attributes of a span: an object, OTLP's list of key and value, or its own fields."""
    stated = record.get("attributes")
    if isinstance(stated, str) and stated.lstrip().startswith(("{", "[")):
        try:
            stated = json.loads(stated)
        except (ValueError, RecursionError):
            return {}
    if isinstance(stated, Mapping):
        return dict(_flat(stated))
    if isinstance(stated, list):
        return {
            str(entry["key"]): _value(entry.get("value"))
            for entry in stated
            if isinstance(entry, Mapping) and "key" in entry
        }
    return {k: v for k, v in _flat(record) if k.startswith(("gen_ai.", "session.id"))}


def _flat(record: Mapping[str, object], begin: str = "") -> Iterator[tuple[str, Any]]:
    """Attributes under dotted names, which some exporters nest: {"gen_ai": {"input": ...}}."""
    for key, value in record.items():
        name = f"{begin}{key}"
        nested = isinstance(value, Mapping) and name.split(".")[0] == "gen_ai"
        if nested and name.count(".") < 3:
            yield from _flat(value, f"{name}.")  # type: ignore[arg-type]
        else:
            yield name, value


def _value(value: object) -> Any:
    """The value of OTLP's AnyValue."""
    if not isinstance(value, Mapping) or not value:
        return None
    kind, inner = next(iter(value.items()))
    if kind in ("arrayValue", "array_value"):
        return [_value(each) for each in _of(value, kind).get("values") or ()]
    if kind in ("kvlistValue", "kvlist_value"):
        pairs = _objects(_of(value, kind).get("values"))
        return {str(pair.get("key")): _value(pair.get("value")) for pair in pairs}
    if kind in ("intValue", "int_value"):
        return _whole(inner)
    return inner


def _whole(value: object) -> Any:
    """OTLP writes 64-bit integers as text."""
    short = isinstance(value, str) and value.isdecimal() and len(value) < 20
    return int(value) if short else value  # type: ignore[call-overload]


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _of(record: Mapping[str, object], name: str) -> Mapping[str, Any]:
    inner = record.get(name)
    return inner if isinstance(inner, Mapping) else {}
