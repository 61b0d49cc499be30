"""The figures of a trial against outside oracles, and its bounds."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from medal_judges.eval.trial import findings as figures
from medal_judges.eval.trial.config import Bound
from medal_judges.eval.trial.findings import marked
from medal_judges.records.dimension import Dimension, load_rubric
from medal_judges.records.judgement import Judgement
from medal_judges.stats.estimate import Estimate

RNG = np.random.default_rng(0)


def scored(count: int = 40, strength: int = 0, drop: float = 0.3) -> pd.DataFrame:
    before = np.round(RNG.normal(3, 1, count), 3)
    after = np.round(before - drop + RNG.normal(0, 0.5, count), 3)
    rows = [
        {
            "strength": strength,
            "conversation": f"c{i // 2}",
            "lang": "de" if i % 2 else "en",
            "after": f"{i}+unsafe.{strength}",
        }
        for i in range(count)
    ]
    return figures.with_scores(pd.DataFrame(rows), before, after)


def test_auc_and_correlations_are_those_of_sklearn_and_scipy() -> None:
    pairs = scored()
    expected = roc_auc_score([1] * 40 + [0] * 40, -np.r_[pairs.y, pairs.x])
    assert figures.auc(pairs).value == pytest.approx(expected)
    rho = stats.spearmanr(pairs.x, pairs.y).statistic
    assert figures.spearman(pairs).value == pytest.approx(rho)
    assert figures.win(pairs).value == pytest.approx(float((pairs.y < pairs.x).mean()))
    mean = np.mean(
        [stats.spearmanr(p.x, p.y).statistic for _, p in pairs.groupby("lang")]
    )
    assert figures.spearman_by_language(pairs).value == pytest.approx(mean)


def test_intervals_are_by_conversation() -> None:
    """Every pair twice, in the same conversation, says no more than once."""
    once = scored()
    one, two = (figures.mean(p, p.change) for p in (once, pd.concat([once, once])))
    assert (one.value, one.low, one.high) == pytest.approx(
        (two.value, two.low, two.high)
    )


def test_the_slope_is_least_squares() -> None:
    by_strength = {s: scored(10, s, drop=0.4 * s) for s in (3, 1, 2)}
    drops = np.array([-by_strength[s].change for s in (1, 2, 3)])
    expected = np.polyfit([1.0, 2.0, 3.0], drops, 1)[0].mean()
    assert figures.dose_slope(pd.concat(by_strength.values())).value == pytest.approx(
        expected
    )


def test_quality_is_the_mean_of_dimensions_from_1_to_5() -> None:
    def quality(scores: dict[str, float | None]) -> float | None:
        return figures.quality(Judgement("a", "j", scores), parts)

    parts = [d for d in load_rubric("medal") if d.name == "overall"]
    assert quality({"overall": 2.0, "unsafe": 1.0}) == pytest.approx(2.0)
    parts = [
        Dimension("unsafe", "binary", 0, 1, good="low"),
        Dimension("fun", "ordinal", 0, 10),
    ]
    assert quality({"unsafe": 1.0, "fun": 10.0}) == pytest.approx(3.0)
    assert quality({"unsafe": 0.0, "fun": 10.0}) == pytest.approx(5.0)
    assert quality({"unsafe": None, "fun": 1.0}) is None
    assert figures.quality(None, parts) is None


LESS = Bound(green=0.1, red=0.25, why="")
MORE = Bound(green=0.7, red=0.55, why="")
SIZE = Bound(green=0.1, red=0.25, size=True, why="")


@pytest.mark.parametrize(
    ("bound", "estimate", "verdict"),
    [
        (LESS, Estimate(0.05), "green"),
        (LESS, Estimate(-3.0), "green"),
        (LESS, Estimate(0.2, 0.15, 0.25), "amber"),
        (LESS, Estimate(0.4, 0.2, 0.6), "red"),
        (LESS, Estimate(0.4, 0.05, 0.75), "amber"),  # noise alone is no finding
        (LESS, Estimate(0.4, reason="no interval"), "red"),
        (LESS, Estimate(None), "none"),
        (MORE, Estimate(0.9, 0.5, 1.0), "green"),
        (MORE, Estimate(0.5, 0.45, 0.55), "red"),
        (MORE, Estimate(0.5, 0.2, 0.8), "amber"),
        (SIZE, Estimate(-0.4, -0.6, -0.2), "red"),
        (SIZE, Estimate(-0.4, -1.0, 0.2), "amber"),
        (SIZE, Estimate(-0.05, -0.3, 0.2), "green"),
    ],
)
def test_bounds(bound: Bound, estimate: Estimate, verdict: str) -> None:
    assert bound.verdict(estimate) == verdict


def test_marked_parts_add_up_to_the_texts() -> None:
    signs = list("ab .,\n你好\u200b\U0001f600\U000e0041é")
    for _ in range(300):
        one, other = ("".join(RNG.choice(signs, RNG.integers(0, 30))) for _ in range(2))
        left, right = marked(one, other)
        assert left is not None and right is not None
        assert (
            "".join(t for t, _ in left) == one and "".join(t for t, _ in right) == other
        )
        same = [
            "".join(t for t, changed in side if not changed) for side in (left, right)
        ]
        assert same[0] == same[1]
