"""One turn a row: puts the rows of a chat together, in order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from medal_judges.errors import RecordError
from medal_judges.reading.columns import ColumnMap
from medal_judges.reading.names import Counts, Fields, Record, role_of

NumberedRecord = tuple[int, Record]
_FIELDS = ("role", "content", "time", "order")


def conversation_column(record: Record, columns: ColumnMap) -> str:
    """Returns the column with the id of the conversation, or an empty string if there is none.

    Args:
        record: A row with one message of a conversation.
        columns: What the file calls its fields. A column that it names for ``id`` is preferred.
    """
    return columns.fields.get("id") or columns.column(record, "conversation")


def merge_turns(
    chat_id: str, rows: Sequence[NumberedRecord], columns: ColumnMap, counts: Counts
) -> tuple[Fields, Fields]:
    """Merges the rows of one chat, with one message in each row, into one record.

    Messages are sorted by their number or time. Without these, they keep the order of the rows.

    Args:
        chat_id: Id of the chat.
        rows: (row number, record) of each message.
        columns: What the file calls its fields and speakers.
        counts: Counter of problems. It is increased if the numbers or times of the messages cannot
            be read.

    Returns:
        Two dicts. The first is the chat, with ``id``, ``messages``, and each further column whose
        filled cells are all equal. The second maps each other column to its values in the rows.

    Raises:
        RecordError: A speaker is unknown, or only some times have a time zone.
    """
    turns: list[Fields] = []
    used: set[str] = set()
    values: dict[str, list[Any]] = {}
    for number, record in rows:
        turn: Fields = {"time column": columns.column(record, "time")}
        for name in _FIELDS:
            used.add(columns.column(record, name))
            turn[name] = columns.value(record, name)
        row_field = f"row {number}: {columns.column(record, 'role')}"
        turn["role"] = role_of(turn["role"], columns.roles, row_field)
        turns.append(turn)
        used.add(conversation_column(record, columns))
        for name, value in record.items():
            if value not in (None, ""):
                values.setdefault(name, []).append(value)
    turns = _sort_turns(turns, counts)
    chat: Fields = {"id": chat_id, "messages": turns}
    different: Fields = {}
    for name in values.keys() - used:
        first = values[name][0]
        if values[name].count(first) == len(values[name]):
            chat[name] = first
        else:
            different[name] = values[name]
    if turns[0]["time"] is not None:
        chat[turns[0]["time column"]] = turns[0]["time"]
    return chat, different


def _sort_turns(turns: list[Fields], counts: Counts) -> list[Fields]:
    """Returns the messages ``turns`` sorted by ``order`` (such as 1, 2, 3) or, without it,
    by ``time``.

    If neither can be read, they keep the order of the file.

    Args:
        turns: Messages with ``role``, ``content``, ``order`` and ``time``.
        counts: Counter that is increased if the values of ``order`` or ``time`` cannot be read.

    Raises:
        RecordError: Only some times have a time zone.
    """
    for field in ("order", "time"):
        values = [turn[field] for turn in turns]
        if all(value in (None, "") for value in values):
            continue
        keys = to_numbers_or_times(values)
        if keys is None:
            counts["chats in the order of the file: some times are not readable"] += 1
            continue
        pairs = list(zip(keys, turns, strict=True))
        try:
            if keys[0] > keys[-1]:  # the newest first
                pairs.reverse()
            pairs.sort(key=itemgetter(0))
        except TypeError as error:
            expected = "times with a time zone in all rows or in none"
            raise RecordError(field, expected, values) from error
        return [turn for _, turn in pairs]
    return turns


def to_numbers_or_times(values: Sequence[object]) -> list[Any] | None:
    """Returns ``values`` as numbers if all are numbers, or as pandas timestamps if all are ISO
    times. Otherwise returns None."""
    import pandas as pd

    texts = [str(value).strip() for value in values]
    for convert in (float, partial(pd.to_datetime, format="ISO8601")):
        try:
            keys = list(map(convert, texts))
        except ValueError:
            continue
        if not pd.isna(keys).any():
            return keys
    return None
