"""The statistics of a judge's agreement with people, each as a function of row weights.

Statistics of verdicts are computed against each annotator and then averaged, as in MEDAL (section
5.3.1), after Finch et al. (2023): a majority vote would hide disagreement between people.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from medal_judges.eval.metaeval.alignment import Aligned
from medal_judges.records.dimension import EQUAL, Kind
from medal_judges.stats.correlation import (
    CORRELATIONS,
    Floats,
    Statistic,
    correlation_statistic,
    ratio,
    undefined_reason,
    weighted_auc,
)
from medal_judges.stats.equal import Values, present
from medal_judges.stats.estimate import Estimate, undefined
from medal_judges.stats.intervals import estimated, without_intervals

_REASONS = {
    "f1_present": "neither labels nor judge ever say present",
    "f1_absent": "neither labels nor judge ever say absent",
    "precision": "the judge never says present",
    "recall": "the labels never say present",
    "accuracy": "no labels",
    "auc": "the labels are all present or all absent",
    "within_system": "no chatbot with 5 rows on which people and judge both vary",
}
_UNDEFINED = "undefined on these rows"
VERDICTS = ("f1_present", "f1_absent", "precision", "recall", "accuracy")
_LABELS = {
    "spearman": "Spearman ρ",
    "pearson": "Pearson r",
    "kendall": "Kendall τ-b",
    "pairwise": "Pairs right",
    "within_system": "ρ within chatbots",
    "f1_present": "F1+",
    "f1_absent": "F1−",
    "precision": "Precision",
    "recall": "Recall",
    "accuracy": "Accuracy",
    "auc": "AUC",
}
# A user's statistics: a function of labels and scores, each of shape (rows,).
Measure = Callable[[Floats, Floats], float]
_MEASURES: dict[str, Measure] = {}


def metric(function: Measure) -> Measure:
    """Adds a statistic of labels and scores under the function's name: a decorator.

    Evaluations that follow have it beside the others, with a jackknife interval.

    >>> import numpy as np
    >>> @metric
    ... def absolute_error(labels, scores):
    ...     return np.abs(labels - scores).mean()
    """
    _MEASURES[function.__name__] = function
    return function


def label(metric: str) -> str:
    """Returns the name of a metric in a table head."""
    return _LABELS.get(metric, metric.replace("_", " "))


def headline(kind: Kind) -> str:
    """Returns the metric that ranks judges on a dimension of this kind."""
    if kind == "binary":
        return "f1_present"
    return "spearman"


def metric_names(kind: Kind) -> tuple[str, ...]:
    """Returns the metrics of a dimension of this kind, the headline first."""
    if kind == "binary":
        return (*VERDICTS, "auc", *_MEASURES)
    return (*CORRELATIONS, *_MEASURES)


def metrics_of(
    aligned: Aligned, kind: Kind, only: Sequence[str] = (), intervals: bool = True
) -> dict[str, Estimate]:
    """Returns the metrics of the judge on these rows, or those named in ``only``."""
    names = [name for name in metric_names(kind) if name in only or not only]
    if not aligned.rows:
        return undefined(
            names, "no row was scored" if aligned.total else "no row has a label"
        )
    if kind == "binary":
        reason = not_classifiable(aligned.judge.numbers, aligned.answers.numbers)
    else:
        reason = undefined_reason(aligned.people, aligned.judge)
    if reason is not None:
        return undefined(names, reason)
    statistic = _statistic(aligned, kind, names)
    if intervals:
        estimates = estimated(statistic, aligned.clusters, _UNDEFINED, names)
    else:
        estimates = without_intervals(statistic, len(aligned.rows), _UNDEFINED, names)
    for name in _REASONS.keys() & estimates.keys():
        if estimates[name].value is None:
            estimates[name] = Estimate(None, reason=_REASONS[name])
    return estimates


def _statistic(aligned: Aligned, kind: Kind, names: Sequence[str]) -> Statistic:
    """Returns a function of row weights that computes the metrics ``names``, and may compute
    others."""
    people, judge = aligned.people, aligned.judge
    measures = {name: _MEASURES[name] for name in names if name in _MEASURES}
    if kind == "binary":
        verdicts = classification_statistic(judge.numbers, aligned.answers.numbers)
    else:
        correlations = correlation_statistic(people, judge, aligned.chatbots, names)

    def statistic(weights: Floats) -> dict[str, Floats]:
        if kind == "binary":
            positive = present(people.numbers).astype(np.float64)
            values = verdicts(weights)
            values["auc"] = weighted_auc(positive, judge, weights)
        else:
            values = correlations(weights)
        for name, measure in measures.items():
            samples = []
            for is_drawn in weights > 0:
                sample = people.numbers[is_drawn], judge.numbers[is_drawn]
                samples.append(measure(*sample))
            values[name] = np.array(samples)
        return values

    return statistic


def not_classifiable(score: Floats, answers: Floats) -> str | None:
    """Returns why F1 and the like cannot be computed, or None if they can."""
    if not np.isfinite(answers).any():
        return "no labels"
    if score.min() < -EQUAL or score.max() > 1 + EQUAL:
        return "the judge's scores are not probabilities"
    return None


def classification_statistic(score: Floats, answers: Floats) -> Statistic:
    """Returns a function of row weights that computes F1+ (``f1_present``), F1- (``f1_absent``),
    precision, recall and accuracy, each a mean over annotators.

    ``score``: probabilities of label 1, shape (rows,). ``answers``: 0 or 1, shape (rows,
    annotators), NaN if not given; a released vote or mean is present from 0.5 on. The mean skips
    annotators against whom a metric is 0/0.
    """
    answers = answers[:, np.isfinite(answers).any(axis=0)]
    is_answered = np.isfinite(answers)
    people, judge = present(answers), present(score)[:, None]
    agreed_present = (people & judge).astype(np.float64)
    agreed_absent = (~people & ~judge & is_answered).astype(np.float64)
    judge_alone = (~people & judge & is_answered).astype(np.float64)
    people_alone = (people & ~judge).astype(np.float64)

    def statistic(weights: Floats) -> dict[str, Floats]:
        tp, tn = weights @ agreed_present, weights @ agreed_absent
        fp, fn = weights @ judge_alone, weights @ people_alone
        by_annotator = {
            "f1_present": ratio(2 * tp, 2 * tp + fp + fn),
            "f1_absent": ratio(2 * tn, 2 * tn + fp + fn),
            "precision": ratio(tp, tp + fp),
            "recall": ratio(tp, tp + fn),
            "accuracy": ratio(tp + tn, tp + fp + fn + tn),
        }
        means = {}
        for name, values in by_annotator.items():
            count = np.isfinite(values).sum(axis=1)
            means[name] = ratio(np.nansum(values, axis=1), count)
        return means

    return statistic


def right_alone(first: Values, second: Values, answers: Values) -> tuple[int, int]:
    """Returns the number of rows on which only the first, and only the second judge agrees with
    most annotators. Rows on which annotators are split evenly count for neither."""
    is_answered = np.isfinite(answers.numbers)
    votes = (is_answered & present(answers.numbers)).sum(axis=1)
    lead = 2 * votes - is_answered.sum(axis=1)
    first_right = present(first.numbers) == (lead > 0)
    second_right = present(second.numbers) == (lead > 0)
    first_alone = (lead != 0) & first_right & ~second_right
    second_alone = (lead != 0) & second_right & ~first_right
    return int(first_alone.sum()), int(second_alone.sum())
