"""Classification: a judge's verdict on an issue (present or absent) against people's labels.

Figures are computed against each annotator and then averaged, as in MEDAL (section 5.3.1), after
Finch et al. (2023): a majority vote would hide disagreement between people.
"""

from __future__ import annotations

import numpy as np

from medal_judges.stats.correlation import Floats, Statistic, ratio
from medal_judges.stats.estimate import Estimate, undefined

THRESHOLD = 0.5
_REASONS = {
    "f1_present": "neither people nor judge ever say present",
    "f1_absent": "neither people nor judge ever say absent",
    "precision": "the judge never says present",
    "recall": "people never say present",
    "accuracy": "no labels",
}
METRICS = tuple(_REASONS)


def classification(score: Floats, labels: Floats) -> dict[str, Estimate]:
    """Returns F1+ (``f1_present``), F1- (``f1_absent``), precision, recall and accuracy, each a
    mean over annotators.

    ``score``: probabilities of label 1, shape (rows,). ``labels``: 0 or 1, shape (rows,
    annotators), NaN if not given; a released vote or mean is present from 0.5 on. The mean skips
    annotators against whom a figure is 0/0; it is None if that holds for all of them.
    """
    if reason := not_classifiable(score, labels):
        return undefined(METRICS, reason)
    values = classification_statistic(score, labels)(np.ones((1, len(score))))
    return {
        name: Estimate(float(values[name][0]))
        if np.isfinite(values[name][0])
        else Estimate(None, reason=_REASONS[name])
        for name in METRICS
    }


def not_classifiable(score: Floats, labels: Floats) -> str | None:
    """Returns why present and absent cannot be compared; None if they can."""
    if not np.isfinite(labels).any():
        return "no labels"
    if score.min() < 0 or score.max() > 1:
        return "the judge's scores are not probabilities"
    return None


def classification_statistic(score: Floats, labels: Floats) -> Statistic:
    """Returns the figures of ``classification`` as a function of row weights."""
    cells = confusion_cells(score, labels)

    def statistic(weights: Floats) -> dict[str, Floats]:
        tp, fp, fn, tn = (weights @ cell for cell in cells.values())
        metrics = {
            "f1_present": ratio(2 * tp, 2 * tp + fp + fn),
            "f1_absent": ratio(2 * tn, 2 * tn + fp + fn),
            "precision": ratio(tp, tp + fp),
            "recall": ratio(tp, tp + fn),
            "accuracy": ratio(tp + tn, tp + fp + fn + tn),
        }
        return {
            name: ratio(np.where(np.isfinite(v), v, 0.0).sum(axis=1), np.isfinite(v).sum(axis=1))
            for name, v in metrics.items()
        }

    return statistic


def confusion_cells(score: Floats, labels: Floats) -> dict[str, Floats]:
    """Returns indicators of tp, fp, fn and tn, shape (rows, annotators), without annotators who
    gave no answer."""
    labels = labels[:, np.isfinite(labels).any(axis=0)]
    given = np.isfinite(labels)
    people, judge = labels >= THRESHOLD, (score >= THRESHOLD)[:, None]
    cells = {
        "tp": people & judge,
        "fp": ~people & judge,
        "fn": people & ~judge,
        "tn": ~people & ~judge,
    }
    return {name: (cell & given).astype(np.float64) for name, cell in cells.items()}
