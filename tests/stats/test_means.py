"""Means, shares and differences against scipy and statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from tests.stats.samples import sample

from medal_judges.stats.intervals import Estimate
from medal_judges.stats.means import (
    estimate_mean,
    estimate_share,
    jackknifed_means,
    subtract_means,
    to_difference,
)

RNG = np.random.default_rng(0)
FIRST, SECOND = RNG.normal(0.4, 1, 120), RNG.normal(0, 2, 80)


def near(
    found: Estimate, low: float, high: float, p_value: float | None = None
) -> None:
    assert (found.low, found.high) == pytest.approx((low, high), rel=0.01)
    if p_value is not None:
        assert found.p_value == pytest.approx(p_value, rel=0.05)


def test_a_mean_is_students() -> None:
    low, high = stats.ttest_1samp(FIRST, 0).confidence_interval()
    near(estimate_mean(sample(FIRST)), low, high)


def test_two_samples_are_welchs() -> None:
    test = stats.ttest_ind(FIRST, SECOND, equal_var=False)
    low, high = test.confidence_interval()
    near(subtract_means(sample(FIRST), sample(SECOND)).estimate, low, high, test.pvalue)


def test_the_same_contexts_are_a_paired_test() -> None:
    names = [f"c{i}" for i in range(120)]
    other = FIRST * 0.8 + RNG.normal(size=120) * 0.3 - 0.1
    test = stats.ttest_rel(FIRST, other)
    low, high = test.confidence_interval()
    found = subtract_means(sample(FIRST, names), sample(other, names)).estimate
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.005)
    assert found.p_value == pytest.approx(test.pvalue, rel=0.2)


def test_clusters_are_robust_ones() -> None:
    """statsmodels' cluster-robust standard error of a mean, but for its factor."""
    import statsmodels.api as sm

    users = RNG.integers(0, 40, 300)
    values = RNG.normal(size=40)[users] + RNG.normal(size=300)
    found = estimate_mean(sample(values, [str(u) for u in users]))
    fitted = sm.OLS(values, np.ones(300)).fit(
        cov_type="cluster", cov_kwds={"groups": users}
    )
    assert found.low is not None and found.high is not None
    half = stats.t.ppf(0.975, 39) * fitted.bse[0]
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.1)
    alone = estimate_mean(sample(values))
    assert alone.low is not None and alone.high is not None
    assert alone.high - alone.low < 0.8 * (found.high - found.low)


@pytest.mark.parametrize(("hits", "n"), [(0, 30), (1, 30), (12, 40), (40, 40)])
def test_a_share_is_wilsons(hits: int, n: int) -> None:
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(hits, n, method="wilson")
    found = estimate_share(sample(np.r_[np.ones(hits), np.zeros(n - hits)]))
    assert found.value == pytest.approx(hits / n)
    assert found.low is not None and found.high is not None
    assert found.low == pytest.approx(low, abs=0.025) and found.high == pytest.approx(
        high, abs=0.04
    )


def test_few_and_equal_scores() -> None:
    few = subtract_means(sample(FIRST[:3]), sample(SECOND[:3])).estimate
    assert few.low is None and few.p_value is None
    assert few.reason == "no interval: 3 rows, fewer than 5"
    same = subtract_means(sample(np.full(20, 3.0)), sample(np.full(20, 3.0))).estimate
    assert (same.value, same.p_value) == pytest.approx((0, 1))
    assert same.reason == "no interval: nothing varies"
    constant = subtract_means(
        sample(np.full(20, 3.0)), sample(np.full(20, 4.0))
    ).estimate
    assert (
        constant.value == pytest.approx(-1)
        and constant.p_value is None
        and constant.low is None
    )


def test_the_interval_stays_on_the_scale() -> None:
    found = estimate_mean(sample(np.array([5.0, 5, 5, 5, 5, 1])), (1.0, 5.0))
    assert found.high == pytest.approx(5.0)
    first, second = jackknifed_means(
        [sample(np.array([5.0] * 5 + [1])), sample(np.array([1.0] * 6))]
    )
    apart = to_difference(first - second, None, (1.0, 5.0)).estimate
    assert apart.high == pytest.approx(4.0)


def test_clusters_by_code_are_those_by_name() -> None:
    """Codes are counted where names are sorted; gaps and order change nothing."""
    rng = np.random.default_rng(0)
    codes = rng.choice([0, 3, 4, 90, 91, 5000], 60)
    scores = rng.normal(size=60)
    by_code = estimate_mean(sample(scores, codes))
    assert by_code == estimate_mean(sample(scores, [f"{code:04d}" for code in codes]))
    other = rng.normal(size=30), rng.choice([4, 90, 7], 30)
    first, second = sample(scores, codes), sample(*other)
    assert (
        subtract_means(first, second).estimate
        == subtract_means(
            sample(scores, [f"{c:04d}" for c in codes]),
            sample(other[0], [f"{c:04d}" for c in other[1]]),
        ).estimate
    )
