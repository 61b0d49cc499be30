"""Annotators' noise: simulations with known truth, tables by hand, and people's data."""

from __future__ import annotations

import os

import numpy as np
import pytest

from medal_judges.eval.agreement.agreement import POSITIONS, agreements
from medal_judges.eval.metaeval.ceiling import (
    graded_noise_free,
    issue_noise_free,
    leanings,
)
from medal_judges.eval.metaeval.metaeval import evaluate
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue, parse_labelled
from medal_judges.stats.correlation import Floats
from medal_judges.stats.intervals import Clusters

RUNS, TRUE = 40, 0.6


def conversations(count: int) -> Clusters:
    return Clusters("conversation", tuple(map(str, range(count))))


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
        estimate = graded_noise_free(answers, people > 0, score, conversations(120))["pearson"]
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


def test_annotators_without_a_name_are_not_one_person() -> None:
    for nameless in (None, "", " "):
        rows = [
            parse_labelled(
                {
                    "id": str(i),
                    "source": "mine",
                    "lang": "en",
                    "level": "dialogue",
                    "split": "test",
                    "group": str(i),
                    "dialogue": [
                        {"role": "user", "content": "a"},
                        {"role": "assistant", "content": "b"},
                    ],
                    "labels": {"overall": [1 + i % 5, 1 + i % 4]},
                    "scales": {"overall": [1, 5]},
                    "annotators": ["ann", nameless],
                }
            )
            for i in range(20)
        ]
        (agreed,) = agreements(rows)
        assert agreed.columns == POSITIONS


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


def labelled(number: int, values: list[float], name: str = "overall") -> LabelledDialogue:
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    return parse_labelled(
        {
            "id": f"d{number}",
            "dialogue": turns,
            "labels": {name: values},
            "scales": {name: [0, 1] if name != "overall" else [1, 5]},
            "annotators": ["ann", "bob", "cy"],
        }
    )


def test_a_benchmark_has_the_figure_beside_the_plain_one() -> None:
    draw = np.random.default_rng(1)
    quality = draw.integers(2, 5, size=60)
    answers = np.clip(quality[:, None] + draw.integers(-1, 2, size=(60, 3)), 1, 5)
    rows = [labelled(i, list(map(float, each))) for i, each in enumerate(answers)]
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
