"""Converts a row of any form to the fields of the line format, with ``messages`` in place of
``dialogue`` unless it has turns already."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from medal_judges.errors import RecordError
from medal_judges.reading.columns import ColumnMap, labels_of, lookup, parsed_cell
from medal_judges.reading.forms import GROUPED, messages_column
from medal_judges.reading.instants import messages_in_order
from medal_judges.reading.names import (
    HISTORIES,
    MESSAGES,
    PROMPTS,
    RESPONSES,
    Counts,
    Fields,
    Record,
    filled,
    find_key,
)
from medal_judges.reading.roles import role_of
from medal_judges.reading.talks import (
    EMPTY,
    continuation,
    messages_within,
    turns_in,
    without_pairs,
)
from medal_judges.reading.transcripts import messages_of_transcript
from medal_judges.records.validation import as_text

# How a message or a response of a server begins in a cell.
_RESPONSES = ('{"role"', '{"choices"', '{"candidates"', '{"content": [')
_JSON_FIELDS = ("dialogue", "turns", "models", "context", "meta", "labels", "scales")
_LINE_FIELDS = ("id", "lang", "source", "split", "group")
_NAME = re.compile(r"[\w.-]{1,40}")  # of a chatbot in a column ``system``


def normal_row(
    record: Record | list[Any], form: str, columns: ColumnMap, folded: Counts
) -> Fields:
    """Returns ``record`` with the fields of the line format, and ``messages`` in place of
    ``dialogue`` unless it has turns already. Unknown fields become metadata (``meta``); ``folded``
    counts missing ratings. Raises RecordError."""
    if isinstance(record, list):
        record = {"messages": record}
    rated = {}
    if columns.labels:
        rated = labels_of(record, columns, folded)
    if form in ("line", "medal"):
        return _line(record, columns, rated)
    return _Row(record, form, columns, folded, set(columns.labels)).line(rated)


def _line(record: Record, columns: ColumnMap, rated: Fields) -> Fields:
    """Returns the fields of a row in the line format, with those that the column map names."""
    line = dict(record)
    for name in _JSON_FIELDS:
        if name in line:
            line[name] = parsed_cell(line[name], "{", "[")
    for name in _LINE_FIELDS:
        if name in columns.fields:
            line[name] = as_text(columns.value(record, name))
    if rated.get("labels"):
        for name, value in rated.items():
            if isinstance(line.get(name), dict):
                line[name] = line[name] | value
            else:
                line[name] = value
    return line


def names_system(record: Record, columns: ColumnMap) -> bool:
    """Says whether the column ``system`` holds the name of a chatbot, one word, and not a
    prompt."""
    if "system" in columns.fields:
        system = None
    else:
        system = as_text(record.get("system"))
    return isinstance(system, str) and _NAME.fullmatch(system.strip()) is not None


@dataclass
class _Row:
    """A row of messages, of a question and its answer, or both. Columns that are not ``used`` are
    metadata."""

    record: Record
    form: str
    columns: ColumnMap
    folded: Counts
    used: set[str]

    def line(self, rated: Fields) -> Fields:
        """Returns the fields of the line format, with the labels of ``rated``."""
        names_chatbot = names_system(self.record, self.columns)
        system = as_text(self._take("system"))
        system = parsed_cell(system, "[{")  # Anthropic's blocks, in a cell
        line: Fields = {
            "id": self._take("id"),  # a flag is no id
            "lang": as_text(self._take("lang")),
            "source": self._take_text("source"),
        }
        messages = self._messages()
        models = dict(self._take_object("models"))
        chatbot = as_text(self._take("chatbot"))
        if names_chatbot:
            chatbot = chatbot or system
        elif system:
            messages.insert(0, {"role": "system", "content": system})
        for role, model in (
            ("assistant", chatbot),
            ("user", as_text(self._take("user"))),
        ):
            if model and isinstance(model, str):
                models.setdefault(role, model)
        line |= {
            "messages": messages,
            "models": models,
            "context": self._take_object("context"),
        }
        line |= rated
        for name in ("labels", "scales"):
            line[name] = self._take_object(name) | rated.get(name, {})
        for name in ("split", "group"):
            line[name] = self._take_text(name)
        line["meta"] = self._metadata(messages)
        return {
            name: value for name, value in line.items() if value not in (None, {}, [])
        }

    def _take(self, field: str) -> Any:
        """Returns the value of a field, and marks its column as used."""
        column = self.columns.column(self.record, field)
        if not column:
            return None
        self.used.add(column)
        return lookup(self.record, column)

    def _take_object(self, name: str) -> Fields:
        value = parsed_cell(self.record.get(name), "{")
        if not isinstance(value, dict):
            return {}
        self.used.add(name)
        return value

    def _take_text(self, name: str) -> str | None:
        """Returns the text in the field's column. Any other kind of value stays in the user's
        metadata.
        """
        column = self.columns.fields.get(name, name)
        value = lookup(self.record, column)
        if isinstance(value, bool) or not isinstance(as_text(value), str):
            return None
        self.used.add(column)
        return str(as_text(value))

    def _metadata(self, messages: list[Any]) -> Fields:
        """Returns the object ``meta`` and all unused columns.

        The time of a transcript is the time of its first line that has one.
        """
        meta = dict(self._take_object("meta"))
        if self.form == "transcript":
            for message in messages:
                time = message.pop("time", None)
                if time:
                    meta.setdefault("time", time)
        unused = {
            name: self.record[name] for name in self.record if name not in self.used
        }
        meta = filled(unused) | meta
        if "time" in self.columns.fields:
            meta.pop(self.columns.fields["time"], None)
            time = self.columns.value(self.record, "time")
            if time is not None:
                meta["time"] = time
        return meta

    def _messages(self) -> list[Any]:
        """Returns the messages of a row. A question and an answer in separate columns continue
        them.
        """
        keys = MESSAGES
        if self.form == "prompts":
            keys = HISTORIES
        column, form = messages_column(self.record, self.columns, keys)
        messages: list[Any] = []
        if form or self.form != "prompts":
            column = column or find_key(self.record, keys) or ""
            self.used.add(column)
            cell = lookup(self.record, column)
            messages = _messages_in_cell(cell, form or self.form, self.columns)
            messages = messages_in_order(messages, self.folded)
        if self.form in GROUPED and self.form != "calls":
            return messages
        return messages + self._last_exchange(messages)

    def _last_exchange(self, before: list[Any]) -> list[Any]:
        """Returns the messages of a question and its answer in separate columns that continue the
        messages ``before``.
        """
        unused = {
            name: self.record[name] for name in self.record if name not in self.used
        }
        # Beside messages the last names, ``user`` and ``assistant``, are ids.
        end = None
        if before:
            end = -1
        question_column = self.columns.column(unused, "prompt", PROMPTS[:end])
        answer_column = (
            self.columns.column(unused, "response", RESPONSES[:end]) or "choices"
        )
        question = self._question(question_column)
        answer = self._answer(answer_column)
        if before and question is None and answer is None:
            return []
        turns = turns_in(before)
        is_answered = turns and question is None and turns[-1][0] == "assistant"
        if is_answered and not isinstance(answer, str):
            return []  # such as the grades of the answer
        questions = _messages_of(question_column, question, "user")
        answers = _messages_of(answer_column, answer, "assistant")
        if not before:
            self.used |= {question_column, answer_column}
            return questions + answers
        messages = continuation(turns, questions, answers)
        turns += turns_in(messages)
        for column, exchange in (
            (question_column, questions),
            (answer_column, answers),
        ):
            if set(turns_in(exchange)) <= set(turns):
                self.used.add(column)
        return messages

    def _question(self, column: str) -> Any:
        """Returns the value of a question.

        An instruction and its input make one turn, as in training on Alpaca's data.
        """
        value = lookup(self.record, column)
        input_column = find_key(self.record, ("input",)) or ""
        text = as_text(self.record.get(input_column))
        if column.lower() != "instruction" or not isinstance(value, str) or not text:
            return value
        self.used.add(input_column)
        return f"{value}\n{text}"

    def _answer(self, column: str) -> Any:
        """Returns the value of an answer. If a logged request has several choices, it is the
        message of the first.
        """
        value = lookup(self.record, column)
        if column != "choices":
            return value
        choices = parsed_cell(value, "[{")
        has_messages = (
            isinstance(choices, list) and choices and isinstance(choices[0], Mapping)
        )
        if has_messages:
            return choices[:1]
        return None


def _messages_of(column: str, value: object, role: str) -> list[Any]:
    """Returns the messages of a cell.

    A text can be JSON that is the answer itself, neither a message nor the response of a server.
    """
    value = parsed_cell(value, "[{", *_RESPONSES)
    if value in (None, [], {}):
        return []
    return messages_within(column, value, role)


def _messages_in_cell(value: Any, form: str, columns: ColumnMap) -> list[Any]:
    """Returns messages with the fields ``role`` and ``content``, whatever the names in the row."""
    if isinstance(value, str) and form == "transcript":
        value = messages_of_transcript(value, columns.roles)
    value = parsed_cell(value, "")
    if isinstance(value, Mapping) and "messages" in value:
        value = value["messages"]
    if not isinstance(value, list) or not value:
        raise RecordError("messages", "a non-empty list of {role, content}", value)
    messages = enumerate(without_pairs(value))
    return [_message(index, message, columns) for index, message in messages]


def _message(index: int, message: Any, columns: ColumnMap) -> Any:
    if not isinstance(message, Mapping):
        return message  # read_messages refuses it
    packed = message.get("data", message.get("kwargs"))  # LangChain's
    if "content" not in message and isinstance(packed, Mapping):
        message = {"type": message.get("type"), **packed}
    normal = dict(message)
    role = columns.value(message, "role")
    if role is not None:
        normal["role"] = role_of(role, columns.roles, f"messages[{index}].role")
    has_content = message.get("content") not in EMPTY or "parts" in message
    if "content" in columns.fields or (role is not None and not has_content):
        filled = {name: value for name, value in message.items() if value not in EMPTY}
        normal["content"] = columns.value(filled, "content")
    return normal
