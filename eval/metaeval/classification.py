"""Classification: what a judge says of an issue (present or absent) against people's labels.

Figures are computed against each annotator's labels and then averaged, as in MEDAL (section
5.3.1), after Finch et al. (2023): a vote would hide that people differ.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from medal_judges.stats.correlation import Floats, Statistic, ratio
from medal_judges.stats.estimate import Estimate

THRESHOLD = 0.5
METRICS = ("f1_present", "f1_absent", "precision", "recall", "accuracy")
_CELLS = ("tp", "fp", "fn", "tn")
_REASONS = {
    "f1_present": "neither people nor judge ever say present",
    "f1_absent": "neither people nor judge ever say absent",
    "precision": "the judge never says present",
    "recall": "people never say present",
    "accuracy": "no labels",
}


def classification(score: Floats, labels: Floats) -> dict[str, Estimate]:
    """Mean over annotators of ``f1_present`` (F1+), ``f1_absent`` (F1-), ``precision``, ``recall``
    and ``accuracy``, all in [0, 1].

    ``score``: probabilities of label 1, shape (rows,); from 0.5 on the judge says present.
    ``labels``: 0 or 1, shape (rows, annotators), NaN where not given; a released vote or mean
    counts as present from 0.5 on. F1+ is 0 where people say present and the judge never does.
    An annotator against whom a figure is 0/0 (F1+: neither they nor the judge say present) takes
    no part in its average; None with the reason where that is so against all of them.
    """
    if reason := not_classifiable(score, labels):
        return {name: Estimate(None, reason=reason) for name in METRICS}
    figures_of_all = classification_statistic(score, labels)(np.ones((1, len(score))))
    return {
        name: Estimate(float(figures_of_all[name][0]))
        if np.isfinite(figures_of_all[name][0])
        else Estimate(None, reason=_REASONS[name])
        for name in METRICS
    }


def not_classifiable(score: Floats, labels: Floats) -> str | None:
    """Why there is no present or absent to compare; None where there is."""
    if not np.isfinite(labels).any():
        return "no labels"
    if score.min() < 0 or score.max() > 1:
        return "the judge's scores are not probabilities"
    return None


def classification_statistic(score: Floats, labels: Floats) -> Statistic:
    """The figures of ``classification`` as a function of row weights, see correlation.py."""
    cells = confusion_cells(score, labels)

    def statistic(weights: Floats) -> dict[str, Floats]:
        return figures({name: weights @ cell for name, cell in cells.items()})

    return statistic


def confusion_cells(score: Floats, labels: Floats) -> dict[str, Floats]:
    """For each of tp, fp, fn, tn whether a row falls there, shape (rows, annotators).

    Annotators (positions of the label list) without a single answer are left out.
    """
    labels = labels[:, np.isfinite(labels).any(axis=0)]
    given = np.isfinite(labels)
    people, judge = labels >= THRESHOLD, (score >= THRESHOLD)[:, None]
    cells = (people & judge, ~people & judge, people & ~judge, ~people & ~judge)
    return {
        name: (cell & given).astype(np.float64) for name, cell in zip(_CELLS, cells, strict=True)
    }


def figures(cells: Mapping[str, Floats]) -> dict[str, Floats]:
    """Figures from counts of shape (samples, annotators), averaged over the annotators against
    whom they are defined, shape (samples,); NaN where there is none."""
    tp, fp, fn, tn = (cells[name] for name in _CELLS)
    metrics = {
        "f1_present": ratio(2 * tp, 2 * tp + fp + fn),
        "f1_absent": ratio(2 * tn, 2 * tn + fp + fn),
        "precision": ratio(tp, tp + fp),
        "recall": ratio(tp, tp + fn),
        "accuracy": ratio(tp + tn, tp + fp + fn + tn),
    }
    return {name: _mean_of_defined(values) for name, values in metrics.items()}


def _mean_of_defined(values: Floats) -> Floats:
    defined = np.isfinite(values)
    return ratio(np.where(defined, values, 0.0).sum(axis=1), defined.sum(axis=1))


def counts(score: Floats, labels: Floats) -> dict[str, int]:
    """tp, fp, fn, tn summed over annotators, and ``judge_present``, the rows the judge marks."""
    if not_classifiable(score, labels):
        return {}
    cells = confusion_cells(score, labels)
    summed = {name: int(cell.sum()) for name, cell in cells.items()}
    return summed | {"judge_present": int((score >= THRESHOLD).sum())}
