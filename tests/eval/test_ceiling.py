"""The human ceiling and annotators' noise: by hand, simulated, and on people's data."""

import os

import numpy as np
import pytest
from scipy.stats import spearmanr

from medal_judges.eval.metaeval.ceiling import (
    busiest,
    ceiling_statistic,
    graded_noise_free,
    human_ceiling,
    issue_noise_free,
    leanings,
)
from medal_judges.eval.metaeval.metaeval import evaluate
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.stats.correlation import Floats
from medal_judges.stats.intervals import Clusters

RUNS, TRUE = 40, 0.6


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def clusters(values: Floats) -> Clusters:
    return Clusters("conversation", tuple(map(str, range(len(values)))))


def test_one_against_the_mean_of_the_others_averaged_over_positions() -> None:
    values = np.round(np.random.default_rng(2).normal(3, 1, (40, 1)) + rng().normal(0, 1, (40, 3)))
    expected = []
    for k in range(3):
        others = np.delete(values, k, axis=1).mean(axis=1)
        expected.append(spearmanr(values[:, k], others).statistic)
    found = human_ceiling(values, "ordinal", clusters(values))["spearman"]
    assert found.value == pytest.approx(np.mean(expected))
    assert (found.low or 0) < (found.value or 0) < (found.high or 0)


def test_binary_ceiling_by_hand() -> None:
    # 3 both present, 1 and 2 of one only, 4 both absent: F1+ = 6/9, F1- = 8/11 either way round
    labels = np.array([[1, 1]] * 3 + [[1, 0]] + [[0, 1]] * 2 + [[0, 0]] * 4, dtype=float)
    found = human_ceiling(labels, "binary", clusters(labels))
    assert found["f1_present"].value == pytest.approx(6 / 9)
    assert found["f1_absent"].value == pytest.approx(8 / 11)
    assert found["accuracy"].value == pytest.approx(0.7)
    assert found["precision"].value == pytest.approx((3 / 4 + 3 / 5) / 2)


def test_a_position_of_one_row_does_not_undo_the_ceiling_of_the_others() -> None:
    # ConTurE has two or three annotators a dialogue: here one dialogue has a third
    values = np.round(rng().normal(3, 1, (30, 1)) + rng().normal(0, 1, (30, 3)))
    values[1:, 2] = np.nan
    found = human_ceiling(values, "ordinal", clusters(values))["spearman"]
    first, second = values[:, 1].copy(), values[:, 0].copy()
    first[0], second[0] = values[0, 1:].mean(), values[0, [0, 2]].mean()
    each = [spearmanr(values[:, 0], first).statistic, spearmanr(values[:, 1], second).statistic]
    assert found.value == pytest.approx(np.mean(each))


def test_the_judge_in_the_annotators_place_by_hand() -> None:
    # two people: the judge against the second's answers, then against the first's
    values = np.array([[1.0, 2], [2, 3], [3, 1], [4, 5], [5, 4], [9, np.nan]])
    judge = np.array([1.0, 3, 2, 5, 4, 0])
    found = human_ceiling(values, "ordinal", clusters(values), judge=judge)
    expected = [spearmanr(judge[:5], values[:5, k]).statistic for k in (0, 1)]
    assert found["spearman"].value == pytest.approx(np.mean(expected))


def _figure(values: Floats, judge: Floats | None, grades: bool) -> dict[str, float]:
    made = ceiling_statistic(values, "ordinal" if grades else "binary", judge=judge)
    assert made is not None
    return {name: float(found[0]) for name, found in made(np.ones((1, len(values)))).items()}


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
        people = np.clip(np.round(heard), 1, 5) if grades else (heard > 4).astype(np.float64)
        values, further = people[:, :raters].copy(), people[:, raters]
        if alone:
            values[::3, 1:] = np.nan
        metric = "spearman" if grades else "f1_present"
        person, judge = (_figure(values, j, grades)[metric] for j in (None, further))
        gaps.append(judge - person)
        usual.append(spearmanr(further, np.nanmean(values, axis=1)).statistic - person)
    error = np.std(gaps) / np.sqrt(60)
    assert abs(np.mean(gaps)) < 3 * error < 0.04
    if grades and not alone:  # what stood beside the ceiling until now: the mean of all of them
        assert np.mean(usual) > 0.03


def graded(seed: int, rows: int, people: int = 0) -> tuple[Floats, Floats]:
    """(Answers with as much noise as signal, scores that correlate at TRUE with the quality): three
    a row, by positions or by three of ``people`` who lean."""
    draw = np.random.default_rng(seed)
    quality = draw.normal(size=rows)
    score = TRUE * quality + np.sqrt(1 - TRUE**2) * draw.normal(size=rows)
    if not people:
        return quality[:, None] + draw.normal(size=(rows, 3)), score
    lean = draw.normal(size=people)
    values = np.full((rows, people), np.nan)
    for i in range(rows):
        who = draw.choice(people, 3, replace=False)
        values[i, who] = quality[i] + lean[who] + draw.normal(size=3)
    return values, score


@pytest.mark.parametrize("people", [0, 6])
def test_correlation_without_noise_is_the_true_one_where_the_plain_one_is_not(people: int) -> None:
    plain, free, held = [], [], 0
    for seed in range(RUNS):
        answers, score = graded(seed, 120, people)
        estimate = graded_noise_free(answers, people > 0, score, clusters(score))["pearson"]
        assert estimate.value is not None
        plain.append(np.corrcoef(np.nanmean(answers, axis=1), score)[0, 1])
        free.append(estimate.value)
        held += estimate.low is not None and estimate.low <= TRUE <= (estimate.high or 0)
    assert np.mean(plain) < TRUE - 0.08
    assert abs(np.mean(free) - TRUE) < 4 * np.std(free) / np.sqrt(RUNS)
    assert held >= 0.85 * RUNS


def test_leanings_are_those_of_least_squares() -> None:
    import statsmodels.api as sm

    answers, _ = graded(3, 40, people=5)
    at, who = np.nonzero(np.isfinite(answers))
    design = np.column_stack([np.eye(40)[at], np.eye(5)[who][:, 1:]])
    fitted = sm.OLS(answers[at, who], design).fit().params[40:]
    expected = np.array([0.0, *fitted])
    assert leanings(answers) == pytest.approx(expected - expected.mean(), abs=1e-9)


def issues(seed: int, rows: int, answers: int) -> tuple[Floats, Floats]:
    draw = np.random.default_rng(seed)
    there = draw.random(rows) < 0.25
    people = np.where(
        there[:, None], draw.random((rows, answers)) < 0.7, draw.random((rows, answers)) > 0.9
    )
    judge = np.where(there, draw.random(rows) < 0.8, draw.random(rows) > 0.85)
    return people.astype(float), judge.astype(float)


@pytest.mark.parametrize(("named", "answers"), [(False, 2), (True, 4)])
def test_f1_without_noise_is_the_true_one(named: bool, answers: int) -> None:
    values = [issues(seed, 800, answers) for seed in range(4)]
    free = [issue_noise_free(people, named, judge) for people, judge in values]
    present = 2 * 0.25 * 0.8 / (2 * 0.25 * 0.8 + 0.75 * 0.15 + 0.25 * 0.2)
    assert np.mean([one["f1_present"].value for one in free]) == pytest.approx(present, abs=0.05)


def test_a_benchmark_has_the_figure_beside_the_plain_one() -> None:
    draw = np.random.default_rng(1)
    quality = draw.integers(2, 5, size=60)
    answers = np.clip(quality[:, None] + draw.integers(-1, 2, size=(60, 3)), 1, 5)
    named = {"annotators": ["ann", "bob", "cy"]}
    rows = [
        LabelledDialogue(Dialogue(str(i), ()), {"overall": each}, {"overall": (1, 5)}, extra=named)
        for i, each in enumerate(map(tuple, answers.astype(float).tolist()))
    ]
    scores = quality + 0.5 * draw.normal(size=60)
    judged = [
        Judgement(r.id, "j", {"overall": float(s)}) for r, s in zip(rows, scores, strict=True)
    ]
    row = evaluate(rows, judged, "overall").row
    plain, free = row.metrics["spearman"].value, row.noise_free["spearman"].value
    assert plain is not None and free is not None and plain < free < 1.1


@pytest.mark.skipif("MEDAL_JUDGES_DATA" not in os.environ, reason="needs MEDAL_JUDGES_DATA")
def test_where_people_agree_by_chance_a_judge_has_no_noise_free_figure() -> None:
    from medal_judges.data_prep.sources.registry import load_spec

    for spec, there in (("conture:dialogue", False), ("fed:dialogue", True)):
        rows = load_spec(spec)
        scores = {row.id: float(len(row.dialogue.turns[-1].content)) for row in rows}
        judged = [Judgement(row.id, "length", {"overall": scores[row.id]}) for row in rows]
        row = evaluate(rows, judged, "overall").row
        assert (row.noise_free["spearman"].value is not None) == there


def test_of_many_annotators_the_fifty_busiest_are_compared() -> None:
    values = np.ones((2, 60))
    values[0, 5:15] = np.nan
    assert busiest(values) == [*range(5), *range(15, 60)]
