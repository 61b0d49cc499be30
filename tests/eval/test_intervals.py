"""Intervals: do they hold the true value for few chatbots, and what can have none?

The whole simulation is benchmarks/interval_coverage.py, its table docs/explanation/intervals.md.
"""

from collections import Counter

import numpy as np
import pytest
from scipy import stats
from tests.exact import exact

from medal_judges.eval.metaeval.metrics import classification_statistic
from medal_judges.stats.correlation import (
    Floats,
    Statistic,
    correlation_statistic,
    weighted_pearson,
    weighted_spearman,
)
from medal_judges.stats.difference import paired_difference
from medal_judges.stats.intervals import (
    Clusters,
    Estimate,
    choose_clusters,
    estimate_metrics,
    jackknife,
)

BOTS, SIZE, R = 5, 20, 0.545
BOT = np.repeat(np.arange(BOTS), SIZE)
BY_BOT = Clusters("chatbot", tuple(f"b{i}" for i in BOT))


def mean_statistic(values: Floats) -> Statistic:
    return lambda weights: {"mean": weights @ values / weights.sum(axis=1)}


def judged(rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """People and two equal judges of 5 chatbots with 20 dialogues each. Chatbots have 15% of the
    variance, in which people and a judge correlate at 0.8, as at 0.5 in the rest: 0.545 in all."""
    bot, row = rng.normal(size=BOTS), rng.normal(size=BOTS * SIZE)

    def mix(of_bot: Floats, of_row: Floats) -> Floats:
        return np.asarray(np.sqrt(0.15) * of_bot[BOT] + np.sqrt(0.85) * of_row)

    def judge() -> Floats:
        own = 0.8 * bot + 0.6 * rng.normal(size=BOTS)
        return mix(own, 0.5 * row + np.sqrt(0.75) * rng.normal(size=row.size))

    return mix(bot, row), judge(), judge()


def percentiles(
    statistic: Statistic, rng: np.random.Generator
) -> dict[str, tuple[float, float]]:
    """The percentile cluster bootstrap, which intervals were made of before."""
    weights = rng.multinomial(BOTS, np.full(BOTS, 1 / BOTS), size=300)[:, BOT].astype(
        float
    )
    return {
        name: tuple(np.nanpercentile(values, [2.5, 97.5]))
        for name, values in statistic(weights).items()
    }


@pytest.mark.slow
def test_intervals_hold_the_truth_at_five_chatbots_and_percentiles_do_not() -> None:
    normal = stats.multivariate_normal([0, 0], [[1, R], [R, 1]])
    cut = stats.norm.isf(0.3)
    truth = {
        "spearman": 6 / np.pi * np.arcsin(R / 2),
        "pearson": R,
        "kendall": 2 / np.pi * np.arcsin(R),
        "pairwise": 0.5 + np.arcsin(R) / np.pi,
        "f1_present": normal.cdf([-cut, -cut]) / 0.3,
    }
    rng = np.random.default_rng(20)
    held: Counter[str] = Counter()
    before: Counter[str] = Counter()
    for _ in range(250):
        human, score, _ = judged(rng)
        labels, flags = (
            (human > cut).astype(float)[:, None],
            (score > cut).astype(float),
        )
        found: dict[str, Estimate] = {}
        for statistic in (
            correlation_statistic(exact(human), exact(score)),
            classification_statistic(flags, labels),
        ):
            found |= estimate_metrics(statistic, BY_BOT, "undefined")
            for name, (low, high) in percentiles(statistic, rng).items():
                before[name] += low <= truth.get(name, np.nan) <= high
        for name, value in truth.items():
            low, high = found[name].low, found[name].high
            assert low is not None and high is not None
            held[name] += low <= value <= high
    for name in truth:
        assert 0.92 <= held[name] / 250 <= 0.995, name
        assert before[name] / 250 < 0.90, name


def test_equal_judges_differ_in_one_of_twenty_comparisons() -> None:
    rng = np.random.default_rng(3)
    significant = before = 0
    for _ in range(400):
        human, one, two = judged(rng)

        def of(score: Floats, human: Floats = human) -> Statistic:
            return lambda weights: {
                "spearman": weighted_spearman(exact(human), exact(score), weights)
            }

        found = paired_difference(of(one), of(two), "spearman", BY_BOT).estimate
        assert found.p_value is not None and found.low is not None
        assert (found.p_value < 0.05) == (found.low > 0 or (found.high or 0) < 0)
        significant += found.p_value < 0.05
        both = of(one), of(two)
        drawn = percentiles(
            lambda w, both=both: {"d": both[0](w)["spearman"] - both[1](w)["spearman"]},  # type: ignore[misc]
            rng,
        )["d"]
        before += not drawn[0] <= 0 <= drawn[1]
    assert 0.02 <= significant / 400 <= 0.07
    assert before / 400 > 0.08


def test_whole_clusters_count() -> None:
    """30 chatbots of 10 dialogues, half of the variance between chatbots; the true mean is 0."""
    rng = np.random.default_rng(7)
    by_bot = Clusters("chatbot", tuple(f"b{i // 10}" for i in range(300)))
    by_row = Clusters("conversation", tuple(f"g{i}" for i in range(300)))
    hits = {"bot": 0, "row": 0}
    for _ in range(200):
        values = np.repeat(rng.normal(size=30), 10) + rng.normal(size=300)
        for name, clusters in (("bot", by_bot), ("row", by_row)):
            found = estimate_metrics(mean_statistic(values), clusters, "")["mean"]
            assert found.low is not None and found.high is not None
            hits[name] += found.low <= 0 <= found.high
    assert 0.92 <= hits["bot"] / 200 <= 0.99
    assert hits["row"] / 200 < 0.75


def test_intervals_of_single_rows_hold_the_truth() -> None:
    """Spearman of a bivariate normal at r = 0.5 is 6/pi asin(r/2) in the population."""
    truth = 6 / np.pi * np.arcsin(0.25)
    rng = np.random.default_rng(11)
    for rows, tries in ((12, 250), (120, 150)):
        clusters = Clusters("conversation", tuple(map(str, range(rows))))
        hits = 0
        for _ in range(tries):
            x = rng.normal(size=rows)
            y = 0.5 * x + np.sqrt(0.75) * rng.normal(size=rows)
            statistic = correlation_statistic(exact(x), exact(y))
            found = estimate_metrics(statistic, clusters, "", ["spearman"])["spearman"]
            hits += (found.low or 0) <= truth <= (found.high or 0)
        assert 0.92 <= hits / tries <= 0.99


def test_the_jackknife_of_a_mean_is_the_standard_error_of_the_clusters_means() -> None:
    values = np.random.default_rng(0).normal(size=40)
    clusters = Clusters("chatbot", tuple(f"b{i // 5}" for i in range(40)))
    spread = jackknife(mean_statistic(values), clusters)["mean"]
    assert spread.error == pytest.approx(stats.sem(values.reshape(8, 5).mean(axis=1)))


def test_crossed_contexts_add_their_variance_once() -> None:
    """Eight chatbots in twelve contexts: chatbots + contexts - single rows (Cameron et al.)."""
    rng = np.random.default_rng(1)
    table = (
        rng.normal(size=(8, 1))
        + 2 * rng.normal(size=(1, 12))
        + rng.normal(size=(8, 12))
    )
    bots = [f"b{i}" for i in range(8) for _ in range(12)]
    contexts = [f"c{k}" for _ in range(8) for k in range(12)]
    clusters = choose_clusters(bots, contexts).beside
    assert clusters is not None and clusters.crossed == tuple(contexts)
    spread = jackknife(mean_statistic(table.ravel()), clusters)["mean"]
    parts = [stats.sem(part) ** 2 for part in (table.mean(axis=1), table.mean(axis=0))]
    expected = sum(parts) - stats.sem(table.ravel()) ** 2
    assert spread.error**2 == pytest.approx(expected)
    assert spread.error**2 > parts[0]


def test_these_chatbots_have_conversations_or_contexts_as_the_sample() -> None:
    groups = [f"g{i}" for i in range(10)]
    bots = [f"b{i % 3}" for i in range(10)]
    assert choose_clusters(bots, groups) == Clusters(
        "conversation", tuple(groups), strata=tuple(bots)
    )
    for unnamed in (["b"] * 10, [None, *bots[1:]]):
        found = choose_clusters(unnamed, groups)
        assert found == Clusters("conversation", tuple(groups))
    assert choose_clusters(["a", "a", "b"], ["1", "2", "1"]).unit == "context"
    five = choose_clusters([f"b{i % 5}" for i in range(10)], groups)
    assert (
        five.beside is not None
        and five.beside.unit == "chatbot"
        and five.beside.beside is None
    )


def test_fixed_chatbots_have_the_standard_error_of_a_stratified_mean() -> None:
    """The mean of 3 chatbots of unequal size: the variance is within them only; a chatbot with one
    conversation counts with the largest."""
    values = np.random.default_rng(0).normal(size=60) + np.repeat(
        [0.0, 5.0, 9.0], [10, 20, 30]
    )
    bots = np.repeat(["a", "b", "c"], [10, 20, 30]).tolist()
    clusters = choose_clusters(bots, [f"g{i}" for i in range(60)])
    spread = jackknife(mean_statistic(values), clusters)["mean"]
    parts = np.split(values, [10, 30])
    assert spread.error**2 == pytest.approx(
        sum(len(v) ** 2 * stats.sem(v) ** 2 for v in parts) / 3600
    )
    alone = choose_clusters([*bots[:-1], "d"], [f"g{i}" for i in range(60)])
    assert jackknife(mean_statistic(values), alone)["mean"].error == pytest.approx(
        spread.error
    )


def test_intervals_for_these_chatbots_hold_the_truth_of_these_chatbots() -> None:
    """Chatbots that differ as much as their dialogues, drawn once; Pearson of the mixture."""
    rng = np.random.default_rng(4)
    people, judge = rng.normal(size=(2, BOTS))
    (xx, xy), (_, yy) = np.cov(people, judge, bias=True)
    truth = (0.5 + xy) / np.sqrt((1 + xx) * (1 + yy))
    clusters = choose_clusters(
        [f"b{i}" for i in BOT], [f"g{i}" for i in range(BOT.size)]
    )
    held = 0
    for _ in range(300):
        row, noise = rng.normal(size=(2, BOT.size))
        x, y = people[BOT] + row, judge[BOT] + 0.5 * row + np.sqrt(0.75) * noise
        pearson: Statistic = lambda w, x=x, y=y: {"pearson": weighted_pearson(x, y, w)}  # type: ignore[misc] # noqa: E731
        found = estimate_metrics(pearson, clusters, "undefined")["pearson"]
        assert found.low is not None and found.high is not None
        held += found.low <= truth <= found.high
    assert 0.92 <= held / 300 <= 0.98
