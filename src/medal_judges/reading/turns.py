"""One turn a row: puts the rows of a chat together, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from medal_judges.errors import RecordError
from medal_judges.reading.columns import ColumnMap
from medal_judges.reading.names import Counts, Fields, Record, role_of

NumberedRecord = tuple[int, Record]
_FIELDS = ("role", "content", "time", "order")


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
    turns = _in_order(turns, counts)
    chat: Fields = {"id": chat_id, "messages": turns}
    different: dict[str, list[Any]] = {}
    for name in values.keys() - used:
        first = values[name][0]
        if values[name].count(first) == len(values[name]):
            chat[name] = first
        else:
            different[name] = values[name]
    if turns[0]["time"] is not None:
        chat[turns[0]["time column"]] = turns[0]["time"]
    return chat, different


def _in_order(turns: list[Fields], counts: Counts) -> list[Fields]:
    """Returns the turns of a chat in order: by the column ``order``, by time if every row has one,
    or as in the file. Turns of one time keep the order of the file; if the newest comes first, a
    question comes before its answer. Raises RecordError for times with and without a zone."""
    for field in ("order", "time"):
        values = [turn[field] for turn in turns]
        if all(value in (None, "") for value in values):
            continue
        keys = sort_keys(values)
        if keys is None:
            counts["chats in the order of the file: some times are not readable"] += 1
            continue
        try:
            newest_first = keys[0] > keys[-1]
            keyed = []
            for number, key in enumerate(keys):
                is_answer = newest_first and turns[number]["role"] != "user"
                keyed.append((key, is_answer, number))
            keyed.sort()
        except TypeError as error:
            expected = "times with a time zone in all rows or in none"
            raise RecordError(field, expected, values) from error
        return [turns[number] for _, _, number in keyed]
    return turns


def sort_keys(values: Sequence[object]) -> list[Any] | None:
    """Returns numbers, or instants of ISO times; None if a value is neither."""
    if None in values or "" in values:
        return None
    texts = [str(value).strip() for value in values]
    try:
        return list(map(float, texts))
    except ValueError:
        pass
    import pandas as pd

    try:
        return [pd.to_datetime(text, format="ISO8601") for text in texts]
    except ValueError:
        return None
