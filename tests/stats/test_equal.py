"""Equal is equal: noise as a batch makes it changes no rank, tie, sign or test."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score
from tests.stats.samples import sample

from medal_judges.records.dimension import Dimension
from medal_judges.stats.correlation import (
    CORRELATIONS,
    Floats,
    correlation_statistic,
    weighted_auc,
)
from medal_judges.stats.difference import correlation_difference
from medal_judges.stats.equal import Values
from medal_judges.stats.intervals import Clusters
from medal_judges.stats.means import Sample, estimate_mean, subtract_means
from medal_judges.stats.system_agreement import pairwise_accuracy
from medal_judges.stats.systems import SystemRows, system_difference

SCALE = Dimension("overall", "continuous", 1, 5)
NOISE = 5e-7 * (SCALE.high - SCALE.low)  # of a batch, on this scale
BOTS = [f"bot-{i % 4}" for i in range(80)]
CLUSTERS = Clusters("conversation", tuple(f"g{i}" for i in range(80)))


def noisy(scores: Floats, rng: np.random.Generator) -> Floats:
    return scores + rng.uniform(-NOISE, NOISE, len(scores))


def values(scores: Floats) -> Values:
    return Values(scores, SCALE.tolerance)


def clustered(scores: Floats) -> Sample:
    return sample(scores, tolerance=SCALE.tolerance)


def samples() -> Iterator[tuple[Floats, Floats, np.random.Generator]]:
    """People's ratings and a judge's scores of 80 rows: whole numbers, thirds, few levels, or as
    many levels as rows."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        human = np.clip(
            np.round(rng.normal(3, 1, 80) * (1, 3)[seed % 2]) / (1, 3)[seed % 2], 1, 5
        )
        steps = (1, 4, 50, 1000)[seed % 4]
        score = np.round(np.clip(human + rng.normal(0, 1, 80), 1, 5) * steps) / steps
        yield human, score, rng


def points(human: Floats, score: Floats) -> dict[str, float]:
    statistic = correlation_statistic(values(human), values(score), BOTS, CORRELATIONS)
    return {name: float(v[0]) for name, v in statistic(np.ones((1, 80))).items()}


def test_noise_changes_no_rank_statistic() -> None:
    for human, score, rng in samples():
        plain = points(human, score)
        with_noise = points(noisy(human, rng), noisy(score, rng))
        for name in CORRELATIONS:
            leeway = 1e-6 if name == "pearson" else 1e-12
            assert with_noise[name] == pytest.approx(plain[name], abs=leeway), name


def test_without_noise_they_are_those_of_scipy_and_sklearn() -> None:
    for human, score, _ in samples():
        found = points(human, score)
        expected = stats.spearmanr(human, score).statistic
        assert found["spearman"] == pytest.approx(expected)
        expected = stats.kendalltau(human, score).statistic
        assert found["kendall"] == pytest.approx(expected)
        alike = np.ones((1, 80))
        assert values(score).ranks(alike)[0] == pytest.approx(stats.rankdata(score))
        label = (human > 3).astype(float)
        auc = weighted_auc(label, values(score), alike)[0]
        assert auc == pytest.approx(roc_auc_score(label, score))


def test_noise_changes_no_area_and_no_order_of_systems() -> None:
    systems = np.arange(80) % 4
    for human, score, rng in samples():
        score[systems == 1] = score[systems == 0]  # two systems with one mean
        shaken = noisy(score, rng)
        label = (human > 3).astype(float)
        plain, other = (
            weighted_auc(label, values(side), np.ones((1, 80)))
            for side in (score, shaken)
        )
        assert plain == other
        accuracies = [
            pairwise_accuracy(values(human), values(side), systems)
            for side in (score, shaken)
        ]
        assert accuracies[0] == accuracies[1]


def test_a_judge_compared_with_itself_in_other_batches_has_a_p_of_one() -> None:
    for human, score, rng in samples():
        sides = values(score), values(noisy(score, rng))
        for metric in ("spearman", "kendall", "pairwise"):
            found = correlation_difference(values(human), *sides, CLUSTERS, metric)
            assert found.p_value == pytest.approx(1), metric


def test_two_hundred_mixes_of_the_same_scores_have_no_winner() -> None:
    """60 chats, scored twice: in the second file they stand among others, in other batches. The
    noise can be one-sided, or on a few chats only."""
    contexts = [f"c{i}" for i in range(60)]
    for seed in range(200):
        rng = np.random.default_rng(seed)
        scores = np.clip(rng.normal(3, 1, 60), 1, 5)
        moved = noisy(scores, rng)
        if seed % 4 == 1:
            moved = scores + NOISE
        if seed % 4 == 2:
            moved = np.where(rng.random(60) < 0.1, moved, scores)
        order = rng.permutation(60)
        second = SystemRows(values(moved[order]), [contexts[i] for i in order])
        if seed % 4 == 3:  # 17 other chats beside them
            more = np.r_[moved[order], rng.normal(3, 1, 17)]
            names = [*second.contexts, *(f"d{i}" for i in range(17))]
            second = SystemRows(values(more), names)
        found = system_difference(SystemRows(values(scores), contexts), second)
        assert (found.wins, found.ties, found.losses) == (0, 60, 0)
        assert found.judge.p_value == pytest.approx(1) and found.judge.equal
        assert found.judge.estimate.value == pytest.approx(0)  # whatever the noise


def test_what_really_differs_is_found_with_noise_as_without() -> None:
    rng = np.random.default_rng(0)
    contexts = [f"c{i}" for i in range(60)]
    scores = np.clip(rng.normal(3, 1, 60), 1, 5)
    better = scores + np.where(np.arange(60) < 20, 0.3, 0.0)
    plain, shaken = (
        system_difference(
            SystemRows(values(scores), contexts), SystemRows(values(side), contexts)
        )
        for side in (better, noisy(better, rng))
    )
    assert (plain.wins, plain.ties, plain.losses) == (0, 40, 20)
    assert (shaken.wins, shaken.ties, shaken.losses) == (0, 40, 20)
    assert plain.judge.p_value is not None and plain.judge.p_value < 0.001
    assert shaken.judge.p_value == pytest.approx(plain.judge.p_value, rel=1e-3)


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_what_does_not_vary_is_the_same_with_noise(shift: float) -> None:
    """Equal means are equal; a constant difference has no interval, so a gate refuses it."""
    rng = np.random.default_rng(2)
    for first, second in ((np.full(20, 3.0), np.full(25, 3.0 + shift)),):
        plain, shaken = (
            subtract_means(clustered(one), clustered(two))
            for one, two in ((first, second), (noisy(first, rng), noisy(second, rng)))
        )
        for found in (plain, shaken):
            assert found.reason == "no interval: nothing varies"
            assert found.p_value == pytest.approx(None if shift else 1)
            assert found.estimate.low is None
    assert estimate_mean(clustered(noisy(np.full(20, 3.0), rng))).low is None


def test_dense_scores_do_not_chain_into_one_tie() -> None:
    """A million scores are closer to each other than the tolerance; groups of neighbours would be
    one group."""
    scores = np.linspace(1, 5, 1_000_000)
    ranks = values(scores).ranks(np.ones((1, len(scores))))[0]
    assert ranks[500_000] == pytest.approx(500_001, abs=1)
    assert np.abs(ranks - np.arange(1, 1_000_001)).max() < 10
