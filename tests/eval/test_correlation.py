"""Correlations against scipy, against repeated rows, and against cases worked out by hand."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score
from tests.exact import exact

from medal_judges.eval.metaeval.alignment import METRICS, classification
from medal_judges.stats import correlation
from medal_judges.stats.correlation import (
    Floats,
    correlation_statistic,
    correlations,
    within_system_statistic,
)

NAMES = ("pearson", "spearman", "kendall")


def tied_sample(rows: int = 60, seed: int = 3) -> tuple[Floats, Floats, list[str]]:
    """Many ties on both sides: ratings in thirds, scores to one decimal, four chatbots."""
    rng = np.random.default_rng(seed)
    human = np.round(3 * rng.normal(3, 1, rows)) / 3
    score = np.round(human + rng.normal(0, 1.5, rows), 1)
    return human, score, [f"bot-{i % 4}" for i in range(rows)]


def value(found: correlation.Estimate) -> float:
    assert found.value is not None, found.reason
    return found.value


def test_point_figures_are_scipys() -> None:
    human, score, _ = tied_sample()
    found = correlations(exact(human), exact(score))
    oracle = {
        "pearson": stats.pearsonr(human, score),
        "spearman": stats.spearmanr(human, score),
        "kendall": stats.kendalltau(human, score),
    }
    for name, expected in oracle.items():
        assert found[name].value == pytest.approx(expected.statistic, abs=1e-12)


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


def pairs_by_hand(human: Floats, score: Floats) -> tuple[float, float]:
    """``pairwise``, by each distance that occurs as the tie, and ``preferred``: pair by pair."""
    every = combinations(range(len(human)), 2)
    apart = [(human[i] - human[j], round(score[i] - score[j], 9)) for i, j in every]
    alike = [
        np.mean([np.sign(h) == np.sign(s) * (abs(s) > tie) for h, s in apart])
        for tie in {0.0, *(abs(s) for _, s in apart)}
    ]
    picked = [0.5 + 0.5 * np.sign(h) * np.sign(s) for h, s in apart if h]
    return float(max(alike)), float(np.mean(picked))


@pytest.mark.parametrize("held", [100_000, 50])
def test_pairs_are_those_counted_one_by_one(
    monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    monkeypatch.setattr(correlation, "_PAIRS_HELD", held)
    human, score, _ = tied_sample(20)
    smooth = np.random.default_rng(1).normal(size=20)
    judges = [
        score,
        smooth,
        -human,
        human,
        np.r_[1.0, np.zeros(19)],
        human + 1e-3 * smooth,
    ]
    for judge in judges:
        found = correlations(exact(human), exact(judge))
        pairwise, preferred = pairs_by_hand(human, judge)
        assert value(found["pairwise"]) == pytest.approx(pairwise, abs=1e-12)
        assert value(found["preferred"]) == pytest.approx(preferred, abs=1e-12)
        for slope, start in ((7.3, -2.0), (1 / 3, 1e3), (1e-6, 0.1)):
            moved = correlations(exact(human), exact(start + slope * judge))
            for name in ("pairwise", "preferred"):
                assert value(moved[name]) == pytest.approx(
                    value(found[name]), abs=1e-12
                )
    assert value(correlations(exact(human), exact(human))["pairwise"]) == 1
    # Without a pair's rows it is the share of the others; the distance of a tie stays.
    weights = np.ones((2, 20))
    weights[0, :5] = 0
    few = correlation_statistic(exact(human), exact(smooth))(weights)["preferred"]
    assert few[0] == pytest.approx(pairs_by_hand(human[5:], smooth[5:])[1], abs=1e-12)
    assert few[1] == pytest.approx(pairs_by_hand(human, smooth)[1], abs=1e-12)
    # Row weights are weights of pairs: 2 of 1 and 2, 3 of 1 and 3, 6 of 2 and 3.
    three = correlation_statistic(
        exact(np.array([1.0, 2, 3])), exact(np.array([1.0, 3, 2]))
    )
    one = three(np.array([[1.0, 2, 3]]))
    assert (one["preferred"][0], one["pairwise"][0]) == (5 / 11, 5 / 11)


def test_guessing_ties_wins_nothing_among_chats_that_people_prefer() -> None:
    rng = np.random.default_rng(0)
    human = (rng.random(300) < 0.05).astype(float)  # 90% of pairs are ties
    found = correlations(exact(human), exact(rng.normal(size=300)))
    assert (
        value(found["pairwise"]) > 0.85 and abs(value(found["preferred"]) - 0.5) < 0.15
    )


def test_weighted_ranks_share_ties() -> None:
    values, weights = (
        np.array([5.0, 1.0, 5.0, 2.0]),
        np.array([[1.0, 1, 1, 1], [2.0, 1, 0, 3]]),
    )
    # second sample is 1, 2, 2, 2, 5, 5: ranks 1, 3, 5.5
    assert exact(values).ranks(weights).tolist() == [[3.5, 1, 3.5, 2], [5.5, 1, 5.5, 3]]


def test_within_is_the_row_weighted_mean_of_the_chatbots() -> None:
    human = np.array([1.0, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6, 9, 9, 9, 9, 9, 1, 2])
    score = np.array([1.0, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1, 1, 2, 3, 4, 5, 1, 2])
    # up: 5 rows at +1; down: 6 rows at -1; flat: constant ratings; few: 2 rows. (5 - 6) / 11
    bots = ["up"] * 5 + ["down"] * 6 + ["flat"] * 5 + ["few"] * 2
    assert value(
        correlations(exact(human), exact(score), bots)["within_system"]
    ) == pytest.approx(-1 / 11)


def test_centred_is_pearson_of_rank_residuals() -> None:
    human, score, bots = tied_sample()
    dummies = np.array(
        [[bot == name for name in sorted(set(bots))] for bot in bots], dtype=float
    )
    sides = [stats.rankdata(side) for side in (human, score)]
    fits = [dummies @ np.linalg.lstsq(dummies, side, rcond=None)[0] for side in sides]
    left = [side - fit for side, fit in zip(sides, fits, strict=True)]
    expected = stats.pearsonr(left[0], left[1]).statistic
    assert value(
        correlations(exact(human), exact(score), bots)["centred"]
    ) == pytest.approx(expected)


def test_telling_chatbots_apart_is_not_agreement_within() -> None:
    rng = np.random.default_rng(1)
    level = np.repeat([0.0, 10.0], 200)
    human, score = level + rng.normal(size=400), level + rng.normal(size=400)
    found = correlations(exact(human), exact(score), ["bad"] * 200 + ["good"] * 200)
    assert value(found["spearman"]) > 0.7
    assert abs(value(found["within_system"])) < 0.15
    assert abs(value(found["centred"])) < 0.15


@pytest.mark.parametrize(
    ("human", "score", "reason"),
    [
        ([1.0, 2.0], [1.0, 2.0], "2 rows, fewer than 3"),
        ([2.0, 2.0, 2.0], [1.0, 2.0, 3.0], "all labels are equal"),
        ([1.0, 2.0, 3.0], [0.1, 0.1, 0.1], "the judge gives every row the same score"),
        ([], [], "0 rows, fewer than 3"),
    ],
)
def test_undefined_has_its_reason(
    human: list[float], score: list[float], reason: str
) -> None:
    found = correlations(
        exact(np.array(human)), exact(np.array(score)), ["a"] * len(human) or ["a"]
    )
    assert {e.reason for e in found.values()} == {reason}
    assert {e.value for e in found.values()} == {None}


def test_no_figure_within_chatbots_without_names_or_rows() -> None:
    human, score, _ = tied_sample(8)
    assert (
        correlations(exact(human), exact(score), [None] * 8)["within_system"].reason
        == "the set names no chatbots"
    )
    few = correlations(exact(human), exact(score), [f"bot-{i % 4}" for i in range(8)])[
        "within_system"
    ]
    assert few.value is None
    assert "no chatbot with 5 rows" in (few.reason or "")


def test_constant_resamples_are_undefined_not_zero() -> None:
    human, score = (
        np.array([1.0, 1, 1, 2, 3]),
        np.array([3.3333333333333335] * 3 + [1.0, 2.0]),
    )
    weights = np.array([[3.0, 1, 1, 0, 0], [1.0, 1, 1, 1, 1], [0.0, 0, 0, 3, 2]])
    found = correlation_statistic(exact(human), exact(score))(weights)
    for name in NAMES:
        assert np.isfinite(found[name]).tolist() == [False, True, False], name


def test_row_order_does_not_matter() -> None:
    human, score, bots = tied_sample()
    order = np.random.default_rng(5).permutation(60)
    one = correlations(exact(human), exact(score), bots)
    two = correlations(
        exact(human[order]), exact(score[order]), [bots[i] for i in order]
    )
    for name in one:
        assert value(one[name]) == pytest.approx(value(two[name]), abs=1e-12)


def test_within_ignores_rows_of_no_named_chatbot() -> None:
    human, score, bots = tied_sample()
    named = within_system_statistic(exact(human), exact(score), bots)(np.ones((1, 60)))
    more = within_system_statistic(
        exact(np.r_[human, 1.0, 9.0]),
        exact(np.r_[score, 9.0, 1.0]),
        [*bots, None, None],
    )(np.ones((1, 62)))
    assert more["within_system"] == pytest.approx(named["within_system"])


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
    found = classification(score, labels)
    for name, number in expected.items():
        assert found[name].value == pytest.approx(number, abs=1e-12), name


def test_zero_over_zero_is_none_with_its_reason() -> None:
    labels = np.array([[0.0], [0.0], [0.0]])
    found = classification(np.array([0.1, 0.2, 0.3]), labels)
    assert found["f1_present"].reason == "neither labels nor judge ever say present"
    assert found["precision"].reason == "the judge never says present"
    assert found["recall"].reason == "the labels never say present"
    assert found["f1_absent"].value == pytest.approx(1)
    assert found["accuracy"].value == pytest.approx(1)


def test_an_annotator_without_a_figure_is_left_out_of_its_average() -> None:
    # the second answered two rows, without an issue, and the judge flags neither: nothing to say
    # of F1+ against them; against the first it is 2 * 1 / (2 * 1 + 1)
    labels = np.array([[1.0, np.nan], [1.0, np.nan], [0.0, 0.0], [0.0, 0.0]])
    score = np.array([0.9, 0.1, 0.2, 0.3])
    found = classification(score, labels)
    assert found["f1_present"].value == pytest.approx(
        f1_score(labels[:, 0], score >= 0.5)
    )
    assert found["recall"].value == pytest.approx(0.5)
    assert found["accuracy"].value == pytest.approx((3 / 4 + 1) / 2)


def test_scores_that_are_no_probabilities_are_refused() -> None:
    found = classification(np.array([3.0, 4.0]), np.array([[1.0], [0.0]]))
    assert {found[name].reason for name in METRICS} == {
        "the judge's scores are not probabilities"
    }


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
