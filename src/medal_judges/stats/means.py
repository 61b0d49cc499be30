"""Means and shares of rows, and their differences, with 95% intervals: the jackknife by cluster.

A cluster is a sampling unit: a context that several systems answered, a chatbot, a user, a repeated
conversation. Each is left out in turn; Student's t has the degrees of freedom of intervals.py. If
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
    Student,
    degrees_from_deviations,
    wilson_interval_at,
)

MIN_FOR_MEAN = 5  # with fewer, t rests on three spreads
Span = tuple[float, float]
ClusterNames = Sequence[str] | npt.NDArray[np.intp] | npt.NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class Sample:
    """Scores of one system, or of one group of rows.

    ``values``: the scores, without NaN. ``clusters``: the name of each row's cluster. Equal names
    in two samples are the same cluster. ``weights``: how much each row counts, above 0. With None,
    all rows count alike.
    """

    values: Values
    clusters: ClusterNames
    weights: Floats | None = None

    @property
    def scores(self) -> Floats:
        """Returns the numbers of ``values``."""
        return self.values.numbers

    @property
    def row_weights(self) -> Floats:
        """Returns the weights of the rows, shape (rows,), scaled to a mean of 1."""
        if self.weights is None:
            return np.ones(len(self.scores))
        return np.asarray(self.weights / self.weights.mean())


@dataclass(frozen=True, slots=True)
class Jackknifed:
    """A mean, or the difference of two means, with all that its jackknife interval needs.

    ``value``: over all rows. ``left``: computed without each cluster in turn. ``away``: the mean of
    each cluster alone, minus ``value``. ``share``: the factor of each cluster's squared deviation
    in the variance, (n - 1) / n for a sample of n clusters. These arrays have shape (clusters,).
    ``fewest_degrees`` and ``most_degrees``: bounds of the degrees of freedom. ``tolerance``: the
    distance up to which two means count as equal.
    """

    value: float
    left: Floats
    share: Floats
    fewest_degrees: float
    most_degrees: float
    away: Floats
    tolerance: float

    def __sub__(self, second: Jackknifed) -> Jackknifed:
        """Returns this mean minus the mean ``second``, over the same clusters."""
        return self._combine(second, 1.0, -1.0)

    def mix(self, second: Jackknifed, share: float) -> Jackknifed:
        """Returns ``share`` times this value plus (1 - ``share``) times the value of ``second``.
        The two values are over different clusters."""
        return self._combine(second, share, 1 - share)

    def _combine(
        self, second: Jackknifed, weight: float, second_weight: float
    ) -> Jackknifed:
        return Jackknifed(
            weight * self.value + second_weight * second.value,
            weight * self.left + second_weight * second.left,
            np.maximum(self.share, second.share),
            min(self.fewest_degrees, second.fewest_degrees),
            self.most_degrees + second.most_degrees,
            self.away + math.copysign(1.0, second_weight) * second.away,
            max(self.tolerance, second.tolerance),
        )

    @property
    def effective_tolerance(self) -> float:
        """Returns the distance up to which two means count as equal. It is at least the rounding
        error, even if ``tolerance`` is 0."""
        return max(self.tolerance, 1e-12 * max(1.0, abs(self.value)))

    @property
    def varies(self) -> bool:
        """Returns whether the mean of some cluster alone differs from ``value``."""
        return bool(np.abs(self.away).max(initial=0.0) > self.effective_tolerance)

    @property
    def variance(self) -> float:
        """Returns the jackknife variance of ``value``. It is NaN if the value is undefined without
        one of the clusters."""
        return float((self.share * (self.left - self.value) ** 2).sum())

    @property
    def degrees(self) -> float:
        """Returns the degrees of freedom of Student's t."""
        bounds = self.fewest_degrees, self.most_degrees
        return float(
            degrees_from_deviations(self.left - self.value, DIFFERENCE, *bounds)
        )


def mean_of(sample: Sample, span: Span | None = None) -> Estimate:
    """Returns the weighted mean of the scores of ``sample`` with its 95% interval, cut to ``span``
    (lowest, highest). If there are fewer than 5 clusters, or all scores are equal, the estimate has
    a reason instead of an interval."""
    if not len(sample.scores):
        return Estimate(None, reason="no rows")
    return estimate_from(
        jackknifed_means([sample])[0], few_clusters_reason(sample), span
    )


def share_of(sample: Sample) -> Estimate:
    """Returns the weighted mean of the scores of ``sample`` as a share, with its 95% interval.
    Scores are between 0 and 1.

    The interval is Wilson's for the effective number of rows, so shares of 0 and 1 have an interval
    too. With fewer than 5 clusters, the estimate has a reason instead of an interval.
    """
    if not len(sample.scores):
        return Estimate(None, reason="no rows")
    figure, clusters = jackknifed_means([sample])[0], cluster_count(sample)
    return share_estimate(
        figure, clusters, len(sample.scores), few_clusters_reason(sample)
    )


def difference_of(first: Sample, second: Sample) -> Difference:
    """Returns the mean of ``first`` minus the mean of ``second``, with its 95% interval and
    two-sided p-value.

    A cluster that is in both samples is left out of both at once, so samples of the same contexts
    are compared in pairs. If one sample has fewer than 5 clusters, or nothing varies, the
    difference has a reason instead of an interval.
    """
    if not (len(first.scores) and len(second.scores)):
        return Difference(None, reason="no rows")
    first_mean, second_mean = jackknifed_means([first, second])
    reason = few_clusters_reason(first) or few_clusters_reason(second)
    return difference_from(first_mean - second_mean, reason, None)


def cluster_count(sample: Sample) -> int:
    return len(np.unique(sample.clusters))


def cluster_indices(
    samples: Sequence[Sample],
) -> tuple[list[npt.NDArray[np.intp]], int]:
    """Returns for each of ``samples`` the index of each row's cluster, and the number of clusters
    in all samples. Equal cluster names have the same index."""
    names = [np.asarray(sample.clusters) for sample in samples]
    labels, member = np.unique(np.concatenate(names), return_inverse=True)
    ends = np.cumsum([len(sample.scores) for sample in samples])
    return np.split(member, ends[:-1]), len(labels)


def deviation_weights(member: npt.NDArray[np.intp], size: int) -> tuple[Floats, int]:
    """Returns two values. The first is the factor of each cluster's squared deviation in the
    jackknife variance, shape (``size``,). It is (n - 1) / n for a sample of n clusters, and 0 for a
    cluster without rows. The second is n.

    ``member``: the index of each row's cluster. ``size``: the number of indices.
    """
    present = np.bincount(member, minlength=size) > 0
    count = int(present.sum())
    return np.where(present, (count - 1) / count, 0.0), count


def jackknifed_means(samples: Sequence[Sample]) -> list[Jackknifed]:
    """Returns for each of ``samples`` the mean over all rows, and the means without each cluster in
    turn. Clusters with the same name in several samples are the same cluster."""
    members, size = cluster_indices(samples)
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
        share, count = deviation_weights(member, size)
        fewest, tolerance = max(1.0, (count - 1) / 3), sample.values.tolerance
        figures.append(
            Jackknifed(value, left, share, fewest, count - 1, away, tolerance)
        )
    return figures


def estimate_from(
    figure: Jackknifed, reason: str | None, span: Span | None, extra: float = 0.0
) -> Estimate:
    """Returns the mean ``figure`` as an Estimate, with its 95% interval cut to ``span`` (lowest,
    highest).

    ``reason``: why there is no interval, or None if there is one. ``extra``: half the width of a
    further 95% interval, for an error that leaving out clusters does not show.
    """
    spread = _difference_from_zero(figure, reason, extra)
    estimate = replace(spread, tolerance=0.0, span=span or spread.span).estimate
    return replace(estimate, p_value=None)


def difference_from(
    figure: Jackknifed, reason: str | None, span: Span | None, extra: float = 0.0
) -> Difference:
    """Returns ``figure``, the difference of two means, as a Difference with an interval.

    ``reason``: why there is no interval, or None if there is one. ``span``: the scale of the two
    means (lowest, highest). ``extra``: half the width of a further 95% interval, for an error that
    leaving out clusters does not show.
    """
    difference = _difference_from_zero(figure, reason, extra)
    if span is None:
        return difference
    return replace(difference, span=(span[0] - span[1], span[1] - span[0]))


def _difference_from_zero(
    figure: Jackknifed, reason: str | None, extra: float
) -> Difference:
    """Returns ``figure`` as a Difference from 0. ``reason``: why there is no interval, or None if
    there is one. ``extra``: half the width of a further 95% interval, for an error that leaving out
    clusters does not show."""
    variance = figure.variance
    if not reason and not math.isfinite(variance):
        reason = "no interval: it depends on a single cluster"
    if reason:
        return Difference(figure.value, reason=reason)
    if not figure.varies and not extra:
        equal = abs(figure.value) <= figure.effective_tolerance
        return Difference(
            figure.value, reason="no interval: nothing varies", equal=equal
        )
    student = Student(figure.most_degrees)
    if variance > 0:
        student = Student(figure.degrees)
    error = math.sqrt(variance + (extra / student.critical_value()) ** 2)
    return Difference(figure.value, error, student, tolerance=figure.tolerance)


def share_estimate(
    figure: Jackknifed, clusters: int, rows: int, reason: str | None, extra: float = 0.0
) -> Estimate:
    """Returns the share ``figure`` as an Estimate, with Wilson's interval for its effective number
    of rows.

    The effective number follows from the jackknife variance and is at most ``rows``. At shares of 0
    and 1, where there is no variance, it is ``clusters``. ``reason``: why there is no interval, or
    None if there is one. ``extra``: half the width of a further 95% interval, for an error that
    leaving out clusters does not show.
    """
    value = min(1.0, max(0.0, figure.value))
    if reason:
        return Estimate(value, reason=reason)
    variance = figure.variance
    if not math.isfinite(variance):
        return Estimate(value, reason="no interval: it depends on a single cluster")
    base = value * (1 - value)
    size = float(clusters)
    varies = base > 0 and variance > 1e-15
    degrees = max(1.0, clusters - 1.0)
    if varies:
        degrees = figure.degrees
    quantile = Student(degrees).critical_value()
    if extra or varies:
        size = min(base / (variance + (extra / quantile) ** 2), rows)
    low, high = wilson_interval_at(value, max(size, 1.0), quantile)
    return Estimate(value, min(value, low), max(value, high))


def edge_error(samples: Sequence[Sample]) -> float:
    """Returns half the width of a 95% interval for shares that are exactly 0 or 1. The jackknife
    shows no error there, because all scores of the sample are equal.

    The width is computed as if the sample had one more cluster of 0 and one more of 1 (Agresti and
    Caffo 2000). For several ``samples``, the result is the root of the sum of squares. A sample
    whose scores are not all equal adds 0.
    """
    square = 0.0
    for sample in samples:
        if sample.values.is_constant:
            size = cluster_count(sample) + 2
            square += Student(size - 1).critical_value() ** 2 * (size - 1) / size**3
    return math.sqrt(square)


def few_clusters_reason(
    sample: Sample,
    units: tuple[str, str] = ("row", "cluster"),
    owner: str = "",
    prefix: str = "no interval: ",
) -> str | None:
    """Returns why ``sample`` has no interval, if it has fewer than 5 clusters. Otherwise returns
    None.

    ``units``: what the text calls a single row, and a cluster of several rows. ``owner``: whose
    clusters they are, such as `` of the first``. ``prefix``: the start of the text.
    """
    count = cluster_count(sample)
    if count >= MIN_FOR_MEAN:
        return None
    unit = units[count < len(sample.scores)]
    if count != 1:
        unit += "s"
    return f"{prefix}{count} {unit}{owner}, fewer than {MIN_FOR_MEAN}"
