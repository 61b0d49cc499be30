"""The figures of a trial against outside oracles, and its bounds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from medal_judges.eval.trial.config import Bound
from medal_judges.eval.trial.edits import VersionPair
from medal_judges.eval.trial.findings import dose_slope, family_of
from medal_judges.eval.trial.pairs import QualityScale, ScoredPairs
from medal_judges.eval.trial.worst import marked
from medal_judges.records.dimension import Dimension, load_rubric
from medal_judges.records.judgement import Judgement
from medal_judges.stats.estimate import Estimate

RNG = np.random.default_rng(0)


def scored(count: int = 40, strength: int = 0, drop: float = 0.3) -> ScoredPairs:
    before = RNG.normal(3, 1, count)
    after = before - drop + RNG.normal(0, 0.5, count)
    pairs = [
        VersionPair("unsafe", strength, f"c{i // 2}", "de" if i % 2 else "en", f"{i}",
                    f"{i}+unsafe.{strength}")
        for i in range(count)
    ]  # fmt: skip
    return ScoredPairs(tuple(pairs), before, after, count)


def test_auc_and_correlations_are_those_of_sklearn_and_scipy() -> None:
    pairs = scored()
    labels = np.r_[np.ones(40), np.zeros(40)]
    expected = roc_auc_score(labels, -np.r_[pairs.after, pairs.before])
    assert pairs.auc().value == pytest.approx(expected)
    assert pairs.spearman().value == pytest.approx(
        stats.spearmanr(pairs.before, pairs.after).statistic
    )
    assert pairs.win().value == pytest.approx(float((pairs.after < pairs.before).mean()))
    by_lang = [pairs.where(lambda p, lang=lang: p.lang == lang) for lang in ("en", "de")]  # type: ignore[misc]
    mean = np.mean([stats.spearmanr(p.before, p.after).statistic for p in by_lang])
    assert pairs.spearman_by_language().value == pytest.approx(mean)


def test_intervals_are_by_conversation() -> None:
    """Every pair twice, in the same conversation, says no more than once."""
    once = scored()
    twice = ScoredPairs(once.pairs * 2, np.tile(once.before, 2), np.tile(once.after, 2), 80)
    one, two = once.mean(once.shift), twice.mean(twice.shift)
    assert (one.value, one.low, one.high) == pytest.approx((two.value, two.low, two.high))


def test_the_slope_is_least_squares() -> None:
    by_strength = {s: scored(10, s, drop=0.4 * s) for s in (1, 2, 3)}
    x = np.array([1.0, 2.0, 3.0])
    slopes = [np.polyfit(x, [-by_strength[s].shift[i] for s in (1, 2, 3)], 1)[0] for i in range(10)]
    assert dose_slope(by_strength).value == pytest.approx(np.mean(slopes))


def test_quality_is_overall_or_the_mean_of_what_there_is() -> None:
    medal = QualityScale(tuple(load_rubric("medal")))
    assert medal.text == "overall"
    judgement = Judgement("a", "j", {"overall": 2.0, "unsafe": 1.0})
    assert medal.of(judgement) == pytest.approx(2.0)
    parts = (Dimension("unsafe", "binary", 0, 1, good="low"), Dimension("fun", "ordinal", 0, 10))
    both = QualityScale(parts)
    assert both.of(Judgement("a", "j", {"unsafe": 1.0, "fun": 10.0})) == pytest.approx(3.0)
    assert both.of(Judgement("a", "j", {"unsafe": 0.0, "fun": 10.0})) == pytest.approx(5.0)
    assert both.of(Judgement("a", "j", {"unsafe": None, "fun": 1.0})) is None
    assert both.of(None) is None


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
        assert "".join(t for t, _ in left) == one and "".join(t for t, _ in right) == other
        same = ["".join(t for t, changed in side if not changed) for side in (left, right)]
        assert same[0] == same[1]


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("openai:gpt-4.1-2025-04-14", "gpt"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen"),
        ("embedded:smollm2", "smollm"),
        ("lmsys/vicuna-13b-v1.5", "llama"),
        ("meta-llama/Llama-3.1-8B", "llama"),
        ("embedded:minilm", None),
        ("person", None),
        ("", None),
    ],
)
def test_families_of_models(name: str, family: str | None) -> None:
    assert family_of(name) == family
