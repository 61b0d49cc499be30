"""Times of rows: read from texts and numbers, and grouped into days, weeks or months."""

from __future__ import annotations

import math
import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from medal_judges.stats.correlation import Floats

if TYPE_CHECKING:
    from pandas import Series

Unit = Literal["day", "week", "month"]
_PERIODS = {"day": "D", "week": "W-SUN", "month": "M"}  # pandas' names
_DATE = r"\A\s*(?P<first>\d{1,2})(?P<mark>[./-])(?P<second>\d{1,2})[./-]\d{4}\b"
_NUMBER = re.compile(r"\s*[+-]?\d{9,}(?:\.\d*)?\s*\Z")  # 20260314 is a date
# Seconds since 1970 stay below this until the year 2255; larger numbers are milliseconds, then
# microseconds, then nanoseconds.
_SECONDS = 9e9


def seconds(values: Series) -> Floats:
    """Returns seconds since 1970 (UTC), shape (rows,), NaN for anything else than a time.

    A time is an ISO 8601 text, a text such as 14.03.2026 09:05 or 3/14/2026, or a number (or a text
    of one) in seconds, milliseconds, microseconds or nanoseconds. A time without a zone is UTC.
    3/4/2026 is NaN if no other row shows whether the day comes first.
    """
    is_number = values.map(_is_number).astype(bool)
    from_numbers = _numbers_as_seconds(values.where(is_number))
    from_texts = _texts_as_seconds(values.where(~is_number))
    times = np.where(np.isnan(from_numbers), from_texts, from_numbers)
    return np.asarray(np.where(np.abs(times) < _SECONDS, times, math.nan))


def _is_number(value: object) -> bool:
    """Says whether a value is a number of seconds or smaller units, or a text of one."""
    if isinstance(value, str):
        return _NUMBER.match(value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers_as_seconds(values: Series) -> Floats:
    import pandas

    numbers = pandas.to_numeric(values, errors="coerce").to_numpy(np.float64)
    for _ in range(3):
        numbers = np.where(np.abs(numbers) >= _SECONDS, numbers / 1000, numbers)
    return np.asarray(numbers)


def _texts_as_seconds(values: Series) -> Floats:
    """Reads ISO 8601, then dates whose order of day and month some row shows."""
    import pandas

    is_time = values.map(lambda value: isinstance(value, str | datetime)).astype(bool)
    texts = values.where(is_time, None)
    moments = pandas.to_datetime(texts, format="ISO8601", utc=True, errors="coerce")
    dates = texts.astype("string").str.extract(_DATE)
    # A number above 12 is a day; so is the first number of a date with points.
    day_first = (
        pandas.to_numeric(dates["first"]).gt(12).any() or dates["mark"].eq(".").any()
    )
    month_first = pandas.to_numeric(dates["second"]).gt(12).any()
    if day_first != month_first:
        dated = pandas.to_datetime(
            texts.where(dates["first"].notna()),
            format="mixed",
            dayfirst=bool(day_first),
            utc=True,
            errors="coerce",
        )
        moments = moments.fillna(dated)
    # In microseconds the years 1 to 9999 fit; in nanoseconds they do not.
    since = moments - pandas.Timestamp(0, tz="UTC").as_unit("us")
    return np.asarray(since.dt.total_seconds())


def period_starts(times: Floats, unit: Unit) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Returns the index of each time's period, shape (rows,), -1 for NaN; and the names of all
    periods from the first to the last: days ``2026-03-14``, weeks by their Monday, months
    ``2026-03``."""
    import pandas

    has_time = np.isfinite(times)
    indices = np.full(len(times), -1, dtype=np.int64)
    if not has_time.any():
        return indices, []
    periods = pandas.to_datetime(times[has_time], unit="s").to_period(_PERIODS[unit])
    indices[has_time] = periods.asi8 - periods.asi8.min()
    every_period = pandas.period_range(
        periods.min(), periods.max(), freq=_PERIODS[unit]
    )
    form = "%Y-%m" if unit == "month" else "%Y-%m-%d"
    return indices, every_period.start_time.strftime(form).tolist()


def moment_text(value: float) -> str:
    """Returns the time as ``2026-03-14 09:05`` (UTC); an empty text for NaN."""
    if not math.isfinite(value):
        return ""
    return datetime.fromtimestamp(value, timezone.utc).strftime("%Y-%m-%d %H:%M")
