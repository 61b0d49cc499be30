"""Statistics of a judge's agreement with people, each as a function of row weights.

Statistics of yes-or-no answers are computed against each annotator and then averaged, as in MEDAL
(section 5.3.1), after Finch et al. (2023).

The human ceiling is the agreement of one annotator with the mean of the others. ``like_for_like``
is the agreement of the judge with the same others on the same rows, because the mean of all
annotators is less noisy and would favour the judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from medal_judges.eval.metaeval.alignment import Aligned
from medal_judges.records.dimension import EQUAL, Kind
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.stats.correlation import (
    CORRELATIONS,
    MIN_ROWS,
    Floats,
    Statistic,
    correlation_statistic,
    ratio,
    undefined_reason,
    weighted_auc,
)
from medal_judges.stats.equal import Values, is_issue_present
from medal_judges.stats.intervals import (
    Clusters,
    Estimate,
    estimate_metrics,
    estimates_without_intervals,
    undefined_estimates,
)

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
    """Registers ``function`` as a metric of all later evaluations, under its own name. As a
    decorator, it returns the function unchanged.

    Args:
        function: Takes labels and scores, each of shape [rows], and returns a number.

    >>> import numpy as np
    >>> @metric
    ... def absolute_error(labels, scores):
    ...     return np.abs(labels - scores).mean()
    """
    _MEASURES[function.__name__] = function
    return function


def metric_label(metric: str) -> str:
    """Returns the name of ``metric`` in tables, such as ``Spearman ρ``."""
    return _LABELS.get(metric, metric.replace("_", " "))


def headline_metric(kind: Kind) -> str:
    """Returns the name of the metric that ranks judges: ``f1_present`` if ``kind`` is ``binary``,
    otherwise ``spearman``."""
    if kind == "binary":
        return "f1_present"
    return "spearman"


def metric_names(kind: Kind) -> tuple[str, ...]:
    """Returns the names of all metrics for a dimension of a kind. Judges are ranked by the first.

    Args:
        kind: ``binary``, ``ordinal`` or ``continuous``.
    """
    if kind == "binary":
        return (*VERDICTS, "auc", *_MEASURES)
    return (*CORRELATIONS, *_MEASURES)


def compute_metrics(
    aligned: Aligned, kind: Kind, only: Sequence[str] = (), intervals: bool = True
) -> dict[str, Estimate]:
    """Computes the metrics of a judge's agreement with human labels.

    Args:
        aligned: The labels and scores.
        kind: The kind of the dimension, such as ``binary``.
        only: Names of metrics (default: all).
        intervals: Whether to compute confidence intervals.

    Returns:
        Metric -> estimate. An undefined metric has a reason instead of a value.
    """
    names = [name for name in metric_names(kind) if name in only or not only]
    if not len(aligned.facts):
        return undefined_estimates(
            names, "no row was scored" if aligned.total else "no row has a label"
        )
    if kind == "binary":
        reason = not_classifiable_reason(aligned.judge.numbers, aligned.ratings.numbers)
    else:
        reason = undefined_reason(aligned.people, aligned.judge)
    if reason is not None:
        return undefined_estimates(names, reason)
    statistic = _make_statistic(aligned, kind, names)
    if intervals:
        estimates = estimate_metrics(statistic, aligned.clusters, _UNDEFINED, names)
    else:
        estimates = estimates_without_intervals(
            statistic, len(aligned.facts), _UNDEFINED, names
        )
    for name in _REASONS.keys() & estimates.keys():
        if estimates[name].value is None:
            estimates[name] = Estimate(None, reason=_REASONS[name])
    return estimates


def _make_statistic(aligned: Aligned, kind: Kind, names: Sequence[str]) -> Statistic:
    """Returns a function that computes the metrics ``names`` on weighted rows.

    Args:
        aligned: The labels and scores.
        kind: The kind of the dimension, such as ``binary``.

    Returns:
        A function from row weights [samples, rows] to metric -> values [samples].
    """
    people, judge = aligned.people, aligned.judge
    measures = {name: _MEASURES[name] for name in names if name in _MEASURES}
    if kind == "binary":
        verdicts = classification_statistic(judge.numbers, aligned.ratings.numbers)
    else:
        correlations = correlation_statistic(
            people, judge, list(aligned.facts.chatbot), names
        )

    def statistic(weights: Floats) -> dict[str, Floats]:
        if kind == "binary":
            positive = is_issue_present(people.numbers).astype(np.float64)
            values = verdicts(weights)
            values["auc"] = weighted_auc(positive, judge, weights)
        else:
            values = correlations(weights)
        for name, function in measures.items():
            samples = []
            for is_drawn in weights > 0:
                sample = people.numbers[is_drawn], judge.numbers[is_drawn]
                samples.append(function(*sample))
            values[name] = np.array(samples)
        return values

    return statistic


def not_classifiable_reason(score: Floats, ratings: Floats) -> str | None:
    """Returns why F1 and similar metrics cannot be computed: there is no label, or a score is not a
    probability. Returns None if they can be computed.

    Args:
        score: [rows] scores.
        ratings: [rows, annotators] labels 0 or 1, NaN if not given.
    """
    if not np.isfinite(ratings).any():
        return "no labels"
    if score.min() < -EQUAL or score.max() > 1 + EQUAL:
        return "the judge's scores are not probabilities"
    return None


def classification_statistic(score: Floats, ratings: Floats) -> Statistic:
    """Returns a function that computes F1, precision, recall and accuracy on weighted rows,
    averaged over annotators.

    Args:
        score: [rows] probabilities of label 1. At least 0.5 counts as 1.
        ratings: [rows, annotators] labels 0 or 1 (or means of several people), NaN if not given.

    Returns:
        A function from row weights [samples, rows] to metric -> values [samples].
    """
    ratings = ratings[:, np.isfinite(ratings).any(axis=0)]
    is_answered = np.isfinite(ratings)
    people, judge = is_issue_present(ratings), is_issue_present(score)[:, None]
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


def count_right_alone(
    first: Values, second: Values, ratings: Values
) -> tuple[int, int]:
    """Counts the rows on which only one of two judges is right.

    A judge is right if it agrees with most annotators. Rows on which annotators are split evenly do
    not count.

    Args:
        first: [rows] probabilities of label 1 by the first judge.
        second: [rows] probabilities of label 1 by the second judge.
        ratings: [rows, annotators] labels 0 or 1, NaN if not given.

    Returns:
        The number of rows on which only the first judge is right, and the number on which only the
        second is.
    """
    is_answered = np.isfinite(ratings.numbers)
    votes = (is_answered & is_issue_present(ratings.numbers)).sum(axis=1)
    lead = 2 * votes - is_answered.sum(axis=1)
    first_right = is_issue_present(first.numbers) == (lead > 0)
    second_right = is_issue_present(second.numbers) == (lead > 0)
    first_alone = (lead != 0) & first_right & ~second_right
    second_alone = (lead != 0) & second_right & ~first_right
    return int(first_alone.sum()), int(second_alone.sum())


# -- the human ceiling -----------------------------------------------------------------------------


MOST_COLUMNS = 50


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The human ceiling on one dimension: how well one annotator agrees with the others. Beside it,
    how well the judge agrees with the same annotators.

    Attributes:
        person: Metric -> agreement of one annotator with the other annotators.
        like_for_like: Metric -> agreement of the judge with the same other annotators.
        rows: The number of rows with two ratings or more.
    """

    person: Mapping[str, Estimate]
    like_for_like: Mapping[str, Estimate]
    rows: int = 0


def compute_ceiling(aligned: Aligned, kind: Kind, names: Sequence[str] = ()) -> Ceiling:
    """Computes the human ceiling (the agreement of one annotator with the others), and the judge's
    agreement with the same annotators.

    Args:
        aligned: The labels and scores. Only rows with two ratings or more are used.
        kind: The kind of the dimension, such as ``binary``.
        names: Names of metrics. By default all that have a ceiling.
    """
    names = names or ceiling_metrics(kind)
    counts = np.isfinite(aligned.ratings.numbers).sum(axis=1)
    shared = aligned.select_rows(np.flatnonzero(counts > 1))
    reason = None
    if aligned.facts.aggregated.any():
        reason = "the set was released as means or votes, without single answers"
    elif not len(shared.facts):
        reason = "one annotator per row"
    if reason is not None:
        return Ceiling(
            undefined_estimates(names, reason), undefined_estimates(names, reason)
        )
    if kind == "binary":
        reason = not_classifiable_reason(shared.judge.numbers, shared.ratings.numbers)
    else:
        reason = undefined_reason(shared.people, shared.judge)
    clusters = shared.clusters
    person = ceiling_estimates(shared.ratings, kind, clusters, names)
    if reason is not None:
        like_for_like = undefined_estimates(names, reason)
    else:
        like_for_like = ceiling_estimates(
            shared.ratings, kind, clusters, names, shared.judge
        )
    return Ceiling(person, like_for_like, len(shared.facts))


def ceiling_metrics(kind: Kind) -> tuple[str, ...]:
    """Returns the names of the metrics that have a human ceiling (the agreement of one
    annotator with the others).

    Args:
        kind: The kind of the dimension: ``binary``, ``ordinal`` or ``continuous``.
    """
    if kind == "binary":
        return VERDICTS
    return CORRELATIONS[:4]


def ceiling_estimates(
    ratings: Values,
    kind: Kind,
    clusters: Clusters,
    names: Sequence[str] = (),
    judge: Values | None = None,
) -> dict[str, Estimate]:
    """Estimates how well one annotator agrees with the other annotators. With ``judge``, estimates
    how well the judge agrees with them.

    Args:
        ratings: [rows, annotators] ratings, NaN if not given.
        kind: The kind of the dimension, such as ``binary``.
        clusters: Groups of rows, such as conversations. The jackknife leaves out one at a time.
        names: Names of metrics. By default all that have a ceiling.
        judge: [rows] scores to use in place of the one annotator's ratings. None to use the
            ratings.

    Returns:
        Metric -> estimate.
    """
    names = names or ceiling_metrics(kind)
    statistic = ceiling_statistic(ratings, kind, judge, names)
    if statistic is None:
        return undefined_estimates(
            names,
            "annotators share fewer than 3 rows, or give all of them the same answer",
        )
    return estimate_metrics(
        statistic, clusters, "undefined against every annotator", names
    )


def ceiling_statistic(
    ratings: Values,
    kind: Kind,
    judge: Values | None = None,
    names: Sequence[str] = CORRELATIONS[:4],
) -> Statistic | None:
    """Returns a function that computes, on weighted rows, how well one annotator agrees with the
    other annotators. With ``judge``, it computes how well the judge agrees with them.

    Correlations are with the mean rating of the other annotators. F1, precision, recall and
    accuracy are averaged over ordered pairs of annotators (MEDAL, Figure 5).

    Args:
        ratings: [rows, annotators] ratings, NaN if not given.
        kind: The kind of the dimension, such as ``binary``.
        judge: [rows] scores to use in place of the one annotator's ratings. None to use the
            ratings.
        names: Names of correlations to compute. Unused on a binary dimension.

    Returns:
        A function from row weights [samples, rows] to metric -> values [samples]. None if no two
        annotators can be compared.
    """
    if kind == "binary":
        parts = list(_statistics_by_pair(ratings.numbers, judge))
    else:
        parts = list(_statistics_by_annotator(ratings, judge, names))
    if not parts:
        return None

    def statistic(weights: Floats) -> dict[str, Floats]:
        """Returns the mean over the parts that have a value, weighted by their rows."""
        sizes = np.array([weights[:, rows].sum(axis=1) for rows, _ in parts])
        figures_of_parts = [figures_of(weights[:, rows]) for rows, figures_of in parts]
        means = {}
        for name in figures_of_parts[0]:
            values = np.array([figures[name] for figures in figures_of_parts])
            weight = np.where(np.isfinite(values), sizes, 0.0)
            means[name] = ratio(np.nansum(weight * values, axis=0), weight.sum(axis=0))
        return means

    return statistic


# Some rows, and their figures as a function of their weights.
_RowsStatistic = tuple[npt.NDArray[np.intp], Statistic]


def _statistics_by_pair(
    ratings: Floats, judge: Values | None
) -> Iterator[_RowsStatistic]:
    """Yields a function for each ordered pair of annotators, which computes how well the first
    agrees with the second.

    Args:
        ratings: [rows, annotators] labels 0 or 1, NaN if not given.
        judge: [rows] scores that replace the first annotator's ratings. None: the ratings are used.

    Yields:
        The indices of the rows that both annotators rated, and a function from weights of these
            rows [samples, rows] to metric -> values [samples].
    """
    is_answered = np.isfinite(ratings)
    for position, other_position in permutations(fullest_columns(ratings), 2):
        rows = np.flatnonzero(is_answered[:, position] & is_answered[:, other_position])
        if len(rows):
            scores = ratings[rows, position]
            if judge is not None:
                scores = judge.numbers[rows]
            labels = ratings[rows][:, [other_position]]
            yield rows, classification_statistic(scores, labels)


def _statistics_by_annotator(
    ratings: Values, judge: Values | None, names: Sequence[str]
) -> Iterator[_RowsStatistic]:
    """Yields a function for each annotator, which computes the correlations with the mean rating of
    the other annotators.

    Args:
        ratings: [rows, annotators] ratings, NaN if not given.
        judge: [rows] scores that replace the annotator's ratings. None: the ratings are used.
        names: Names of correlations to compute.

    Yields:
        The indices of the rows that other annotators rated too, and a function from weights of
            these rows [samples, rows] to metric -> values [samples].
    """
    values = ratings.numbers
    for position in fullest_columns(values):
        other_answers = np.delete(values, position, axis=1)
        is_shared = np.isfinite(other_answers).any(axis=1)
        rows = np.flatnonzero(np.isfinite(values[:, position]) & is_shared)
        if len(rows) < MIN_ROWS:
            continue
        person = ratings[rows, position]
        mean = Values(np.nanmean(other_answers[rows], axis=1), ratings.tolerance)
        if person.is_constant or mean.is_constant:
            continue
        scores = person if judge is None else judge[rows]
        yield rows, correlation_statistic(mean, scores, names=names)


def fullest_columns(ratings: Floats) -> list[int]:
    """Returns the indices of the 50 columns with the most ratings, in ascending order. With fewer
    columns, returns all of them.

    Args:
        ratings: [rows, annotators], NaN if not given.
    """
    counts = np.isfinite(ratings).sum(axis=0)
    return sorted(np.argsort(-counts, kind="stable")[:MOST_COLUMNS].tolist())


def ratings_by_annotator(
    rows: Sequence[LabelledDialogue], name: str, ratings: Floats
) -> tuple[Floats, list[str]]:
    """Rearranges ratings so that each annotator has one column.

    Args:
        rows: The labelled dialogues, which may name their annotators in ``extra["annotators"]``.
        name: The dimension.
        ratings: [rows, ratings] the ratings of each row, in the order of its list of ratings.

    Returns:
        A pair: the ratings [rows, annotators] and the annotators' names. If a row does not name its
            annotators, or a model labelled it, the pair is ``ratings`` unchanged and an empty list.
    """
    answer_of: list[dict[str, float]] = []
    for row, values in zip(rows, ratings, strict=True):
        annotators = _annotator_names(row, name)
        if annotators is None:
            return ratings, []
        answer_of.append(dict(zip(annotators, values, strict=False)))
    table = pd.DataFrame(answer_of).dropna(axis=1, how="all").sort_index(axis=1)
    return table.to_numpy(dtype=np.float64), list(table.columns)


def _annotator_names(row: LabelledDialogue, name: str) -> list[str] | None:
    """Returns the names of the annotators who gave the labels ``name`` of ``row``.

    None if a label has no annotator's name, if two names are equal, or if a model labelled ``row``.
    """
    people: Any = row.extra.get("annotators")
    if row.extra.get("labels_by") or not isinstance(people, list):
        return None
    if not people or len(people) != len(row.labels[name]):
        return None
    names = ["" if person is None else str(person) for person in people]
    if len(set(names)) < len(names) or not all(map(str.strip, names)):
        return None
    return names
