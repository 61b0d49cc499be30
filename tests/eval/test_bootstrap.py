"""The cluster bootstrap: does it cover, is it the same for the same seed, what does it draw?"""

from __future__ import annotations

import numpy as np
import pytest

from medal_judges.eval.bootstrap import (
    Clusters,
    choose_clusters,
    interval_of,
    resample_weights,
    with_intervals,
)
from medal_judges.eval.correlation import Floats, correlation_statistic, correlations
from medal_judges.eval.results import Estimate


def mean_statistic(values: Floats):  # type: ignore[no-untyped-def]
    return lambda weights: {"mean": weights @ values / weights.sum(axis=1)}


def covered(clusters: Clusters, values: Floats, rng: np.random.Generator) -> bool:
    estimate = {"mean": Estimate(float(values.mean()))}
    found = with_intervals(estimate, mean_statistic(values), clusters, resamples=400, rng=rng)
    low, high = found["mean"].low, found["mean"].high
    assert low is not None
    assert high is not None
    return low <= 0 <= high


def test_clustered_intervals_cover_and_unclustered_ones_do_not() -> None:
    """30 chatbots of 10 dialogues, half of the variance between chatbots; the true mean is 0."""
    rng = np.random.default_rng(7)
    by_bot = Clusters("chatbot", tuple(f"b{i // 10}" for i in range(300)))
    by_row = Clusters("conversation", tuple(f"g{i}" for i in range(300)))
    hits = {"bot": 0, "row": 0}
    for _ in range(300):
        values = np.repeat(rng.normal(size=30), 10) + rng.normal(size=300)
        hits["bot"] += covered(by_bot, values, rng)
        hits["row"] += covered(by_row, values, rng)
    assert 0.90 <= hits["bot"] / 300 <= 0.98
    assert hits["row"] / 300 < 0.75


def test_correlation_intervals_cover() -> None:
    """Spearman of a bivariate normal at r = 0.5 is 6/pi asin(r/2) in the population."""
    truth = 6 / np.pi * np.arcsin(0.25)
    rng = np.random.default_rng(11)
    clusters = Clusters("conversation", tuple(map(str, range(120))))
    hits = 0
    for _ in range(150):
        x = rng.normal(size=120)
        y = 0.5 * x + np.sqrt(0.75) * rng.normal(size=120)
        found = with_intervals(
            {"spearman": correlations(x, y)["spearman"]},
            correlation_statistic(x, y),
            clusters,
            resamples=300,
            rng=rng,
        )["spearman"]
        hits += (found.low or 0) <= truth <= (found.high or 0)
    assert 0.89 <= hits / 150 <= 0.99


def sample() -> tuple[Floats, Floats, list[str]]:
    rng = np.random.default_rng(0)
    human = rng.normal(size=70)
    return human, human + rng.normal(size=70), [f"bot-{i % 7}" for i in range(70)]


def intervals(seed: int, order: np.ndarray | None = None) -> dict[str, Estimate]:  # type: ignore[type-arg]
    human, score, bots = sample()
    order = np.arange(70) if order is None else order
    human, score, bots = human[order], score[order], [bots[i] for i in order]
    return with_intervals(
        correlations(human, score, bots),
        correlation_statistic(human, score, bots),
        choose_clusters(bots, bots),
        resamples=200,
        rng=np.random.default_rng(seed),
    )


def test_same_seed_same_interval_and_zero_is_a_seed() -> None:
    assert intervals(0) == intervals(0)
    assert intervals(0) != intervals(1)


def test_row_order_does_not_change_the_interval() -> None:
    order = np.random.default_rng(3).permutation(70)
    one, two = intervals(0), intervals(0, order)
    for name in one:
        assert one[name].low == pytest.approx(two[name].low, abs=1e-9)
        assert one[name].high == pytest.approx(two[name].high, abs=1e-9)


def test_few_or_unnamed_chatbots_fall_back_to_conversations() -> None:
    groups = [f"g{i}" for i in range(10)]
    assert choose_clusters([f"b{i % 5}" for i in range(10)], groups).unit == "chatbot"
    assert choose_clusters([f"b{i % 4}" for i in range(10)], groups).unit == "conversation"
    unnamed = choose_clusters([None, *[f"b{i}" for i in range(9)]], groups)
    assert unnamed == Clusters("conversation", tuple(groups))


def test_whole_clusters_are_drawn() -> None:
    clusters = Clusters("chatbot", ("b", "a", "b", "a", "c"))
    (weights,) = resample_weights(clusters, 50, np.random.default_rng(0))
    assert weights.shape == (50, 5)
    assert (weights[:, 0] == weights[:, 2]).all()
    assert (weights[:, 1] == weights[:, 3]).all()
    assert (weights[:, [0, 1, 4]].sum(axis=1) == 3).all()


def test_blocks_do_not_change_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    clusters = Clusters("chatbot", tuple(f"b{i}" for i in range(10)))
    whole = np.concatenate(list(resample_weights(clusters, 50, np.random.default_rng(0))))
    monkeypatch.setattr("medal_judges.eval.bootstrap._CHUNK", 70)
    parts = list(resample_weights(clusters, 50, np.random.default_rng(0)))
    assert len(parts) == 8
    assert (np.concatenate(parts) == whole).all()


def test_undefined_resamples_are_counted() -> None:
    found = interval_of(np.array([np.nan, 1.0, 2.0, 3.0]))
    assert found.undefined == 0.25
    assert interval_of(np.array([np.nan])).low is None


@pytest.mark.parametrize(("names", "resamples"), [(("a", "a"), 10), (("a", "b"), 0)])
def test_no_interval_for_one_cluster_or_no_resamples(
    names: tuple[str, ...], resamples: int
) -> None:
    found = with_intervals(
        {"mean": Estimate(1.5)},
        mean_statistic(np.array([1.0, 2.0])),
        Clusters("chatbot", names),
        resamples=resamples,
        rng=np.random.default_rng(0),
    )
    assert found == {"mean": Estimate(1.5)}
