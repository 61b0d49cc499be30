"""Judges about systems: pairwise accuracy with ties, soft pairwise accuracy, split halves."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats
from tests.exact import exact

from medal_judges.stats.correlation import Floats
from medal_judges.stats.system_agreement import (
    SystemMeans,
    over_pairs,
    pair_accuracy,
    system_agreement,
    system_means,
)


def rows(
    means: list[float], size: int, seed: int = 0
) -> tuple[Floats, np.ndarray, list[str]]:
    rng = np.random.default_rng(seed)
    systems = np.repeat(np.arange(len(means)), size)
    values = np.asarray(means)[systems] + rng.normal(size=len(systems))
    return values, systems, [f"g{i}" for i in range(len(systems))]


def test_soft_pairwise_accuracy_is_that_of_permutation_tests() -> None:
    """WMT's p-values: means of randomly exchanged rows (Thompson et al. 2024, equation 1)."""
    human, systems, groups = rows([0.0, 0.3, 0.4, 0.9], 40)
    score = human * 0.5 + rows([0.4, 0.1, 0.0, 0.2], 40, 1)[0]
    found = system_agreement(
        system_means(exact(human), systems, groups),
        system_means(exact(score), systems, groups),
    )
    distances = []
    for i, j in combinations(range(4), 2):
        p_values = [
            stats.permutation_test(
                (side[systems == i], side[systems == j]),
                lambda x, y: x.mean() - y.mean(),
                alternative="greater",
                n_resamples=2000,
                rng=np.random.default_rng(2),
            ).pvalue
            for side in (human, score)
        ]
        distances.append(abs(p_values[0] - p_values[1]))
    soft = found["soft_pairwise_accuracy"].value
    assert soft == pytest.approx(1 - np.mean(distances), abs=0.02)


def test_pairwise_accuracy_counts_ties_as_deutsch_does() -> None:
    def side(*means: float) -> SystemMeans:
        return SystemMeans(
            np.array(means), np.full((len(means), len(means)), 0.5), 1e-5
        )

    people = side(1, 2, 2, 3)
    assert over_pairs(
        pair_accuracy(people, side(10, 20, 20, 30))
    ).value == pytest.approx(1)
    assert over_pairs(pair_accuracy(people, side(3, 2, 2, 1))).value == pytest.approx(
        1 / 6
    )
    assert over_pairs(pair_accuracy(people, side(5, 5, 5, 5))).value == pytest.approx(
        1 / 6
    )
    assert over_pairs(pair_accuracy(people, side(1, 2, 2.5, 3))).value == pytest.approx(
        5 / 6
    )


def test_intervals_and_what_has_none() -> None:
    human, systems, groups = rows(list(np.linspace(0, 2, 10)), 60)
    score = human + rows([0.0] * 10, 60, 3)[0] * 2
    people, judge = (
        system_means(exact(side), systems, groups) for side in (human, score)
    )
    for estimate in system_agreement(people, judge).values():
        assert estimate.value is not None
        assert estimate.low is not None and estimate.high is not None
        assert 0 < estimate.low < estimate.value <= estimate.high <= 1
    same = system_agreement(people, people)["pairwise_accuracy"]
    assert same.value == pytest.approx(1)
    assert same.low == pytest.approx(10 / (10 + 1.96**2), abs=1e-3)
    two = over_pairs(np.ones((2, 2)))
    assert two.value is None and two.reason == "2 systems, fewer than 3"
    four = over_pairs(np.eye(4))
    assert (
        four.value == pytest.approx(0)
        and four.reason == "no interval: 4 systems, fewer than 5"
    )


def test_shared_contexts_make_pairs_surer() -> None:
    rng = np.random.default_rng(4)
    hard = rng.normal(size=50)
    systems = np.repeat([0, 1, 2], 50)
    values = (
        np.tile(hard * 3, 3)
        + np.repeat([0.0, 0.2, 0.4], 50)
        + rng.normal(size=150) * 0.3
    )
    shared = system_means(exact(values), systems, [f"g{i % 50}" for i in range(150)])
    apart = system_means(exact(values), systems, [f"g{i}" for i in range(150)])
    assert shared.better[2, 0] < 0.001 < apart.better[2, 0]
