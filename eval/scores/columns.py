"""Columns of scored rows, such as language or version: from the metadata of the judgements, or else
from the chats."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from sys import intern
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from medal_judges.errors import ConfigError
from medal_judges.inference.metadata import metadata_of
from medal_judges.records.dialogue import UNKNOWN_LANGUAGE, Dialogue
from medal_judges.records.joining import ScoreKey

if TYPE_CHECKING:
    from pandas import DataFrame, Series


@dataclass(slots=True)
class RowColumns:
    """``values`` of the columns that were asked for, None if a row has none. ``names``: all columns
    that the judgements or the chats have. ``has_chat``: shape (rows,), None if no chats were read.
    """

    values: dict[str, Series]
    names: list[str]
    has_chat: npt.NDArray[np.bool_] | None = None


def value_as_text(value: object) -> str | None:
    """Returns the text of a value of a column: JSON if it is no text; None for an empty one."""
    import pandas

    if isinstance(value, str):
        return value or None
    if value is None or value is pandas.NA or value != value:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def read_columns(
    frame: DataFrame,
    names: Collection[str],
    dialogues: Iterable[Dialogue] | None = None,
    progress: Callable[[int], object] = lambda count: None,
) -> RowColumns:
    """Reads the columns ``names`` (``lang`` among them) of a table of judgements.

    Raises ConfigError if ``dialogues`` are given and no row is of one, by id and text.
    """
    meta = frame.attrs["meta"]
    columns = RowColumns(
        {name: _meta_column(frame, name) for name in names}, list(meta)
    )
    lang = columns.values["lang"]
    lang = lang.where(lang != UNKNOWN_LANGUAGE, None)
    if "detected_language" in frame:
        lang = lang.where(lang.notna(), frame["detected_language"])
    columns.values["lang"] = lang
    if dialogues is not None:
        _add_dialogues(columns, frame, dialogues, progress)
    return columns


def _meta_column(frame: DataFrame, name: str) -> Series:
    import pandas

    meta = frame.attrs["meta"]
    if name not in meta:
        return pandas.Series([None] * len(frame), dtype=object)
    column = frame[meta[name]].astype(object)
    return column.where(column.notna() & (column != ""), None)


def _add_dialogues(
    columns: RowColumns,
    frame: DataFrame,
    dialogues: Iterable[Dialogue],
    progress: Callable[[int], object],
) -> None:
    """Fills rows without a value from their dialogues, and sets ``has_chat``."""
    import pandas

    number_of_row, ids = frame["id"].factorize()
    numbers = {id: number for number, id in enumerate(ids)}
    keys = row_keys(frame.drop_duplicates("id"))
    has_chat = np.zeros(len(ids), dtype=bool)
    names = list(columns.values)
    of_dialogues = np.full((len(ids), len(names)), None, dtype=object)
    every_name = dict.fromkeys(columns.names)
    for count, dialogue in enumerate(dialogues):
        every_name |= dict.fromkeys(dialogue.meta)
        if count % 1000 == 0:
            progress(1000)
        number = numbers.get(dialogue.id)
        if number is None or not keys[number].is_of(dialogue):
            continue
        has_chat[number] = True
        for i, value in enumerate(metadata_of(dialogue, names).values()):
            if isinstance(value, str):
                value = intern(value)  # one object for all rows of an equal text
            of_dialogues[number, i] = value
    if len(frame) and not has_chat.any():
        hint = "--chats is the file that was scored"
        raise ConfigError(
            "no chat of the scores is among the chats, by id and text", hint=hint
        )
    for name, values in zip(names, of_dialogues[number_of_row].T, strict=True):
        columns.values[name] = columns.values[name].fillna(pandas.Series(values))
    columns.names = list(every_name)
    columns.has_chat = has_chat[number_of_row]


def row_keys(frame: DataFrame, extra: Sequence[str] = ()) -> list[ScoreKey]:
    """Returns what each row of a table of judgements is of. ``extra`` names further columns, in the
    order of ScoreKey's fields."""
    columns = frame.reindex(columns=["id", "turn", "chat", *extra]).astype(object)
    columns = columns.where(columns.notna(), None)
    return [ScoreKey(*values) for values in columns.to_numpy()]
