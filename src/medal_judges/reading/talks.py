"""Messages within an input or an output: a text, messages, content parts, or an object with one of
them, such as a request to a model or its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medal_judges.errors import RecordError
from medal_judges.reading.messages import kind_of_part, parse_message, shown_text
from medal_judges.reading.names import (
    PROMPTS,
    RESPONSES,
    ROLES,
    SYSTEMS,
    Names,
    Record,
    find_key,
)
from medal_judges.reading.roles import ROLE_WORDS
from medal_judges.records.validation import as_text

EMPTY: tuple[object, ...] = (None, "", [], {})
# In a request to a model or its answer; of several alternatives the first one is read.
_ALTERNATIVES = ("choices", "generations", "candidates")
_WRAPPERS = ("messages", *_ALTERNATIVES, "message")
# In the arguments of a function or its result.
_TEXTS = {
    "user": (*PROMPTS, "content", "text", "args", "kwargs"),
    "assistant": (*RESPONSES, "result", "content", "text"),
}
_SPEAKERS = (*ROLES, "type")
SpokenTurn = tuple[str, str]  # role, text on one line
Talk = list[tuple[Any, SpokenTurn | None]]  # (message, its turn if it is one)


def talk_of(field: str, value: Any, role: str) -> Talk:
    """Returns the messages of an input (``role`` user) or of an output (assistant)."""
    messages = messages_within(field, value, role)
    return [(message, turn_in(field, message)) for message in messages]


def spoken(talk: Talk) -> list[SpokenTurn]:
    return [turn for _, turn in talk if turn]


def turn_in(field: str, message: object) -> SpokenTurn | None:
    """Returns the role and the text of a message, on one line; None if nobody saw a text."""
    parsed = parse_message(field, message)
    text = " ".join(shown_text(parsed.parts).split())
    if text and parsed.role in ("user", "assistant"):
        return (parsed.role, text)
    return None


def messages_within(field: str, value: Any, role: str) -> list[Any]:
    """Returns messages of a text, of content parts, of messages (also as LangChain serialises
    them), or of an object with one of them. Raises RecordError."""
    value = as_text(value)
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    packed_items = value if isinstance(value, list) else [value]
    if isinstance(value, list) and len(value) == 1:
        return messages_within(field, value[0], role)
    items = list(map(_unpacked, packed_items))
    messages = None
    if items and all(isinstance(item, Mapping) for item in items):
        messages = _messages_of_objects(field, items, role)
    if messages is None:
        expected = "a text, messages, or an object with one of them (messages, input, output, ...)"
        raise RecordError(field, expected, value)
    return messages


def _unpacked(item: Any) -> Any:
    """Returns the fields of an object as LangChain serialises it, with its class; any other value
    unchanged."""
    if isinstance(item, Mapping) and {"lc", "kwargs"} <= item.keys():
        return item["kwargs"]
    return item


def _messages_of_objects(
    field: str, items: list[Record], role: str
) -> list[Any] | None:
    """Returns the messages of content parts, of messages, or of one object that holds some. Returns
    None for another object.
    """
    if all("role" not in item and kind_of_part(item.get("type")) for item in items):
        return [{"role": role, "content": items}]
    if len(items) > 1:
        return items
    first = items[0]
    has_role = "role" in first or str(first.get("type")).lower() in ROLE_WORDS
    if has_role and not first.keys().isdisjoint(("content", "parts", "tool_calls")):
        return items
    return _messages_of_request(field, first, role)


def _filled_names(request: Record, names: Names) -> list[str]:
    return [name for name in names if request.get(name) not in EMPTY]


def _messages_of_request(field: str, request: Record, role: str) -> list[Any] | None:
    """Returns the messages of a request to a model, of its answer, or of the arguments or result of
    a function with one text; None for another object."""
    names = _filled_names(request, _WRAPPERS)
    if not names:
        names = _filled_names(request, _TEXTS[role])
        if len(names) != 1:
            return None
    name = names[0]
    value = as_text(request[name])
    if isinstance(value, list) and name in _ALTERNATIVES:
        value = value[:1]
    if isinstance(value, str) and name in _WRAPPERS[:-1]:
        return None
    messages = messages_within(field, value, role)
    system = request.get(find_key(request, SYSTEMS) or "")
    roles = [message.get("role") for message in messages]
    if role == "user" and system and "system" not in roles and "developer" not in roles:
        messages.insert(0, {"role": "system", "content": system})
    return messages


# -- a question and its answer in columns of their own -------------------------------------------


def pair_in(item: object) -> tuple[Any, Any] | None:
    """Returns the question and the answer of ``["Is it open?", "Yes."]``, or of an object with both
    and no role."""
    if isinstance(item, list) and len(item) == 2 and not isinstance(item[0], Mapping):
        return item[0], item[1]
    if isinstance(item, Mapping) and find_key(item, _SPEAKERS) is None:
        question, answer = find_key(item, PROMPTS), find_key(item, RESPONSES)
        if question is not None and answer is not None:
            return item[question], item[answer]
    return None


def without_pairs(items: Sequence[Any]) -> list[Any]:
    """Returns a list of messages: two for a question and its answer, one for a role and a text."""
    pairs = [pair_in(item) for item in items]
    has_roles = all(pair and str(pair[0]).lower() in ROLE_WORDS for pair in pairs)
    messages: list[Any] = []
    for item, pair in zip(items, pairs, strict=True):
        if pair is None:
            messages.append(item)
        elif has_roles:
            messages.append({"role": pair[0], "content": pair[1]})
        else:
            messages.append({"role": "user", "content": pair[0]})
            messages.append({"role": "assistant", "content": pair[1]})
    return messages


def turns_in(messages: Sequence[Any]) -> list[SpokenTurn]:
    turns = []
    for index, message in enumerate(messages):
        turn = turn_in(f"messages[{index}]", message)
        if turn:
            turns.append(turn)
    return turns


def continuation(
    turns: Sequence[SpokenTurn], question: list[Any], answer: list[Any]
) -> list[Any]:
    """Returns the messages of a question and its answer that the ``turns`` of a chat lack.

    Returns none if the turns have both, or end with another answer.
    """
    if not turns:
        return question + answer
    if not answer:
        return []
    if turns[-1][0] == "user":
        return answer
    is_repeated = set(turns_in(question + answer)) <= set(turns)
    if question and not is_repeated:
        return question + answer
    return []
