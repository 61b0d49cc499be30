"""Human ceiling: one annotator against the others, and the judge against the very same others.

A judge is usually held against the mean of all annotators (F1: against each of them, on every row
that they answered), an annotator can only be held against the others, on rows with two answers.
The mean of more people is less noisy, so an annotator who is as good as the rest seems worse than a
judge who is no better. Like is compared with like where both have the same target on the same rows:
then an exchangeable further person scores, on average, what the ceiling says (tested).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations

import numpy as np
import numpy.typing as npt

from medal_judges.eval.metaeval.classification import METRICS, classification_statistic
from medal_judges.stats.alpha import alpha_statistic
from medal_judges.stats.correlation import MIN_ROWS, Floats, Statistic, correlation_statistic
from medal_judges.stats.intervals import Clusters, with_intervals
from medal_judges.stats.results import Estimate
from medal_judges.stats.weights import weighted

CORRELATIONS = ("pearson", "spearman", "kendall", "within_system", "centred")
_NONE_SHARED = "no row has answers of two annotators"
_NONE_VARIES = "annotators share fewer than 3 rows, or give all of them the same answer"
_UNDEFINED = "undefined against every annotator"
Rows = npt.NDArray[np.intp]


def graded_ceiling(
    values: Floats,
    chatbots: Sequence[str | None],
    clusters: Clusters,
    *,
    judge: Floats | None = None,
    weights: Floats | None = None,
) -> dict[str, Estimate]:
    """Correlation of one annotator with the mean of the others, averaged by rows over the
    positions of the label list (positions are not fixed people, so no single one is a person's).

    With ``judge``, its scores of shape (rows,), the judge stands in the annotator's place: the
    same targets, rows and averaging. ``values``: shape (rows, annotators), NaN where no answer was
    given. None with a reason where no row has two answers. A position with fewer than 3 rows, or
    where the annotator or the others never differ, takes no part for either. ``weights``: how
    often each row counts, shape (rows,).
    """
    names = CORRELATIONS if chatbots else CORRELATIONS[:3]
    statistic = graded_statistic(values, chatbots, judge)
    if statistic is None:
        return no_ceiling(names, _NONE_VARIES if shared_rows(values) else _NONE_SHARED)
    return _estimates(names, weighted(statistic, weights), clusters)


def graded_statistic(
    values: Floats, chatbots: Sequence[str | None], judge: Floats | None = None
) -> Statistic | None:
    """The figures of ``graded_ceiling`` as a function of row weights; None where no position
    takes part."""
    parts = [
        (
            rows,
            correlation_statistic(
                others,
                one if judge is None else judge[rows],
                [chatbots[i] for i in rows] if chatbots else [],
            ),
        )
        for rows, one, others in _positions(values)
    ]
    return _averaged(parts) if parts else None


def binary_ceiling(
    labels: Floats,
    clusters: Clusters,
    *,
    judge: Floats | None = None,
    weights: Floats | None = None,
) -> dict[str, Estimate]:
    """F1+, F1-, precision, recall and accuracy of one annotator against another, averaged by rows
    over all ordered pairs of positions (MEDAL, Figure 5: the two annotation sets compared).

    With ``judge``, its probabilities of shape (rows,), the judge stands in the first one's place.
    A pair in which a figure is 0/0 takes no part in it.
    """
    statistic = binary_statistic(labels, judge)
    if statistic is None:
        return no_ceiling(METRICS, _NONE_SHARED)
    return _estimates(METRICS, weighted(statistic, weights), clusters)


def binary_statistic(labels: Floats, judge: Floats | None = None) -> Statistic | None:
    """The figures of ``binary_ceiling`` as a function of row weights; None where no row has two
    answers."""
    given = np.isfinite(labels)
    parts: list[tuple[Rows, Statistic]] = []
    for one, other in permutations(range(labels.shape[1]), 2):
        rows = np.flatnonzero(given[:, one] & given[:, other])
        if len(rows):
            said = labels[rows, one] if judge is None else judge[rows]
            parts.append((rows, classification_statistic(said, labels[rows][:, [other]])))
    return _averaged(parts) if parts else None


def shared_rows(values: Floats) -> int:
    """Rows with two answers or more: those of the ceiling."""
    return int((np.isfinite(values).sum(axis=1) > 1).sum())


def no_ceiling(names: Sequence[str], reason: str) -> dict[str, Estimate]:
    """The same reason for every figure, such as a set that released means only."""
    return {name: Estimate(None, reason=reason) for name in names}


def _positions(values: Floats) -> Iterator[tuple[Rows, Floats, Floats]]:
    """For each position of the label list its rows, its answers and the mean of the others'."""
    for position in range(values.shape[1]):
        others = np.delete(values, position, axis=1)
        both = np.isfinite(values[:, position]) & np.isfinite(others).any(axis=1)
        rows = np.flatnonzero(both)
        if len(rows) < MIN_ROWS:
            continue
        one, mean = values[rows, position], np.nanmean(others[rows], axis=1)
        if np.ptp(one) > 0 and np.ptp(mean) > 0:
            yield rows, one, mean


def _estimates(
    names: Sequence[str],
    statistic: Statistic,
    clusters: Clusters,
) -> dict[str, Estimate]:
    figures = statistic(np.ones((1, len(clusters.names))))
    estimates = {
        name: Estimate(float(figures[name][0]))
        if np.isfinite(figures[name][0])
        else Estimate(None, reason=_UNDEFINED)
        for name in names
    }
    return with_intervals(estimates, statistic, clusters)


def _averaged(parts: Sequence[tuple[Rows, Statistic]]) -> Statistic:
    """Mean over the parts in which a figure is defined, by the weight of their rows."""

    def statistic(weights: Floats) -> dict[str, Floats]:
        sizes = np.array([weights[:, rows].sum(axis=1) for rows, _ in parts])
        each = [part(weights[:, rows]) for rows, part in parts]
        return {name: _mean(np.array([one[name] for one in each]), sizes) for name in each[0]}

    return statistic


def _mean(values: Floats, sizes: Floats) -> Floats:
    """Weighted mean over the first axis of what is defined; NaN where nothing is."""
    kept = np.where(np.isfinite(values), sizes, 0.0)
    out: Floats = np.full(values.shape[1], np.nan)
    total = (kept * np.where(kept > 0, values, 0.0)).sum(axis=0)
    np.divide(total, kept.sum(axis=0), out=out, where=kept.sum(axis=0) > 0)
    return out


def krippendorff_alpha(values: Floats, measurement: str, weights: Floats | None = None) -> Estimate:
    """Krippendorff's alpha of ``values``, shape (rows, annotators), NaN where not given; of rows
    that count ``weights`` times by alpha.py, which the package does not know.

    ``measurement`` is ``nominal``, ``ordinal`` or ``interval``. None with the reason where the
    package krippendorff is not installed, no row has two answers, or all answers are equal.
    """
    if values.shape[1] < 2 or not (np.isfinite(values).sum(axis=1) > 1).any():
        return Estimate(None, reason="no row has answers of two annotators")
    if np.nanmax(values) == np.nanmin(values):
        return Estimate(None, reason="all answers are equal")
    if weights is not None:
        own = (weights / weights.mean())[None, :]
        return Estimate(float(alpha_statistic(values, measurement)(own)[0]))
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
