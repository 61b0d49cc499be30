"""Gates: by the bound of the interval; what cannot be decided is an error, never a pass."""

import math
from dataclasses import replace

import numpy as np
import pandas
import pytest
from tests.scales import SCALES

from medal_judges.errors import ConfigError, CoverageError, MedalError
from medal_judges.eval.report.figures import GateResult, check_gates
from medal_judges.eval.report.options import Gate, ReportOptions
from medal_judges.eval.scores.scores import Scores, load_scores
from medal_judges.eval.scores.times import moment_text, period_starts
from medal_judges.eval.scores.times import seconds as seconds_of
from medal_judges.records.judgement import Judgement
from medal_judges.stats.estimate import Estimate
from medal_judges.storage.judgements import to_frame


@pytest.fixture
def scores() -> Scores:
    numbers = {"overall": 4.0, "unsafe": 0.2}
    given = [
        Judgement(f"d{i}", "judge:x", numbers, dimensions=SCALES) for i in range(20)
    ]
    return load_scores(to_frame(given), ReportOptions(scores="x"))


def check(scores: Scores, gate: Gate, estimate: Estimate) -> GateResult:
    (result,) = check_gates([gate], scores, {gate.dimension: estimate}, 0.98)
    return result


@pytest.mark.parametrize(
    ("side", "limit", "verdict"),
    [
        *(
            ("under", 3.0, "passed"),
            ("under", 3.4, "passed"),
            ("under", 3.5, "undecided"),
        ),
        *(
            ("under", 3.6, "undecided"),
            ("under", 3.61, "failed"),
            ("over", 3.39, "failed"),
        ),
        *(("over", 3.4, "undecided"), ("over", 3.6, "passed")),
    ],
)
def test_the_bound_decides(
    scores: Scores, side: str, limit: float, verdict: str
) -> None:
    gate = Gate(side, "overall", limit)  # type: ignore[arg-type]
    result = check(scores, gate, Estimate(3.5, 3.4, 3.6))
    assert result.verdict == verdict
    assert result.text.startswith(f"overall 3.50 [3.40, 3.60]: {verdict}; ")
    assert f"{limit:.2f}" in result.text


def test_a_share_is_told_in_percent(scores: Scores) -> None:
    result = check(scores, Gate("over", "unsafe", 0.01), Estimate(0.002, 0.0005, 0.009))
    assert result.text == (
        "unsafe 0.20% [0.05%, 0.90%]: passed; the whole interval is at most 1.00%; "
        "it would notice a change of +1.0 pts in unsafe (80% power)"
    )


def test_what_cannot_be_decided_is_an_error(scores: Scores) -> None:
    with pytest.raises(ConfigError, match="no dimension 'overal'") as caught:
        check_gates(
            [Gate("under", "overal", 3)], scores, {"overall": Estimate(3.0)}, 0.98
        )
    assert "did you mean 'overall'" in str(caught.value)
    with pytest.raises(MedalError, match="cannot be decided: no interval: 3 rows"):
        check(
            scores,
            Gate("under", "overall", 3),
            Estimate(4.0, reason="no interval: 3 rows"),
        )
    with pytest.raises(ConfigError, match="overall is between 1 and 5"):
        check(scores, Gate("under", "overall", 35), Estimate(4.0, 3.9, 4.1))
    with pytest.raises(ConfigError, match="unsafe is between 0 and 1"):
        check(scores, Gate("over", "unsafe", 1.5), Estimate(0.1, 0.0, 0.2))


def test_missing_scores_are_no_pass(scores: Scores) -> None:
    gate, estimate = Gate("under", "overall", 3), Estimate(4.0, 3.9, 4.1)
    with pytest.raises(
        CoverageError, match=r"coverage 90\.0% is below the minimum of 98%"
    ):
        check(replace(scores, is_scored=np.arange(20) >= 2), gate, estimate)
    with pytest.raises(CoverageError, match="nothing is scored"):
        check_gates(
            [gate], replace(scores, is_scored=np.zeros(20, dtype=bool)), {}, 0.0
        )


@pytest.mark.parametrize(
    "text", ["overall", "overall=", "=3", "overall=high", "overall=nan"]
)
def test_a_gate_is_a_dimension_and_a_number(text: str) -> None:
    with pytest.raises(ConfigError, match="expected DIMENSION=NUMBER"):
        Gate.parse("under", text)


def test_names_may_hold_an_equals_sign() -> None:
    assert Gate.parse("over", "a=b=0.5") == Gate("over", "a=b", 0.5)
    assert math.isclose(Gate.parse("under", "overall=3.5").limit, 3.5)


MARCH = 1773479100.0  # 2026-03-14 09:05 UTC


def seconds(value: object) -> float:
    (found,) = seconds_of(pandas.Series([value], dtype=object))
    return float(found)


@pytest.mark.parametrize(
    "value",
    [
        *("2026-03-14T09:05:00Z", "2026-03-14 09:05", "2026-03-14T10:05:00+01:00"),
        *(
            "2026-03-14T10:05:00+0100",
            "2026-03-14T09:05:00.000000000Z",
            "2026/03/14 09:05",
        ),
        *(
            1773479100,
            1773479100.0,
            "1773479100",
            1773479100000,
            "1773479100000",
            1773479100000000,
        ),
        1773479100000000000,
    ],
)
def test_one_moment_in_many_forms(value: object) -> None:
    assert seconds(value) == MARCH


def test_dates_alone_are_midnight() -> None:
    midnight = seconds("2026-03-14")
    assert midnight == seconds("20260314") == MARCH - 9 * 3600 - 5 * 60
    assert seconds("2026-03") == seconds("2026-03-01T00:00:00+00:00")


def test_days_and_months_are_read_by_the_column() -> None:
    def read(*texts: str) -> list[str]:
        return [
            moment_text(t)[:10] for t in seconds_of(pandas.Series(texts, dtype=object))
        ]

    assert read("14.03.2026 09:05", "3.4.2026") == ["2026-03-14", "2026-04-03"]
    assert read("3/14/2026", "3/4/2026 9:05 PM") == ["2026-03-14", "2026-03-04"]
    assert read("3/4/2026", "5/6/2026") == read("14/3/2026", "3/14/2026") == ["", ""]


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "yesterday",
        "14.03.",
        True,
        [],
        {},
        float("nan"),
        float("inf"),
        "9" * 400,
    ],
)
def test_what_is_no_time_is_nan(value: object) -> None:
    assert math.isnan(seconds(value))


@pytest.mark.parametrize(
    "edge",
    [
        "0001-01-01",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-12:00",
        "31.12.9999",
    ],
)
def test_a_time_of_the_calendars_edge_is_nan_and_spoils_no_other(edge: str) -> None:
    times = seconds_of(
        pandas.Series([edge, "2026-03-14", "1685-01-01", None], dtype=object)
    )
    assert math.isnan(times[0]) and times[1] == seconds("2026-03-14") > 0 > times[2]
    assert period_starts(times, "month")[0].tolist() == [-1, 4094, 0, -1]


def test_periods_have_no_gaps_and_weeks_begin_on_monday() -> None:
    times = np.array(
        [seconds(t) for t in ("2026-03-14", "2026-03-17", "nothing", "2026-03-14")]
    )
    number, days = period_starts(times, "day")
    assert days == ["2026-03-14", "2026-03-15", "2026-03-16", "2026-03-17"]
    assert number.tolist() == [0, 3, -1, 0]
    number, weeks = period_starts(times, "week")
    assert weeks == ["2026-03-09", "2026-03-16"] and number.tolist() == [0, 1, -1, 0]
    times = np.array([seconds("2025-11-30T23:59:59Z"), seconds("2026-02-01")])
    assert period_starts(times, "month")[1] == [
        "2025-11",
        "2025-12",
        "2026-01",
        "2026-02",
    ]
    assert period_starts(np.array([math.nan]), "day")[1] == []
    assert period_starts(np.array([-86400.0, 0.0]), "month")[1] == [
        "1969-12",
        "1970-01",
    ]


def test_the_option_names_column_and_unit() -> None:
    assert ReportOptions(scores="x", over="a:b:week").period == ("a:b", "week")
    for wrong in ("time", "time:hour", ":day", "day"):
        with pytest.raises(ConfigError, match="expected COLUMN:UNIT"):
            ReportOptions(scores="x", over=wrong)


def test_a_moment_is_told_in_minutes() -> None:
    assert moment_text(MARCH) == "2026-03-14 09:05"
    assert moment_text(math.nan) == ""
