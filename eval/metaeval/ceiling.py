"""Human ceiling: one annotator against the others, and the judge against the very same others.

A judge is usually held against the mean of all annotators (F1: against each of them, on every row
that they answered), an annotator can only be held against the others, on rows with two answers.
The mean of more people is less noisy, so an annotator who is as good as the rest seems worse than a
judge who is no better. Like is compared with like where both have the same target on the same rows:
then an exchangeable further person scores, on average, what the ceiling says (tested).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

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
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import Clusters, choose_clusters, with_intervals
from medal_judges.stats.significance import paired_difference
from medal_judges.stats.weights import weighted

CORRELATIONS = ("pearson", "spearman", "kendall", "within_system", "centred")
MOST_COLUMNS = 50
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
    for one, other in permutations(busiest(labels), 2):
        rows = np.flatnonzero(given[:, one] & given[:, other])
        if len(rows):
            said = labels[rows, one] if judge is None else judge[rows]
            parts.append((rows, classification_statistic(said, labels[rows][:, [other]])))
    return _averaged(parts) if parts else None


def busiest(values: Floats) -> list[int]:
    """The columns of ``values``, shape (rows, annotators), that are compared with one another: all,
    or the MOST_COLUMNS with most answers (the first of equals), since pairs grow by the square."""
    answers = np.isfinite(values).sum(axis=0)
    return sorted(np.argsort(-answers, kind="stable")[:MOST_COLUMNS].tolist())


def shared_rows(values: Floats) -> int:
    """Rows with two answers or more: those of the ceiling."""
    return int((np.isfinite(values).sum(axis=1) > 1).sum())


def no_ceiling(names: Sequence[str], reason: str) -> dict[str, Estimate]:
    """The same reason for every figure, such as a set that released means only."""
    return {name: Estimate(None, reason=reason) for name in names}


def _positions(values: Floats) -> Iterator[tuple[Rows, Floats, Floats]]:
    """For each position of the label list its rows, its answers and the mean of the others'."""
    for position in busiest(values):
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
    library_alpha: Callable[..., float] = alpha
    return library_alpha


HEADLINE = {"binary": "f1_present", "ordinal": "spearman", "continuous": "spearman"}
MEASUREMENT = {"binary": "nominal", "ordinal": "ordinal", "continuous": "interval"}
_GRADED = ("spearman", "pearson", "kendall")
_NAMES = {"binary": ("f1_present", "f1_absent"), "ordinal": _GRADED, "continuous": _GRADED}


@dataclass(frozen=True, slots=True)
class AgainstCeiling:
    """One annotator against the others, and the judge against the same others, both on the
    ``rows`` rows with two answers or more; ``difference`` is the judge's headline figure minus the
    annotator's."""

    person: Mapping[str, Estimate]
    judge: Mapping[str, Estimate]
    rows: int = 0
    difference: Estimate | None = None


def against_ceiling(aligned: Aligned, kind: Kind) -> AgainstCeiling:
    """The human ceiling on the scored rows, with Krippendorff's ``alpha`` beside it, and the judge
    held against what the annotator is held against."""
    if reason := _no_ceiling_because(aligned):
        none = no_ceiling(_NAMES[kind], reason)
        return AgainstCeiling(none, none)
    shared = _shared(aligned)
    person = _in_the_annotators_place(shared, kind, None)
    judge = _in_the_annotators_place(shared, kind, shared.score)
    alpha = krippendorff_alpha(shared.values, MEASUREMENT[kind], shared.weights)
    difference = _difference(shared, kind, person, judge)
    return AgainstCeiling(person | {"alpha": alpha}, judge, len(shared.rows), difference)


def slice_ceiling(part: Aligned, kind: Kind) -> AgainstCeiling:
    """The headline figures of a slice, without their difference."""
    metric = HEADLINE[kind]
    if reason := _no_ceiling_because(part):
        none = no_ceiling((metric,), reason)
        return AgainstCeiling(none, none)
    shared = _shared(part)
    person, judge = (
        {metric: _in_the_annotators_place(shared, kind, score)[metric]}
        for score in (None, shared.score)
    )
    return AgainstCeiling(person, judge, len(shared.rows))


def _no_ceiling_because(aligned: Aligned) -> str | None:
    if any(row.aggregated for row in aligned.rows):
        return "the set was released as means or votes, without single answers"
    if (np.isfinite(aligned.values).sum(axis=1) < 2).all():
        return "one annotator per row"
    return None


def _shared(aligned: Aligned) -> Aligned:
    """The rows with two answers or more."""
    answers = np.isfinite(aligned.values).sum(axis=1)
    return aligned.part([int(i) for i in np.flatnonzero(answers > 1)])


def _in_the_annotators_place(
    shared: Aligned, kind: Kind, judge: Floats | None
) -> dict[str, Estimate]:
    values, bots = shared.values, shared.chatbots
    clusters = choose_clusters(bots, shared.groups)
    if kind == "binary":
        if judge is not None and (reason := not_classifiable(judge, values)):
            return no_ceiling(METRICS, reason)
        return binary_ceiling(values, clusters, judge=judge, weights=shared.weights)
    if judge is not None and (reason := undefined_reason(shared.human, judge)):
        return no_ceiling(CORRELATIONS, reason)
    return graded_ceiling(values, bots, clusters, judge=judge, weights=shared.weights)


def _difference(
    shared: Aligned, kind: Kind, person: Mapping[str, Estimate], judge: Mapping[str, Estimate]
) -> Estimate:
    metric = HEADLINE[kind]
    for side in (judge, person):
        if side[metric].value is None:
            return Estimate(None, reason=side[metric].reason)
    values, score = shared.values, shared.score
    if kind == "binary":
        first, second = binary_statistic(values, score), binary_statistic(values)
    else:
        first, second = graded_statistic(values, [], score), graded_statistic(values, [])
    assert first is not None and second is not None  # their figures are defined
    clusters = choose_clusters(shared.chatbots, shared.groups)
    one, two = (weighted(side, shared.weights) for side in (first, second))
    return paired_difference(one, two, metric, clusters)
