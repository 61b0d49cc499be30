"""Differences between systems: pairing, parts, power."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from medal_judges.stats.correlation import Floats
from medal_judges.stats.equal import Values
from medal_judges.stats.systems import SystemRows, system_difference


def system_rows(scores: Floats, *about: Any) -> SystemRows:
    return SystemRows(Values(scores, 1e-5), *about)


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{i}" for i in range(count)]


def test_unpaired_and_paired_are_scipys_tests() -> None:
    rng = np.random.default_rng(1)
    hard = rng.normal(size=200)
    one, two = hard + rng.normal(0.2, 0.5, 200), hard + rng.normal(0, 0.5, 200)
    paired = system_difference(
        system_rows(one, names("c", 200)), system_rows(two, names("c", 200))
    )
    assert (
        paired.pairing == "paired"
        and paired.shared == 200
        and paired.rows == (200, 200)
    )
    test = stats.ttest_rel(one, two)
    assert paired.judge.estimate.p_value == pytest.approx(test.pvalue, rel=0.15)
    apart = system_difference(
        system_rows(one, names("a", 200)), system_rows(two, names("b", 200))
    )
    assert apart.pairing == "unpaired" and apart.shared == 0
    welch = stats.ttest_ind(one, two, equal_var=False)
    assert apart.judge.estimate.p_value == pytest.approx(welch.pvalue, rel=0.05)
    assert (apart.judge.smallest_detectable or 0) > 1.8 * (
        paired.judge.smallest_detectable or 0
    )


def test_wins_ties_and_losses() -> None:
    one, two = np.array([1.0, 2, 3, 4, 5]), np.array([1.0, 1, 4, 3, 2])
    shared = system_difference(
        system_rows(one, names("c", 5)), system_rows(two, names("c", 5))
    )
    assert (shared.wins, shared.ties, shared.losses) == (3, 1, 1)
    apart = system_difference(
        system_rows(one, names("a", 5)), system_rows(two, names("b", 5))
    )
    assert (apart.wins, apart.ties, apart.losses) == (0, 0, 0)


def test_repeats_of_a_context_are_one_context() -> None:
    rng = np.random.default_rng(2)
    hard = rng.normal(size=30)
    context = np.repeat(np.arange(30), 10)
    systems = [
        system_rows(hard[context] + rng.normal(size=300), [f"{s}{c}" for c in context])
        for s in ("a", "b")
    ]
    clustered = system_difference(*systems).judge.estimate
    alone = [system_rows(s.scores, names(f"{k} ", 300)) for k, s in enumerate(systems)]
    naive = system_difference(*alone).judge.estimate
    assert clustered.value == pytest.approx(naive.value)
    assert width(clustered.low, clustered.high) > 1.7 * width(naive.low, naive.high)


def width(low: float | None, high: float | None) -> float:
    assert low is not None and high is not None
    return high - low


def test_an_easy_context_asked_more_often_of_one_system_favours_nobody() -> None:
    """Both are equal in each context; one was asked the easy one ten times as often."""
    easy, hard = ["easy"] * 20 + ["hard"] * 2, ["easy"] * 2 + ["hard"] * 20
    more = [*names("c", 6)]
    score = {"easy": 5.0, "hard": 1.0, **dict.fromkeys(more, 3.0)}
    rows = [
        system_rows(np.array([score[c] for c in contexts]), contexts)
        for contexts in (easy + more, hard + more)
    ]
    assert system_difference(*rows).judge.estimate.value == pytest.approx(0)


def test_partly_paired_is_between() -> None:
    rng = np.random.default_rng(3)
    hard = {
        c: rng.normal() for c in (*names("c", 100), *names("a", 100), *names("b", 100))
    }

    def rows(own: str) -> SystemRows:
        contexts = [*names("c", 100), *names(own, 100)]
        return system_rows(
            np.array([hard[c] + rng.normal() * 0.3 for c in contexts]), contexts
        )

    one, two = rows("a"), rows("b")
    part = system_difference(one, two)
    assert (
        part.pairing == "partly paired"
        and part.rows == (200, 200)
        and part.left_out == (0, 0)
    )
    only = [system_rows(s.scores[:100], list(s.contexts)[:100]) for s in (one, two)]
    paired = system_difference(*only)
    assert width(part.judge.estimate.low, part.judge.estimate.high) < width(
        paired.judge.estimate.low, paired.judge.estimate.high
    )
    one_sided = system_difference(one, only[1])
    assert one_sided.rows == (100, 100) and one_sided.left_out == (100, 0)
    assert one_sided.judge.estimate.value == pytest.approx(paired.judge.estimate.value)


def test_labels_correct_and_too_few_say_so() -> None:
    rng = np.random.default_rng(4)

    def rows(bias: float, labelled: int, system: str) -> SystemRows:
        human = rng.normal(size=200)
        labels = np.where(np.arange(200) < labelled, human, np.nan)
        score = human + rng.normal(size=200) * 0.3 + bias
        return system_rows(score, names(system, 200), None, labels)

    found = system_difference(rows(1.0, 60, "a"), rows(0.0, 60, "b"))
    assert found.judge.estimate.low is not None and found.judge.estimate.low > 0.6
    assert found.corrected is not None and found.best_estimate is found.corrected
    assert abs(found.corrected.estimate.value or 9) < 0.3
    few = system_difference(rows(0.0, 60, "a"), rows(0.0, 3, "b")).corrected
    assert few is not None and few.estimate.value is None
    assert (
        few.estimate.reason
        == "not corrected: 3 labelled rows, fewer than 5, of the second"
    )


def test_the_smallest_difference_is_found_in_80_of_100_cases() -> None:
    rng = np.random.default_rng(5)

    def draw(apart: float) -> Floats:
        return rng.normal(apart, 1, 60)

    found = [
        system_difference(
            system_rows(draw(0), names("a", 60)), system_rows(draw(0), names("b", 60))
        ).judge.smallest_detectable
        for _ in range(40)
    ]
    smallest = float(np.mean([value or 0 for value in found]))
    hits = [
        stats.ttest_ind(draw(smallest), draw(0), equal_var=False).pvalue < 0.05
        for _ in range(600)
    ]
    assert 0.75 < np.mean(hits) < 0.85


def test_intervals_hold_in_simulation_and_labels_undo_a_judges_favour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A small benchmarks/comparison_coverage.py, whose table is docs/results/comparison.md."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    coverage = importlib.import_module("comparison_coverage")
    for design in ("paired", "repeats"):
        plain = coverage.simulate(coverage.Cell(2, 50, design), 200)
        assert plain["difference"] >= 0.90
        assert plain["mean"] >= 0.90 and plain["share"] >= 0.90
        biased = coverage.simulate(coverage.Cell(2, 200, f"{design}, biased", 20), 200)
        assert biased["plain"] < 0.5 < 0.90 <= biased["corrected"]
