"""Conversations of help desks and logged calls of models, as rows with the names that other rows
have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import unescape
from itertools import chain
from typing import Any

from medal_judges.reading.branches import objects
from medal_judges.reading.columns import ColumnMap, json_or_text, lookup
from medal_judges.reading.names import Fields, Record, words

_TEXTS = {"messages", "prompt", "response", "content"}
# The parts of a conversation. Zendesk's description is a copy of the first comment.
_PARTS = words("source conversation_parts comments description")
_TAG = re.compile(r"<[^<>]*>")


def exported(record: Any, columns: ColumnMap) -> Any:
    """Returns a conversation of Intercom or a ticket of Zendesk with its ``messages``, and a logged
    call with the fields of its request beside its response. Returns any other record, or one whose
    texts the user maps, unchanged."""
    if not isinstance(record, Mapping) or columns.fields.keys() & _TEXTS:
        return record
    if "conversation_parts" in record or lookup(record, "comments.0.author_id"):
        return _chat_of_ticket(record, columns)
    request = json_or_text(record.get("request"))
    if isinstance(request, Mapping) and "messages" in request:
        call = {**record, **request, "response": json_or_text(record.get("response"))}
        del call["request"]
        return call
    return record


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
            body = " ".join(unescape(_TAG.sub(" ", body)).split())
        is_note = "note" in str(part.get("part_type")) or part.get("public") is False
        if body and not is_note:
            messages.append({"role": role, "content": body})
    return chat | {"messages": messages}
