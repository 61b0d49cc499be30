"""Means and shares of rows, and their differences, with 95% intervals: the jackknife by cluster.

A cluster is a sampling unit: a context that several systems answered, a chatbot, a user, a repeated
conversation. Each is left out in turn. Student's t has the degrees of freedom of intervals.py. If
every row is a cluster by itself, the result is the usual t-interval: Welch's for two samples, the
paired one for two samples of the same contexts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from medal_judges.stats.correlation import Floats
from medal_judges.stats.difference import Difference
from medal_judges.stats.equal import Values
from medal_judges.stats.intervals import (
    DIFFERENCE,
    TINY,
    Estimate,
    StudentT,
    degrees_from_deviations,
    wilson_interval_at,
)

MIN_FOR_MEAN = 5  # with fewer, t rests on three spreads
Span = tuple[float, float]
ClusterNames = Sequence[str] | npt.NDArray[np.intp] | npt.NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class Sample:
    """The scores of some rows (scored dialogues), such as all rows of one chatbot.

    Attributes:
        values: The scores, without NaN [rows].
        clusters: Name of each row's cluster, such as its conversation [rows]. Clusters with the
            same name in two samples are the same cluster.
        weights: Weight of each row, above 0 [rows]. None for equal weights.
    """

    values: Values
    clusters: ClusterNames
    weights: Floats | None = None

    @property
    def scores(self) -> Floats:
        """Returns ``values`` as a plain array [rows]."""
        return self.values.numbers

    @property
    def row_weights(self) -> Floats:
        """Returns the weights of the rows [rows], scaled to a mean of 1."""
        if self.weights is None:
            return np.ones(len(self.scores))
        return np.asarray(self.weights / self.weights.mean())


@dataclass(frozen=True, slots=True)
class Jackknifed:
    """A mean, or the difference of two means, with leave-one-out values for its jackknife interval.

    Attributes:
        value: The mean, or the difference, over all rows.
        left: Leave-one-out values [clusters]. Each is ``value`` computed without one cluster.
        deviation_weights: Weight of each cluster's squared deviation in the jackknife variance
            [clusters].
        fewest_degrees: Lower bound of the degrees of freedom.
        most_degrees: Upper bound of the degrees of freedom.
        away: Mean of each cluster alone, minus ``value`` [clusters].
        tolerance: Largest difference at which two means count as equal.
    """

    value: float
    left: Floats
    deviation_weights: Floats
    fewest_degrees: float
    most_degrees: float
    away: Floats
    tolerance: float

    def __sub__(self, second: Jackknifed) -> Jackknifed:
        """Returns this mean minus the mean ``second``. Both list the same
        clusters in the same order."""
        return self._combine(second, 1.0, -1.0)

    def mix(self, second: Jackknifed, share: float) -> Jackknifed:
        """Returns the weighted mean of this value and the value of ``second``.

        Args:
            second: A value computed on other rows, for the same clusters in the same order.
            share: Weight of this value, on [0, 1]. The weight of ``second`` is 1 - ``share``.
        """
        return self._combine(second, share, 1 - share)

    def _combine(
        self, second: Jackknifed, weight: float, second_weight: float
    ) -> Jackknifed:
        return Jackknifed(
            weight * self.value + second_weight * second.value,
            weight * self.left + second_weight * second.left,
            np.maximum(self.deviation_weights, second.deviation_weights),
            min(self.fewest_degrees, second.fewest_degrees),
            self.most_degrees + second.most_degrees,
            self.away + math.copysign(1.0, second_weight) * second.away,
            max(self.tolerance, second.tolerance),
        )

    @property
    def effective_tolerance(self) -> float:
        """Returns the largest difference at which two means count as equal. It is at least the
        rounding error, even if ``tolerance`` is 0."""
        return max(self.tolerance, 1e-12 * max(1.0, abs(self.value)))

    @property
    def varies(self) -> bool:
        """Returns whether the mean of at least one cluster alone differs from ``value``."""
        return bool(np.abs(self.away).max(initial=0.0) > self.effective_tolerance)

    @property
    def variance(self) -> float:
        """Returns the jackknife variance of ``value``. It is NaN if the value is undefined without
        one of the clusters."""
        return float((self.deviation_weights * (self.left - self.value) ** 2).sum())

    @property
    def degrees(self) -> float:
        """Returns the degrees of freedom of Student's t for the interval."""
        bounds = self.fewest_degrees, self.most_degrees
        return float(
            degrees_from_deviations(self.left - self.value, DIFFERENCE, *bounds)
        )


def estimate_mean(sample: Sample, span: Span | None = None) -> Estimate:
    """Returns the weighted mean of ``sample`` with its 95% interval.

    With fewer than 5 clusters (such as conversations), or if all scores are equal, the Estimate has
    a reason instead of an interval. Without rows, it has no value either.

    Args:
        span: Lowest and highest possible score, to which the interval is clipped. None for no
            limits.
    """
    if not len(sample.scores):
        return Estimate(None, reason="no rows")
    return to_mean_estimate(
        jackknifed_means([sample])[0], few_clusters_reason(sample), span
    )


def estimate_share(sample: Sample) -> Estimate:
    """Returns the weighted mean of ``sample``, whose scores are on [0, 1], with
    Wilson's 95% interval.

    With fewer than 5 clusters (such as conversations), the Estimate has a reason instead of an
    interval. Without rows, it has no value either.
    """
    if not len(sample.scores):
        return Estimate(None, reason="no rows")
    share, clusters = jackknifed_means([sample])[0], cluster_count(sample)
    return to_share_estimate(
        share, clusters, len(sample.scores), few_clusters_reason(sample)
    )


def subtract_means(first: Sample, second: Sample) -> Difference:
    """Returns the mean of ``first`` minus the mean of ``second``, with its interval and p-value.

    Clusters (such as conversations) that are in both samples are compared in pairs. If a sample has
    fewer than 5 clusters, there is no interval. If it has no rows, there is no value.
    """
    if not (len(first.scores) and len(second.scores)):
        return Difference(None, reason="no rows")
    first_mean, second_mean = jackknifed_means([first, second])
    reason = few_clusters_reason(first) or few_clusters_reason(second)
    return to_difference(first_mean - second_mean, reason, None)


def cluster_count(sample: Sample) -> int:
    return len(np.unique(sample.clusters))


def cluster_indices_and_count(
    samples: Sequence[Sample],
) -> tuple[list[npt.NDArray[np.intp]], int]:
    """Returns the cluster of each row as an index, and the number of clusters.

    Clusters with the same name in two samples are the same cluster.

    Returns:
        A pair. First, an array of cluster indices [rows] for each of ``samples``. Second, the
        number of different clusters in all samples together.
    """
    names = [np.asarray(sample.clusters) for sample in samples]
    labels, member = np.unique(np.concatenate(names), return_inverse=True)
    ends = np.cumsum([len(sample.scores) for sample in samples])
    return np.split(member, ends[:-1]), len(labels)


def deviation_weights_and_count(
    member: npt.NDArray[np.intp], size: int
) -> tuple[Floats, int]:
    """Returns the weight of each cluster's squared deviation in the jackknife variance, and
    the number of clusters.

    Args:
        member: Cluster index of each row [rows], from 0.
        size: Length of the returned weights, more than the largest index.

    Returns:
        Weights [size] and the number n of clusters with rows. The weight is (n - 1) / n for a
        cluster with rows and 0 for a cluster without rows.
    """
    present = np.bincount(member, minlength=size) > 0
    count = int(present.sum())
    return np.where(present, (count - 1) / count, 0.0), count


def jackknifed_means(samples: Sequence[Sample]) -> list[Jackknifed]:
    """Returns, for each of ``samples``, its weighted mean over all rows and without each cluster in
    turn. Clusters with the same name in two samples are the same cluster."""
    members, size = cluster_indices_and_count(samples)
    figures = []
    for sample, member in zip(samples, members, strict=True):
        weights = sample.row_weights
        value = float(np.average(sample.scores, weights=weights))
        # Centred, because sums of large numbers lose digits.
        sums = np.bincount(member, weights * (sample.scores - value), size)
        sizes = np.bincount(member, weights, size)
        remaining = weights.sum() - sizes
        with np.errstate(divide="ignore", invalid="ignore"):
            left = value - sums / np.where(remaining > 1e-9, remaining, np.nan)
        away = sums / np.maximum(sizes, TINY)
        share, count = deviation_weights_and_count(member, size)
        fewest, tolerance = max(1.0, (count - 1) / 3), sample.values.tolerance
        figures.append(
            Jackknifed(value, left, share, fewest, count - 1, away, tolerance)
        )
    return figures


def to_mean_estimate(
    mean: Jackknifed, reason: str | None, span: Span | None, extra: float = 0.0
) -> Estimate:
    """Returns a mean with its 95% interval.

    Args:
        mean: The mean, with leave-one-out values.
        reason: Why there can be no interval. None to compute one.
        span: Lowest and highest possible mean, to which the interval is clipped. None for no
            limits.
        extra: Half the width of a 95% interval for an error that the jackknife cannot see. It
            widens the interval of the mean.
    """
    spread = _difference_from_zero(mean, reason, extra)
    estimate = replace(spread, tolerance=0.0, span=span or spread.span).estimate
    return replace(estimate, p_value=None)


def to_difference(
    jackknifed: Jackknifed, reason: str | None, span: Span | None, extra: float = 0.0
) -> Difference:
    """Returns the difference of two means with its interval and p-value.

    Args:
        jackknifed: The difference, with leave-one-out values.
        reason: Why there can be no interval. None to compute one.
        span: Lowest and highest possible value of each mean. None for no limits.
        extra: Half the width of a 95% interval for an error that the jackknife cannot see. It
            widens the interval of the difference.
    """
    difference = _difference_from_zero(jackknifed, reason, extra)
    if span is None:
        return difference
    return replace(difference, span=(span[0] - span[1], span[1] - span[0]))


def _difference_from_zero(
    jackknifed: Jackknifed, reason: str | None, extra: float
) -> Difference:
    """Returns a mean, or a difference of means, as a Difference from 0 with its
    interval and p-value.

    Args:
        jackknifed: The mean or difference, with leave-one-out values.
        reason: Why there can be no interval. None to compute one.
        extra: Half the width of a 95% interval for an error that the jackknife cannot see. It
            widens the returned interval.
    """
    variance = jackknifed.variance
    if not reason and not math.isfinite(variance):
        reason = "no interval: it depends on a single cluster"
    if reason:
        return Difference(jackknifed.value, reason=reason)
    if not jackknifed.varies and not extra:
        equal = abs(jackknifed.value) <= jackknifed.effective_tolerance
        return Difference(
            jackknifed.value, reason="no interval: nothing varies", equal=equal
        )
    student = StudentT(jackknifed.most_degrees)
    if variance > 0:
        student = StudentT(jackknifed.degrees)
    error = math.sqrt(variance + (extra / student.critical_value()) ** 2)
    return Difference(jackknifed.value, error, student, tolerance=jackknifed.tolerance)


def to_share_estimate(
    share: Jackknifed, clusters: int, rows: int, reason: str | None, extra: float = 0.0
) -> Estimate:
    """Returns a share with Wilson's 95% interval.

    Args:
        share: The mean of scores on [0, 1], with leave-one-out values.
        clusters: Number of clusters. It is the sample size of the interval if the share does not
            vary between clusters.
        rows: Number of rows, the largest possible sample size of the interval.
        reason: Why there can be no interval. None to compute one.
        extra: Half the width of a 95% interval for an error that the jackknife cannot see. It
            widens the interval of the share.
    """
    value = min(1.0, max(0.0, share.value))
    if reason:
        return Estimate(value, reason=reason)
    variance = share.variance
    if not math.isfinite(variance):
        return Estimate(value, reason="no interval: it depends on a single cluster")
    base = value * (1 - value)
    # At 0 and 1 there is no variance; elsewhere it gives the effective number of rows.
    size = float(clusters)
    varies = base > 0 and variance > 1e-15
    degrees = max(1.0, clusters - 1.0)
    if varies:
        degrees = share.degrees
    quantile = StudentT(degrees).critical_value()
    if extra or varies:
        size = min(base / (variance + (extra / quantile) ** 2), rows)
    low, high = wilson_interval_at(value, max(size, 1.0), quantile)
    return Estimate(value, min(value, low), max(value, high))


def half_width_of_extreme_shares(samples: Sequence[Sample]) -> float:
    """Returns half the width of a 95% interval for the difference of two shares of which at least
    one is exactly 0 or 1.

    The jackknife shows no error of such a share, because all scores of its sample are equal.

    Args:
        samples: Samples with scores of 0 or 1. Only those with equal scores add to the width.
    """
    square = 0.0
    for sample in samples:
        if sample.values.is_constant:
            # One more cluster of 0 and one more of 1 (Agresti and Caffo 2000).
            size = cluster_count(sample) + 2
            square += StudentT(size - 1).critical_value() ** 2 * (size - 1) / size**3
    return math.sqrt(square)


def few_clusters_reason(
    sample: Sample,
    units: tuple[str, str] = ("row", "cluster"),
    owner: str = "",
    prefix: str = "no interval: ",
) -> str | None:
    """Returns why ``sample`` has no interval, such as ``no interval: 3 rows, fewer than 5``.
    Returns None if it has 5 clusters or more.

    Args:
        sample: The scores with the cluster of each row.
        units: Two nouns for a cluster, such as ``("dialogue", "context")``. The first is used if
            every cluster is one row.
        owner: Text after the noun, such as `` of the first``.
        prefix: Start of the returned text.
    """
    count = cluster_count(sample)
    if count >= MIN_FOR_MEAN:
        return None
    unit = units[count < len(sample.scores)]
    if count != 1:
        unit += "s"
    return f"{prefix}{count} {unit}{owner}, fewer than {MIN_FOR_MEAN}"
