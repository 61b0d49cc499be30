"""Prediction-powered inference against ppi-python, and by simulation where it has no answer."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
from tests.stats.samples import sample

from medal_judges.stats.correlation import Floats
from medal_judges.stats.intervals import Estimate
from medal_judges.stats.means import estimate_share, subtract_means
from medal_judges.stats.ppi import (
    LabelledSample,
    correct_means,
    corrected_difference,
    corrected_mean,
    corrected_share,
)


@pytest.fixture(scope="module")
def library() -> ModuleType:
    with warnings.catch_warnings():  # it silences every warning when it is imported
        import ppi_py
    return ppi_py


def rows(
    rng: np.random.Generator, n: int, labelled: int, r: float = 0.7, bias: float = 0.0
) -> LabelledSample:
    """People's labels are standard normal, the judge's correlate with them at ``r``."""
    human = rng.normal(size=n)
    score = r * human + np.sqrt(1 - r * r) * rng.normal(size=n) + bias
    return LabelledSample(sample(score), _some(human, labelled, rng))


def _some(labels: Floats, count: int, rng: np.random.Generator) -> Floats:
    given = np.full(len(labels), np.nan)
    drawn = rng.choice(len(labels), count, replace=False)
    given[drawn] = labels[drawn]
    return given


@pytest.mark.parametrize("count", [20, 300, 4000])
def test_the_estimate_is_the_librarys(library: ModuleType, count: int) -> None:
    case = rows(np.random.default_rng(count), 20_000, count)
    given = case.is_labelled
    y, f, rest = (
        case.labels[given],
        case.sample.scores[given],
        case.sample.scores[~given],
    )
    found = corrected_mean(case)
    # the library has the labelled rows apart
    lam = correct_means([case], None).slope / (1 + count / len(rest))
    expected = library.ppi_mean_pointestimate(y, f, rest, lam=lam)
    assert found.value == pytest.approx(float(expected[0]), abs=1e-12)
    low, high = library.ppi_mean_ci(y, f, rest, alpha=0.05)
    if count == 4000:  # many labels: its tuning and its normal interval are ours
        assert (found.low, found.high) == pytest.approx(
            (float(low[0]), float(high[0])), abs=0.002
        )
    else:  # few: ours is wider than the normal's
        ours = (found.high or 0) - (found.low or 0)
        assert 0.95 < ours / (high[0] - low[0]) < 1.6


def coverage(
    draw: Callable[[np.random.Generator], Estimate], truth: float, runs: int
) -> float:
    rng = np.random.default_rng(11)
    held = []
    for _ in range(runs):
        found = draw(rng)
        assert found.low is not None and found.high is not None, found.reason
        held.append(found.low <= truth <= found.high)
    return float(np.mean(held))


@pytest.mark.parametrize("count", [5, 10, 20, 100])
@pytest.mark.parametrize("r", [0.2, 0.9])
def test_few_labels_hold(count: int, r: float) -> None:
    held = coverage(lambda g: corrected_mean(rows(g, 200, count, r)), 0.0, 400)
    assert held >= 0.92


def test_the_librarys_interval_is_too_narrow_for_ten_labels(
    library: ModuleType,
) -> None:
    def theirs(rng: np.random.Generator) -> Estimate:
        case = rows(rng, 200, 10)
        given = case.is_labelled
        scores = case.sample.scores
        low, high = library.ppi_mean_ci(
            case.labels[given], scores[given], scores[~given], alpha=0.05
        )
        return Estimate(0.0, float(low[0]), float(high[0]))

    assert coverage(theirs, 0.0, 400) < 0.92


def test_clusters_are_heeded() -> None:
    """60 users with 1 to 9 dialogues; a quarter of the users are labelled."""

    def draw(rng: np.random.Generator, told: bool) -> Estimate:
        user = np.repeat(np.arange(60), rng.integers(1, 10, 60))
        human = rng.normal(size=60)[user] + rng.normal(size=len(user))
        score = (
            human + 0.5 * rng.normal(size=60)[user] + 0.5 * rng.normal(size=len(user))
        )
        asked = np.isin(user, rng.choice(60, 15, replace=False))
        clusters = [str(u) for u in user] if told else None
        return corrected_mean(
            LabelledSample(sample(score, clusters), np.where(asked, human, np.nan))
        )

    assert coverage(lambda g: draw(g, True), 0.0, 400) >= 0.92
    assert coverage(lambda g: draw(g, False), 0.0, 400) < 0.90


@pytest.mark.parametrize("share", [0.02, 0.05, 0.3])
@pytest.mark.parametrize("count", [10, 50])
def test_shares_hold(share: float, count: int) -> None:
    def draw(rng: np.random.Generator) -> Estimate:
        human = (rng.random(400) < share).astype(float)
        wrong = rng.random(400) < np.where(human > 0, 0.2, 0.04)
        score = np.where(wrong, 1 - human, human)
        return corrected_share(LabelledSample(sample(score), _some(human, count, rng)))

    assert coverage(draw, share, 400) >= 0.925


def test_a_judge_that_favours_a_system_misleads_nobody() -> None:
    """Both systems are equal to people; the judge gives the first 0.3 more."""

    def corrected(rng: np.random.Generator) -> Estimate:
        return corrected_difference(
            rows(rng, 300, 30, bias=0.3), rows(rng, 300, 30)
        ).estimate

    def plain(rng: np.random.Generator) -> Estimate:
        favoured, other = rows(rng, 300, 30, bias=0.3), rows(rng, 300, 30)
        return subtract_means(favoured.sample, other.sample).estimate

    assert coverage(corrected, 0.0, 300) >= 0.92
    assert coverage(plain, 0.0, 300) < 0.2


# -- what is small, empty or the same ---------------------------------------------------------

SCORES = np.array([0, 1, 0, 0, 1, 1, 0, 1, 0, 0, 0, 1] * 10, dtype=float)


def labelled(values: Floats, count: int) -> LabelledSample:
    labels = values.copy()
    labels[count:] = np.nan
    return LabelledSample(sample(SCORES), labels)


def test_labels_that_are_the_judges_scores() -> None:
    """They may hide a rate of errors of 3.7 / n, which a scale turns into an interval."""
    found = corrected_share(labelled(SCORES, 20))
    whole = estimate_share(sample(SCORES))
    assert found.value == pytest.approx(whole.value)
    assert found.low is not None and found.high is not None and found.value is not None
    assert found.high - found.value > 0.15 and found.value - found.low > 0.15
    unknown = corrected_mean(labelled(SCORES, 20))
    assert unknown.low is None and "follow from the judge's scores" in (
        unknown.reason or ""
    )
    same = corrected_difference(
        labelled(SCORES, 20), labelled(SCORES, 20), (0.0, 1.0)
    ).estimate
    assert same.value == pytest.approx(0) and same.p_value == pytest.approx(1)
    assert same.low is not None and same.low < -0.15
