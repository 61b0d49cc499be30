"""F1 and its kin against scikit-learn and a table worked out by hand."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score

from medal_judges.eval.metaeval.alignment import METRICS, classification


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
    assert found["f1_present"].reason == "neither people nor judge ever say present"
    assert found["precision"].reason == "the judge never says present"
    assert found["recall"].reason == "people never say present"
    assert found["f1_absent"].value == 1
    assert found["accuracy"].value == 1


def test_an_annotator_without_a_figure_is_left_out_of_its_average() -> None:
    # the second answered two rows, without an issue, and the judge flags neither: nothing to say
    # of F1+ against them; against the first it is 2 * 1 / (2 * 1 + 1)
    labels = np.array([[1.0, np.nan], [1.0, np.nan], [0.0, 0.0], [0.0, 0.0]])
    score = np.array([0.9, 0.1, 0.2, 0.3])
    found = classification(score, labels)
    assert found["f1_present"].value == pytest.approx(f1_score(labels[:, 0], score >= 0.5))
    assert found["recall"].value == pytest.approx(0.5)
    assert found["accuracy"].value == pytest.approx((3 / 4 + 1) / 2)


def test_scores_that_are_no_probabilities_are_refused() -> None:
    found = classification(np.array([3.0, 4.0]), np.array([[1.0], [0.0]]))
    assert {found[name].reason for name in METRICS} == {"the judge's scores are not probabilities"}
