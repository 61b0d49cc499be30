"""The forms that a row of a file may have, each with its reader.

A reader is a function that takes a Row and returns the fields of a line in our JSONL format. The
chat is in ``messages``, or in ``dialogue`` if the row has turns already. ``@reader`` registers the
function:

    @reader("pairs", "pairs of texts", fits=lambda record, columns: "pairs" in record)
    def read_pairs(row: Row) -> Fields:
        question, answer = row.take("pairs")
        return row.to_line([
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
    lookup,
    parse_if_json,
    read_labels,
    refuse_python_literal,
)
from medal_judges.reading.names import (
    Fields,
    Record,
    find_key,
    find_keys,
    role_of,
)
from medal_judges.reading.released import convert_released_row, is_released_row
from medal_judges.reading.transcripts import (
    begins_with_role,
    may_begin_transcript,
    parse_transcript,
)
from medal_judges.reading.turns import conversation_column, to_numbers_or_times
from medal_judges.records.validation import number_as_text

Message = Any  # an object with role and content; read_messages refuses other values
_JSON_FIELDS = {"dialogue", "turns", "models", "context", "meta", "labels", "scales"}
_LINE_FIELDS = ("id", "lang", "source", "split", "group")
_NOTHING: tuple[object, ...] = (None, "", [], {})


@dataclass
class Row:
    """A row of a file that keeps track of which columns have been read.

    Attributes:
        record: Column -> value.
        columns: What the file calls its fields, speakers and columns of ratings.
        used: Columns that have been read. All others become metadata of the dialogue.
    """

    record: Record
    columns: ColumnMap
    used: set[str] = field(default_factory=set)

    def take(self, field: str) -> Any:
        """Returns the value of ``field``, such as ``id``, and marks its column as read. Returns
        None if there is no value.
        """
        column = self.columns.column(self.record, field) or field
        self.used.add(column)
        return lookup(self.record, column)

    def take_text(self, field: str) -> str | None:
        """Returns the string (or number as a string) in ``field``, and marks its column as read.
        Any other value gives None, and its column is not marked."""
        column = self.columns.column(self.record, field) or field
        value = number_as_text(lookup(self.record, column))
        if not isinstance(value, str):
            return None
        self.used.add(column)
        return value

    def take_object(self, field: str) -> Fields:
        """Returns the JSON object in the column ``field`` as a dict, and marks the column as read.
        Returns an empty dict if there is no object."""
        value = parse_if_json(self.record.get(field))
        if not isinstance(value, dict):
            return {}
        self.used.add(field)
        return dict(value)

    def add_labels(self, line: Fields) -> None:
        """Adds the human ratings in the row to ``line``, an object in this project's JSONL format,
        and marks their columns as read. Raises RecordError if a rating is malformed."""
        self.used |= self.columns.labels.keys()
        for name, value in read_labels(self.record, self.columns).items():
            if isinstance(line.get(name), dict):
                value = line[name] | value
            line[name] = value

    def to_line(self, messages: list[Message]) -> Fields:
        """Returns the row in this project's JSONL format, with ``messages`` as its chat.

        Call it once, after everything was read. Columns that are not marked as read become
        ``meta``.

        Args:
            messages: Objects with ``role`` and ``content``.

        Raises:
            RecordError: A rating is malformed.
        """
        models = self.take_object("models")
        for role, name in (("user", "user"), ("assistant", "chatbot")):
            models.setdefault(role, self.take_text(name))
        system = parse_if_json(self.take("system"))  # a text, or Anthropic's blocks
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
    """How to read rows of one form, such as a prompt with its response.

    Attributes:
        title: Name of the form in errors.
        fits: Takes a record and a ColumnMap, and returns whether the record has the form.
        read: Takes a Row, and returns it as an object in this project's JSONL format.
    """

    title: str
    fits: Callable[[Record, ColumnMap], bool]
    read: Callable[[Row], Fields]


READERS: dict[str, Reader] = {}  # by name; the first that fits reads


def reader(
    name: str, title: str, fits: Callable[[Record, ColumnMap], bool]
) -> Callable[[Callable[[Row], Fields]], Callable[[Row], Fields]]:
    """Returns a decorator that registers a function as the reader of one form of rows. The function
    takes a Row, and returns it as an object in this project's JSONL format.

    Args:
        name: Name of the form, such as ``prompts``.
        title: Name of the form in errors, such as ``prompt and response``.
        fits: Takes a record and a ColumnMap, and returns whether the record has the form.
    """

    def register(read: Callable[[Row], Fields]) -> Callable[[Row], Fields]:
        READERS[name] = Reader(title, fits, read)
        return read

    return register


def detect_form(record: Record, columns: ColumnMap) -> str | None:
    """Returns the form of ``record``, such as ``messages``, ``prompts`` (a prompt with its
    response) or ``turns`` (one message in each row). Returns None if the form is unknown.

    Columns that ``columns`` names decide first. If it names one for ``role`` and one for
    ``content``, the form is ``turns``.

    Args:
        record: A row of the file.
        columns: What the file calls its fields.
    """
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


@reader(
    "medal", "MEDAL's released form", lambda record, columns: is_released_row(record)
)
def read_released_row(row: Row) -> Fields:
    """Converts ``row``, a row of MEDAL's released data, to an object in this project's JSONL
    format. Raises RecordError if its models or labels are malformed."""
    return convert_released_row(read_line_format(row))


def is_in_line_format(record: Record, columns: ColumnMap) -> bool:
    """Returns whether ``record`` has a list of turns under ``dialogue`` or ``turns``, as in this
    project's JSONL format. Returns False if ``columns`` names a column of ``messages``."""
    turns = record.get("dialogue", record.get("turns"))
    if "messages" in columns.fields or not isinstance(turns, list):
        return False
    return isinstance(next(iter(turns), {}), Mapping)


@reader("line", "the line format", is_in_line_format)
def read_line_format(row: Row) -> Fields:
    """Returns the fields of ``row``, which is in this project's JSONL format. Nested JSON is
    parsed, and the human ratings are added.

    Columns that ``row.columns`` names replace fields. With ``{"id": "ticket"}``, the id is the
    value of ``ticket``.

    Raises:
        RecordError: The row has both ``messages`` and ``dialogue``, or nested JSON or a rating is
            malformed.
    """
    line = dict(row.record)
    if line.get("messages") and line.get("dialogue"):
        raise RecordError(
            "messages", "messages or dialogue, not both", line["messages"]
        )
    for name in line.keys() & _JSON_FIELDS:
        line[name] = parse_if_json(line[name], name)
    for name in row.columns.fields.keys() & {*_LINE_FIELDS}:
        line[name] = number_as_text(row.take(name))
    row.add_labels(line)
    return line


# -- messages --------------------------------------------------------------------------------------


def _messages_column(record: Record, columns: ColumnMap) -> str:
    """Returns the column that holds a chat's messages (a list or a transcript), or an
    empty string."""
    column = columns.fields.get("messages")
    if column is not None:
        return column
    for key in find_keys(tuple(record), "messages"):
        if _look_like_messages(record[key]):
            return key
    return ""


def _look_like_messages(value: object) -> bool:
    if isinstance(value, str):
        return value.lstrip().startswith("[{") or begins_with_role(value)
    if not isinstance(value, list) or not value:
        return False
    return isinstance(value[0], Mapping) and find_key(value[0], "role") is not None


def has_messages(record: Record, columns: ColumnMap) -> bool:
    """Returns whether ``record`` has a column with a list of messages or a transcript (text such as
    ``User: Hi!``)."""
    column = _messages_column(record, columns)
    return bool(column) and lookup(record, column, MISSING) is not MISSING


@reader("messages", "messages or a transcript", has_messages)
def read_messages_or_transcript(row: Row) -> Fields:
    """Converts ``row``, whose chat is a list of messages or a transcript, to an object in this
    project's JSONL format.

    An answer in a separate column is appended if the last message is from the user.

    Raises:
        RecordError: The messages are malformed or empty, or the newest message is first.
        ConfigError: The chat is a transcript, and the options give all unknown speakers (``*``) a
            role.
    """
    column = _messages_column(row.record, row.columns) or "messages"
    row.used.add(column)
    cell = lookup(row.record, column)
    if isinstance(cell, str):
        text = cell.lstrip()
        if may_begin_transcript(text) or not text.startswith(("[", "{")):
            return row.to_line(parse_transcript(cell, row.columns.roles))
    messages = _parse_messages(column, cell, row.columns)
    times = [row.columns.value(end, "time") for end in (messages[0], messages[-1])]
    keys = to_numbers_or_times(times)
    if keys is not None and keys[0] > keys[-1]:
        raise RecordError(column, "messages with the oldest first", times)
    # Beside messages, ``user`` and ``assistant`` are ids, and an object is the answer's grades.
    beside = row.columns.column(row.record, "response")
    answer = lookup(row.record, beside)
    ends_with_user = messages[-1].get("role") == "user" and beside != "assistant"
    if messages[-1].get("content") == answer:
        row.used.add(beside)
    elif ends_with_user and isinstance(answer, str | list):
        messages += _take_messages(row, "response", "assistant")
    return row.to_line(messages)


def _parse_messages(column: str, cell: object, columns: ColumnMap) -> list[Message]:
    """Returns the messages in ``cell``, each with its fields renamed to ``role`` and ``content``.

    Args:
        column: Name of the cell in errors.
        cell: A list of messages, an object with such a list, or either of them as a JSON string.
        columns: What the file calls its fields and speakers.

    Raises:
        RecordError: ``cell`` is not a list of objects, or is empty.
    """
    value = parse_if_json(cell, column)
    if isinstance(value, Mapping) and "messages" in value:
        value = value["messages"]
    if not isinstance(value, list) or not value:
        raise RecordError(column, "a non-empty list of {role, content}", value)
    messages: list[Message] = []
    for number, item in enumerate(value):
        if not isinstance(item, Mapping):
            expected = "an object with role and content"
            raise RecordError(f"{column}[{number}]", expected, item)
        messages.append(_normalize_message(f"messages[{number}]", item, columns))
    return messages


def _normalize_message(field: str, message: Record, columns: ColumnMap) -> Message:
    """Returns ``message`` with its speaker's role as ``role`` and its text as ``content``.

    Args:
        field: Name of the message in errors, such as ``messages[3]``.
        columns: What the file calls its fields and speakers.
    """
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
    """Returns whether ``record`` has columns for the role and the text of one message, and for the
    id of its conversation."""
    has_turn = all(columns.column(record, name) for name in ("role", "content"))
    return has_turn and bool(conversation_column(record, columns))


@reader("turns", "one turn a row", is_turn)
def read_merged_turns(row: Row) -> Fields:
    """Converts ``row``, a chat that was merged from rows with one message each, to an object in
    this project's JSONL format. Raises RecordError if a rating is malformed."""
    return row.to_line(row.take("messages"))


def is_exchange(record: Record, columns: ColumnMap) -> bool:
    """Returns whether ``record`` has columns for a prompt and its response."""
    return all(columns.column(record, name) for name in ("prompt", "response"))


@reader("prompts", "prompt and response", is_exchange)
def read_exchange(row: Row) -> Fields:
    """Converts ``row``, whose chat is one question with its answer, to an object in this project's
    JSONL format. A missing answer becomes an empty turn.

    Raises:
        RecordError: The question, the answer or a rating is malformed.
    """
    question = _take_messages(row, "prompt", "user")
    if "instruction" in row.used:  # Alpaca's, which goes on in ``input``
        question += _take_messages(row, "input", "user")
    answer = _take_messages(row, "response", "assistant")
    return row.to_line(question + (answer or [{"role": "assistant", "content": ""}]))


def _take_messages(row: Row, field: str, role: str) -> list[Message]:
    """Returns the messages in ``field`` of ``row``, and marks its column as read.

    The value may be a string, a list of messages, or one message's list of content parts
    (``[{"type": "text", ...}]``).

    Args:
        role: Role of a string or a list of parts, which do not name their speaker.
    """
    value = number_as_text(row.take(field))
    if isinstance(value, str) and value.lstrip().startswith("[{"):
        refuse_python_literal(value, field)
        value = parse_if_json(value)
    if value in _NOTHING:
        return []
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list):
        return [{"role": role, "content": value}]
    typed = [isinstance(item, Mapping) and "type" in item for item in value]
    if all(typed) and "role" not in value[0]:
        return [{"role": role, "content": value}]
    return _parse_messages(field, value, row.columns)
