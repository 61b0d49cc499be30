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
    evenness_degrees,
    wilson_at,
)

MIN_FOR_MEAN = 5  # with fewer, t rests on three spreads
Span = tuple[float, float]
ClusterNames = Sequence[str] | npt.NDArray[np.intp] | npt.NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class Sample:
    """Scores of one system, or of one group of rows.

    ``values``: the scores, no NaN. ``clusters``: the cluster of each row; equal names in two
    samples are the same cluster. ``weights``: how often each row counts, above 0 (None: once).
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
        """Weights of shape (rows,) with mean 1."""
        if self.weights is None:
            return np.ones(len(self.scores))
        return np.asarray(self.weights / self.weights.mean())


@dataclass(frozen=True, slots=True)
class Jackknifed:
    """A figure, and the figure without each cluster, shape (clusters,).

    ``share``: the weight of each cluster's squared deviation ((n - 1) / n for a sample of n
    clusters). ``fewest_degrees`` and ``most_degrees`` are the bounds of the degrees of freedom.
    ``away``: how far each cluster's own figure is from this one (of a difference: the sum of
    both). ``tolerance``: the distance up to which two such figures are equal.
    """

    value: float
    left: Floats
    share: Floats
    fewest_degrees: float
    most_degrees: float
    away: Floats
    tolerance: float

    def __sub__(self, second: Jackknifed) -> Jackknifed:
        """Returns the difference of two figures over the same clusters."""
        return self._combine(second, 1.0, -1.0)

    def mix(self, second: Jackknifed, share: float) -> Jackknifed:
        """Returns ``share`` times this figure plus (1 - ``share``) times a figure of other
        clusters."""
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
    def finest(self) -> float:
        """Returns the distance up to which figures are equal; rounding, if the tolerance is 0."""
        return max(self.tolerance, 1e-12 * max(1.0, abs(self.value)))

    @property
    def varies(self) -> bool:
        """Returns whether the figure of a cluster differs."""
        return bool(np.abs(self.away).max(initial=0.0) > self.finest)

    @property
    def variance(self) -> float:
        """Returns the jackknife variance; NaN if the figure is undefined without one of the
        clusters."""
        return float((self.share * (self.left - self.value) ** 2).sum())

    @property
    def degrees(self) -> float:
        """Returns the degrees of freedom of Student's t."""
        bounds = self.fewest_degrees, self.most_degrees
        return float(evenness_degrees(self.left - self.value, DIFFERENCE, *bounds))


def mean_of(sample: Sample, span: Span | None = None) -> Estimate:
    """Returns the weighted mean of the scores of ``sample`` with its interval, cut to ``span``. For
    fewer than 5 clusters or equal scores there is no interval, but a reason."""
    if not len(sample.scores):
        return Estimate(None, reason="no rows")
    return interval_of(left_out_means([sample])[0], few_clusters(sample), span)


def share_of(sample: Sample) -> Estimate:
    """Returns the share of rows of ``sample`` with score 1 (scores are from 0 to 1), with Wilson's
    interval for the effective number of rows, which is defined at shares of 0 and 1 too."""
    if not len(sample.scores):
        return Estimate(None, reason="no rows")
    figure, clusters = left_out_means([sample])[0], cluster_count(sample)
    return share_interval(figure, clusters, len(sample.scores), few_clusters(sample))


def difference_of(first: Sample, second: Sample) -> Difference:
    """Returns the mean of ``first`` minus the mean of ``second``, with its interval and two-sided
    p-value.

    A cluster in both is left out of both at once, so the same contexts make a paired comparison.
    For fewer than 5 clusters in one of the two, or equal scores, there is no interval, but a
    reason.
    """
    if not (len(first.scores) and len(second.scores)):
        return Difference(None, reason="no rows")
    first_mean, second_mean = left_out_means([first, second])
    reason = few_clusters(first) or few_clusters(second)
    return difference_from(first_mean - second_mean, reason, None)


def cluster_count(sample: Sample) -> int:
    return len(np.unique(sample.clusters))


def cluster_members(
    samples: Sequence[Sample],
) -> tuple[list[npt.NDArray[np.intp]], int]:
    """Returns for each of ``samples`` the number of each row's cluster, and the number of clusters
    in all samples."""
    names = [np.asarray(sample.clusters) for sample in samples]
    labels, member = np.unique(np.concatenate(names), return_inverse=True)
    ends = np.cumsum([len(sample.scores) for sample in samples])
    return np.split(member, ends[:-1]), len(labels)


def cluster_shares(member: npt.NDArray[np.intp], size: int) -> tuple[Floats, int]:
    """Returns the weight of each cluster's squared deviation (0 for a cluster without rows), and
    the number of clusters in the sample. ``member``: the number of each row's cluster, of ``size``
    clusters in all."""
    present = np.bincount(member, minlength=size) > 0
    count = int(present.sum())
    return np.where(present, (count - 1) / count, 0.0), count


def left_out_means(samples: Sequence[Sample]) -> list[Jackknifed]:
    """Returns the mean of each of ``samples``, also without each cluster of all samples."""
    members, size = cluster_members(samples)
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
        share, count = cluster_shares(member, size)
        fewest, tolerance = max(1.0, (count - 1) / 3), sample.values.tolerance
        figures.append(
            Jackknifed(value, left, share, fewest, count - 1, away, tolerance)
        )
    return figures


def interval_of(
    figure: Jackknifed, reason: str | None, span: Span | None, extra: float = 0.0
) -> Estimate:
    """Returns the figure with its interval, cut to ``span``. ``reason`` says why there is no
    interval. ``extra`` is an additional error (95%) that the jackknife does not show."""
    spread = _spread(figure, reason, extra)
    estimate = replace(spread, tolerance=0.0, span=span or spread.span).estimate
    return replace(estimate, p_value=None)


def difference_from(
    figure: Jackknifed, reason: str | None, span: Span | None, extra: float = 0.0
) -> Difference:
    """Returns the difference that ``figure`` is. ``span`` is the scale of the two means. ``reason``
    says why there is no interval. ``extra`` is an additional error (95%, in the figure's units)
    that the jackknife does not show."""
    difference = _spread(figure, reason, extra)
    if span is None:
        return difference
    return replace(difference, span=(span[0] - span[1], span[1] - span[0]))


def _spread(figure: Jackknifed, reason: str | None, extra: float) -> Difference:
    """Returns the distance of the figure from 0."""
    variance = figure.variance
    if not reason and not math.isfinite(variance):
        reason = "no interval: it depends on a single cluster"
    if reason:
        return Difference(figure.value, reason=reason)
    if not figure.varies and not extra:
        equal = abs(figure.value) <= figure.finest
        return Difference(
            figure.value, reason="no interval: nothing varies", equal=equal
        )
    student = Student(figure.most_degrees)
    if variance > 0:
        student = Student(figure.degrees)
    error = math.sqrt(variance + (extra / student.critical()) ** 2)
    return Difference(figure.value, error, student, tolerance=figure.tolerance)


def share_interval(
    figure: Jackknifed, clusters: int, rows: int, reason: str | None, extra: float = 0.0
) -> Estimate:
    """Returns the share ``figure`` with Wilson's interval for its effective number of rows.

    That number is at most ``rows``. At shares of 0 and 1, where there is no variance, it is
    ``clusters``. ``reason`` says why there is no interval. ``extra`` is an additional error (95%).
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
    quantile = Student(degrees).critical()
    if extra or varies:
        size = min(base / (variance + (extra / quantile) ** 2), rows)
    low, high = wilson_at(value, max(size, 1.0), quantile)
    return Estimate(value, min(value, low), max(value, high))


def edge_error(samples: Sequence[Sample]) -> float:
    """Returns the error (95%) of the shares of ``samples`` at 0 or 1, which the jackknife does not
    show: the error of each share with one more cluster of 0 and one of 1 (Agresti and Caffo
    2000)."""
    square = 0.0
    for sample in samples:
        if sample.values.constant:
            size = cluster_count(sample) + 2
            square += Student(size - 1).critical() ** 2 * (size - 1) / size**3
    return math.sqrt(square)


def few_clusters(
    sample: Sample,
    units: tuple[str, str] = ("row", "cluster"),
    owner: str = "",
    prefix: str = "no interval: ",
) -> str | None:
    """Returns why there is no interval if ``sample`` has fewer than 5 clusters, or None. ``units``
    are the words for a row and for a cluster of several rows, ``owner`` for whose they are, and
    ``prefix`` begins the text."""
    count = cluster_count(sample)
    if count >= MIN_FOR_MEAN:
        return None
    unit = units[count < len(sample.scores)]
    if count != 1:
        unit += "s"
    return f"{prefix}{count} {unit}{owner}, fewer than {MIN_FOR_MEAN}"
