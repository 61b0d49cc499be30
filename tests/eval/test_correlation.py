"""Correlations against scipy, against repeated rows, and against cases worked out by hand."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score
from tests.exact import exact

from medal_judges.eval.metaeval.metrics import classification_statistic
from medal_judges.stats import correlation
from medal_judges.stats.correlation import CORRELATIONS, Floats, correlation_statistic


def tied_sample(rows: int = 60, seed: int = 3) -> tuple[Floats, Floats, list[str]]:
    """Many ties on both sides: ratings in thirds, scores to one decimal, four chatbots."""
    rng = np.random.default_rng(seed)
    human = np.round(3 * rng.normal(3, 1, rows)) / 3
    score = np.round(human + rng.normal(0, 1.5, rows), 1)
    return human, score, [f"bot-{i % 4}" for i in range(rows)]


def points(
    human: Floats, score: Floats, bots: Sequence[str | None] = ()
) -> dict[str, float]:
    """All figures over all rows."""
    sides = exact(human), exact(score)
    statistic = correlation_statistic(*sides, bots, CORRELATIONS)
    ones = np.ones((1, len(human)))
    return {name: float(values[0]) for name, values in statistic(ones).items()}


def verdicts(score: Floats, labels: Floats) -> dict[str, float]:
    values = classification_statistic(score, labels)(np.ones((1, len(score))))
    return {name: float(value[0]) for name, value in values.items()}


def test_point_figures_are_scipys() -> None:
    human, score, _ = tied_sample()
    found = points(human, score)
    oracle = {
        "pearson": stats.pearsonr(human, score),
        "spearman": stats.spearmanr(human, score),
        "kendall": stats.kendalltau(human, score),
    }
    for name, expected in oracle.items():
        assert found[name] == pytest.approx(expected.statistic, abs=1e-12)


@pytest.mark.parametrize("limit", [100_000, 300])
def test_weighted_figures_equal_those_of_repeated_rows(
    monkeypatch: pytest.MonkeyPatch, limit: int
):
    monkeypatch.setattr(correlation, "_PAIRS_HELD", limit)
    human, score, bots = tied_sample()
    rng = np.random.default_rng(0)
    weights = rng.multinomial(60, np.full(60, 1 / 60), size=20).astype(float)
    found = correlation_statistic(exact(human), exact(score), bots)(weights)
    for i, counts in enumerate(weights):
        drawn = np.repeat(np.arange(60), counts.astype(int))
        x, y = human[drawn], score[drawn]
        assert found["pearson"][i] == pytest.approx(
            stats.pearsonr(x, y).statistic, abs=1e-12
        )
        assert found["spearman"][i] == pytest.approx(
            stats.spearmanr(x, y).statistic, abs=1e-12
        )
        assert found["kendall"][i] == pytest.approx(
            stats.kendalltau(x, y).statistic, abs=1e-6
        )


def pairs_by_hand(human: Floats, score: Floats) -> float:
    """``pairwise``, by each distance that occurs as the tie, pair by pair."""
    every = combinations(range(len(human)), 2)
    apart = [(human[i] - human[j], round(score[i] - score[j], 9)) for i, j in every]
    alike = [
        np.mean([np.sign(h) == np.sign(s) * (abs(s) > tie) for h, s in apart])
        for tie in {0.0, *(abs(s) for _, s in apart)}
    ]
    return float(max(alike))


@pytest.mark.parametrize("held", [100_000, 50])
def test_pairs_are_those_counted_one_by_one(
    monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    monkeypatch.setattr(correlation, "_PAIRS_HELD", held)
    human, score, _ = tied_sample(20)
    smooth = np.random.default_rng(1).normal(size=20)
    flat = np.r_[1.0, np.zeros(19)]
    for judge in (score, smooth, -human, human, flat, human + 1e-3 * smooth):
        expected = pairs_by_hand(human, judge)
        for slope, start in ((1.0, 0.0), (7.3, -2.0), (1 / 3, 1e3), (1e-6, 0.1)):
            found = points(human, start + slope * judge)["pairwise"]
            assert found == pytest.approx(expected, abs=1e-12)
    # Row weights are weights of pairs: 2 of 1 and 2, 3 of 1 and 3, 6 of 2 and 3.
    three = correlation_statistic(
        exact(np.array([1.0, 2, 3])), exact(np.array([1.0, 3, 2]))
    )
    assert three(np.array([[1.0, 2, 3]]))["pairwise"][0] == 5 / 11


def test_within_is_the_row_weighted_mean_of_the_chatbots() -> None:
    human = np.array([1.0, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6, 9, 9, 9, 9, 9, 1, 2])
    score = np.array([1.0, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1, 1, 2, 3, 4, 5, 1, 2])
    # up: 5 rows at +1; down: 6 rows at -1; flat: constant ratings; few: 2 rows. (5 - 6) / 11
    bots = ["up"] * 5 + ["down"] * 6 + ["flat"] * 5 + ["few"] * 2
    assert points(human, score, bots)["within_system"] == pytest.approx(-1 / 11)


def test_figures_are_the_mean_over_annotators_of_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    labels = (rng.random((80, 2)) < 0.3).astype(float)
    score = np.clip(labels.mean(axis=1) * 0.6 + rng.random(80) * 0.5, 0, 1)
    said = score >= 0.5
    expected = {
        "f1_present": np.mean([f1_score(a, said) for a in labels.T]),
        "f1_absent": np.mean([f1_score(a, said, pos_label=0) for a in labels.T]),
        "precision": np.mean([precision_score(a, said) for a in labels.T]),
        "recall": np.mean([recall_score(a, said) for a in labels.T]),
        "accuracy": np.mean([accuracy_score(a, said) for a in labels.T]),
    }
    found = verdicts(score, labels)
    for name, number in expected.items():
        assert found[name] == pytest.approx(number, abs=1e-12), name


def test_kendall_of_many_rows_takes_weights_that_are_no_whole_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(1, 6, 130).astype(float), rng.normal(size=130)
    weights = rng.integers(1, 4, 130)
    monkeypatch.setattr(correlation, "_PAIRS_HELD", 4000)
    found = correlation_statistic(exact(x), exact(y))(weights[None, :] / 7)
    again = [np.repeat(side, weights) for side in (x, y)]
    assert found["kendall"][0] == pytest.approx(
        stats.kendalltau(*again).statistic, abs=1e-6
    )
    assert found["spearman"][0] == pytest.approx(
        stats.spearmanr(*again).statistic, abs=1e-9
    )
    # weights that add up to less than 1 are weights like others
    small = correlation_statistic(exact(x), exact(y))(weights[None, :] / 1e4)
    assert small["pearson"][0] == pytest.approx(
        stats.pearsonr(*again).statistic, abs=1e-9
    )
