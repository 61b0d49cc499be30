"""Human ceiling: one annotator against the others, and the judge against the same others.

A judge is usually compared with the mean of all annotators; an annotator can only be compared with
the others, whose mean is noisier. So an annotator as good as the rest seems worse than a judge who
is no better. ``like_for_like`` gives both the same target on the same rows: an exchangeable further
person then scores, on average, the ceiling (tested).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from medal_judges.eval.metaeval.alignment import Aligned
from medal_judges.eval.metaeval.classification import (
    METRICS,
    classification_statistic,
    not_classifiable,
)
from medal_judges.records.dimension import Kind
from medal_judges.stats.alpha import alpha_statistic
from medal_judges.stats.correlation import (
    MIN_ROWS,
    Floats,
    Statistic,
    correlation_statistic,
    undefined_reason,
)
from medal_judges.stats.estimate import Estimate, undefined
from medal_judges.stats.intervals import Clusters, choose_clusters, estimated
from medal_judges.stats.significance import paired_difference
from medal_judges.stats.weights import weighted

CORRELATIONS = ("pearson", "spearman", "kendall", "within_system", "centred")
MOST_COLUMNS = 50
MEASUREMENT = {"binary": "nominal", "ordinal": "ordinal", "continuous": "interval"}
_NAMES = {"binary": ("f1_present", "f1_absent")}
_GRADED = ("spearman", "pearson", "kendall")
_UNDEFINED = "undefined against every annotator"
_NONE_SHARED = "no row has answers of two annotators"
_NONE_VARIES = "annotators share fewer than 3 rows, or give all of them the same answer"
Rows = npt.NDArray[np.intp]


def against_ceiling(aligned: Aligned, kind: Kind, *, whole: bool = True) -> dict[str, Any]:
    """Returns fields of a ResultRow: ``ceiling``, ``like_for_like``, ``ceiling_rows`` and
    ``ceiling_difference``, on the scored rows with two answers or more; of a slice (not ``whole``)
    the headline figures only."""
    names = _NAMES.get(kind, _GRADED)[: None if whole else 1]
    twice = np.isfinite(aligned.values).sum(axis=1) > 1
    if any(row.aggregated for row in aligned.rows):
        none = undefined(names, "the set was released as means or votes, without single answers")
        return {"ceiling": none, "like_for_like": none}
    if not twice.any():
        none = undefined(names, "one annotator per row")
        return {"ceiling": none, "like_for_like": none}
    shared = aligned.part(np.flatnonzero(twice).tolist())
    values, score, weights = shared.values, shared.score, shared.weights
    bots = shared.chatbots
    clusters = choose_clusters(bots, shared.groups)
    if kind == "binary":
        person = binary_ceiling(values, clusters, weights=weights)
        if reason := not_classifiable(score, values):
            judge = undefined(METRICS, reason)
        else:
            judge = binary_ceiling(values, clusters, judge=score, weights=weights)
    else:
        person = graded_ceiling(values, bots, clusters, weights=weights)
        if reason := undefined_reason(shared.human, score):
            judge = undefined(CORRELATIONS, reason)
        else:
            judge = graded_ceiling(values, bots, clusters, judge=score, weights=weights)
    headline = names[0]
    if not whole:
        return {
            "ceiling": {headline: person[headline]},
            "like_for_like": {headline: judge[headline]},
        }
    alpha = krippendorff_alpha(values, MEASUREMENT[kind], weights)
    lacking = [side[headline] for side in (judge, person) if side[headline].value is None]
    if lacking:
        difference = Estimate(None, reason=lacking[0].reason)
    else:
        one, two = (
            binary_statistic(values, by) if kind == "binary" else graded_statistic(values, [], by)
            for by in (score, None)
        )
        assert one is not None and two is not None  # their figures are defined
        one, two = weighted(one, weights), weighted(two, weights)
        difference = paired_difference(one, two, headline, clusters)
    return {
        "ceiling": person | {"alpha": alpha},
        "like_for_like": judge,
        "ceiling_rows": len(shared.rows),
        "ceiling_difference": difference,
    }


def graded_ceiling(
    values: Floats,
    chatbots: Sequence[str | None],
    clusters: Clusters,
    *,
    judge: Floats | None = None,
    weights: Floats | None = None,
) -> dict[str, Estimate]:
    """Returns the correlation of one annotator with the mean of the others, averaged over the
    positions of the label list by rows; with ``judge``, scores of shape (rows,), the judge takes
    the annotator's place.

    ``values``: shape (rows, annotators), NaN if not given. Positions with fewer than 3 rows, or
    with a constant side, are left out for both.
    """
    names = CORRELATIONS if chatbots else CORRELATIONS[:3]
    statistic = graded_statistic(values, chatbots, judge)
    if statistic is None:
        shared = (np.isfinite(values).sum(axis=1) > 1).any()
        return undefined(names, _NONE_VARIES if shared else _NONE_SHARED)
    return estimated(weighted(statistic, weights), clusters, _UNDEFINED, names)


def graded_statistic(
    values: Floats, chatbots: Sequence[str | None], judge: Floats | None = None
) -> Statistic | None:
    """Returns the figures of ``graded_ceiling`` as a function of row weights; None if every
    position is left out."""
    parts: list[tuple[Rows, Statistic]] = []
    for position in busiest(values):
        others = np.delete(values, position, axis=1)
        rows = np.flatnonzero(np.isfinite(values[:, position]) & np.isfinite(others).any(axis=1))
        if len(rows) < MIN_ROWS:
            continue
        one, mean = values[rows, position], np.nanmean(others[rows], axis=1)
        if np.ptp(one) > 0 and np.ptp(mean) > 0:
            bots = [chatbots[i] for i in rows.tolist()] if chatbots else []
            side = one if judge is None else judge[rows]
            parts.append((rows, correlation_statistic(mean, side, bots)))
    return _averaged(parts) if parts else None


def binary_ceiling(
    labels: Floats,
    clusters: Clusters,
    *,
    judge: Floats | None = None,
    weights: Floats | None = None,
) -> dict[str, Estimate]:
    """Returns F1+, F1-, precision, recall and accuracy of one annotator against another, averaged
    by rows over all ordered pairs of positions (MEDAL, Figure 5); with ``judge``, probabilities of
    shape (rows,), the judge takes the first one's place."""
    statistic = binary_statistic(labels, judge)
    if statistic is None:
        return undefined(METRICS, _NONE_SHARED)
    return estimated(weighted(statistic, weights), clusters, _UNDEFINED, METRICS)


def binary_statistic(labels: Floats, judge: Floats | None = None) -> Statistic | None:
    """Returns the figures of ``binary_ceiling`` as a function of row weights; None if no row has
    two answers."""
    given = np.isfinite(labels)
    parts: list[tuple[Rows, Statistic]] = []
    for one, other in permutations(busiest(labels), 2):
        rows = np.flatnonzero(given[:, one] & given[:, other])
        if len(rows):
            side = labels[rows, one] if judge is None else judge[rows]
            parts.append((rows, classification_statistic(side, labels[rows][:, [other]])))
    return _averaged(parts) if parts else None


def busiest(values: Floats) -> list[int]:
    """Returns the columns of ``values``, shape (rows, annotators), to compare with one another: the
    MOST_COLUMNS with most answers, since pairs grow by the square."""
    answers = np.isfinite(values).sum(axis=0)
    return sorted(np.argsort(-answers, kind="stable")[:MOST_COLUMNS].tolist())


def krippendorff_alpha(values: Floats, measurement: str, weights: Floats | None = None) -> Estimate:
    """Returns Krippendorff's alpha of ``values``, shape (rows, annotators), NaN if not given.

    ``measurement`` is nominal, ordinal or interval. The package krippendorff computes it, or
    stats/alpha.py for weighted rows, which the package does not support.
    """
    if values.shape[1] < 2 or not (np.isfinite(values).sum(axis=1) > 1).any():
        return Estimate(None, reason=_NONE_SHARED)
    if np.nanmax(values) == np.nanmin(values):
        return Estimate(None, reason="all answers are equal")
    if weights is not None:
        own = (weights / weights.mean())[None, :]
        return Estimate(float(alpha_statistic(values, measurement)(own)[0]))
    try:
        from krippendorff import alpha
    except ImportError:
        return Estimate(None, reason="needs the package krippendorff: pip install krippendorff")
    level: Any = measurement
    return Estimate(float(alpha(reliability_data=values.T, level_of_measurement=level)))


def _averaged(parts: Sequence[tuple[Rows, Statistic]]) -> Statistic:
    """Returns the mean over the parts in which a figure is defined, by the weight of their rows."""

    def statistic(weights: Floats) -> dict[str, Floats]:
        sizes = np.array([weights[:, rows].sum(axis=1) for rows, _ in parts])
        each = [part(weights[:, rows]) for rows, part in parts]
        means = {}
        for name in each[0]:
            values = np.array([one[name] for one in each])
            kept = np.where(np.isfinite(values), sizes, 0.0)
            out = np.full(values.shape[1], np.nan)
            total = (kept * np.where(kept > 0, values, 0.0)).sum(axis=0)
            np.divide(total, kept.sum(axis=0), out=out, where=kept.sum(axis=0) > 0)
            means[name] = out
        return means

    return statistic
