"""Columns of scored rows, such as version or user."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Literal

from medal_judges.errors import ConfigError, did_you_mean
from medal_judges.inference.metadata import metadata_of
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.joining import ScoreKey

if TYPE_CHECKING:
    from pandas import DataFrame, Series

Unit = Literal["day", "week", "month"]
_FREQUENCIES = {"day": "D", "week": "W-SUN", "month": "M"}  # pandas' names
_MOST_PERIODS = 1000
_MILLISECONDS = 1e11  # numbers from here on are milliseconds
_EARLIEST = 1e8  # seconds, in 1973: a smaller number is not a time


def value_as_text(value: object) -> str | None:
    """Returns ``value`` (a cell of a table) as text, None if it is empty. Values other than strings
    are written as JSON."""
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
) -> DataFrame:
    """Returns a table of some columns as text, with the same rows as ``frame``.

    With ``dialogues``, the table also has the column ``has_chat``: whether the row's chat is among
    the dialogues.

    Args:
        frame: A table of judgements, which also holds data of the chats.
        names: Names of the columns, such as ``version``.
        dialogues: The scored chats, for values that ``frame`` lacks.

    Raises:
        ConfigError: None of ``dialogues`` was judged, or a column is empty in all rows.
    """
    import pandas

    meta = frame.attrs["meta"]
    available = dict.fromkeys(meta)
    columns = pandas.DataFrame(index=frame.index)
    for name in names:
        columns[name] = None
        if name in meta:
            columns[name] = frame[meta[name]].map(value_as_text)
    if dialogues is not None:
        chats = _columns_of_chats(frame, names, dialogues, available)
        joined = chats.set_index("key").reindex(frame["id"]).set_index(frame.index)
        for name in names:
            columns[name] = columns[name].fillna(joined[name])
        columns["has_chat"] = joined["has_chat"].notna()
    for name in names:
        if len(frame) and columns[name].isna().all():
            _raise_for_empty_column(name, available)
    return columns


def _columns_of_chats(
    frame: DataFrame,
    names: Collection[str],
    dialogues: Iterable[Dialogue],
    available: dict[str, None],
) -> DataFrame:
    """Returns a table of the ``dialogues`` that have a row in ``frame``: key (the id), has_chat
    (true), and the columns ``names`` as text.

    Args:
        frame: A table of judgements.
        available: Names of existing columns, for error messages. The dialogues' columns are added.

    Raises:
        ConfigError: None of ``dialogues`` has a row.
    """
    import pandas

    firsts = frame.drop_duplicates("id")
    key_of = dict(zip(firsts["id"], row_keys(firsts), strict=True))
    rows = []
    for dialogue in dialogues:
        available |= dict.fromkeys(dialogue.meta)
        if dialogue.id in key_of and key_of[dialogue.id].may_match_text(dialogue):
            row: dict[str, object] = {"key": dialogue.id, "has_chat": True}
            for name, value in metadata_of(dialogue, list(names)).items():
                row[name] = value_as_text(value)
            rows.append(row)
    if len(frame) and not rows:
        raise ConfigError(
            "no chat of the scores is among the chats, by id and text",
            hint="Type --chats with the file that was scored",
        )
    return pandas.DataFrame(rows, columns=["key", "has_chat", *names], dtype=object)


def _raise_for_empty_column(name: str, available: Iterable[str]) -> None:
    names = [column for column in available if column != name]
    raise ConfigError(
        f"no column {name!r} with a value in the scores or the chats",
        hint=f"{did_you_mean(name, names)}Use one of: {', '.join(names) or 'none'}. To add a "
        "column, type: medal score --keep COLUMN",
    )


def row_keys(frame: DataFrame) -> list[ScoreKey]:
    """Returns the id, turn and text hash of each row of ``frame``, a table of judgements."""
    columns = frame.reindex(columns=["id", "turn", "chat"]).astype(object)
    columns = columns.where(columns.notna(), None)
    return [ScoreKey(*values) for values in columns.to_numpy()]


def parse_periods(texts: Series, unit: Unit) -> tuple[Series, list[str]]:
    """Assigns times to periods, such as days.

    Args:
        texts: Times such as ``2026-03-14T09:05:00Z`` (ISO 8601), or seconds or milliseconds since
            1970.
        unit: The length of a period. A week is named after its Monday.

    Returns:
        The period of each time, such as ``2026-03-14``, and the names of all periods from the first
        to the last. A text that is not a time has the period NaN.

    Raises:
        ConfigError: No text is a time, or there are more than 1,000 periods.
    """
    import pandas

    numbers = pandas.to_numeric(texts, errors="coerce")
    numbers = numbers.where(numbers < _MILLISECONDS, numbers / 1000)
    numbers = numbers.where(numbers.abs() > _EARLIEST)
    moments = pandas.to_datetime(numbers, unit="s", utc=True, errors="coerce")
    written = texts.where(moments.isna())
    moments = moments.fillna(
        pandas.to_datetime(written, format="ISO8601", utc=True, errors="coerce")
    )
    if moments.isna().all():
        raise ConfigError(
            f"--over {texts.name}: no row has a time. The first has {texts.dropna().iloc[0]!r}",
            hint="Write times as 2026-03-14T09:05:00Z (ISO 8601) or as seconds since 1970",
        )
    periods = moments.dt.tz_localize(None).dt.to_period(_FREQUENCIES[unit])
    count = (periods.max() - periods.min()).n + 1
    if count > _MOST_PERIODS:
        raise ConfigError(
            f"--over {texts.name}: {count:,} {unit}s from {periods.min()} to {periods.max()}, "
            f"more than {_MOST_PERIODS:,}",
            hint="Type a longer unit, such as month, or correct the times",
        )
    names = pandas.period_range(
        periods.min(), periods.max(), freq=_FREQUENCIES[unit]
    ).start_time
    form = "%Y-%m" if unit == "month" else "%Y-%m-%d"
    labels = periods.dt.start_time.dt.strftime(form)
    return labels, names.strftime(form).tolist()
