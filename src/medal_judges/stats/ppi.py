"""Prediction-powered inference: estimates the human mean of all rows from labels of a few rows.

The judge scored every row, and people labelled some. The judge's mean of all rows is corrected by
its error on the labelled rows, with power tuning (PPI++: Angelopoulos, Duchi and Zrnic 2023,
arXiv:2311.01453): the judge counts as much as it agrees with people. So the correction is valid
with any judge. It only needs labels of a random sample.

ppi-python (0.2.3) supports no clusters, and its normal intervals are too narrow for 10 labels. Here
the slope is estimated on the labelled rows, again without each cluster. Student's t has the degrees
of freedom of the labelled clusters. For thousands of labels both agree (tests/stats/test_ppi.py).
docs/results/comparison.md has the measured coverage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from medal_judges.stats.correlation import Floats, ratio
from medal_judges.stats.difference import Difference
from medal_judges.stats.equal import Values, tolerance_of
from medal_judges.stats.intervals import Estimate
from medal_judges.stats.means import (
    Jackknifed,
    Sample,
    Span,
    cluster_count,
    cluster_indices_and_count,
    deviation_weights_and_count,
    estimate_share,
    few_clusters_reason,
    to_difference,
    to_mean_estimate,
    to_share_estimate,
)

_FLAT = 1e-12  # a variance below this share of the labels' squares is rounding
# If judge and people never differ on n rows, their error rate may be 3.7 / n (Clopper and Pearson).
_NEVER = 3.7


@dataclass(frozen=True, slots=True)
class LabelledSample:
    """Scored rows of which people labelled some, chosen at random.

    Attributes:
        sample: The judge's scores of all rows.
        labels: People's labels [rows], on any scale. NaN for a row without a label.
    """

    sample: Sample
    labels: Floats

    @property
    def is_labelled(self) -> npt.NDArray[np.bool_]:
        """Returns whether each row has a label [rows]."""
        return np.asarray(np.isfinite(self.labels))

    @property
    def label_sample(self) -> Sample:
        """Returns a sample of the labelled rows only, with people's labels in place
        of the judge's scores."""
        labels = Values(self.labels, tolerance_of(None, self.labels))
        return Sample(
            labels[self.is_labelled],
            np.asarray(self.sample.clusters)[self.is_labelled],
            self.label_weights[self.is_labelled],
        )

    @property
    def label_weights(self) -> Floats:
        """Returns the weight of each row [rows]. It is 0 for a row without a label. The mean weight
        of labelled rows is 1."""
        weights = np.where(self.is_labelled, self.sample.row_weights, 0.0)
        if self.is_labelled.any():
            weights /= weights[self.is_labelled].mean()
        return weights


def corrected_mean(rows: LabelledSample, span: Span | None = None) -> Estimate:
    """Returns the mean of people's labels over all ``rows`` with its 95% interval, estimated from
    the judge's scores of all rows and people's labels of some.

    With fewer than 5 labelled clusters (such as conversations), the Estimate has a reason instead
    of a value.

    Args:
        rows: The judge's scores of all rows, with people's labels of some rows.
        span: Lowest and highest possible label, to which the interval is clipped. None if unknown.
    """
    if reason := too_few_labels_reason(rows):
        return Estimate(None, reason=reason)
    fit = correct_means([rows], span)
    return to_mean_estimate(fit.means[0], fit.reason, span, fit.hidden[0])


def corrected_share(rows: LabelledSample) -> Estimate:
    """Returns the share of rows that people would label 1, with its 95% interval, estimated from
    the judge's scores of all rows and people's labels of some.

    With fewer than 5 labelled clusters (such as conversations), the Estimate has a reason instead
    of a value.

    Args:
        rows: The judge's scores on [0, 1], with people's labels (0 or 1) of some rows.
    """
    if reason := too_few_labels_reason(rows):
        return Estimate(None, reason=reason)
    if np.ptp(rows.label_sample.scores) == 0:  # a slope of 0: the labels alone
        return estimate_share(rows.label_sample)
    fit = correct_means([rows], (0.0, 1.0))
    clusters, size = cluster_count(rows.label_sample), len(rows.sample.scores)
    return to_share_estimate(fit.means[0], clusters, size, None, fit.hidden[0])


def corrected_difference(
    first: LabelledSample, second: LabelledSample, span: Span | None = None
) -> Difference:
    """Returns the estimated mean label of one system (such as a chatbot) minus that of another.

    Args:
        first: The judge's scores of the first system, with people's labels of some rows.
        second: The judge's scores of the second system, with people's labels of some rows. Its mean
            is subtracted.
        span: Lowest and highest possible label, None if unknown.

    Returns:
        The difference with its interval. If a system has fewer than 5 labelled clusters (such as
        conversations), there is a reason and no value.
    """
    if reason := too_few_labels_reason(first) or too_few_labels_reason(second):
        return Difference(None, reason=reason)
    # One slope for both; own labels of each, so that a preference of the judge cancels out.
    fit = correct_means([first, second], span)
    figure = fit.means[0] - fit.means[1]
    return to_difference(figure, fit.reason, span, math.hypot(*fit.hidden))


@dataclass(frozen=True, slots=True)
class CorrectedMeans:
    """The mean label of each system (such as a chatbot), estimated from the judge's
    scores and some labels.

    Attributes:
        means: The estimated mean of each system.
        slope: Least-squares slope of labels on scores. If it is 0, the means depend on the labels
            alone.
        hidden: For each system, half the width of a 95% interval for an error that the jackknife
            cannot see. It is above 0 only if a line through the scores hits every label exactly.
        reason: Why there is no interval, None if there is one.
    """

    means: list[Jackknifed]
    slope: float
    hidden: list[float]
    reason: str | None


def correct_means(
    systems: Sequence[LabelledSample], span: Span | None
) -> CorrectedMeans:
    """Returns the mean label of each of ``systems``, estimated by prediction-powered inference
    (PPI++) from the judge's scores and some labels.

    Args:
        systems: Scores and labels of each system, such as a chatbot. Each system has at least one
            labelled row.
        span: Lowest and highest possible label, None if unknown.
    """
    members, size = cluster_indices_and_count([rows.sample for rows in systems])
    sums: list[Floats] = []
    label_centres: list[float] = []
    for rows, member in zip(systems, members, strict=True):
        system_sums, label_centre = _centred_sums(rows, member, size)
        sums.append(system_sums)
        label_centres.append(label_centre)
    finest = max(rows.sample.values.tolerance for rows in systems)
    slopes = _fit_slopes(sums, finest)
    slope = float(slopes[0])
    width = 1.0
    if span is not None:
        width = span[1] - span[0]
    figures: list[Jackknifed] = []
    hidden: list[float] = []
    for i, rows in enumerate(systems):
        # The label's mean, plus the slope times how far the judge's mean of all rows is above its
        # mean of the labelled ones.
        all_rows, score, weight, label, labelled_score = sums[i].T[:5]
        with np.errstate(divide="ignore", invalid="ignore"):
            surplus = score / all_rows - labelled_score / weight
            values = label_centres[i] + label / weight + slopes * surplus
        share, _ = deviation_weights_and_count(members[i], size)
        clusters = cluster_count(rows.label_sample)
        fewest = max(1.0, (clusters - 1) / 3)
        tolerance = tolerance_of(span, rows.labels)
        value, left = float(values[0]), values[1:]
        away = (value - left) * clusters
        figures.append(
            Jackknifed(value, left, share, fewest, size - 1.0, away, tolerance)
        )
        residuals = (rows.labels - slope * rows.sample.scores)[rows.is_labelled]
        finest_residual = max(tolerance, slope * rows.sample.values.tolerance)
        # Labels that follow from scores show no error, but the other rows may have one.
        hidden.append(0.0)
        if np.ptp(residuals) <= finest_residual:
            hidden[i] = _NEVER * width / clusters
    if span is not None or not any(hidden):
        return CorrectedMeans(figures, slope, hidden, None)
    reason = "no interval: the labels follow from the judge's scores in every row, as if copied"
    return CorrectedMeans(figures, slope, [0.0] * len(figures), reason)


def _centred_sums(
    rows: LabelledSample, member: npt.NDArray[np.intp], size: int
) -> tuple[Floats, float]:
    """Returns sums of scores and labels, from which a corrected mean is
    computed, and the mean label.

    Scores and labels are centred at their means over labelled rows.

    Args:
        member: Cluster index of each row [rows].
        size: Number of clusters.

    Returns:
        Weighted sums [1 + clusters, 7], first with all clusters and then without each cluster in
            turn, and the mean label. Columns 0 and 1 (weight, score) are over all ``rows``. Columns
            2 to 6 (weight, label, score, label times score, score squared) are over labelled rows.
    """
    row_weights, weights, labelled = (
        rows.sample.row_weights,
        rows.label_weights,
        rows.is_labelled,
    )
    centre = float(np.average(rows.sample.scores[labelled], weights=weights[labelled]))
    middle = float(np.average(rows.labels[labelled], weights=weights[labelled]))
    score = rows.sample.scores - centre
    label = np.where(labelled, rows.labels - middle, 0.0)
    columns = [
        row_weights,
        row_weights * score,
        weights,
        weights * label,
        weights * score,
    ]
    columns += [weights * label * score, weights * score * score]
    by_cluster = np.stack(
        [np.bincount(member, column, size) for column in columns], axis=1
    )
    total = by_cluster.sum(axis=0)
    left = total - by_cluster
    is_last = np.bincount(member, labelled, size) == labelled.sum()
    left[is_last, 2] = np.nan  # no label remains
    return np.vstack([total, left]), middle


def _fit_slopes(parts: Sequence[Floats], tolerance: float) -> Floats:
    """Returns the least-squares slopes of labels on scores [1 + clusters].

    The first slope is over all rows, and each further slope is without one cluster. Negative slopes
    become 0.

    Args:
        parts: For each system, sums [1 + clusters, 7] from ``_centred_sums``.
        tolerance: Scores with a smaller standard deviation have a slope of 0.
    """
    products, squares, size, weights = np.zeros((4, len(parts[0])))
    for part in parts:
        weight, label, score, product, square = part.T[2:]
        with np.errstate(divide="ignore", invalid="ignore"):
            products += product - label * score / weight
            squares += square - score * score / weight
        size += square
        weights += weight
    flat = np.maximum(_FLAT * np.maximum(size, 1e-300), tolerance**2 * weights)
    slope = np.maximum(np.nan_to_num(ratio(products, squares, squares > flat)), 0)
    slope[~np.isfinite(products)] = np.nan
    return slope


def too_few_labels_reason(rows: LabelledSample) -> str | None:
    """Returns why ``rows`` have too few labels for a correction, such as ``no labelled rows``.
    Returns None if labels are in 5 clusters (such as conversations) or more."""
    if not rows.is_labelled.any():
        return "no labelled rows"
    return few_clusters_reason(
        rows.label_sample, ("labelled row", "labelled cluster"), prefix=""
    )
