"""The human ceiling: by hand, simulated, and on people's data."""

import numpy as np
import pytest
from scipy.stats import spearmanr
from tests.exact import exact

from medal_judges.eval.metaeval.metrics import ceiling_estimates, ceiling_statistic
from medal_judges.stats.correlation import Floats
from medal_judges.stats.intervals import Clusters


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def clusters(values: Floats) -> Clusters:
    return Clusters("conversation", tuple(map(str, range(len(values)))))


def test_one_against_the_mean_of_the_others_averaged_over_positions() -> None:
    values = np.round(
        np.random.default_rng(2).normal(3, 1, (40, 1)) + rng().normal(0, 1, (40, 3))
    )
    expected = []
    for k in range(3):
        others = np.delete(values, k, axis=1).mean(axis=1)
        expected.append(spearmanr(values[:, k], others).statistic)
    found = ceiling_estimates(exact(values), "ordinal", clusters(values))["spearman"]
    assert found.value == pytest.approx(np.mean(expected))
    assert (found.low or 0) < (found.value or 0) < (found.high or 0)


def test_binary_ceiling_by_hand() -> None:
    # 3 both present, 1 and 2 of one only, 4 both absent: F1+ = 6/9, F1- = 8/11 either way round
    labels = np.array(
        [[1, 1]] * 3 + [[1, 0]] + [[0, 1]] * 2 + [[0, 0]] * 4, dtype=float
    )
    found = ceiling_estimates(exact(labels), "binary", clusters(labels))
    assert found["f1_present"].value == pytest.approx(6 / 9)
    assert found["f1_absent"].value == pytest.approx(8 / 11)
    assert found["accuracy"].value == pytest.approx(0.7)
    assert found["precision"].value == pytest.approx((3 / 4 + 3 / 5) / 2)


def test_the_judge_in_the_annotators_place_by_hand() -> None:
    # two people: the judge against the second's answers, then against the first's
    values = np.array([[1.0, 2], [2, 3], [3, 1], [4, 5], [5, 4], [9, np.nan]])
    judge = np.array([1.0, 3, 2, 5, 4, 0])
    statistic = ceiling_statistic(exact(values), "ordinal", exact(judge))
    assert statistic is not None
    found = statistic(np.ones((1, 6)))["spearman"][0]
    expected = [spearmanr(judge[:5], values[:5, k]).statistic for k in (0, 1)]
    assert found == pytest.approx(np.mean(expected))


def _figure(values: Floats, judge: Floats | None, grades: bool) -> dict[str, float]:
    scores = None if judge is None else exact(judge)
    made = ceiling_statistic(
        exact(values), "ordinal" if grades else "binary", judge=scores
    )
    assert made is not None
    return {
        name: float(found[0]) for name, found in made(np.ones((1, len(values)))).items()
    }


@pytest.mark.parametrize("raters", [2, 3])
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("grades", [True, False])
def test_a_further_person_like_the_others_scores_what_the_ceiling_says(
    raters: int, alone: bool, grades: bool
) -> None:
    """60 sets of 200 dialogues; ``alone``: a third of them have one annotator, as in MEDAL."""
    gaps, usual = [], []
    for seed in range(60):
        draw = np.random.default_rng(seed)
        heard = draw.normal(3, 1, (200, 1)) + draw.normal(0, 1.2, (200, raters + 1))
        people = (
            np.clip(np.round(heard), 1, 5) if grades else (heard > 4).astype(np.float64)
        )
        values, further = people[:, :raters].copy(), people[:, raters]
        if alone:
            values[::3, 1:] = np.nan
        metric = "spearman" if grades else "f1_present"
        person, judge = (_figure(values, j, grades)[metric] for j in (None, further))
        gaps.append(judge - person)
        usual.append(spearmanr(further, np.nanmean(values, axis=1)).statistic - person)
    error = np.std(gaps) / np.sqrt(60)
    assert abs(np.mean(gaps)) < 3 * error < 0.04
    # what stood beside the ceiling until now: the mean of all of them
    if grades and not alone:
        assert np.mean(usual) > 0.03
