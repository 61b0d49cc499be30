"""Human ceiling: how well one annotator agrees with the others on the rows a judge is tested on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

import numpy as np
import numpy.typing as npt

from medal_judges.eval.classification import METRICS, classification_statistic
from medal_judges.eval.correlation import Floats, Statistic, correlation_statistic
from medal_judges.eval.intervals import Clusters, with_intervals
from medal_judges.eval.results import Estimate

_CORRELATIONS = ("pearson", "spearman", "kendall", "within", "centred")


def graded_ceiling(
    values: Floats, chatbots: Sequence[str | None], clusters: Clusters
) -> dict[str, Estimate]:
    """Correlation of one annotator with the mean of the others, averaged over the positions of
    the label list (positions are not fixed people, so no single one stands for a person).

    ``values``: shape (rows, annotators), NaN where no answer was given. None with a reason where
    no row has two answers.
    """
    parts: list[tuple[npt.NDArray[np.intp], Statistic]] = []
    for position in range(values.shape[1]):
        rows, one, others = _one_against_others(values, position)
        if len(rows):
            bots = [chatbots[i] for i in rows] if chatbots else []
            parts.append((rows, correlation_statistic(one, others, bots)))
    names = _CORRELATIONS if chatbots else _CORRELATIONS[:3]
    return _ceiling(names, parts, values.shape[0], clusters)


def binary_ceiling(labels: Floats, clusters: Clusters) -> dict[str, Estimate]:
    """F1+, F1-, precision, recall and accuracy of one annotator against another, averaged over
    all ordered pairs of positions (MEDAL, Figure 5: the two annotation sets compared)."""
    parts: list[tuple[npt.NDArray[np.intp], Statistic]] = []
    for judge, people in permutations(range(labels.shape[1]), 2):
        rows = np.flatnonzero(np.isfinite(labels[:, judge]) & np.isfinite(labels[:, people]))
        if len(rows):
            pair = classification_statistic(labels[rows, judge], labels[rows][:, [people]])
            parts.append((rows, pair))
    return _ceiling(METRICS, parts, labels.shape[0], clusters)


def no_ceiling(names: Sequence[str], reason: str) -> dict[str, Estimate]:
    """The same reason for every figure, such as a set that released means only."""
    return {name: Estimate(None, reason=reason) for name in names}


def _one_against_others(
    values: Floats, position: int
) -> tuple[npt.NDArray[np.intp], Floats, Floats]:
    others = np.delete(values, position, axis=1)
    both = np.isfinite(values[:, position]) & np.isfinite(others).any(axis=1)
    rows = np.flatnonzero(both)
    mean = np.nanmean(others[rows], axis=1) if len(rows) else np.empty(0)
    return rows, values[rows, position], mean


def _ceiling(
    names: Sequence[str],
    parts: Sequence[tuple[npt.NDArray[np.intp], Statistic]],
    size: int,
    clusters: Clusters,
) -> dict[str, Estimate]:
    if not parts:
        return no_ceiling(names, "no row has answers of two annotators")
    statistic = _averaged(parts)
    found = statistic(np.ones((1, size)))
    estimates = {
        name: Estimate(float(found[name][0]))
        if np.isfinite(found[name][0])
        else Estimate(None, reason="undefined for one of the annotators")
        for name in names
    }
    return with_intervals(estimates, statistic, clusters)


def _averaged(parts: Sequence[tuple[npt.NDArray[np.intp], Statistic]]) -> Statistic:
    def statistic(weights: Floats) -> dict[str, Floats]:
        found = [part(weights[:, rows]) for rows, part in parts]
        return {name: np.mean([one[name] for one in found], axis=0) for name in found[0]}

    return statistic


def krippendorff_alpha(values: Floats, measurement: str) -> Estimate:
    """Krippendorff's alpha of ``values``, shape (rows, annotators), NaN where not given.

    ``measurement`` is ``nominal``, ``ordinal`` or ``interval``. None with the reason where the
    package krippendorff is not installed, no row has two answers, or all answers are equal.
    """
    if values.shape[1] < 2 or not (np.isfinite(values).sum(axis=1) > 1).any():
        return Estimate(None, reason="no row has answers of two annotators")
    if np.nanmax(values) == np.nanmin(values):
        return Estimate(None, reason="all answers are equal")
    alpha = _library()
    if alpha is None:
        return Estimate(None, reason="needs the package krippendorff: pip install krippendorff")
    return Estimate(float(alpha(reliability_data=values.T, level_of_measurement=measurement)))


def _library() -> Callable[..., float] | None:
    try:
        from krippendorff import alpha
    except ImportError:
        return None
    found: Callable[..., float] = alpha
    return found
