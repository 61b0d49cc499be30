"""Change over time: the start that is there is found, and nothing is found where nothing is."""

from typing import Any

import numpy as np
import pytest

from medal_judges.stats.change import Change, change
from medal_judges.stats.equal import Values


def scored_change(scores: np.ndarray, *about: Any) -> Change:
    return change(Values(scores, 1e-5), *about)


def _rows(
    rng: np.random.Generator, periods: int, each: int
) -> tuple[np.ndarray, np.ndarray]:
    period = np.repeat(np.arange(periods), each)
    return period, rng.normal(size=len(period))


def test_the_start_of_a_fall_is_found() -> None:
    period, noise = _rows(np.random.default_rng(1), 20, 15)
    found = scored_change(noise - 0.8 * (period >= 12), period, np.arange(len(period)))
    assert found.searched and found.start == 12
    assert found.before is not None and found.after is not None
    assert found.difference.value == pytest.approx(found.after - found.before)
    assert found.difference.p_value == pytest.approx(1 / 5000)
    assert (
        found.difference.estimate.low is not None
        and found.difference.estimate.high is not None
    )
    assert found.difference.estimate.low < -0.8 < found.difference.estimate.high < 0


def test_periods_without_rows_keep_their_number() -> None:
    period, noise = _rows(np.random.default_rng(2), 20, 15)
    period = period * 3  # days 1 and 2 of each three are empty
    found = scored_change(noise + (period >= 36), period, np.arange(len(period)))
    assert found.start == 36


def test_few_periods_are_halved() -> None:
    period, noise = _rows(np.random.default_rng(3), 4, 50)
    found = scored_change(noise - (period >= 2), period, np.arange(len(period)))
    assert not found.searched and found.start == 2
    assert found.difference.p_value is not None and found.difference.p_value < 1e-6


def test_one_period_says_why_there_is_nothing() -> None:
    zeros = np.zeros(50, dtype=np.int64)
    found = scored_change(np.arange(50.0), zeros, np.arange(50))
    assert found.start is None and found.difference.value is None
    assert found.difference.reason == "fewer than 2 periods with scores"


def test_equal_scores_are_no_scored_change() -> None:
    period = np.repeat(np.arange(10), 10)
    found = scored_change(np.full(100, 4.0), period, np.arange(100))
    assert (found.difference.value, found.difference.p_value) == pytest.approx((0, 1))


def test_where_nothing_changes_little_is_found_even_if_days_differ() -> None:
    """150 draws at a level of 5%: more than 20 has a chance below 0.1%."""
    rng = np.random.default_rng(0)
    steps = 0
    for seed in range(150):
        period, noise = _rows(rng, 14, 12)
        # something that a whole day shares
        values = noise + rng.normal(0, 0.4, 14)[period]
        found = scored_change(values, period, np.arange(len(period)), seed)
        assert found.difference.p_value is not None
        steps += found.difference.p_value < 0.05
    assert steps <= 20


def test_a_rise_of_bad_chats_is_found_within_a_day_in_nine_of_ten_logs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """200 logs of 28 days with 20 chats: 6% are bad, and from one day on 28%. Through the report,
    with logs of other lengths: benchmarks/change_point.py."""
    monkeypatch.setattr("medal_judges.stats.change._PERMUTATIONS", 499)
    near = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        period = np.repeat(np.arange(28), 20)
        step = int(rng.integers(7, 22))
        share = np.where(period >= step, 0.28, 0.06)
        bad = (rng.random(len(period)) < share).astype(float)
        found = scored_change(bad, period, np.arange(len(period)))
        assert found.start is not None and found.difference.p_value is not None
        near += abs(found.start - step) <= 1 and found.difference.p_value < 0.05
    assert near >= 180


def test_rows_of_one_day_count_by_day_alone_and_users_of_several_days_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where nothing changes, a level of 5% is near 5% and not 1%: 300 draws, 6 to 25 are within 2.5
    standard deviations. Users with rows on many days widen the interval."""
    monkeypatch.setattr("medal_judges.stats.change._PERMUTATIONS", 499)
    rng = np.random.default_rng(1)
    steps = 0
    for seed in range(300):
        period, noise = _rows(rng, 28, 20)
        found = scored_change(noise, period, np.arange(len(period)), seed)
        assert found.difference.p_value is not None
        steps += found.difference.p_value < 0.05
    assert 6 <= steps <= 25
    period, noise = _rows(rng, 20, 30)
    user = np.repeat(np.arange(30), 20)
    rng.shuffle(user)
    scores = noise * 0.2 + rng.normal(size=30)[user]
    alone = scored_change(scores, period, np.arange(600)).difference
    by_user = scored_change(scores, period, user).difference
    assert by_user.error >= alone.error
