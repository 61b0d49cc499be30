"""Which of two systems is better: their difference, paired in the contexts that they share.

Each row belongs to a context. In a shared context the mean of one system is subtracted from the
mean of the other. This paired comparison counts by its dialogues. The other rows of both are an
unpaired comparison, and the two are weighted by their precision. With human labels the same is done
with prediction-powered means (ppi.py). Errors are by context: repeated dialogues in one context are
no new evidence about other contexts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from medal_judges.stats.correlation import Floats
from medal_judges.stats.difference import Difference
from medal_judges.stats.equal import Values, signs
from medal_judges.stats.means import (
    MIN_FOR_MEAN,
    ClusterNames,
    Jackknifed,
    Sample,
    Span,
    cluster_count,
    few_clusters_reason,
    half_width_of_extreme_shares,
    jackknifed_means,
    to_difference,
)
from medal_judges.stats.ppi import LabelledSample, correct_means, too_few_labels_reason

SHARE = 0.0, 1.0  # the scale of shares
Pairing = Literal["paired", "partly paired", "unpaired"]
Rows = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SystemRows:
    """The rows (scored dialogues) of one system, such as a chatbot, on one dimension.

    Attributes:
        values: The judge's scores [rows].
        contexts: Name of each row's context (what dialogues of several systems share, such as a
            scenario) [rows]. Contexts with the same name in two systems are the same context.
        clusters: Name of each row's cluster [rows], if clusters are larger than contexts, such as
            users. None if each context is a cluster.
        labels: People's mean labels [rows], NaN without a label. None if there are no labels at
            all.
    """

    values: Values
    contexts: ClusterNames
    clusters: ClusterNames | None = None
    labels: Floats | None = None

    @property
    def scores(self) -> Floats:
        """Returns ``values`` as a plain array [rows]."""
        return self.values.numbers

    def sample(self, rows: Rows, weights: Floats) -> Sample:
        """Returns the judge's scores of some rows as a sample.

        Args:
            rows: Indices of the rows in ``values``.
            weights: Weight of each of these rows, above 0.
        """
        names = self.contexts if self.clusters is None else self.clusters
        return Sample(self.values[rows], np.asarray(names)[rows], weights)

    def labelled_sample(self, rows: Rows, weights: Floats) -> LabelledSample:
        """Returns the judge's scores and people's labels of some rows as a sample.

        Args:
            rows: Indices of the rows in ``values``.
            weights: Weight of each of these rows, above 0.
        """
        labels = self.labels
        if labels is None:
            labels = np.full(len(self.scores), np.nan)
        return LabelledSample(self.sample(rows, weights), labels[rows])

    def full_sample(self) -> LabelledSample:
        """Returns the judge's scores and people's labels of all rows as a
        sample with equal weights."""
        every_row = np.arange(len(self.scores))
        return self.labelled_sample(every_row, np.ones(len(every_row)))


@dataclass(frozen=True, slots=True)
class SystemDifference:
    """The mean of one system (such as a chatbot) minus the mean of another,
    called first and second.

    Attributes:
        judge: Difference of the judge's mean scores.
        corrected: Difference of mean labels, estimated from scores and labels. None without labels.
        pairing: Whether the two systems share contexts (such as scenarios): all (``paired``), some
            (``partly paired``) or none (``unpaired``).
        shared: Number of contexts that both systems have.
        rows: Number of compared rows, as (first system, second system).
        left_out: Number of rows that are not compared, as (first system, second system). With 5
            shared contexts or more, rows of other contexts are left out if one of the systems has
            fewer than 5 other contexts.
        wins: Number of shared contexts in which the first system's mean score is higher.
        ties: Number of shared contexts in which the mean scores are equal.
        losses: Number of shared contexts in which the first system's mean score is lower.
    """

    judge: Difference
    corrected: Difference | None
    pairing: Pairing
    shared: int
    rows: tuple[int, int]
    left_out: tuple[int, int]
    wins: int
    ties: int
    losses: int

    @property
    def best_estimate(self) -> Difference:
        """Returns ``corrected``, or ``judge`` if there are no labels."""
        return self.judge if self.corrected is None else self.corrected


def system_difference(
    first: SystemRows,
    second: SystemRows,
    span: Span | None = None,
    label_span: Span | None = None,
) -> SystemDifference:
    """Returns the mean score of the ``first`` system minus the mean score of the ``second``.

    Contexts (such as scenarios) that both systems have are compared in pairs. If there are labels,
    a second estimate of the difference is corrected with them.

    Args:
        first: Scores, contexts and labels of the first system.
        second: Scores, contexts and labels of the second system.
        span: Lowest and highest possible score, None if unknown. ``SHARE`` (0, 1) if the means are
            shares.
        label_span: Lowest and highest possible label, None if unknown.
    """
    systems = (first, second)
    names = np.concatenate([first.contexts, second.contexts])
    labels, numbers = np.unique(names, return_inverse=True)
    codes = np.split(numbers, [len(first.contexts)])
    counts = np.stack([np.bincount(code, minlength=len(labels)) for code in codes])
    shared: Mask = np.asarray((counts > 0).all(axis=0))
    inside = [shared[code] for code in codes]
    parts = _split_paired_and_unpaired(codes, counts, inside)
    corrected = None
    if first.labels is not None or second.labels is not None:
        corrected = _corrected_difference(systems, parts, label_span)
    pairing: Pairing = "unpaired"
    if shared.any():
        is_whole = all(rows.all() for rows in inside)
        pairing = "paired" if is_whole else "partly paired"
    means = []
    for system, code, count in zip(systems, codes, counts, strict=True):
        sums = np.bincount(code, system.scores, len(labels))
        means.append(sums[shared] / count[shared])
    tolerance = max(first.values.tolerance, second.values.tolerance)
    outcomes = signs(means[0] - means[1], tolerance)
    wins, losses = int((outcomes > 0).sum()), int((outcomes < 0).sum())
    edge = 0.0
    if span == SHARE and (pairing != "paired" or wins + losses):
        edge = half_width_of_extreme_shares(
            [first.full_sample().sample, second.full_sample().sample]
        )
    used = [sum(len(rows[k]) for rows, _ in parts) for k in (0, 1)]
    return SystemDifference(
        _judge_difference(systems, parts, span, edge),
        corrected,
        pairing,
        shared=int(shared.sum()),
        rows=(used[0], used[1]),
        left_out=(len(first.scores) - used[0], len(second.scores) - used[1]),
        wins=wins,
        ties=len(outcomes) - wins - losses,
        losses=losses,
    )


# Rows of both systems and their weights: those of shared contexts, or the others.
_Part = tuple[Sequence[Rows], Sequence[Floats]]


def _split_paired_and_unpaired(
    codes: Sequence[Rows], counts: Rows, inside: Sequence[Mask]
) -> list[_Part]:
    """Splits the rows of two systems into rows of shared contexts, to compare in pairs, and rows to
    compare unpaired.

    With fewer than 5 shared contexts, all rows are unpaired. If a system has fewer than 5 other
    contexts, all rows outside shared contexts are left out.

    Args:
        codes: For each system, the context index of each row.
        counts: Number of rows of each system in each context [2, contexts].
        inside: For each system, whether both systems have the context of each row.

    Returns:
        The rows to compare in pairs, then the rows to compare unpaired. Either may be missing. Each
            has row indices and weights of both systems.
    """
    if (counts > 0).all(axis=0).sum() < MIN_FOR_MEAN:
        return [_part_with_equal_weights([np.arange(len(code)) for code in codes])]
    paired, outside = [], []
    weights = []
    outside_contexts = []
    for code, count, is_inside in zip(codes, counts, inside, strict=True):
        # A context counts by its dialogues of both systems, and in each as one mean.
        weight_of_context = counts.sum(axis=0) / np.maximum(count, 1)
        paired.append(np.flatnonzero(is_inside))
        weights.append(weight_of_context[code[is_inside]])
        outside.append(np.flatnonzero(~is_inside))
        outside_contexts.append(len(np.unique(code[~is_inside])))
    if min(outside_contexts) < MIN_FOR_MEAN:
        return [(paired, weights)]
    return [(paired, weights), _part_with_equal_weights(outside)]


def _part_with_equal_weights(rows: Sequence[Rows]) -> _Part:
    """Returns the row indices ``rows`` of each system, with a weight of 1 for each row."""
    return rows, [np.ones(len(system_rows)) for system_rows in rows]


def _judge_difference(
    systems: Sequence[SystemRows],
    parts: Sequence[_Part],
    span: Span | None,
    extra: float,
) -> Difference:
    """Returns the difference of two systems' mean scores by the judge.

    Args:
        systems: The first and the second system.
        parts: Rows to compare in pairs and rows to compare unpaired.
        span: Lowest and highest possible score, None if unknown.
        extra: Widens the interval for an error that the jackknife cannot see: half the width of
            that error's 95% interval.
    """
    samples = []
    for rows, weights in parts:
        for k, system in enumerate(systems):
            samples.append(system.sample(rows[k], weights[k]))
    if not all(len(sample.scores) for sample in samples):
        return Difference(None, reason="no scored rows of one of the two")
    smallest = min(samples, key=cluster_count)
    reason = few_clusters_reason(
        smallest, ("dialogue", "context"), " of one of the two"
    )
    return to_difference(
        _combined_difference(jackknifed_means(samples)), reason, span, extra
    )


def _corrected_difference(
    systems: Sequence[SystemRows], parts: Sequence[_Part], span: Span | None
) -> Difference:
    """Returns the difference of two systems' mean labels, estimated from scores and some labels.

    Args:
        systems: The first and the second system.
        parts: Rows to compare in pairs and rows to compare unpaired. If one of them has too few
            labels, all rows are compared unpaired.
        span: Lowest and highest possible label, None if unknown.
    """
    samples = []
    for rows, weights in parts:
        for k, system in enumerate(systems):
            samples.append(system.labelled_sample(rows[k], weights[k]))
    if any(map(too_few_labels_reason, samples)):
        samples = [system.full_sample() for system in systems]
    for name, sample in zip(("first", "second"), samples, strict=False):
        if reason := too_few_labels_reason(sample):
            return Difference(None, reason=f"not corrected: {reason}, of the {name}")
    fit = correct_means(samples, span)
    return to_difference(
        _combined_difference(fit.means), fit.reason, span, math.hypot(*fit.hidden)
    )


def _combined_difference(figures: Sequence[Jackknifed]) -> Jackknifed:
    """Returns one difference of two systems from their means on paired and unpaired rows.

    The paired and the unpaired difference are weighted by their precision.

    Args:
        figures: Means of the first and second system on paired rows, then of both on unpaired rows
            if there are any.
    """
    paired = figures[0] - figures[1]
    if len(figures) == 2:
        return paired
    unpaired = figures[2] - figures[3]
    variance, unpaired_variance = paired.variance, unpaired.variance
    if not math.isfinite(variance + unpaired_variance):
        return paired
    if not (paired.varies and unpaired.varies):
        # A shared context counts one dialogue of each system, another one of one system.
        variance = 0.5 / np.count_nonzero(paired.deviation_weights)
        unpaired_variance = 1 / np.count_nonzero(unpaired.deviation_weights)
    share_of_paired = unpaired_variance / (variance + unpaired_variance)
    return paired.mix(unpaired, float(share_of_paired))
