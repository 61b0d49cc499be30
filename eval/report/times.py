"""Times of conversations: read from text or numbers, grouped into days, weeks or months."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import numpy.typing as npt

from medal_judges.stats.correlation import Floats

if TYPE_CHECKING:
    from pandas import Series

Unit = Literal["day", "week", "month"]
UNITS: tuple[Unit, ...] = get_args(Unit)
_NUMBER = re.compile(r"\s*[+-]?\d{9,}(?:\.\d*)?\s*\Z")  # 20260314 is a date
_EPOCH = datetime(1970, 1, 1)
# Seconds since 1970 stay below this until the year 5138; larger numbers are milliseconds, then
# microseconds, then nanoseconds.
_SECONDS = 1e11


def seconds(values: Series) -> Floats:
    """Seconds since 1970 (UTC) of ISO 8601 texts, or of numbers (or their texts) of seconds,
    milliseconds, microseconds or nanoseconds; NaN for anything else. A time without a zone is UTC.
    """
    import pandas

    def is_number(value: object) -> bool:
        if isinstance(value, str):
            return _NUMBER.match(value) is not None
        return isinstance(value, int | float) and not isinstance(value, bool)

    numeric = values.map(is_number).astype(bool)
    numbers = pandas.to_numeric(values.where(numeric), errors="coerce").to_numpy(np.float64)
    for _ in range(3):
        numbers = np.where(np.abs(numbers) >= _SECONDS, numbers / 1000, numbers)
    texts = values.where(~numeric).map(lambda v: v if isinstance(v, str | datetime) else None)
    moments = pandas.to_datetime(texts, format="ISO8601", utc=True, errors="coerce")
    since = ((moments - pandas.Timestamp(0, tz="UTC")) / pandas.Timedelta(seconds=1)).to_numpy()
    return np.where(np.abs(numbers) < _SECONDS, numbers, since)


def period_starts(times: Floats, unit: Unit) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The period of each time, shape (rows,), -1 for NaN, and the names of all periods from the
    first to the last, also the empty ones: days ``2026-03-14``, weeks by their Monday, months
    ``2026-03``."""
    known = np.isfinite(times)
    number = np.full(len(times), -1, dtype=np.int64)
    if not known.any():
        return number, []
    days = np.floor(times[known] / 86400).astype(np.int64)
    if unit == "day":
        index = days
    elif unit == "week":
        index = (days + 3) // 7  # 1970-01-01 was a Thursday
    else:
        index = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    first, last = int(index.min()), int(index.max())
    number[known] = index - first
    places = np.arange(first, last + 1)
    starts = places.astype("datetime64[M]") if unit == "month" else (
        places if unit == "day" else places * 7 - 3
    ).astype("datetime64[D]")  # fmt: skip
    return number, np.datetime_as_string(starts).tolist()


def moment_text(value: float) -> str:
    """``2026-03-14 09:05`` (UTC); empty for NaN."""
    if not math.isfinite(value):
        return ""
    return (_EPOCH + timedelta(seconds=value)).isoformat(" ", "minutes")
