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
from medal_judges.reading.text_rows import Fields

_INPUT, _OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
_SYSTEM, _CONVERSATION = "gen_ai.system_instructions", "gen_ai.conversation.id"
_CONTENT = (_INPUT, _OUTPUT, _SYSTEM)
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
    exported = any(isinstance(record.get(name), list) for name in _EXPORTS)
    return exported or any(name.startswith("gen_ai.") for name in _attributes(record))


def spans_of(record: Mapping[str, object]) -> Iterator[Fields]:
    """Yields the spans of a row that hold messages, each as its attributes with ``trace_id`` and
    ``start``."""
    for name, (scopes, inner) in _EXPORTS.items():
        for resource in _objects(record.get(name)):
            shared = _attributes(
                {"attributes": _object(resource.get("resource")).get("attributes")}
            )
            for scope in _objects(resource.get(scopes)):
                for span in _objects(scope.get(inner)):
                    yield from _span(span, shared)
    if not any(name in record for name in _EXPORTS):
        yield from _span(record, {})


def _span(span: Mapping[str, object], shared: Fields) -> Iterator[Fields]:
    found = _attributes(span)
    for event in _objects(span.get("events")):
        found = {k: v for k, v in _attributes(event).items() if k in _CONTENT} | found
    if _INPUT in found or _OUTPUT in found:
        inner = _object(span.get("context")).get("trace_id")
        trace = span.get("traceId") or span.get("trace_id") or inner or None
        start = next((span[name] for name in _STARTS if span.get(name) is not None), None)
        named = {k: v for k, v in shared.items() if k == "service.name" and v is not None}
        yield named | found | {"trace_id": trace, "start": _whole(start)}


def conversation_of(span: Mapping[str, object]) -> str | None:
    """Returns the conversation's id, else the trace's; None if the span has neither."""
    for name in (_CONVERSATION, "session.id", "trace_id"):
        if span.get(name) not in (None, ""):
            return str(span[name])
    return None


def chat_of_spans(spans: Sequence[Fields]) -> Fields:
    """Returns the chat that ``spans`` of one conversation make, as ``normal_row`` does.

    A call gets the history so far, so the span with the longest history (the last of equal ones)
    holds the chat. If each call of a conversation holds only what is new (the server stores the
    history), they are joined in order of time. Calls of agents count only without calls of models,
    which they repeat. Raises RecordError.
    """
    calls = [s for s in spans if s.get("gen_ai.operation.name") in _CHATS]
    calls = calls or [s for s in spans if s.get("gen_ai.operation.name") in _AGENTS] or [*spans]
    for kind in ((int, float), str):
        if all(isinstance(s.get("start"), kind) for s in calls):
            calls = sorted(calls, key=lambda span: span["start"])
    read = [(_messages(span, _INPUT), _messages(span, _OUTPUT)[:1]) for span in calls]
    longest = max(range(len(read)), key=lambda i: (len(read[i][0]), i))
    last, messages = calls[longest], [*read[longest][0], *read[longest][1]]
    if _CONVERSATION in last and _only_new(read):
        messages = [message for call in read for part in call for message in part]
    instructions = last.get(_SYSTEM)
    if isinstance(instructions, str) and instructions.lstrip().startswith("["):
        instructions = _json(_SYSTEM, instructions)
    if instructions and not any(map(_is_system, messages)):
        messages = [{"role": "system", "content": instructions}, *messages]
    model = last.get("gen_ai.response.model") or last.get("gen_ai.request.model")
    known = {*_CONTENT, _CONVERSATION, "start", "gen_ai.response.model", "gen_ai.request.model"}
    meta = {k: v for k, v in last.items() if k not in known and v is not None}
    start = calls[0].get("start")
    if isinstance(start, int) and 10**17 < start < 10**19:  # OTLP's nanoseconds since 1970
        start = datetime.fromtimestamp(start / 1e9, timezone.utc).isoformat()
    if start is not None:
        meta["time"] = start
    row = {
        "id": conversation_of(last),
        "messages": [
            {k: v for k, v in m.items() if k != "finish_reason"} if isinstance(m, Mapping) else m
            for m in messages
        ],
        "models": {"assistant": str(model)} if model else {},
        "meta": meta,
    }
    return {key: value for key, value in row.items() if value}


def _only_new(read: Sequence[tuple[list[object], list[object]]]) -> bool:
    """Whether no call holds any message of the calls before it."""
    for (before, answer), (inputs, _) in pairwise(read):
        known = [m for m in (*before, *answer) if not _is_system(m)]
        new = [m for m in inputs if not _is_system(m)]
        if len(new) > 2 or any(message in known for message in new):
            return False
    return len(read) > 1


def _is_system(message: object) -> bool:
    return isinstance(message, Mapping) and message.get("role") in ("system", "developer")


def _messages(span: Mapping[str, object], name: str) -> list[object]:
    value = span.get(name)
    if isinstance(value, str):
        value = _json(name, value)
    if isinstance(value, Mapping) and isinstance(value.get("messages"), list):
        value = value["messages"]
    if value is not None and not isinstance(value, list):
        raise RecordError(name, "a list of messages", value)
    return value or []


def _json(name: str, value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise RecordError(name, "JSON", value) from error


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
        return {str(e["key"]): _value(e.get("value")) for e in _objects(stated) if "key" in e}
    return {k: v for k, v in _flat(record) if k.startswith(("gen_ai.", "session.id"))}


def _flat(record: Mapping[str, object], begin: str = "") -> Iterator[tuple[str, Any]]:
    """Attributes by dotted names; some exporters nest them: {"gen_ai": {"input": ...}}."""
    for key, value in record.items():
        name = f"{begin}{key}"
        if isinstance(value, Mapping) and name.split(".")[0] == "gen_ai" and name.count(".") < 3:
            yield from _flat(value, f"{name}.")
        else:
            yield name, value


def _value(value: object) -> Any:
    """The value of OTLP's AnyValue."""
    if not isinstance(value, Mapping) or not value:
        return None
    kind, inner = next(iter(value.items()))
    if kind in ("arrayValue", "array_value"):
        return [_value(each) for each in _object(inner).get("values") or ()]
    if kind in ("kvlistValue", "kvlist_value"):
        pairs = _objects(_object(inner).get("values"))
        return {str(pair.get("key")): _value(pair.get("value")) for pair in pairs}
    return _whole(inner) if kind in ("intValue", "int_value") else inner


def _whole(value: object) -> Any:
    """OTLP writes 64-bit integers as text."""
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 20 else value


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
