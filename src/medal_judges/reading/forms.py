"""Recognises the form of a row by its fields, and turns it into one form: the fields of the line
format, with ``messages`` instead of ``dialogue`` unless it has turns already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medal_judges.errors import RecordError
from medal_judges.reading.columns import ColumnMap, Fields, find_key, labels_of, parsed_cell
from medal_judges.reading.grouped import CONTENTS, CONVERSATIONS, ROLES, is_spans
from medal_judges.reading.messages import role_of
from medal_judges.reading.released import is_released
from medal_judges.reading.transcripts import is_transcript, messages_of_transcript

# Name in --format -> name in messages.
FORMS: Mapping[str, str] = {
    "line": "the line format",
    "medal": "MEDAL's released form",
    "messages": "messages",
    "prompts": "prompt and response",
    "transcript": "a transcript",
    "turns": "one turn a row",
    "otel": "OpenTelemetry spans",
}
GROUPED = ("turns", "otel")  # several rows are one chat

# Names of columns, however they are spelled; the first that a row has is used.
_IDS = ("id", *CONVERSATIONS[:8], "uuid")
_MESSAGES = (
    *("messages", "conversations", "conversation", "dialogue", "dialog", "turns", "chat"),
    *("transcript", "history", "chat_history"),
)
_PROMPTS = ("prompt", "question", "user_message", "instruction", "query", "input", "user")
_RESPONSES = (
    *("response", "answer", "assistant_message", "completion", "reply", "output", "assistant"),
)
_SYSTEMS = ("system", "system_prompt", "system_message", "instructions")
_LANGUAGES = ("lang", "language")
_CHATBOTS = ("chatbot", "model", "model_name", "assistant_model")
_JSON_FIELDS = ("dialogue", "turns", "models", "context", "meta", "labels", "scales")


def form_of(record: object, columns: ColumnMap) -> str | None:
    """Returns the form of a row, a key of FORMS; None if no form fits."""
    if isinstance(record, list):
        return "messages" if record and _is_messages(record) else None
    if not isinstance(record, Mapping):
        return None
    mapped = columns.fields
    if "messages" in mapped:
        cell = columns.get(record, "messages")
        plain = isinstance(cell, str) and cell.lstrip()[:1] not in ("[", "{")
        return "transcript" if plain else "messages"
    if "role" in mapped and "content" in mapped:
        return "turns"
    if "response" in mapped or "prompt" in mapped:
        return "prompts"
    if is_spans(record):
        return "otel"
    if is_released(record):
        return "medal"
    for name in _MESSAGES:
        key = find_key(record, (name,))
        if key is not None and is_transcript(record[key]):
            return "transcript"
        if key is not None and _is_messages(record[key]):
            return "line" if key in ("dialogue", "turns") else "messages"
    if any(isinstance(record.get(name), list) for name in ("input", "output")):
        return "prompts"
    if record.get("dialogue") is not None or isinstance(record.get("turns"), list):
        return "line"

    def has(field: str, names: tuple[str, ...]) -> bool:
        return field in mapped or find_key(record, names) is not None

    if has("role", ROLES) and has("content", CONTENTS) and has("id", CONVERSATIONS):
        return "turns"
    if has("prompt", _PROMPTS) and has("response", _RESPONSES):
        return "prompts"
    return "line" if "dialogue" in record else None


def _is_messages(value: object) -> bool:
    if isinstance(value, str):
        return value.lstrip().startswith("[") and '"' in value
    return isinstance(value, list) and all(isinstance(m, Mapping) for m in value)


def unknown_form(record: object) -> RecordError:
    """Returns the error for a row of no known form."""
    if not isinstance(record, Mapping):
        return RecordError("(line)", "a JSON object", record)
    names = ", ".join(map(str, list(record)[:20]))
    hint = f"--column says which of its fields ({names}) is what: --column content=NAME"
    return RecordError("(row)", f"a chat in a known form; {hint}", dict(record))


def normal_row(record: object, form: str, columns: ColumnMap) -> Fields:
    """Returns ``record`` with the fields of the line format, and ``messages`` in place of
    ``dialogue`` unless it has turns already. Fields of other names go to ``meta``. Raises
    RecordError."""
    if isinstance(record, list):
        record = {"messages": record}
    if not isinstance(record, Mapping):
        raise RecordError("(line)", "a JSON object", record)
    labels, scales = labels_of(record, columns)
    row: Fields
    if form in ("line", "medal"):
        row = dict(record)
        for name in _JSON_FIELDS:
            row[name] = parsed_cell(row.get(name), "{", "[")
        for name in {"id", "lang", "source", "split", "group"} & columns.fields.keys():
            row[name] = columns.get(record, name)
        for name, own in (("labels", labels), ("scales", scales)):
            if labels:
                row[name] = {**(row[name] if isinstance(row[name], dict) else {}), **own}
        return {name: value for name, value in row.items() if name in record or value is not None}
    fields = _RowFields(record, columns)
    row = {
        "id": fields.take("id", _IDS),
        "lang": fields.take("lang", _LANGUAGES),
        "source": fields.take("source", ("source",) * isinstance(record.get("source"), str)),
    }
    system = parsed_cell(fields.take("system", _SYSTEMS), "[{")  # Anthropic's blocks, in a cell
    row["messages"] = [{"role": "system", "content": system}] if system else []
    row["messages"] += _messages(fields, form)
    row["models"] = models = dict(fields.object("models"))
    chatbot, user = fields.take("chatbot", _CHATBOTS), fields.take("user")
    for role, name in (("assistant", chatbot), ("user", user)):
        if isinstance(name, str) and name:
            models.setdefault(role, name)
    row["context"] = fields.object("context")
    row["labels"] = fields.object("labels") | labels
    row["scales"] = fields.object("scales") | scales
    # A field of such a name but another kind is the user's own.
    for name in ("split", "group"):
        value = columns.get(record, name) if name in columns.fields else record.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool):
            row[name] = str(value)
            fields.used.add(columns.fields.get(name, name))
    meta = fields.object("meta")
    used = fields.used | columns.labels.keys()
    row["meta"] = meta = {k: v for k, v in record.items() if k not in used and v is not None} | meta
    if "time" in columns.fields:
        meta.pop(columns.fields["time"], None)
        if (time := columns.get(record, "time")) is not None:
            meta["time"] = time
    return {key: value for key, value in row.items() if value not in (None, {}, [])}


class _RowFields:
    """The fields of a row; ``used`` are the keys whose values were returned."""

    def __init__(self, record: Mapping[str, object], columns: ColumnMap) -> None:
        self.record, self.columns = record, columns
        self.used: set[str] = set()

    def take(self, field: str, names: tuple[str, ...] = ()) -> Any:
        """Returns the value of ``field`` by the column map, else of the first of ``names``."""
        if field in self.columns.fields:
            self.used.add(self.columns.fields[field])
            return self.columns.get(self.record, field)
        key = find_key(self.record, names)
        if key is None:
            return None
        self.used.add(key)
        return self.record[key]

    def object(self, name: str) -> Fields:
        """Returns the object under ``name``, also of JSON text; {} if it is no object."""
        value = parsed_cell(self.record.get(name), "{")
        if not isinstance(value, dict):
            return {}
        self.used.add(name)
        return value


def _messages(fields: _RowFields, form: str) -> list[Any]:
    columns = fields.columns
    messages: list[Any] = []
    if form == "prompts":
        pairs = (("user", "prompt", _PROMPTS), ("assistant", "response", _RESPONSES))
        for role, field, names in pairs:
            value = parsed_cell(fields.take(field, names), "[{")
            if isinstance(value, list):  # OpenAI's Responses
                messages += value
            elif value is not None:
                messages.append({"role": role, "content": value})
        return messages
    value = fields.take("messages", _MESSAGES)
    if isinstance(value, str) and form == "transcript":
        value = messages_of_transcript(value, columns.roles)
    value = parsed_cell(value, "")
    if isinstance(value, Mapping) and "messages" in value:
        value = value["messages"]
    if not isinstance(value, list) or not value:
        raise RecordError("messages", "a non-empty list of {role, content}", value)
    for message in value:  # with ``role`` and ``content``, whatever their names
        if not isinstance(message, Mapping):
            messages.append(message)  # read_messages refuses it
            continue
        found, own = dict(message), _RowFields(message, columns)
        role = own.take("role", ROLES)
        if role is not None:
            found["role"] = role_of(role, columns.roles)
        named = "content" in message or "parts" in message
        if "content" in columns.fields or not (named or role is None):
            found["content"] = own.take("content", CONTENTS)
        messages.append(found)
    choices = fields.record.get("choices")  # a logged request with its answer
    if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        fields.used.add("choices")
        messages.append(choices[0].get("message"))
    return messages
