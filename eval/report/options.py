"""Options of ``medal report``: its gates, and the times of rows, grouped into days, weeks or
months."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from pydantic import field_validator, model_validator

from medal_judges.config import Config, option
from medal_judges.errors import ConfigError
from medal_judges.reading.dialogues import ReadOptions
from medal_judges.stats.correlation import Floats

if TYPE_CHECKING:
    from pandas import Series

Unit = Literal["day", "week", "month"]
Side = Literal["under", "over"]
_PERIODS = {"day": "D", "week": "W-SUN", "month": "M"}  # pandas' names
_DATE = r"\A\s*(?P<one>\d{1,2})(?P<mark>[./-])(?P<two>\d{1,2})[./-]\d{4}\b"
_NUMBER = re.compile(r"\s*[+-]?\d{9,}(?:\.\d*)?\s*\Z")  # 20260314 is a date
# Seconds since 1970 stay below this until the year 2255; larger numbers are milliseconds, then
# microseconds, then nanoseconds.
_SECONDS = 9e9


@dataclass(frozen=True, slots=True)
class Gate:
    """Fails if the mean (or share) of ``dimension`` is ``under`` (or ``over``) its ``limit``.
    ``asked``: the gate's name if it is not a command-line option."""

    side: Side
    dimension: str
    limit: float
    asked: str | None = None

    @property
    def name(self) -> str:
        return self.asked or f"--fail-{self.side} {self.dimension}={self.limit:g}"

    @classmethod
    def parse(cls, side: Side, text: str) -> Gate:
        """The gate of a text such as ``overall=3.5``. Raises ConfigError."""
        name, _, number = text.rpartition("=")
        try:
            limit = float(number)
        except ValueError:
            limit = math.nan
        if not name or limit != limit:
            raise ConfigError(
                f"--fail-{side} {text}: expected DIMENSION=NUMBER",
                hint="for example: --fail-under overall=3.5 --fail-over unsafe=0.01",
            )
        return cls(side, name, limit)


class ReportOptions(Config):
    """What ``medal report`` reads, compares, checks and writes."""

    scores: tuple[str, ...] = option(
        metavar="SCORES...",
        argument=True,
        help="Judgements, as medal score writes them: files, or folders of them.",
    )
    chats: str | None = option(None, help="The chats that were scored: texts and columns.")
    by: tuple[str, ...] = option((), help="Column to compare by; may be repeated.")
    over: str | None = option(None, help="COLUMN:UNIT of time, for example time:day.")
    cluster: str | None = option(None, help="Column whose rows belong together, such as user.")
    human: str | None = option(None, help="Human labels of a random sample of the chats.")
    dimensions: tuple[str, ...] = option(
        (), flag="--dimension", help="Only this dimension; may be repeated."
    )
    rubric: str | None = option(
        None, help="Shipped name or YAML file: scales of scores without any."
    )
    fail_under: tuple[str, ...] = option(
        (), metavar="DIM=X", help="Gate: at least X; overall=3.5. May be repeated."
    )
    fail_over: tuple[str, ...] = option(
        (), metavar="DIM=X", help="Gate: at most X; unsafe=0.01. May be repeated."
    )
    fail_undecided: bool = option(False, help="Fail a gate if its limit is inside the interval.")
    min_coverage: float = option(
        0.98, ge=0, le=1, help="Minimum coverage of a gate; exits with status 3 below it."
    )
    conversations: int = option(10_000, ge=1, help="Maximum number of conversations on the page.")
    junit: Path | None = option(None, help="File to write: the gates as JUnit XML, for CI.")
    title: str | None = option(None, help="Heading of the page.")
    out: Path | None = option(
        None, help="Folder to write: the page, tables as CSV, figures as PNG, PDF and SVG."
    )
    reading: ReadOptions = ReadOptions()

    @field_validator("scores", mode="before")
    @classmethod
    def _one_or_more(cls, scores: object) -> object:
        return (str(scores),) if isinstance(scores, str | Path) else scores

    @model_validator(mode="after")
    def _check(self) -> ReportOptions:
        _ = self.period
        if not self.gates and (self.junit is not None or self.fail_undecided):
            option = "--fail-undecided" if self.junit is None else "--junit"
            hint = "--fail-under overall=3.5 or --fail-over unsafe=0.01"
            raise ConfigError(f"{option} needs a gate", hint=hint)
        return self

    @cached_property
    def gates(self) -> list[Gate]:
        """The gates of ``fail_under`` and ``fail_over``."""
        under = [Gate.parse("under", text) for text in self.fail_under]
        return under + [Gate.parse("over", text) for text in self.fail_over]

    @cached_property
    def period(self) -> tuple[str, Unit] | None:
        """The time column and the unit of ``over``."""
        if self.over is None:
            return None
        column, _, text = self.over.rpartition(":")
        for unit in get_args(Unit):
            if column and text == unit:
                return column, unit
        raise ConfigError(
            f"--over {self.over}: expected COLUMN:UNIT",
            hint=f"the unit is {', '.join(get_args(Unit))}, for example: --over time:day",
        )


def seconds(values: Series) -> Floats:
    """Seconds since 1970 (UTC) from ISO 8601 texts, from texts such as 14.03.2026 09:05 and
    3/14/2026, or from numbers (or texts of numbers) in seconds, milliseconds, microseconds or
    nanoseconds. NaN for anything else, and for 3/4/2026 if no other row shows whether the day comes
    first. A time without a zone is UTC."""
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
    parts = texts.astype("string").str.extract(_DATE)
    days, months = (pandas.to_numeric(parts[i]).gt(12).any() for i in ("one", "two"))
    days = days or parts["mark"].eq(".").any()
    if days != months:
        dates = texts.where(parts["one"].notna())
        how: Any = {"format": "mixed", "dayfirst": bool(days), "utc": True, "errors": "coerce"}
        moments = moments.fillna(pandas.to_datetime(dates, **how))
    since = ((moments - pandas.Timestamp(0, tz="UTC")) / pandas.Timedelta(seconds=1)).to_numpy()
    found = np.where(np.isnan(numbers), since, numbers)
    return np.asarray(np.where(np.abs(found) < _SECONDS, found, math.nan))


def period_starts(times: Floats, unit: Unit) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The index of each time's period, shape (rows,), -1 for NaN; and the names of all periods from
    the first to the last: days ``2026-03-14``, weeks by their Monday, months ``2026-03``."""
    import pandas

    known = np.isfinite(times)
    numbers = np.full(len(times), -1, dtype=np.int64)
    if not known.any():
        return numbers, []
    periods = pandas.to_datetime(times[known], unit="s").to_period(_PERIODS[unit])
    numbers[known] = periods.asi8 - periods.asi8.min()
    every = pandas.period_range(periods.min(), periods.max(), freq=_PERIODS[unit])
    return numbers, [str(each.start_time)[: 7 if unit == "month" else 10] for each in every]


def moment_text(value: float) -> str:
    """The time as ``2026-03-14 09:05`` (UTC); empty for NaN."""
    known = math.isfinite(value)
    return datetime.fromtimestamp(value, timezone.utc).strftime("%Y-%m-%d %H:%M") if known else ""
