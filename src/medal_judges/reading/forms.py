"""The forms of a row. ``@reader`` registers a function from a Row to the fields of the line format,
with ``messages`` in place of ``dialogue`` unless the row has turns already:

    @reader("pairs", "pairs of texts", fits=lambda record, columns: "pairs" in record)
    def read_pairs(row: Row) -> Fields:
        question, answer = row.take("pairs")
        return row.line([
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer},
        ])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from medal_judges.errors import RecordError
from medal_judges.reading.columns import (
    MISSING,
    ColumnMap,
    json_in,
    labels_of,
    lookup,
    require_no_python,
)
from medal_judges.reading.names import (
    Fields,
    Record,
    find_key,
    keys_of,
    role_of,
)
from medal_judges.reading.released import is_released, line_of_released
from medal_judges.reading.transcripts import (
    begins_transcript,
    is_transcript,
    messages_of_transcript,
)
from medal_judges.reading.turns import conversation_column, sort_keys
from medal_judges.records.validation import as_text

Message = Any  # an object with role and content; read_messages refuses other values
_JSON_FIELDS = {"dialogue", "turns", "models", "context", "meta", "labels", "scales"}
_LINE_FIELDS = ("id", "lang", "source", "split", "group")
_NOTHING: tuple[object, ...] = (None, "", [], {})


@dataclass
class Row:
    """A row of a file. Columns that are not ``used`` become metadata."""

    record: Record
    columns: ColumnMap
    used: set[str] = field(default_factory=set)

    def take(self, field: str) -> Any:
        """Returns the value of a field, and marks its column as used."""
        column = self.columns.column(self.record, field) or field
        self.used.add(column)
        return lookup(self.record, column)

    def take_text(self, field: str) -> str | None:
        """Returns the text of a field. Any other kind of value stays in the metadata."""
        column = self.columns.column(self.record, field) or field
        value = as_text(lookup(self.record, column))
        if not isinstance(value, str):
            return None
        self.used.add(column)
        return value

    def take_object(self, field: str) -> Fields:
        value = json_in(self.record.get(field))
        if not isinstance(value, dict):
            return {}
        self.used.add(field)
        return dict(value)

    def add_labels(self, line: Fields) -> None:
        """Adds the labels in the columns that the user named to the fields of a line."""
        self.used |= self.columns.labels.keys()
        for name, value in labels_of(self.record, self.columns).items():
            if isinstance(line.get(name), dict):
                value = line[name] | value
            line[name] = value

    def line(self, messages: list[Message]) -> Fields:
        """Returns the fields of the line format, with ``messages``. Columns that no reader used
        become ``meta``."""
        models = self.take_object("models")
        for role, name in (("user", "user"), ("assistant", "chatbot")):
            models.setdefault(role, self.take_text(name))
        system = json_in(self.take("system"))  # a text, or Anthropic's blocks
        if system:
            messages = [{"role": "system", "content": system}, *messages]
        line: Fields = {"id": self.take("id"), "messages": messages}
        line["models"] = {role: name for role, name in models.items() if name}
        for name in _LINE_FIELDS[1:]:
            line[name] = self.take_text(name)
        for name in ("context", "labels", "scales"):
            line[name] = self.take_object(name)
        self.add_labels(line)
        line["meta"] = self._metadata()
        return {name: value for name, value in line.items() if value not in _NOTHING}

    def _metadata(self) -> Fields:
        meta = self.take_object("meta")
        if "time" in self.columns.fields:
            meta["time"] = self.take("time")
        unused = {}
        for name, value in self.record.items():
            if name not in self.used and value is not None:
                unused[name] = value
        return unused | meta


class Reader(NamedTuple):
    """A form of rows. ``title`` names it in messages. ``fits`` says whether a record has it."""

    title: str
    fits: Callable[[Record, ColumnMap], bool]
    read: Callable[[Row], Fields]


READERS: dict[str, Reader] = {}  # by the name in --format; the first that fits reads


def reader(
    name: str, title: str, fits: Callable[[Record, ColumnMap], bool]
) -> Callable[[Callable[[Row], Fields]], Callable[[Row], Fields]]:
    """Registers the decorated function as the reader of the form ``name``. ``title`` names the form
    in messages. ``fits`` says whether a record has it."""

    def register(read: Callable[[Row], Fields]) -> Callable[[Row], Fields]:
        READERS[name] = Reader(title, fits, read)
        return read

    return register


def form_of(record: Record, columns: ColumnMap) -> str | None:
    """Returns the form of ``record``, a key of READERS. It is the one that ``columns`` states, or
    the first that fits. Returns None if no form fits."""
    fields = columns.fields
    if "messages" not in fields:
        if "role" in fields and "content" in fields:
            return "turns"
        if "prompt" in fields and "response" in fields:
            return "prompts"
    for name, form in READERS.items():
        if form.fits(record, columns):
            return name
    return None


# -- our own forms ---------------------------------------------------------------------------------


@reader("medal", "MEDAL's released form", lambda record, columns: is_released(record))
def read_released(row: Row) -> Fields:
    return line_of_released(read_line(row))


def is_line(record: Record, columns: ColumnMap) -> bool:
    turns = record.get("dialogue", record.get("turns"))
    if "messages" in columns.fields or not isinstance(turns, list):
        return False
    return isinstance(next(iter(turns), {}), Mapping)


@reader("line", "the line format", is_line)
def read_line(row: Row) -> Fields:
    """Returns the fields of ``row``, a line, with those that the column map names."""
    line = dict(row.record)
    if line.get("messages") and line.get("dialogue"):
        raise RecordError(
            "messages", "messages or dialogue, not both", line["messages"]
        )
    for name in line.keys() & _JSON_FIELDS:
        line[name] = json_in(line[name], name)
    for name in row.columns.fields.keys() & {*_LINE_FIELDS}:
        line[name] = as_text(row.take(name))
    row.add_labels(line)
    return line


# -- messages --------------------------------------------------------------------------------------


def _messages_column(record: Record, columns: ColumnMap) -> str:
    """Returns the column of a chat's messages, a list or a transcript; an empty text for none."""
    column = columns.fields.get("messages")
    if column is not None:
        return column
    for key in keys_of(tuple(record), "messages"):
        if _are_messages(record[key]):
            return key
    return ""


def _are_messages(value: object) -> bool:
    if isinstance(value, str):
        return value.lstrip().startswith("[{") or is_transcript(value)
    if not isinstance(value, list) or not value:
        return False
    return isinstance(value[0], Mapping) and find_key(value[0], "role") is not None


def has_messages(record: Record, columns: ColumnMap) -> bool:
    column = _messages_column(record, columns)
    return bool(column) and lookup(record, column, MISSING) is not MISSING


@reader("messages", "messages or a transcript", has_messages)
def read_message_list(row: Row) -> Fields:
    """Returns the fields of ``row``, which has messages or a transcript. An answer in a column of
    its own follows messages that end with the user."""
    column = _messages_column(row.record, row.columns) or "messages"
    row.used.add(column)
    cell = lookup(row.record, column)
    if isinstance(cell, str):
        text = cell.lstrip()
        if begins_transcript(text) or not text.startswith(("[", "{")):
            return row.line(messages_of_transcript(cell, row.columns.roles))
    messages = _messages_in(column, cell, row.columns)
    times = [row.columns.value(end, "time") for end in (messages[0], messages[-1])]
    keys = sort_keys(times)
    if keys is not None and keys[0] > keys[-1]:
        raise RecordError(column, "messages with the oldest first", times)
    # Beside messages, ``user`` and ``assistant`` are ids, and an object is the answer's grades.
    beside = row.columns.column(row.record, "response")
    answer = lookup(row.record, beside)
    ends_with_user = messages[-1].get("role") == "user" and beside != "assistant"
    if messages[-1].get("content") == answer:
        row.used.add(beside)
    elif ends_with_user and isinstance(answer, str | list):
        messages += _messages_of(row, "response", "assistant")
    return row.line(messages)


def _messages_in(column: str, cell: object, columns: ColumnMap) -> list[Message]:
    """Returns messages with the fields ``role`` and ``content``, whatever their names."""
    value = json_in(cell, column)
    if isinstance(value, Mapping) and "messages" in value:
        value = value["messages"]
    if not isinstance(value, list) or not value:
        raise RecordError(column, "a non-empty list of {role, content}", value)
    messages: list[Message] = []
    for number, item in enumerate(value):
        if not isinstance(item, Mapping):
            expected = "an object with role and content"
            raise RecordError(f"{column}[{number}]", expected, item)
        messages.append(_message(f"messages[{number}]", item, columns))
    return messages


def _message(field: str, message: Record, columns: ColumnMap) -> Message:
    role = columns.value(message, "role")
    if role is None:
        return message
    normal = {**message, "role": role_of(role, columns.roles, f"{field}.role")}
    if "content" in columns.fields or message.get("content") in _NOTHING:
        filled = {name: value for name, value in message.items() if value != ""}
        normal["content"] = columns.value(filled, "content")
    return normal


# -- one turn a row, a question and its answer -----------------------------------------------------


def is_turn(record: Record, columns: ColumnMap) -> bool:
    has_turn = all(columns.column(record, name) for name in ("role", "content"))
    return has_turn and bool(conversation_column(record, columns))


@reader("turns", "one turn a row", is_turn)
def read_turns(row: Row) -> Fields:
    """Returns the fields of ``row``, a chat that ``turns.chat_of_turns`` made of its rows."""
    return row.line(row.take("messages"))


def is_exchange(record: Record, columns: ColumnMap) -> bool:
    return all(columns.column(record, name) for name in ("prompt", "response"))


@reader("prompts", "prompt and response", is_exchange)
def read_exchange(row: Row) -> Fields:
    """Returns the fields of ``row``, a question and its answer. An answer without text is an empty
    turn."""
    question = _messages_of(row, "prompt", "user")
    if "instruction" in row.used:  # Alpaca's, which goes on in ``input``
        question += _messages_of(row, "input", "user")
    answer = _messages_of(row, "response", "assistant")
    return row.line(question + (answer or [{"role": "assistant", "content": ""}]))


def _messages_of(row: Row, field: str, role: str) -> list[Message]:
    """Returns the messages of a question or an answer: a text, messages, or parts of one message.
    A text that is JSON is the text itself unless it is a list of objects."""
    value = as_text(row.take(field))
    if isinstance(value, str) and value.lstrip().startswith("[{"):
        require_no_python(value, field)
        value = json_in(value)
    if value in _NOTHING:
        return []
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list):
        return [{"role": role, "content": value}]
    typed = [isinstance(item, Mapping) and "type" in item for item in value]
    if all(typed) and "role" not in value[0]:
        return [{"role": role, "content": value}]
    return _messages_in(field, value, row.columns)
