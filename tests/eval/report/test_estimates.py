"""Estimates of scores: the numbers of outside libraries, groups, clusters, periods, and clear words
where there is nothing to say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas
import pytest
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW
from tests.scales import SCALES

from medal_judges.errors import ConfigError, DataError
from medal_judges.eval.report.estimates import ReportEstimates, compute_estimates
from medal_judges.eval.scores.columns import parse_periods
from medal_judges.eval.scores.scores import Scores, scores_from_frame
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.stats.intervals import Estimate
from medal_judges.storage.judgements import to_frame

SIGNATURE = "judge:demo|version:0.1.0"
MARCH = "2026-03-14"


def judge(
    scores: Mapping[str, Sequence[float | None]],
    turns: Sequence[int | None] | None = None,
    **meta: Sequence[object],
) -> list[Judgement]:
    judgements = []
    for i in range(len(next(iter(scores.values())))):
        numbers = {name: column[i] for name, column in scores.items()}
        judgements.append(
            Judgement(
                f"d{i}" if turns is None else f"d{i // 3}",
                SIGNATURE,
                numbers,
                turn=None if turns is None else turns[i],
                failure="no answer" if None in numbers.values() else None,
                meta={name: column[i] for name, column in meta.items()},
                dimensions=SCALES,
            )
        )
    return judgements


def estimates(
    given: list[Judgement], chats: list[Dialogue] | None = None, **asked: Any
) -> tuple[Scores, ReportEstimates]:
    scores = scores_from_frame(to_frame(given), chats, **asked)
    return scores, compute_estimates(scores, asked.get("by", ()))


def test_mean_and_share_are_those_of_other_libraries() -> None:
    rng = np.random.default_rng(0)
    overall, unsafe = rng.uniform(1, 5, 400), rng.random(400)
    _, found = estimates(
        judge({"overall": overall.tolist(), "unsafe": unsafe.tolist()})
    )
    low, high = DescrStatsW(overall).tconfint_mean()
    mean, share = found.total.by_judge["overall"], found.total.by_judge["unsafe"]
    assert mean.value == pytest.approx(overall.mean())
    assert (mean.low, mean.high) == pytest.approx((low, high), abs=1e-3)
    flagged = int((unsafe >= 0.5).sum())
    assert share.value == pytest.approx(flagged / 400)
    wilson = proportion_confint(flagged, 400, method="wilson")
    assert (share.low, share.high) == pytest.approx(wilson, abs=1e-3)


def test_groups_are_tested_against_the_others_and_corrected() -> None:
    rng = np.random.default_rng(1)
    version = ["a", "b", "c"] * 100
    overall = [3 + 0.4 * (v == "c") + rng.normal(0, 0.6) for v in version]
    _, found = estimates(judge({"overall": overall}, version=version), by=["version"])
    groups = {group.name: group for group in found.groups["version"]}
    column, values = np.array(version), np.array(overall)
    sides = {}
    for name in groups:
        inside = DescrStatsW(values[column == name])
        sides[name] = CompareMeans(inside, DescrStatsW(values[column != name]))
    raw = [compared.ttest_ind(usevar="unequal")[1] for compared in sides.values()]
    corrected = multipletests(raw, method="holm")[1]
    for (name, group), p, p_holm in zip(groups.items(), raw, corrected, strict=True):
        difference = group.differences["overall"]
        assert group.rows == 100
        assert difference.p_value == pytest.approx(p_holm, rel=0.15)
        ends = sides[name].tconfint_diff(alpha=0.05 * p / p_holm, usevar="unequal")
        assert (difference.low, difference.high) == pytest.approx(ends, abs=8e-3)


def test_turns_of_a_dialogue_are_one_cluster() -> None:
    rng = np.random.default_rng(2)
    own = np.repeat(rng.normal(3, 0.5, 60), 3)
    numbers = np.clip(own + rng.normal(0, 0.05, 180), 1, 5).tolist()
    scores, found = estimates(judge({"overall": numbers}, [1, 3, 5] * 60))
    estimate = found.total.by_judge["overall"]
    assert scores.unit == "judged turn" and scores.frame["id"].nunique() == 60
    assert estimate.low is not None and estimate.high is not None
    low, high = DescrStatsW(own[::3]).tconfint_mean()
    assert estimate.high - estimate.low == pytest.approx(high - low, rel=0.1)


def test_equal_few_and_no_rows() -> None:
    _, found = estimates(judge({"overall": [5.0] * 40, "unsafe": [0.0] * 40}))
    top = found.total.by_judge["overall"]
    ends = proportion_confint(40, 40, method="wilson")
    assert (top.value, top.low, top.high) == pytest.approx((5.0, 1 + 4 * ends[0], 5.0))
    assert (found.total.by_judge["unsafe"].high or 0) > 0.05
    for rows in (1, 4):
        _, found = estimates(judge({"overall": [3.0, 4.0, 2.0, 3.0][:rows]}))
        estimate = found.total.by_judge["overall"]
        assert estimate.value == pytest.approx(3.0) and estimate.low is None
        assert estimate.reason is not None and "fewer than 5" in estimate.reason


@pytest.mark.parametrize("number", [7.0, 0.5, -1.0, 5.001])
def test_a_score_outside_its_scale_is_refused(number: float) -> None:
    """Issue 53, point 8."""
    with pytest.raises(DataError, match=r"d2.*overall.*from 1 to 5"):
        estimates(judge({"overall": [3.0, 5.0, number]}))
    assert estimates(judge({"overall": [3.0, 5.00001]}))[0].rows == 2


def differences(seed: int) -> list[Estimate]:
    """All differences of a report by version on random scores."""
    rng = np.random.default_rng(seed)
    rows, effect = int(rng.integers(25, 80)), float(rng.choice([0.0, 0.5, 1.0]))
    version = rng.integers(0, 3, rows)
    overall = np.clip(rng.normal(3, 0.8, rows) + effect * (version == 1), 1, 5)
    unsafe = (rng.random(rows) < 0.2 + 0.3 * effect * (version == 2)).astype(float)
    given = judge(
        {"overall": overall.tolist(), "unsafe": unsafe.tolist()},
        version=[f"v{number}" for number in version],
        user=[f"u{number}" for number in rng.integers(0, 15, rows)],
    )
    _, found = estimates(given, by=["version"], cluster="user")
    return [e for group in found.groups["version"] for e in group.differences.values()]


def test_an_interval_and_its_p_value_never_disagree() -> None:
    significant = shown = 0
    for seed in range(60):
        for estimate in differences(seed):
            if estimate.low is None or estimate.high is None:
                assert estimate.p_value in (None, 1)
                continue
            assert estimate.p_value is not None
            excludes = estimate.low > 0 or estimate.high < 0
            assert excludes == (estimate.p_value < 0.05), (seed, estimate)
            shown += 1
            significant += excludes
    assert shown > 250 and 10 < significant < shown - 100


def test_periods_have_no_gaps_and_weeks_begin_on_monday() -> None:
    texts = [MARCH, "2026-03-17", "nothing", "14.03.2026", "True", "12"]
    column = pandas.Series(texts, dtype=object, name="time")
    of_rows, days = parse_periods(column, "day")
    assert days == [MARCH, "2026-03-15", "2026-03-16", "2026-03-17"]
    assert of_rows.isna().tolist() == [False, False, True, True, True, True]
    assert parse_periods(column, "week")[1] == ["2026-03-09", "2026-03-16"]
    ends = pandas.Series(["2025-11-30T23:59:59Z", "2026-02-01"], dtype=object)
    assert parse_periods(ends, "month")[1] == [
        "2025-11",
        "2025-12",
        "2026-01",
        "2026-02",
    ]
    for wrong in (["yesterday"], ["0001-01-01", MARCH]):
        with pytest.raises(ConfigError):
            parse_periods(pandas.Series(wrong, dtype=object, name="time"), "day")
