"""An interval and its p-value never contradict each other, whatever is compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from medal_judges.stats.difference import (
    Difference,
    correct_by_holm,
    correlation_difference,
)
from medal_judges.stats.equal import Values
from medal_judges.stats.intervals import Clusters, Estimate, StudentT
from medal_judges.stats.means import Sample, subtract_means
from medal_judges.stats.systems import SystemRows, system_difference


def excludes(estimate: Estimate) -> bool:
    assert estimate.low is not None and estimate.high is not None
    return estimate.low > 0 or estimate.high < 0


def agrees(estimate: Estimate) -> bool:
    """Whether interval and p-value say the same; without an interval there is none but 1."""
    if estimate.low is None:
        return estimate.p_value in (None, 1)
    assert estimate.p_value is not None
    return excludes(estimate) == (estimate.p_value < 0.05)


def test_students_interval_and_p_value_are_scipys() -> None:
    rng = np.random.default_rng(0)
    for shift in (0.0, 0.4, 2.0):
        one, two = rng.normal(shift, 1, 40), rng.normal(0, 1, 40)
        test = stats.ttest_ind(one, two)
        found = Difference(
            float(one.mean() - two.mean()), float(test._standard_error), StudentT(78)
        )
        assert found.p_value == pytest.approx(test.pvalue)
        low, high = test.confidence_interval()
        assert (found.estimate.low, found.estimate.high) == pytest.approx((low, high))
        wide = test.confidence_interval(1 - 0.05 / 6)
        corrected = found.correct_for(6.0)
        assert corrected.p_value == pytest.approx(min(1.0, 6 * test.pvalue))
        assert (corrected.estimate.low, corrected.estimate.high) == pytest.approx(
            tuple(wide)
        )


def test_differences_up_to_the_tolerance_are_none() -> None:
    found = Difference(1e-5, 1e-9, StudentT(50), tolerance=1e-5)
    assert found.p_value == pytest.approx(1) and not excludes(found.estimate)
    beyond = Difference(3e-5, 1e-9, StudentT(50), tolerance=1e-5)
    assert (
        beyond.p_value is not None
        and beyond.p_value < 1e-9
        and excludes(beyond.estimate)
    )
    assert (-beyond).estimate.high == pytest.approx(-(beyond.estimate.low or 0))


def families(rng: np.random.Generator) -> Iterable[list[Difference]]:
    """Differences of one page, of every kind."""
    count = int(rng.integers(12, 60))
    effect = float(rng.choice([0.0, 0.3, 0.8]))
    scores = np.round(rng.normal(3, 1, count), int(rng.integers(0, 4)))
    group = rng.integers(0, 4, count)
    scores = scores + effect * (group == 0)
    users = rng.integers(0, 12, count)

    def part(rows: Any) -> Sample:
        return Sample(Values(scores[rows], 4e-5), users[rows])

    yield [subtract_means(part(group == k), part(group != k)) for k in range(4)]
    contexts = [f"c{i}" for i in range(count)]
    systems = [
        SystemRows(Values(scores + rng.normal(effect * k, 0.5, count), 4e-5), contexts)
        for k in range(3)
    ]
    yield [
        system_difference(systems[i], systems[j]).judge
        for i, j in ((0, 1), (0, 2), (1, 2))
    ]
    clusters = Clusters("conversation", tuple(contexts))
    human = Values(rng.normal(size=count), 1e-5)
    judges = [
        Values(human.numbers + rng.normal(0, 0.5 + effect * k, count), 1e-5)
        for k in range(3)
    ]
    yield [
        correlation_difference(human, judges[i], judges[j], clusters)
        for i, j in ((0, 1), (0, 2), (1, 2))
    ]


def test_no_pair_of_300_data_sets_disagrees() -> None:
    shown = significant = corrected = 0
    for seed in range(300):
        for family in families(np.random.default_rng(seed)):
            differences = correct_by_holm(family)
            for raw, difference in zip(family, differences, strict=True):
                estimate = difference.estimate
                assert agrees(estimate) and agrees(raw.estimate), (
                    seed,
                    raw,
                    difference,
                )
                shown += estimate.low is not None
                significant += estimate.p_value is not None and estimate.p_value < 0.05
                corrected += raw.p_value != pytest.approx(difference.p_value)
    assert shown > 2500 and 500 < significant < shown - 500 and corrected > 1000


def test_the_correction_is_statsmodels() -> None:
    rng = np.random.default_rng(4)
    family = [Difference(float(v), 0.1, StudentT(30)) for v in rng.normal(0.15, 0.1, 9)]
    family.insert(3, Difference(None, reason="no rows"))
    raw = [d.p_value for d in family if d.p_value is not None]
    found = [d.p_value for d in correct_by_holm(family) if d.p_value is not None]
    assert found == pytest.approx(list(multipletests(raw, method="holm")[1]))
