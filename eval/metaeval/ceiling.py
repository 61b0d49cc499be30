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
from medal_judges.stats.intervals import Clusters, estimated
from medal_judges.stats.significance import paired_difference
from medal_judges.stats.weights import weighted

CORRELATIONS = ("pearson", "spearman", "kendall", "within_system", "centred")
MOST_COLUMNS = 50
MEASUREMENT = {"binary": "nominal", "ordinal": "ordinal", "continuous": "interval"}


def against_ceiling(aligned: Aligned, kind: Kind, *, whole: bool = True) -> dict[str, Any]:
    """Returns fields of a ResultRow: ``ceiling``, ``like_for_like``, ``ceiling_rows`` and
    ``ceiling_difference``, on the scored rows with two answers or more; of a slice (not ``whole``)
    the headline figures only."""
    binary = kind == "binary"
    names = ("f1_present", "f1_absent") if binary else ("spearman", "pearson", "kendall")
    headline = names[0]
    twice = np.isfinite(aligned.values).sum(axis=1) > 1
    released = any(row.aggregated for row in aligned.rows)
    if released or not twice.any():
        reason = "one annotator per row"
        if released:
            reason = "the set was released as means or votes, without single answers"
        none = undefined(names if whole else names[:1], reason)
        return {"ceiling": none, "like_for_like": none}
    shared = aligned.part(np.flatnonzero(twice))
    values, score, weights, clusters = shared.values, shared.score, shared.weights, shared.clusters
    bots = [] if binary else shared.chatbots
    person = human_ceiling(values, kind, clusters, bots, weights=weights)
    judge_reason = (
        not_classifiable(score, values) if binary else undefined_reason(shared.human, score)
    )
    if judge_reason:
        judge = undefined(METRICS if binary else CORRELATIONS, judge_reason)
    else:
        judge = human_ceiling(values, kind, clusters, bots, judge=score, weights=weights)
    if not whole:
        return {
            "ceiling": {headline: person[headline]},
            "like_for_like": {headline: judge[headline]},
        }
    lacking = [side[headline] for side in (judge, person) if side[headline].value is None]
    if lacking:
        difference = Estimate(None, reason=lacking[0].reason)
    else:
        one, two = (ceiling_statistic(values, kind, judge=by) for by in (score, None))
        assert one is not None and two is not None  # their figures are defined
        one, two = weighted(one, weights), weighted(two, weights)
        difference = paired_difference(one, two, headline, clusters)
    return {
        "ceiling": person | {"alpha": krippendorff_alpha(values, MEASUREMENT[kind], weights)},
        "like_for_like": judge,
        "ceiling_rows": len(shared.rows),
        "ceiling_difference": difference,
    }


def human_ceiling(
    values: Floats,
    kind: Kind,
    clusters: Clusters,
    chatbots: Sequence[str | None] = (),
    *,
    judge: Floats | None = None,
    weights: Floats | None = None,
) -> dict[str, Estimate]:
    """Returns the agreement of one annotator with the others, with intervals; with ``judge``,
    scores of shape (rows,), the judge takes the annotator's place.

    Graded: correlations with the mean of the others, averaged over the positions of the label list
    by rows. Issues: F1+, F1-, precision, recall and accuracy against another annotator, averaged
    over all ordered pairs of positions (MEDAL, Figure 5). ``values``: shape (rows, annotators), NaN
    if not given. Graded positions with fewer than 3 rows, or with a constant side, are left out.
    """
    names = METRICS if kind == "binary" else CORRELATIONS[: 5 if chatbots else 3]
    statistic = ceiling_statistic(values, kind, chatbots, judge)
    if statistic is None:
        reason = "no row has answers of two annotators"
        if (np.isfinite(values).sum(axis=1) > 1).any():
            reason = "annotators share fewer than 3 rows, or give all of them the same answer"
        return undefined(names, reason)
    reason = "undefined against every annotator"
    return estimated(weighted(statistic, weights), clusters, reason, names)


def ceiling_statistic(
    values: Floats,
    kind: Kind,
    chatbots: Sequence[str | None] = (),
    judge: Floats | None = None,
) -> Statistic | None:
    """Returns the figures of ``human_ceiling`` as a function of row weights; None if there is no
    position or pair to compare."""
    given = np.isfinite(values)
    parts: list[tuple[npt.NDArray[np.intp], Statistic]] = []
    if kind == "binary":
        for one, other in permutations(busiest(values), 2):
            rows = np.flatnonzero(given[:, one] & given[:, other])
            if len(rows):
                side = values[rows, one] if judge is None else judge[rows]
                parts.append((rows, classification_statistic(side, values[rows][:, [other]])))
    else:
        for position in busiest(values):
            others = np.delete(values, position, axis=1)
            rows = np.flatnonzero(given[:, position] & np.isfinite(others).any(axis=1))
            if len(rows) < MIN_ROWS:
                continue
            person, mean = values[rows, position], np.nanmean(others[rows], axis=1)
            if np.ptp(person) > 0 and np.ptp(mean) > 0:
                bots = [chatbots[i] for i in rows.tolist()] if chatbots else []
                side = person if judge is None else judge[rows]
                parts.append((rows, correlation_statistic(mean, side, bots)))

    def statistic(weights: Floats) -> dict[str, Floats]:
        """The mean over the parts in which a figure is defined, by the weight of their rows."""
        sizes = np.array([weights[:, rows].sum(axis=1) for rows, _ in parts])
        each = [part(weights[:, rows]) for rows, part in parts]
        means = {}
        for name in each[0]:
            values = np.array([one[name] for one in each])
            defined = np.where(np.isfinite(values), sizes, 0.0)
            out = np.full(values.shape[1], np.nan)
            total = (defined * np.where(defined > 0, values, 0.0)).sum(axis=0)
            np.divide(total, defined.sum(axis=0), out=out, where=defined.sum(axis=0) > 0)
            means[name] = out
        return means

    return statistic if parts else None


def busiest(values: Floats) -> list[int]:
    """Returns the columns of ``values``, shape (rows, annotators), to compare with one another: the
    MOST_COLUMNS with most answers, since pairs grow by the square."""
    answers = np.isfinite(values).sum(axis=0)
    return sorted(np.argsort(-answers, kind="stable")[:MOST_COLUMNS].tolist())


def krippendorff_alpha(values: Floats, measurement: str, weights: Floats | None = None) -> Estimate:
    """Returns Krippendorff's alpha of ``values``, shape (rows, annotators), NaN if not given;
    ``measurement`` is nominal, ordinal or interval."""
    shared = values[np.isfinite(values).sum(axis=1) > 1]
    if not len(shared):
        return Estimate(None, reason="no row has answers of two annotators")
    if np.nanmax(shared) == np.nanmin(shared):
        return Estimate(None, reason="all answers are equal")
    own = np.ones(len(values)) if weights is None else weights / weights.mean()
    return Estimate(float(alpha_statistic(values, measurement)(own[None, :])[0]))
