"""Conversations of help desks, messages of chat tools and logged calls of models, as rows with the
names that other rows have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from html import unescape
from itertools import chain
from typing import Any

from medal_judges.reading.branches import objects
from medal_judges.reading.columns import ColumnMap, json_or_text, lookup
from medal_judges.reading.names import Fields, Names, Record, plain_names, words

_TEXTS = {"messages", "prompt", "response", "content"}
_REQUESTS = words("request.body request request_body body")
_RESPONSES = words("response.body response response_body")
_HISTORIES = {"messages", "input", "contents"}  # in a request
_ANSWERS = {"choices", "candidates", "content", "output"}  # in a response
# The parts of a conversation. Zendesk's description is a copy of the first comment.
_PARTS = words("source conversation_parts comments description")
# Subtypes of Slack's messages that somebody wrote; others are notices (channel_join).
_WRITTEN = (None, "bot_message", "file_share", "me_message", "thread_broadcast")
_LINE_END = re.compile(r"<br\s*/?>|</(?:p|div|li|h\d)>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_EVENT = re.compile(r"^data:\s*(\{.*)", re.MULTILINE)


def exported(record: Any, columns: ColumnMap) -> Any:
    """Returns a conversation of Intercom or a ticket of Zendesk with its ``messages``, a message of
    Slack as a turn, and a logged call with the fields of its request beside its response. Returns
    None for a notice of Slack, and any other record, or one whose texts the user maps, unchanged.
    """
    if not isinstance(record, Mapping) or columns.fields.keys() & _TEXTS:
        return record
    if "conversation_parts" in record or lookup(record, "comments.0.author_id"):
        return _chat_of_ticket(record, columns)
    if record.get("type") == "message" and {"ts", "text"} <= record.keys():
        return _turn_of_slack(record)
    return _with_request(record)


def is_call(record: Record, columns: ColumnMap) -> bool:
    """Says whether a row of messages is a logged call of a model. A rated row is a chat by
    itself."""
    has_response = "choices" in record or isinstance(record.get("response"), Mapping)
    return has_response and not columns.labels


def _chat_of_ticket(record: Record, columns: ColumnMap) -> Fields:
    """Returns the conversation with all messages but internal notes, as plain text. If it names who
    asked, and the user states no roles, every other author is the assistant."""
    chat = dict(record)
    first, further, comments, _ = [
        json_or_text(chat.pop(name, None)) for name in _PARTS
    ]
    parts = [first], lookup(further, "conversation_parts"), comments
    requester = record.get("requester_id")
    messages = []
    for part in chain(*map(objects, parts)):
        body = part.get("plain_body") or part.get("body") or ""
        role = part.get("author") or part.get("author_id")
        if requester and not columns.roles:
            role = ("assistant", "user")[str(role) == str(requester)]
        if body.startswith("<"):
            body = unescape(_TAG.sub("", _LINE_END.sub("\n", body))).strip()
        is_note = "note" in str(part.get("part_type")) or part.get("public") is False
        if body and not is_note:
            messages.append({"role": role, "content": body})
    return chat | {"messages": messages}


def _turn_of_slack(message: Record) -> Fields | None:
    """Returns a message as a turn of its thread; None for a notice."""
    if message.get("subtype") not in _WRITTEN:
        return None
    role = message.get("user")
    if message.get("bot_id"):
        role = "assistant"
    return {
        "thread_id": message.get("thread_ts") or message["ts"],
        "role": role,
        "content": unescape(message["text"]),
        "ts": message["ts"],
    }


def _with_request(record: Record) -> Record:
    """Returns a logged call with the fields of its request in place of the request."""
    keys = plain_names(tuple(record))
    logged = {name: record[key] for name, key in keys.items()}
    request = _logged(logged, _REQUESTS, _HISTORIES)
    if not request:
        return record
    call = dict(record)
    for name in keys.keys() & {*_REQUESTS, *_RESPONSES}:
        del call[keys[name]]
    return call | request | {"response": _logged(logged, _RESPONSES, _ANSWERS)}


def _logged(record: Record, paths: Names, fields: Set[str]) -> Fields:
    """Returns the first object at one of the paths that has one of the fields; an empty one if
    there is none, as in a failed call."""
    for path in paths:
        value = _joined(json_or_text(lookup(record, path)))
        if isinstance(value, dict) and not fields.isdisjoint(value):
            return value
    return {}


def _joined(stream: Any) -> Any:
    """Returns the response that the chunks of OpenAI's stream make, a list or lines ``data:
    {...}``; any other value unchanged."""
    chunks = stream
    if isinstance(stream, str):
        chunks = list(map(json_or_text, _EVENT.findall(stream)))
    texts = []
    for chunk in objects(chunks):
        for choice in objects(chunk.get("choices")):
            if not choice.get("index"):
                texts.append(lookup(choice, "delta.content") or "")
    if not texts:
        return stream
    return {"choices": [{"message": {"role": "assistant", "content": "".join(texts)}}]}
