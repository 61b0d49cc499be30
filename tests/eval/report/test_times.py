"""Times: what people's logs hold, and periods without gaps."""

import math

import numpy as np
import pandas
import pytest

from medal_judges.errors import ConfigError
from medal_judges.eval.report.options import ReportOptions, moment_text, period_starts
from medal_judges.eval.report.options import seconds as seconds_of

MARCH = 1773479100.0  # 2026-03-14 09:05 UTC


def seconds(value: object) -> float:
    (found,) = seconds_of(pandas.Series([value], dtype=object))
    return float(found)


@pytest.mark.parametrize(
    "value",
    [
        *("2026-03-14T09:05:00Z", "2026-03-14 09:05", "2026-03-14T10:05:00+01:00"),
        *("2026-03-14T10:05:00+0100", "2026-03-14T09:05:00.000000000Z", "2026/03/14 09:05"),
        *(1773479100, 1773479100.0, "1773479100", 1773479100000, "1773479100000", 1773479100000000),
        1773479100000000000,
    ],
)
def test_one_moment_in_many_forms(value: object) -> None:
    assert seconds(value) == MARCH


def test_dates_alone_are_midnight() -> None:
    midnight = seconds("2026-03-14")
    assert midnight == seconds("20260314") == MARCH - 9 * 3600 - 5 * 60
    assert seconds("2026-03") == seconds("2026-03-01T00:00:00+00:00")


@pytest.mark.parametrize(
    "value", [None, "", "yesterday", "14.03.", True, [], {}, float("nan"), float("inf"), "9" * 400]
)
def test_what_is_no_time_is_nan(value: object) -> None:
    assert math.isnan(seconds(value))


def test_periods_have_no_gaps_and_weeks_begin_on_monday() -> None:
    times = np.array([seconds(t) for t in ("2026-03-14", "2026-03-17", "nothing", "2026-03-14")])
    number, days = period_starts(times, "day")
    assert days == ["2026-03-14", "2026-03-15", "2026-03-16", "2026-03-17"]
    assert number.tolist() == [0, 3, -1, 0]
    number, weeks = period_starts(times, "week")
    assert weeks == ["2026-03-09", "2026-03-16"] and number.tolist() == [0, 1, -1, 0]
    times = np.array([seconds("2025-11-30T23:59:59Z"), seconds("2026-02-01")])
    assert period_starts(times, "month")[1] == ["2025-11", "2025-12", "2026-01", "2026-02"]
    assert period_starts(np.array([math.nan]), "day")[1] == []
    assert period_starts(np.array([-86400.0, 0.0]), "month")[1] == ["1969-12", "1970-01"]


def test_the_option_names_column_and_unit() -> None:
    assert ReportOptions(scores="x", over="a:b:week").period == ("a:b", "week")
    for wrong in ("time", "time:hour", ":day", "day"):
        with pytest.raises(ConfigError, match="expected COLUMN:UNIT"):
            ReportOptions(scores="x", over=wrong)


def test_a_moment_is_told_in_minutes() -> None:
    assert moment_text(MARCH) == "2026-03-14 09:05"
    assert moment_text(math.nan) == ""
