"""Times of conversations: read from text or numbers, and put into days, weeks or months."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from medal_judges.errors import ConfigError
from medal_judges.stats.correlation import Floats

Unit = Literal["day", "week", "month"]
UNITS: tuple[Unit, ...] = get_args(Unit)
MISSING = math.nan
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?\Z")
# Seconds since 1970 stay below this until the year 5138; larger numbers are milliseconds, then
# microseconds, then nanoseconds.
_SECONDS = 1e11
_EARLIEST, _LATEST = -62135596800.0, 253402300799.0  # the years 1 to 9999


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """A column of times and what they are put together by."""

    column: str
    unit: Unit

    @classmethod
    def parse(cls, text: str) -> TimeColumn:
        """Of ``time:day``. Raises ConfigError."""
        column, _, unit = text.rpartition(":")
        for known in UNITS:
            if column and unit == known:
                return cls(column, known)
        raise ConfigError(
            f"--over {text}: expected COLUMN:UNIT",
            hint=f"the unit is {', '.join(UNITS)}, for example: --over time:day",
        )


def seconds(value: object) -> float:
    """Seconds since 1970 (UTC) of an ISO 8601 text, or of a number (or its text) of seconds,
    milliseconds, microseconds or nanoseconds; NaN for anything else. A time without a zone is
    taken as UTC."""
    if isinstance(value, datetime):
        moment = value
    elif isinstance(value, bool) or value is None:
        return MISSING
    elif isinstance(value, int | float):
        return _epoch(float(value))
    else:
        text = str(value).strip()
        if _NUMBER.match(text) and len(text) >= 9:  # 20260314 is a date
            return _epoch(float(text))
        moment_or_none = _iso(text)
        if moment_or_none is None:
            return MISSING
        moment = moment_or_none
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    try:
        return moment.timestamp()
    except (OverflowError, ValueError):
        return MISSING


def _epoch(number: float) -> float:
    while abs(number) >= _SECONDS and math.isfinite(number):
        number /= 1000
    return number if _EARLIEST <= number <= _LATEST else MISSING


def _iso(text: str) -> datetime | None:
    # Python 3.10 reads neither Z, nor a fraction of other than 3 or 6 digits, nor basic dates.
    text = re.sub(r"[zZ]\Z", "+00:00", text)
    text = re.sub(r"\.(\d+)", lambda m: "." + m.group(1)[:6].ljust(6, "0"), text)
    text = re.sub(r"\A(\d{4})(\d{2})(\d{2})(?!\d)", r"\1-\2-\3", text)
    text = re.sub(r"\A(\d{4})[/.](\d{2})[/.](\d{2})", r"\1-\2-\3", text)
    text = re.sub(r"([+-]\d{2})(\d{2})\Z", r"\1:\2", text) if "T" in text or " " in text else text
    if re.fullmatch(r"\d{4}-\d{2}", text):
        text += "-01"
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def period_starts(times: Floats, unit: Unit) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The period of each time, shape (rows,), -1 where it is NaN, and the names of all periods from
    the first to the last in order: days ``2026-03-14``, weeks by their Monday, months ``2026-03``.
    A period without a conversation has its place all the same.
    """
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
    first = int(index.min())
    number[known] = index - first
    return number, [_name(first + k, unit) for k in range(int(index.max()) - first + 1)]


def _name(index: int, unit: Unit) -> str:
    if unit == "month":
        return f"{1970 + index // 12:04d}-{index % 12 + 1:02d}"
    day = index if unit == "day" else index * 7 - 3
    return (datetime(1970, 1, 1) + timedelta(days=day)).date().isoformat()


def moment_text(value: float) -> str:
    """``2026-03-14 09:05`` (UTC); empty for NaN."""
    if not math.isfinite(value):
        return ""
    return (datetime(1970, 1, 1) + timedelta(seconds=value)).isoformat(" ", "minutes")
