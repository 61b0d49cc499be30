"""Judges about systems: pairwise accuracy with ties."""

from itertools import combinations

import numpy as np
import pytest
from tests.exact import exact

from medal_judges.stats.system_agreement import pairwise_accuracy


def test_pairwise_accuracy_counts_ties_as_deutsch_does() -> None:
    systems = np.repeat(np.arange(4), 2)

    def side(*means: float) -> np.ndarray:
        return np.repeat(means, 2) + np.tile([-0.5, 0.5], 4)

    people = exact(side(1, 2, 2, 3))
    for means, expected in (
        ((10, 20, 20, 30), 1),
        ((3, 2, 2, 1), 1 / 6),
        ((5, 5, 5, 5), 1 / 6),
        ((1, 2, 2.5, 3), 5 / 6),
    ):
        found = pairwise_accuracy(people, exact(side(*means)), systems)
        assert found.value == pytest.approx(expected)
        assert found.reason == "no interval: 4 systems, fewer than 5"


def test_intervals_and_what_has_none() -> None:
    rng = np.random.default_rng(0)
    systems = np.repeat(np.arange(10), 60)
    human = np.linspace(0, 2, 10)[systems] + rng.normal(size=600)
    score = human + rng.normal(size=600) * 6
    found = pairwise_accuracy(exact(human), exact(score), systems)
    means = [[side[systems == k].mean() for k in range(10)] for side in (human, score)]
    right = [
        (means[0][i] < means[0][j]) == (means[1][i] < means[1][j])
        for i, j in combinations(range(10), 2)
    ]
    assert found.value == pytest.approx(np.mean(right)) and found.value < 1
    assert found.low is not None and found.high is not None
    assert 0 < found.low < found.value <= found.high <= 1
    same = pairwise_accuracy(exact(human), exact(human), systems)
    assert same.value == pytest.approx(1)
    assert same.low == pytest.approx(10 / (10 + 1.96**2), abs=1e-3)
    two = pairwise_accuracy(exact(human), exact(score), systems % 2)
    assert two.value is None and two.reason == "2 systems, fewer than 3"
