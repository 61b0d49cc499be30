"""The judge beside the human ceiling: both held against the same people on the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from medal_judges.dimension import Kind
from medal_judges.eval.metaeval.alignment import Aligned
from medal_judges.eval.metaeval.ceiling import (
    CORRELATIONS,
    binary_ceiling,
    binary_statistic,
    graded_ceiling,
    graded_statistic,
    krippendorff_alpha,
    no_ceiling,
)
from medal_judges.eval.metaeval.classification import METRICS, not_classifiable
from medal_judges.stats.correlation import Floats, undefined_reason
from medal_judges.stats.intervals import choose_clusters
from medal_judges.stats.results import Estimate
from medal_judges.stats.significance import paired_difference
from medal_judges.stats.weights import weighted

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
