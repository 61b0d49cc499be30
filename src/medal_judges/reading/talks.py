"""Messages within an input or an output: a text, messages, content parts, or an object with one of
them, such as a request to a model or its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medal_judges.errors import RecordError
from medal_judges.reading.messages import kind_of_part, parse_message, shown_text
from medal_judges.reading.names import PROMPTS, RESPONSES, SYSTEMS, find_key
from medal_judges.reading.roles import ROLE_WORDS
from medal_judges.records.validation import as_text

EMPTY: tuple[object, ...] = (None, "", [], {})
# In a request to a model or its answer; in the arguments of a function or its result.
_TALKS = ("messages", "choices", "generations", "candidates", "message")
_TEXTS = {
    "user": (*PROMPTS, "content", "text", "args", "kwargs"),
    "assistant": (*RESPONSES, "result", "content", "text"),
}
Talk = list[tuple[Any, tuple[str, str] | None]]  # (message, its role and text if it is a turn)


def talk_of(field: str, value: Any, role: str) -> Talk:
    """Returns the messages of an input (``role`` user) or of an output (assistant)."""
    return [(message, turn_in(field, message)) for message in messages_within(field, value, role)]


def turn_in(field: str, message: object) -> tuple[str, str] | None:
    """Returns the role and the text of a message, on one line; None if nobody saw a text."""
    parsed = parse_message(field, message)
    text = " ".join(shown_text(parsed.parts).split())
    return (parsed.role, text) if text and parsed.role in ("user", "assistant") else None


def messages_within(field: str, value: Any, role: str) -> list[Any]:
    """Returns messages of a text, of content parts, of messages (also as LangChain serialises
    them), or of an object with one of them. Raises RecordError."""
    value = as_text(value)
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    items = value if isinstance(value, list) else [value]
    if isinstance(value, list) and len(items) == 1:
        return messages_within(field, items[0], role)
    packed = [isinstance(item, Mapping) and {"lc", "kwargs"} <= item.keys() for item in items]
    items = [item["kwargs"] if lc else item for item, lc in zip(items, packed, strict=True)]
    if items and all(isinstance(item, Mapping) for item in items):
        if all("role" not in item and kind_of_part(item.get("type")) for item in items):
            return [{"role": role, "content": items}]
        one, contents = items[0], {"content", "parts", "tool_calls"}
        known = "role" in one or str(one.get("type")).lower() in ROLE_WORDS
        if len(items) > 1 or (known and one.keys() & contents):
            return items
        talks = [name for name in _TALKS if one.get(name) not in EMPTY][:1]
        names = talks or [name for name in _TEXTS[role] if one.get(name) not in EMPTY]
        inner = as_text(one[names[0]]) if len(names) == 1 else None
        if isinstance(inner, list | Mapping) or (inner and names[0] not in _TALKS[:4]):
            if names[0] in _TALKS[1:4] and isinstance(inner, list):
                inner = inner[:1]
            said = messages_within(field, inner, role)
            system = one.get(find_key(one, SYSTEMS) or "") if role == "user" else None
            has_system = any(str(each.get("role")) in ("system", "developer") for each in said)
            before = {"role": "system", "content": system}
            return [before, *said] if system and not has_system else said
    expected = "a text, messages, or an object with one of them (messages, input, output, ...)"
    raise RecordError(field, expected, value)
