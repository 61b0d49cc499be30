"""Tests between two judges, against published figures, scipy and simulated judges."""

import numpy as np
import pytest
from statsmodels.stats.contingency_tables import mcnemar as library_mcnemar
from statsmodels.stats.multitest import multipletests
from tests.exact import exact

from medal_judges.stats.difference import (
    correlation_difference,
    holm_p_values,
    mcnemar_p_value,
)
from medal_judges.stats.intervals import Clusters

ROWS = 120
CLUSTERS = Clusters("conversation", tuple(map(str, range(ROWS))))


def judges(
    first: float, second: float, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """People, and two judges that hear them through noise of these strengths."""
    rng = np.random.default_rng(seed)
    human = rng.normal(size=ROWS)
    return (
        human,
        human + first * rng.normal(size=ROWS),
        human + second * rng.normal(size=ROWS),
    )


def difference(first: float, second: float, seed: int = 0):  # type: ignore[no-untyped-def]
    human, one, two = judges(first, second, seed)
    return correlation_difference(
        exact(human), exact(one), exact(two), CLUSTERS
    ).estimate


def test_a_clearly_better_judge_is_found() -> None:
    found = difference(0.3, 3.0)
    assert found.value is not None
    assert found.low is not None
    assert found.value > found.low > 0.2
    assert found.p_value is not None
    assert found.p_value < 0.01


def test_equal_judges_are_seldom_told_apart() -> None:
    p_values = [difference(1.0, 1.0, seed).p_value for seed in range(60)]
    assert sum(p < 0.05 for p in p_values if p is not None) <= 8  # 3 expected


def test_difference_of_a_judge_with_itself_is_nothing() -> None:
    human, one, _ = judges(1.0, 1.0, 0)
    found = correlation_difference(exact(human), exact(one), exact(one), CLUSTERS)
    assert (found.value, found.p_value) == pytest.approx((0, 1))


@pytest.mark.parametrize(
    ("first", "second"), [(20, 5), (5, 20), (1, 0), (7, 7), (0, 9)]
)
def test_mcnemar_is_the_exact_test_of_statsmodels(first: int, second: int) -> None:
    found = mcnemar_p_value(first, second)
    oracle = library_mcnemar([[30, first], [second, 10]], exact=True)
    assert found == pytest.approx(oracle.pvalue)
    assert mcnemar_p_value(0, 0) is None


def test_holm_is_statsmodels() -> None:
    rng = np.random.default_rng(0)
    for size in (1, 2, 7, 40):
        p_values = (rng.random(size) ** 3).round(3)  # with ties
        expected = multipletests(p_values, method="holm")[1]
        found = holm_p_values(list(map(float, p_values)))
        assert found == pytest.approx(list(expected))
    # None was not tested: it stays, and does not count
    corrected = [pytest.approx(0.02), None, pytest.approx(0.04)]
    assert holm_p_values([0.01, None, 0.04]) == corrected
    assert holm_p_values([]) == [] and holm_p_values([None]) == [None]
