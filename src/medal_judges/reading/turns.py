"""One turn a row: puts the rows of a chat together, in order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any, TypeVar

from medal_judges.errors import RecordError
from medal_judges.reading.columns import ColumnMap
from medal_judges.reading.names import (
    ROLE_WORDS,
    Counts,
    Fields,
    Record,
    find_key,
    role_of,
)

Item = TypeVar("Item")
NumberedRecord = tuple[int, Record]
_FIELDS = ("role", "content", "time", "order")
_ZONE = re.compile(r":\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?(?:\d\d)?)\Z", re.IGNORECASE)


def sort_keys(values: Sequence[object]) -> list[Any] | None:
    """Returns what values of one chat are sorted by: numbers, or instants of ISO times.

    Returns None if one of them is neither. Raises RecordError if some of the times have a time zone
    and others have none.
    """
    texts = [str(value).strip() for value in values]
    try:
        return [float(text) for text in texts]
    except ValueError:
        pass
    import pandas as pd

    try:
        instants = pd.to_datetime(texts, format="ISO8601", utc=True)
    except ValueError:
        return None
    zones = {_ZONE.search(text) is not None for text in texts}
    if len(zones) > 1:
        raise RecordError(
            "time", "times with a time zone in all rows or in none", texts
        )
    return list(instants)


def role_in(message: Record) -> str:
    """Returns the role of a message; an empty text for an unknown word."""
    return ROLE_WORDS.get(str(message.get("role")).strip().lower(), "")


def oldest_first(messages: list[Any], counts: Counts) -> list[Any]:
    """Returns messages in the order of their times if the list is newest first, and any other list
    unchanged."""
    prompts: list[Any] = []
    timed: list[Any] = []
    times: list[Any] = []
    for message in messages:
        if role_in(message) == "system":
            prompts.append(message)
            continue
        key = find_key(message, "time")
        if key is None or message[key] is None:
            return messages
        timed.append(message)
        times.append(message[key])
    if not times:
        return messages
    keys = sort_keys(times)
    if not keys or keys[0] <= keys[-1] or keys != sorted(keys, reverse=True):
        return messages
    counts["newest-first chats sorted by time"] += 1
    roles = [role_in(message) for message in timed]
    return prompts + _sorted(timed, keys, roles)


def _sorted(items: Sequence[Item], keys: list[Any], roles: list[str]) -> list[Item]:
    """Returns the items in the order of ``keys``.

    Items with one key keep their order. In a list that is newest first, a question comes before its
    answer of the same time.
    """
    sorted_items: list[Item] = []
    indices = sorted(range(len(items)), key=keys.__getitem__)
    for _, group in groupby(indices, key=keys.__getitem__):
        simultaneous = list(group)
        if keys[0] > keys[-1] and roles[simultaneous[0]] != "user":
            simultaneous.reverse()
        sorted_items += [items[index] for index in simultaneous]
    return sorted_items


def conversation_column(record: Record, columns: ColumnMap) -> str:
    """Returns the column of the conversation's id, in a row that is a turn."""
    return columns.fields.get("id") or columns.column(record, "conversation")


def chat_of_turns(
    chat_id: str, rows: Sequence[NumberedRecord], columns: ColumnMap, counts: Counts
) -> tuple[Fields, dict[str, list[Any]]]:
    """Returns a chat with its messages in order and the columns that are equal in all rows, and the
    values of the columns that differ, which are dropped. The chat's time is the first turn's.

    Raises RecordError for an unknown speaker.
    """
    turns: list[Fields] = []
    used: set[str] = set()
    values: dict[str, list[Any]] = {}
    for number, record in rows:
        row_field = f"row {number}: {columns.column(record, 'role')}"
        role = role_of(columns.value(record, "role"), columns.roles, row_field)
        turn: Fields = {"time column": columns.column(record, "time")}
        for name in _FIELDS:
            used.add(columns.column(record, name))
            turn[name] = columns.value(record, name)
        turn["role"] = role
        turns.append(turn)
        used.add(conversation_column(record, columns))
        for name, value in record.items():
            if value not in (None, ""):
                values.setdefault(name, []).append(value)
    turns = _in_order(turns, counts)
    chat: Fields = {"id": chat_id, "messages": turns}
    different: dict[str, list[Any]] = {}
    for name in values.keys() - used:
        first = values[name][0]
        if values[name].count(first) == len(values[name]):
            chat[name] = first
        else:
            different[name] = values[name]
    time_column = turns[0]["time column"]
    if "time" in columns.fields:
        time_column = "time"
    if turns[0]["time"] is not None:
        chat[time_column] = turns[0]["time"]
    return chat, different


def _in_order(turns: list[Fields], counts: Counts) -> list[Fields]:
    """Returns the turns of a chat in order: by the column ``order``, by time if every row has one,
    or as in the file."""
    for field in ("order", "time"):
        values = [turn[field] for turn in turns]
        if all(value in (None, "") for value in values):
            continue
        keys = None
        if None not in values:
            keys = sort_keys(values)
        if keys is not None:
            return _sorted(turns, keys, [turn["role"] for turn in turns])
        counts["chats in the order of the file: some times are not readable"] += 1
    return turns
