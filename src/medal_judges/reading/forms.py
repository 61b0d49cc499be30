"""Recognises the form of a row by its fields, and turns it into one form: the fields of the line
format, with ``messages`` instead of ``dialogue`` unless it has turns already."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from medal_judges.errors import RecordError, did_you_mean
from medal_judges.reading.columns import ColumnMap, label_values, lookup
from medal_judges.reading.messages import ROLE_WORDS
from medal_judges.reading.released import is_released
from medal_judges.reading.spans import is_spans
from medal_judges.reading.text_rows import Fields
from medal_judges.reading.transcripts import is_transcript, messages_of_transcript

# Name in --format -> name in messages.
FORMS: Mapping[str, str] = {
    "line": "the line format",
    "medal": "MEDAL's released form",
    "openai": "OpenAI messages",
    "anthropic": "Anthropic messages",
    "responses": "OpenAI Responses",
    "sharegpt": "ShareGPT",
    "wildchat": "WildChat",
    "lmsys": "LMSYS",
    "prompts": "prompt and response",
    "transcript": "a transcript",
    "turns": "one turn a row",
    "otel": "OpenTelemetry spans",
}
GROUPED = ("turns", "otel")  # several rows are one chat
# Two forms that differ by a field that can be empty, so that the form of the row before decides.
ALIKE = ({"openai", "anthropic"}, {"wildchat", "lmsys"})

# Names of columns in logs, as _plain_names writes them; the first that a row has is used.
CONVERSATIONS = (
    *("conversation_id", "dialogue_id", "dialog_id", "chat_id", "session_id", "thread_id"),
    *("ticket_id", "conversation_hash", "conversation", "session", "thread", "chat", "id"),
)
_IDS = ("id", *CONVERSATIONS[:8], "uuid")
_MESSAGES = (
    *("messages", "conversations", "conversation", "dialogue", "dialog", "turns", "chat"),
    *("transcript", "history", "chat_history"),
)
ROLES = ("role", "speaker", "sender", "from", "author", "participant", "sender_type")
CONTENTS = ("content", "text", "message", "body", "utterance", "value", "msg")
_PROMPTS = ("prompt", "question", "user_message", "instruction", "query", "input", "user")
_RESPONSES = (
    *("response", "answer", "assistant_message", "completion", "reply", "output", "assistant"),
)
_SYSTEMS = ("system", "system_prompt", "system_message", "instructions")
_LANGUAGES = ("lang", "language")
_CHATBOTS = ("chatbot", "model", "model_name", "assistant_model")
_PLAIN_ROLES = ("user", "assistant", "system", "tool")
_JSON_FIELDS = ("dialogue", "turns", "models", "context", "meta", "labels", "scales")


def form_of(record: object, columns: ColumnMap) -> str | None:
    """Returns the form of a row, a key of FORMS; None if no form fits."""
    if isinstance(record, list):
        return "openai" if record and all(isinstance(m, Mapping) for m in record) else None
    if not isinstance(record, Mapping):
        return None
    if columns.has("messages"):
        cell = columns.get(record, "messages")
        plain = isinstance(cell, str) and cell.lstrip()[:1] not in ("[", "{")
        return "transcript" if plain or is_transcript(cell) else "openai"
    if columns.has("role", "content"):
        return "turns"
    if columns.has("response") or columns.has("prompt"):
        return "prompts"
    if is_spans(record):
        return "otel"
    if is_released(record):
        return "medal"
    return _message_form(record) or _table_form(record, columns)


def _message_form(record: Mapping[str, object]) -> str | None:
    """The form of a row that holds all of its messages."""
    key = find_key(record, _MESSAGES)
    if key is not None and is_transcript(record[key]):
        return "transcript"
    if _is_messages(record.get("conversations")):
        return "sharegpt"
    if _is_messages(record.get("conversation")):
        return "wildchat" if record.get("conversation_hash") is not None else "lmsys"
    if _is_messages(record.get("messages")):
        return "anthropic" if record.get("system") is not None else "openai"
    if any(isinstance(record.get(name), list) for name in ("input", "output")):
        return "responses"
    if record.get("dialogue") is not None or isinstance(record.get("turns"), list):
        return "line"
    for name in _MESSAGES:
        key = find_key(record, (name,))
        if key is not None and _is_messages(record[key]):
            return "line" if name in ("dialogue", "turns") and key == name else "openai"
    return None


def _table_form(record: Mapping[str, object], columns: ColumnMap) -> str | None:
    """The form of a row of a table: a turn, or a prompt and its response."""

    def has(field: str, names: tuple[str, ...]) -> bool:
        return columns.has(field) or find_key(record, names) is not None

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
    guess = did_you_mean("messages", map(str, record)) if "messages" not in record else ""
    expected = f"a chat in a form that is known {guess}".strip()
    hint = f"--column says which of its fields ({names}) is what: --column content=NAME"
    return RecordError("(row)", f"{expected}; {hint}", dict(record))


# -- a row in one form -----------------------------------------------------------------------------


def normal_row(record: object, form: str, columns: ColumnMap) -> Fields:
    """Returns ``record`` with the fields of the line format, and ``messages`` in place of
    ``dialogue`` unless it has turns already. Fields of other names go to ``meta``. Raises
    RecordError."""
    if isinstance(record, list):
        record = {"messages": record}
    if not isinstance(record, Mapping):
        raise RecordError("(line)", "a JSON object", record)
    if form in ("line", "medal"):
        return _line(record, columns)
    fields = _RowFields(record, columns)
    sources = ("source",) if isinstance(record.get("source"), str) else ()
    row: Fields = {
        "id": fields.take("id", _IDS),
        "lang": fields.take("lang", _LANGUAGES),
        "source": fields.take("source", sources),
    }
    system = _parsed(fields.take("system", _SYSTEMS), "[{")  # Anthropic's blocks, in a cell
    row["messages"] = [{"role": "system", "content": system}] if system else []
    row["messages"] += _messages(fields, form)
    models = dict(fields.object("models"))
    chatbot, user = fields.take("chatbot", _CHATBOTS), fields.take("user")
    for role, name in (("assistant", chatbot), ("user", user)):
        if isinstance(name, str) and name:
            models.setdefault(role, name)
    row["models"] = models
    row["context"] = fields.object("context")
    labels, scales = _labels(record, columns)
    row["labels"] = fields.object("labels") | labels
    row["scales"] = fields.object("scales") | scales
    # A field of such a name but another kind is the user's own.
    for name in ("split", "group"):
        value = columns.get(record, name) if columns.has(name) else record.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool):
            row[name] = str(value)
            fields.used.add(columns.fields.get(name, name))
    for name, known in (("level", ("dialogue", "turn")), ("aggregated", (True, False))):
        if record.get(name) in known:
            row[name] = record[name]
            fields.used.add(name)
    meta = fields.object("meta")
    used = fields.used | {label.column for label in columns.labels}
    meta = {k: v for k, v in record.items() if k not in used and v is not None} | meta
    if columns.has("time"):
        meta.pop(columns.fields["time"], None)
        if (time := columns.get(record, "time")) is not None:
            meta["time"] = time
    row["meta"] = meta
    return {key: value for key, value in row.items() if value not in (None, {}, [])}


class _RowFields:
    """The fields of a row; ``used`` are the keys whose values were returned."""

    def __init__(self, record: Mapping[str, object], columns: ColumnMap) -> None:
        self.record, self.columns = record, columns
        self.used: set[str] = set()

    def take(self, field: str, names: tuple[str, ...] = ()) -> Any:
        """Returns the value of ``field`` by the column map, else of the first of ``names``."""
        if self.columns.has(field):
            self.used.add(self.columns.fields[field])
            return self.columns.get(self.record, field)
        key = find_key(self.record, names)
        if key is None:
            return None
        self.used.add(key)
        return self.record[key]

    def object(self, name: str) -> Fields:
        """Returns the object under ``name``, also of JSON text; {} if it is no object."""
        value = _parsed(self.record.get(name), "{")
        if not isinstance(value, dict):
            return {}
        self.used.add(name)
        return value


def _line(record: Mapping[str, object], columns: ColumnMap) -> Fields:
    """A row in the line format; JSON in cells of a table is parsed."""
    row: Fields = dict(record)
    for name in _JSON_FIELDS:
        row[name] = _parsed(row.get(name), "{", "[")
    for name in ("id", "lang", "source", "split", "group"):
        if columns.has(name):
            row[name] = columns.get(record, name)
    labels, scales = _labels(record, columns)
    for name, own in (("labels", labels), ("scales", scales)):
        if labels:
            row[name] = {**(row[name] if isinstance(row[name], dict) else {}), **own}
    return {name: value for name, value in row.items() if name in record or value is not None}


def _messages(fields: _RowFields, form: str) -> list[Any]:
    columns = fields.columns
    if form in ("responses", "prompts"):
        inputs: tuple[str, ...] = ("input",) if form == "responses" else _PROMPTS
        outputs: tuple[str, ...] = ("output",) if form == "responses" else _RESPONSES
        messages: list[Any] = []
        for role, field, names in (("user", "prompt", inputs), ("assistant", "response", outputs)):
            value = _parsed(fields.take(field, names), "[{")
            if isinstance(value, list):
                messages += value
            elif value is not None:
                messages.append({"role": role, "content": value})
        return messages
    value = fields.take("messages", _MESSAGES)
    if isinstance(value, str) and form == "transcript":
        value = messages_of_transcript(value, columns.roles)
    value = _parsed(value, "")
    if isinstance(value, Mapping) and "messages" in value:
        value = value["messages"]
    if not isinstance(value, list) or not value:
        raise RecordError("messages", "a non-empty list of {role, content}", value)
    messages = [_message(each, columns) for each in value]
    choices = fields.record.get("choices")  # a logged request with its answer
    if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        fields.used.add("choices")
        messages.append(choices[0].get("message"))
    return messages


def _message(message: object, columns: ColumnMap) -> object:
    """A message with ``role`` and ``content``, whatever their names. Anything that is no message
    stays as it is: read_messages refuses it."""
    if not isinstance(message, Mapping):
        return message
    mapped = columns.fields or columns.roles
    if not mapped and "content" in message and message.get("role") in _PLAIN_ROLES:
        return message
    found = dict(message)
    fields = _RowFields(message, columns)
    role = fields.take("role", ROLES)
    if isinstance(role, Mapping):  # {"author": {"role": ...}}
        role = role.get("role")
    if role is not None:
        found["role"] = role_of(role, columns)
    if columns.has("content") or not ("content" in message or "parts" in message or role is None):
        found["content"] = fields.take("content", CONTENTS)
    return found


def role_of(word: object, columns: ColumnMap) -> object:
    """Returns the role that ``word`` means by the column map, else ``word``. Raises RecordError for
    an unknown word."""
    if not isinstance(word, str):
        return word
    name = word.strip()
    lower = {own.lower(): role for own, role in columns.roles.items()}
    known = columns.roles.get(name) or lower.get(name.lower())
    if known is None and name.lower() not in ROLE_WORDS:
        hint = f"a word that --role explains (--role {name}=user)"
        raise RecordError("role", f"user, assistant, system, tool, or {hint}", word)
    return known or name


def _labels(
    record: Mapping[str, object], columns: ColumnMap
) -> tuple[dict[str, list[float | None]], dict[str, list[float] | None]]:
    """Labels and scales of the columns that the map names as labels."""
    labels: dict[str, list[float | None]] = {}
    scales: dict[str, list[float] | None] = {}
    for label in columns.labels:
        values = label_values(label, lookup(record, label.column))
        if values:
            labels.setdefault(label.dimension, []).extend(values)
            scale, other = label.scale and list(label.scale), scales.get(label.dimension)
            if other is not None and scale is not None and other != scale:
                raise RecordError(label.column, f"one scale of {label.dimension} ({other})", scale)
            scales[label.dimension] = scale or other
    return labels, scales


# -- names -----------------------------------------------------------------------------------------


def find_key(record: Mapping[str, object], names: Iterable[str]) -> str | None:
    """Returns the key of ``record`` that is the first of ``names``, however it is spelled; one with
    a value comes before one without."""
    plain = _plain_names(tuple(record))
    there = [plain[name] for name in names if name in plain]
    filled = (key for key in there if record[key] is not None)
    return next(filled, there[0] if there else None)


@lru_cache(maxsize=512)
def _plain_names(keys: tuple[str, ...]) -> Mapping[str, str]:
    """``conversation_id`` -> ``conversationId``, ``Conversation ID`` or ``conversation-id``."""
    plain: dict[str, str] = {}
    for key in keys:
        if isinstance(key, str):
            words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key.strip())
            plain.setdefault(re.sub(r"[\s\-]+", "_", words).lower(), key)
    return plain | {key: key for key in keys if isinstance(key, str)}


def _parsed(value: Any, *begins: str) -> Any:
    """JSON text that begins with one of ``begins`` as its value; anything else as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith(begins):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise RecordError("(cell)", "valid JSON", value) from error
