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

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from medal_judges.errors import RecordError
from medal_judges.reading.columns import (
    MISSING,
    ColumnMap,
    json_in,
    labels_of,
    lookup,
    parsed_cell,
)
from medal_judges.reading.names import (
    ROLE_WORDS,
    Counts,
    Fields,
    Record,
    find_key,
    keys_of,
    role_of,
)
from medal_judges.reading.released import is_released, line_of_released
from medal_judges.reading.transcripts import is_transcript, messages_of_transcript
from medal_judges.reading.turns import conversation_column, oldest_first, role_in
from medal_judges.records.validation import as_text

Message = Any  # an object with role and content; read_messages refuses other values
_JSON_FIELDS = ("dialogue", "turns", "models", "context", "meta", "labels", "scales")
_LINE_FIELDS = ("id", "lang", "source", "split", "group")
_NOTHING: tuple[object, ...] = (None, "", [], {})


@dataclass
class Row:
    """A row of a file. Columns that are not ``used`` become metadata. ``folded`` counts what is
    left out."""

    record: Record
    columns: ColumnMap
    folded: Counts
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

    def labels(self) -> Fields:
        """Returns the labels in the columns that the user named, if they hold any."""
        if not self.columns.labels:
            return {}
        self.used |= self.columns.labels.keys()
        rated = labels_of(self.record, self.columns, self.folded)
        if rated["labels"]:
            return rated
        return {}

    def line(self, messages: list[Message]) -> Fields:
        """Returns the fields of the line format; columns that no reader used are ``meta``."""
        models = self.take_object("models")
        user_name = self.take_text("user")
        if user_name:
            models.setdefault("user", user_name)
        chatbot = self.take_text("chatbot")
        system = json_in(self.take("system"))  # a text, or Anthropic's blocks
        if system:
            messages = [{"role": "system", "content": system}, *messages]
        if chatbot:
            models.setdefault("assistant", chatbot)
        line: Fields = {
            "id": self.take("id"),
            "messages": messages,
            "models": models,
        }
        for name in _LINE_FIELDS[1:]:
            line[name] = self.take_text(name)
        for name in ("context", "labels", "scales"):
            line[name] = self.take_object(name)
        for name, value in self.labels().items():
            if name in line:
                value = line[name] | value
            line[name] = value
        line["meta"] = self._metadata()
        for name in [*line]:
            if line[name] in _NOTHING:
                del line[name]
        return line

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
    """Registers the decorated function as the reader of the form ``name``."""

    def register(read: Callable[[Row], Fields]) -> Callable[[Row], Fields]:
        READERS[name] = Reader(title, fits, read)
        return read

    return register


def form_of(record: Record, columns: ColumnMap) -> str | None:
    """Returns the form of a row, a key of READERS: the one that the column map states, or the first
    that fits. Returns None if no form fits."""
    fields = columns.fields
    if fields and "messages" not in fields:
        if "role" in fields and "content" in fields:
            return "turns"
        if "prompt" in fields:
            if _messages_column(record, columns):
                return "messages"
            return "prompts"
    for name, form in READERS.items():
        if form.fits(record, columns):
            return name
    return None


def chats_within(record: object, columns: ColumnMap) -> list[Any] | None:
    """Returns the chats of a list of chats, or of an object with one list, of chats (``{"data":
    [...]}``). Returns None for any other value."""
    values: Iterable[object] = [record]
    if isinstance(record, Mapping):
        values = record.values()
    lists = [value for value in values if isinstance(value, list) and value]
    if len(lists) != 1:
        return None
    first = lists[0][0]
    if isinstance(first, list):
        first = {"messages": first}
    if isinstance(first, Mapping) and form_of(first, columns):
        return lists[0]
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
    """Returns the fields of the line, with those that the column map names."""
    line = dict(row.record)
    for name in _JSON_FIELDS:
        if isinstance(line.get(name), str):
            line[name] = parsed_cell(line[name], name)
    for name in row.columns.fields.keys() & {*_LINE_FIELDS}:
        line[name] = as_text(row.take(name))
    for name, value in row.labels().items():
        if isinstance(line.get(name), dict):
            value = line[name] | value
        line[name] = value
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
        return value.lstrip()[:2] in ("[{", "[[") or is_transcript(value)
    return isinstance(value, list) and value != [] and all(map(_is_message, value))


def _is_message(value: object) -> bool:
    if not isinstance(value, Mapping):
        return _pair_in(value) is not None
    if find_key(value, "role") is not None:
        return True
    # An object without a speaker that has messages is a chat.
    return _messages_column(value, ColumnMap()) == ""


def _pair_in(value: object) -> tuple[Any, Any] | None:
    """Returns the question and the answer of ``["Is it open?", "Yes."]``, or of an object with both
    and no role."""
    if isinstance(value, list) and len(value) == 2:
        question, answer = value
        are_texts = isinstance(question, str | None) and isinstance(answer, str | None)
        if are_texts:
            return question, answer
    if isinstance(value, Mapping) and find_key(value, "role") is None:
        question_key = find_key(value, "prompt")
        answer_key = find_key(value, "response")
        if question_key and answer_key:
            return value[question_key], value[answer_key]
    return None


def has_transcript(record: Record, columns: ColumnMap) -> bool:
    column = _messages_column(record, columns)
    cell = lookup(record, column) if column else None
    if not isinstance(cell, str):
        return False
    return is_transcript(cell) or cell.lstrip()[:1] not in ("[", "{")


@reader("transcript", "a transcript", has_transcript)
def read_transcript(row: Row) -> Fields:
    """The time of a transcript is the time of its first line that has one."""
    column = _messages_column(row.record, row.columns) or "transcript"
    row.used.add(column)
    text = lookup(row.record, column)
    if not isinstance(text, str):
        raise RecordError(column, "the text of a transcript", text)
    messages = messages_of_transcript(text, row.columns.roles)
    line = row.line(_continued(row, messages))
    times = [message["time"] for message in messages if message["time"]]
    if times:
        line["meta"] = {"time": times[0]} | line.get("meta", {})
    return line


def has_messages(record: Record, columns: ColumnMap) -> bool:
    column = _messages_column(record, columns)
    return bool(column) and lookup(record, column, MISSING) is not MISSING


@reader("messages", "messages", has_messages)
def read_message_list(row: Row) -> Fields:
    column = _messages_column(row.record, row.columns) or "messages"
    row.used.add(column)
    messages = _messages_in(column, lookup(row.record, column), row.columns)
    return row.line(_continued(row, oldest_first(messages, row.folded)))


def _continued(row: Row, messages: list[Message]) -> list[Message]:
    """Returns messages with the question and the answer in columns of their own that continue
    them."""
    question_column, question = _beside(row, "prompt", "user")
    answer_column, answer = _beside(row, "response", "assistant")
    texts = [str(message.get("content")).strip() for message in messages]
    is_in = {}  # whether the messages have the question, and the answer
    for part in (*question, *answer):
        is_in[part["role"]] = str(part["content"]).strip() in texts
    if answer and role_in(messages[-1]) == "user":
        messages = messages + answer
        row.used.add(answer_column)
    elif question and answer and not all(is_in.values()):
        messages = messages + question + answer
        row.used |= {question_column, answer_column}
    for column, role in ((question_column, "user"), (answer_column, "assistant")):
        if is_in.get(role):
            row.used.add(column)
    return messages


def _beside(row: Row, field: str, role: str) -> tuple[str, list[Message]]:
    """Returns the column of a question or an answer beside messages, and its messages."""
    column = row.columns.column(row.record, field)
    # Beside messages, ``user`` and ``assistant`` are ids, and an object is the answer's grades.
    is_text = not isinstance(lookup(row.record, column), Mapping)
    if column == role or column in row.used or not is_text:
        return column, []
    return column, _messages_of(row, field, role)


def _messages_in(column: str, cell: object, columns: ColumnMap) -> list[Message]:
    """Returns messages with the fields ``role`` and ``content``, whatever their names."""
    value = parsed_cell(cell, column)
    if isinstance(value, Mapping) and "messages" in value:
        value = value["messages"]
    if not isinstance(value, list) or not value:
        raise RecordError(column, "a non-empty list of {role, content}", value)
    messages: list[Message] = []
    for item in value:
        pair = _pair_in(item)
        if pair is not None and str(pair[0]).lower() in ROLE_WORDS:
            messages.append({"role": pair[0], "content": pair[1]})
        elif pair is not None:
            messages.append({"role": "user", "content": pair[0]})
            messages.append({"role": "assistant", "content": pair[1]})
        elif not isinstance(item, Mapping):
            expected = "an object with role and content"
            raise RecordError(f"{column}[{len(messages)}]", expected, item)
        else:
            messages.append(_message(f"messages[{len(messages)}]", item, columns))
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
    """Reads a chat that ``turns.chat_of_turns`` made of its rows."""
    return row.line(row.take("messages"))


@reader(
    "prompts",
    "prompt and response",
    lambda record, columns: all(
        columns.column(record, name) for name in ("prompt", "response")
    ),
)
def read_exchange(row: Row) -> Fields:
    """Reads a question and its answer. An answer without text is an empty turn."""
    question = _messages_of(row, "prompt", "user")
    answer = _messages_of(row, "response", "assistant")
    row.used |= {
        row.columns.column(row.record, name) for name in ("prompt", "response")
    }
    if not answer:
        answer = [{"role": "assistant", "content": ""}]
    return row.line(question + answer)


def _messages_of(row: Row, field: str, role: str) -> list[Message]:
    """Returns the messages of a question or an answer: a text, messages, or parts of one message.
    A text that is JSON is the text itself unless it is a list of objects."""
    column = row.columns.column(row.record, field)
    value = as_text(lookup(row.record, column))
    if column.lower() == "instruction":
        # An instruction and its input are one question in Alpaca's data.
        for key in row.record:
            if key.lower() == "input":
                value = f"{value}\n{row.take_text(key) or ''}".strip()
    if isinstance(value, str) and value.lstrip().startswith("[{"):
        value = json_in(value)
    if value in _NOTHING:
        return []
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list):
        return [{"role": role, "content": value}]
    if any("role" in item for item in value):
        return _messages_in(column, value, row.columns)
    if all("type" in item for item in value):
        return [{"role": role, "content": value}]
    raise RecordError(column, "a text, or a list of {role, content}", value)
