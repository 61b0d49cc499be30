"""Recognises the form of a row by its fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from medal_judges.reading.branches import objects
from medal_judges.reading.columns import MISSING, ColumnMap, lookup
from medal_judges.reading.exports import exported, is_call
from medal_judges.reading.names import (
    CONVERSATIONS,
    MESSAGES,
    ROLES,
    Record,
    find_key,
    plain_names,
)
from medal_judges.reading.roles import ROLE_WORDS
from medal_judges.reading.talks import pair_in
from medal_judges.reading.transcripts import speaker_of

# Name in --format -> name in messages.
FORMS: Mapping[str, str] = {
    "line": "the line format",
    "medal": "MEDAL's released form",
    "messages": "messages",
    "prompts": "prompt and response",
    "transcript": "a transcript",
    "turns": "one turn a row",
    "calls": "logged calls of a model",
    "otel": "OpenTelemetry spans",
    "langfuse": "Langfuse's traces or observations",
    "langsmith": "LangSmith's runs",
}
GROUPED = (
    "turns",
    "calls",
    "otel",
    "langfuse",
    "langsmith",
)  # several rows are one chat

_LANGFUSE = (
    {"session_id", "timestamp", "input", "output"},  # a trace
    {"trace_id", "parent_observation_id"},  # an observation
    *({"observations", "scores"}, {"observations", "trace"}),  # a downloaded trace
)
CONTEXT_NUMBER = re.compile(r"-(\d+)\s*\Z")  # at the end of a released row's ``source``


def form_of(record: object, columns: ColumnMap) -> str | None:
    """Returns the form of a row, a key of FORMS; None if no form fits."""
    if record and isinstance(record, list):
        if all(isinstance(item, Mapping) for item in record):
            return "messages"
        return None
    if not isinstance(record, Mapping):
        return None
    column, form = messages_column(record, columns)
    if "messages" in columns.fields:
        return form
    if form == "messages" and is_call(record, columns):
        return "calls"
    stated_form = _form_of_columns(columns, form) or _form_of_trace(record)
    if stated_form is not None:
        return stated_form
    if is_released(record):
        return "medal"
    if form == "messages" and column in ("dialogue", "turns"):
        return "line"
    return form or _form_by_names(record, columns)


def _form_of_columns(columns: ColumnMap, form: str | None) -> str | None:
    """Returns the form that the column map states; ``form`` is that of the row's messages."""
    if {"role", "content"} <= columns.fields.keys():
        return "turns"
    if "prompt" in columns.fields:
        return "prompts"
    if "response" in columns.fields:
        return form or "prompts"
    return None


def messages_column(
    record: Record, columns: ColumnMap, names: Iterable[str] = MESSAGES
) -> tuple[str, str | None]:
    """Returns the column of a chat's messages and their form, ``messages`` or ``transcript``; the
    form is None if there are none."""
    column = columns.fields.get("messages")
    if column is not None:
        cell = lookup(record, column)
        is_transcript = isinstance(cell, str) and cell.lstrip()[:1] not in ("[", "{")
        return column, "transcript" if is_transcript else "messages"
    keys = plain_names(tuple(record))
    for name in names:
        form = None
        if name in keys:
            form = _form_of_messages(record[keys[name]])
        if form is not None:
            return keys[name], form
    return "", None


def _form_of_messages(value: object) -> str | None:
    if isinstance(value, str):
        text = value.lstrip()
        if speaker_of(text.partition("\n")[0]) in ROLE_WORDS:
            return "transcript"
        if text.startswith("[") and '"' in text:
            return "messages"
        return None
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(item, Mapping) or pair_in(item) for item in value):
        return "messages"
    return None


def _form_of_trace(record: Record) -> str | None:
    """Returns the form of a span of a GenAI call, of an export of spans in OTLP's JSON, or of a
    row of Langfuse or LangSmith."""
    if isinstance(record.get("resourceSpans"), list):
        return "otel"
    names: Any = record.get("attributes")
    if isinstance(names, list):
        names = [attribute.get("key") for attribute in objects(names)]
    elif not isinstance(names, Mapping):
        names = record
    if any(str(name).startswith("gen_ai.") for name in names):
        return "otel"
    keys = plain_names(tuple(record)).keys()
    if {"run_type", "inputs", "outputs"} <= keys:
        return "langsmith"
    if any(names <= keys for names in _LANGFUSE):
        return "langfuse"
    return None


def _form_by_names(record: Record, columns: ColumnMap) -> str | None:
    if any(isinstance(record.get(name), list) for name in ("input", "output")):
        return "prompts"
    if record.get("dialogue") is not None or isinstance(record.get("turns"), list):
        return "line"

    speaker, text = (columns.column(record, name) for name in ("role", "content"))
    if speaker and text and columns.column(record, "id", CONVERSATIONS):
        return "turns"
    if all(columns.column(record, name) for name in ("prompt", "response")):
        return "prompts"
    if "dialogue" in record:
        return "line"
    if any(record.get(name) == [] for name in MESSAGES):
        return "messages"
    return None


def chats_within(record: object, columns: ColumnMap) -> list[Any] | None:
    """Returns the chats of a value that is a list of chats, or an object with just one list, of
    chats: ``{"data": [...]}``. None for any other value."""
    fields = record if isinstance(record, Mapping) else {"": record}
    lists = {name: value for name, value in fields.items() if isinstance(value, list)}
    if len(lists) != 1:
        return None
    name, items = lists.popitem()
    chat = exported(next(iter(items), None), columns)
    if isinstance(chat, Mapping) and find_key(chat, ROLES) is not None:
        return None  # a message
    if isinstance(record, Mapping) and _is_one_chat(record, name, chat, columns):
        return None
    if isinstance(chat, list) or form_of(chat, columns) is not None:
        return items
    return None


def _is_one_chat(record: Record, name: str, first: object, columns: ColumnMap) -> bool:
    """Says whether an object is one chat, although its list ``name`` can be a list of chats.

    It is one chat if its columns say so, or if the list holds questions and answers.
    """
    has_messages = (
        lookup(record, columns.fields.get("messages", ""), MISSING) is not MISSING
    )
    if has_messages or form_of(record, columns) not in (None, "messages"):
        return True
    return name in MESSAGES and name != "conversations" and pair_in(first) is not None


def is_released(record: Record) -> bool:
    """Says whether ``record`` is in MEDAL's released form.

    Its ``models`` are a list. Or it has no id, but a scene and a source that ends in the number of
    a context.
    """
    if isinstance(record.get("models"), list):
        return True
    source = record.get("source")
    if record.get("id") is not None or not isinstance(record.get("scene"), str):
        return False
    return isinstance(source, str) and CONTEXT_NUMBER.search(source) is not None
