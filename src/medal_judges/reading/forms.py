"""In which form a row holds a chat, by its fields, and the row in one form: fields of the line
format, with ``messages`` where turns have to be made of messages yet."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from medal_judges.errors import RecordError, did_you_mean
from medal_judges.reading.columns import NO_COLUMNS, ColumnMap, LabelColumn, label_values, lookup
from medal_judges.reading.json_rows import Fields
from medal_judges.reading.messages import ROLE_WORDS
from medal_judges.reading.released import is_released
from medal_judges.reading.spans import is_spans
from medal_judges.reading.transcripts import is_transcript, messages_of_transcript

# Name (as --format takes it) -> what messages call it.
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
# Read alike: which of the two a row is hangs on a field that may be empty.
ALIKE = ({"openai", "anthropic"}, {"wildchat", "lmsys"})

# Names that columns have in logs, as _plain_name writes them; the first that is there is taken.
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
_Take = Callable[[str, tuple[str, ...]], Any]  # (field, known names) -> its value
_PLAIN_ROLES = ("user", "assistant", "system", "tool")
_JSON_FIELDS = ("dialogue", "turns", "models", "context", "meta", "labels", "scales")


def form_of(record: object, columns: ColumnMap) -> str | None:
    """A key of FORMS, by the fields of a row; None where none fits."""
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
    found = _message_form(record) or _scalar_form(record, columns)
    return "line" if found is None and "dialogue" in record else found


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


def _scalar_form(record: Mapping[str, object], columns: ColumnMap) -> str | None:
    """The form of a row of a table: a turn, or a prompt and its response."""

    def there(field: str, names: tuple[str, ...]) -> bool:
        return columns.has(field) or find_key(record, names) is not None

    if there("role", ROLES) and there("content", CONTENTS) and there("id", CONVERSATIONS):
        return "turns"
    if there("prompt", _PROMPTS) and there("response", _RESPONSES):
        return "prompts"
    return None


def _is_messages(value: object) -> bool:
    if isinstance(value, str):
        return value.lstrip().startswith("[") and '"' in value
    return isinstance(value, list) and all(isinstance(m, Mapping) for m in value)


def unknown_form(record: object) -> RecordError:
    """The error for a row of no known form."""
    if not isinstance(record, Mapping):
        return RecordError("(line)", "a JSON object", record)
    names = ", ".join(map(str, list(record)[:20]))
    guess = did_you_mean("messages", map(str, record)) if "messages" not in record else ""
    expected = f"a chat in a form that is known {guess}".strip()
    told = f"--column says which of its fields ({names}) is what: --column content=NAME"
    return RecordError("(row)", f"{expected}; {told}", dict(record))


# -- a row in one form -----------------------------------------------------------------------------


def normal_row(record: object, form: str, columns: ColumnMap) -> Fields:
    """``record`` with the fields of the line format, and ``messages`` in place of ``dialogue``
    unless it has turns already. Fields of other names are in ``meta``. Raises RecordError."""
    if isinstance(record, list):
        record = {"messages": record}
    if not isinstance(record, Mapping):
        raise RecordError("(line)", "a JSON object", record)
    if form in ("line", "medal"):
        return _line(record, columns)
    used: set[str] = set()

    def take(field: str, names: tuple[str, ...]) -> Any:
        return _taken(record, columns, used, field, names)

    row: Fields = {
        "id": take("id", _IDS),
        "lang": take("lang", _LANGUAGES),
        "source": take("source", ("source",) if isinstance(record.get("source"), str) else ()),
    }
    system = take("system", _SYSTEMS)
    if isinstance(system, str) and system.lstrip().startswith("[{"):  # Anthropic's, in a cell
        system = _parsed(system)
    messages = _messages(record, form, columns, take, used)
    row["messages"] = ([{"role": "system", "content": system}] if system else []) + messages
    row["models"] = _models(record, take, used)
    row["context"] = _object(record, "context", used)
    row |= _label_fields(record, columns, used)
    row["meta"] = _meta(record, columns, used)
    return {key: value for key, value in row.items() if value not in (None, {}, [])}


def _line(record: Mapping[str, object], columns: ColumnMap) -> Fields:
    """A line of ours: as it is; JSON in cells of a table is read."""
    row = dict(record)
    for name in _JSON_FIELDS:
        cell = row.get(name)
        if isinstance(cell, str) and cell.lstrip()[:1] in ("{", "["):
            row[name] = _parsed(cell)
    for name in ("id", "lang", "source", "split", "group"):
        if columns.has(name):
            row[name] = columns.get(record, name)
    labels, scales = _label_columns(record, columns)
    if labels:
        row["labels"] = _object(row, "labels", set()) | labels
        row["scales"] = _object(row, "scales", set()) | scales
    return row


def _messages(
    record: Mapping[str, object], form: str, columns: ColumnMap, take: _Take, used: set[str]
) -> list[Any]:
    if form == "responses":
        return _exchange(take("prompt", ("input",)), take("response", ("output",)))
    if form == "prompts":
        return _exchange(take("prompt", _PROMPTS), take("response", _RESPONSES))
    value = take("messages", _MESSAGES)
    if isinstance(value, str) and form == "transcript":
        value = messages_of_transcript(value, columns.roles)
    elif isinstance(value, str):
        value = _parsed(value)
    if isinstance(value, Mapping) and "messages" in value:
        value = value["messages"]
    if not isinstance(value, list) or not value:
        raise RecordError("messages", "a non-empty list of {role, content}", value)
    messages = [message_of(each, columns) for each in value]
    choices = record.get("choices")  # a logged request with its answer
    if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        used.add("choices")
        messages.append(choices[0].get("message"))
    return messages


def _exchange(prompt: object, response: object) -> list[Any]:
    """The messages of a prompt and its response: texts, or lists of messages or items."""
    messages: list[Any] = []
    for role, said in (("user", prompt), ("assistant", response)):
        if isinstance(said, str) and said.lstrip().startswith("[{"):
            said = _parsed(said)
        if isinstance(said, list):
            messages += said
        elif said is not None:
            messages.append({"role": role, "content": said})
    return messages


def message_of(message: object, columns: ColumnMap) -> object:
    """A message with ``role`` and ``content``, whatever their names; what is none stays as it is,
    for the policy of messages to refuse."""
    if not isinstance(message, Mapping):
        return message
    if columns is NO_COLUMNS and "content" in message and message.get("role") in _PLAIN_ROLES:
        return message
    found = dict(message)
    role = columns.get(message, "role") if columns.has("role") else _first(message, ROLES)
    if isinstance(role, Mapping):  # {"author": {"role": ...}}
        role = role.get("role")
    if role is not None:
        found["role"] = role_of(role, columns)
    if columns.has("content"):
        found["content"] = columns.get(message, "content")
    elif "content" not in message and "parts" not in message and role is not None:
        found["content"] = _first(message, CONTENTS)
    return found


def role_of(word: object, columns: ColumnMap) -> object:
    """The role that ``word`` means: by the column map, else as it stands. Raises RecordError for a
    word that nobody knows."""
    if not isinstance(word, str):
        return word
    said = word.strip()
    if said in columns.roles:
        return columns.roles[said]
    lower = {name.lower(): role for name, role in columns.roles.items()}
    if said.lower() in lower:
        return lower[said.lower()]
    if said.lower() not in ROLE_WORDS:
        raise RecordError(
            "role",
            f"user, assistant, system, tool, or a word that --role explains (--role {said}=user)",
            word,
        )
    return said


def _models(record: Mapping[str, object], take: _Take, used: set[str]) -> Fields:
    stated = _object(record, "models", used)
    models = dict(stated) if stated else {}
    chatbot = take("chatbot", _CHATBOTS)
    user = take("user", ())
    if isinstance(chatbot, str) and chatbot:
        models.setdefault("assistant", chatbot)
    if isinstance(user, str) and user:
        models.setdefault("user", user)
    return models


def _object(record: Mapping[str, object], name: str, used: set[str]) -> Fields:
    """The object under ``name``, of JSON text too; one that is no object stays where it is."""
    value = record.get(name)
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = _parsed(value)
    if not isinstance(value, dict):
        return {}
    used.add(name)
    return value


def _label_fields(record: Mapping[str, object], columns: ColumnMap, used: set[str]) -> Fields:
    """Labels and what goes with them; a field of such a name but another kind is the user's own."""
    labels = _object(record, "labels", used)
    scales = _object(record, "scales", used)
    own, own_scales = _label_columns(record, columns)
    row: Fields = {"labels": labels | own, "scales": scales | own_scales}
    for name in ("split", "group"):
        value = columns.get(record, name) if columns.has(name) else record.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool):
            row[name] = str(value)
            used.add(columns.fields.get(name, name))
    for name, fits in (("level", ("dialogue", "turn")), ("aggregated", (True, False))):
        if record.get(name) in fits:
            row[name] = record[name]
            used.add(name)
    return row


def _label_columns(
    record: Mapping[str, object], columns: ColumnMap
) -> tuple[dict[str, list[float | None]], dict[str, list[float] | None]]:
    labels: dict[str, list[float | None]] = {}
    scales: dict[str, list[float] | None] = {}
    for label in columns.labels:
        values = label_values(label, lookup(record, label.column))
        if values:
            labels.setdefault(label.dimension, []).extend(values)
            scales[label.dimension] = _scale(label, scales.get(label.dimension))
    return labels, scales


def _scale(label: LabelColumn, other: list[float] | None) -> list[float] | None:
    scale = None if label.scale is None else list(label.scale)
    if other is not None and scale is not None and other != scale:
        raise RecordError(label.column, f"one scale of {label.dimension} ({other})", scale)
    return scale or other


def _meta(record: Mapping[str, object], columns: ColumnMap, used: set[str]) -> Fields:
    """What no other field took, and the user's ``meta``; a mapped time is ``meta["time"]``."""
    meta = _object(record, "meta", used)
    named = used | {label.column for label in columns.labels}
    meta = {k: v for k, v in record.items() if k not in named and v is not None} | meta
    if columns.has("time"):
        meta.pop(columns.fields["time"], None)
        if (time := columns.get(record, "time")) is not None:
            meta["time"] = time
    return meta


# -- names -----------------------------------------------------------------------------------------


def _taken(
    record: Mapping[str, object],
    columns: ColumnMap,
    used: set[str],
    field: str,
    names: tuple[str, ...],
) -> Any:
    """The value of ``field`` by the column map, else of the first of ``names`` that is there."""
    if columns.has(field):
        used.add(columns.fields[field])
        return columns.get(record, field)
    key = find_key(record, names)
    if key is None:
        return None
    used.add(key)
    return record[key]


def _first(record: Mapping[str, object], names: tuple[str, ...]) -> object:
    key = find_key(record, names)
    return None if key is None else record[key]


def find_key(record: Mapping[str, object], names: Iterable[str]) -> str | None:
    """The key of ``record`` that is the first of ``names``, however it is written; one with a
    value goes before one without."""
    plain = _plain_names(tuple(record))
    there = [plain[name] for name in names if name in plain]
    filled = (key for key in there if record[key] is not None)
    return next(filled, there[0] if there else None)


@lru_cache(maxsize=512)
def _plain_names(keys: tuple[str, ...]) -> Mapping[str, str]:
    plain: dict[str, str] = {}
    for key in keys:
        if isinstance(key, str):
            plain.setdefault(_plain_name(key), key)
    return plain | {key: key for key in keys if isinstance(key, str)}


def _plain_name(key: str) -> str:
    """``conversation_id`` of ``conversationId``, ``Conversation ID`` and ``conversation-id``."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key.strip())
    return re.sub(r"[\s\-]+", "_", parted).lower()


def _parsed(said: str) -> object:
    try:
        return json.loads(said)
    except (ValueError, RecursionError) as error:
        raise RecordError("(cell)", "valid JSON", said) from error
