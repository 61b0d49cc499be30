"""Means and shares of rows, and their differences, with 95% intervals: the jackknife by cluster.

A cluster is what is drawn as a whole: a context that several systems answered, a chatbot, a user, a
conversation that was repeated. Each is left out in turn; Student's t has the degrees of freedom of
intervals.py, fewer where few clusters carry the variance. With rows that stand alone this is the
usual t-interval, Welch's for two samples and the paired one for two samples of the same contexts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from medal_judges.stats.correlation import Floats
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import DIFFERENCE, TINY, evenness_degrees, t_quantile

_DENSE = 100  # codes up to so many times the rows are counted, not sorted
MIN_FOR_MEAN = 5  # with fewer, t hangs on three spreads and says next to nothing
Span = tuple[float, float]
ClusterNames = Sequence[str] | npt.NDArray[np.intp] | npt.NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class Sample:
    """Scores of one system, or of one group of rows.

    ``scores``: shape (rows,), no NaN. ``clusters``: the cluster of each row; the same name in two
    samples is the same cluster; None: each row is its own. ``weights``: how often each row counts,
    above 0; None: once. Raises ValueError for other lengths, NaN, or weights not above 0.
    """

    scores: Floats
    clusters: ClusterNames | None = None
    weights: Floats | None = None

    def __post_init__(self) -> None:
        if not np.isfinite(self.scores).all():
            raise ValueError("scores: leave out rows without a score, and say how many they are")
        for name, values in (("clusters", self.clusters), ("weights", self.weights)):
            if values is not None and len(values) != len(self.scores):
                raise ValueError(f"{name}: {len(values)} for {len(self.scores)} scores")
        if self.weights is not None and not (self.weights > 0).all():
            raise ValueError("weights: numbers above 0")

    @property
    def row_weights(self) -> Floats:
        """Weights of shape (rows,) with mean 1."""
        if self.weights is None:
            return np.ones(len(self.scores))
        weights: Floats = self.weights / self.weights.mean()
        return weights

    def cluster_names(self, prefix: str = "") -> ClusterNames:
        """The cluster of each row; ``prefix`` tells the single rows of two samples apart."""
        if self.clusters is not None:
            return self.clusters
        return [f"\x00{prefix}{i}" for i in range(len(self.scores))]


@dataclass(frozen=True, slots=True)
class Jackknifed:
    """A figure, and the figure without each cluster, shape (clusters,).

    ``share`` is what each cluster's squared deviation counts ((n - 1) / n with n clusters of its
    sample). ``least`` and ``most``: bounds of the degrees of freedom.
    """

    value: float
    left: Floats
    share: Floats
    least: float
    most: float

    def __sub__(self, other: Jackknifed) -> Jackknifed:
        """The difference of two figures over the same clusters."""
        return Jackknifed(
            self.value - other.value,
            self.left - other.left,
            np.maximum(self.share, other.share),
            min(self.least, other.least),
            self.most + other.most,
        )

    def mixed(self, other: Jackknifed, share: float) -> Jackknifed:
        """``share`` of this figure and the rest of another one of other clusters."""
        return Jackknifed(
            share * self.value + (1 - share) * other.value,
            share * self.left + (1 - share) * other.left,
            np.maximum(self.share, other.share),
            min(self.least, other.least),
            self.most + other.most,
        )

    @property
    def variance(self) -> float:
        """Jackknife variance; NaN where the figure is undefined without one of the clusters."""
        return float((self.share * (self.left - self.value) ** 2).sum())

    @property
    def degrees(self) -> float:
        """Degrees of freedom of Student's t."""
        return float(evenness_degrees(self.left - self.value, DIFFERENCE, self.least, self.most))


def mean_of(sample: Sample, span: Span | None = None) -> Estimate:
    """Weighted mean of the scores with its interval, which stays within ``span``.

    No interval, with the reason, for fewer than 5 clusters or equal scores.
    """
    if reason := _empty(sample):
        return Estimate(None, reason=reason)
    return interval_of(left_out_means([sample])[0], _few(sample), span, tested=False)


def share_of(sample: Sample) -> Estimate:
    """Share of rows of a 0-or-1 score: Wilson's interval on the effective number of rows, which
    exists at 0 and 1 too. Raises ValueError for scores outside 0 to 1."""
    if ((sample.scores < 0) | (sample.scores > 1)).any():
        raise ValueError("a share is of scores from 0 to 1")
    if reason := _empty(sample):
        return Estimate(None, reason=reason)
    figure, clusters = left_out_means([sample])[0], cluster_count(sample)
    return share_interval(figure, clusters, len(sample.scores), _few(sample))


def difference_of(first: Sample, second: Sample, span: Span | None = None) -> Estimate:
    """Mean of the first minus mean of the second, its interval and two-sided p-value.

    Clusters that both have count once: the same contexts make a paired comparison. ``span``: the
    scale of the scores. No interval, with the reason, for fewer than 5 clusters in one of the two,
    or where nothing varies.
    """
    if reason := _empty(first) or _empty(second):
        return Estimate(None, reason=reason)
    one, two = left_out_means([first, second])
    return interval_of(one - two, _few(first) or _few(second), difference_span(span), tested=True)


# -- the parts that ppi.py and comparisons share ----------------------------------------------


def cluster_count(sample: Sample) -> int:
    """Number of clusters."""
    if sample.clusters is None:
        return len(sample.scores)
    return _numbered(np.asarray(sample.clusters))[1]


def cluster_members(samples: Sequence[Sample]) -> tuple[list[npt.NDArray[np.intp]], int]:
    """For each sample the number of each row's cluster, and how many clusters there are in all."""
    names = [np.asarray(s.cluster_names(f"{k} ")) for k, s in enumerate(samples)]
    member, count = _numbered(np.concatenate(names))
    ends = np.cumsum([len(part) for part in names])[:-1]
    return np.split(member, ends), count


def _numbered(names: npt.NDArray[np.generic]) -> tuple[npt.NDArray[np.intp], int]:
    """The clusters of rows numbered without gaps in the order of their names, and how many."""
    if names.dtype.kind == "i" and len(names) and names.min() >= 0:
        codes = names.astype(np.intp)
        if codes.max() < _DENSE * len(codes):  # counting, where a sort of a million rows is slow
            present = np.bincount(codes) > 0
            return (np.cumsum(present) - 1)[codes], int(present.sum())
    labels, member = np.unique(names, return_inverse=True)
    return member, len(labels)


def cluster_shares(member: npt.NDArray[np.intp], size: int) -> tuple[Floats, int]:
    """What the squared deviation of each cluster counts, 0 where the sample lacks it, and how many
    it has."""
    present = np.bincount(member, minlength=size) > 0
    count = int(present.sum())
    return np.where(present, (count - 1) / count, 0.0), count


def left_out_means(samples: Sequence[Sample]) -> list[Jackknifed]:
    """The weighted mean of each sample, and without each cluster of all samples."""
    members, size = cluster_members(samples)
    figures = []
    for sample, member in zip(samples, members, strict=True):
        weights = sample.row_weights
        value = float(np.average(sample.scores, weights=weights))
        off = weights * (sample.scores - value)  # centred: sums of large numbers lose digits
        rest = weights.sum() - np.bincount(member, weights, size)
        with np.errstate(divide="ignore", invalid="ignore"):
            left = value - np.bincount(member, off, size) / np.where(rest > 1e-9, rest, np.nan)
        share, count = cluster_shares(member, size)
        figures.append(Jackknifed(value, left, share, max(1.0, (count - 1) / 3), count - 1))
    return figures


def interval_of(
    figure: Jackknifed, reason: str | None, span: Span | None, *, tested: bool, extra: float = 0.0
) -> Estimate:
    """The figure with its interval, cut to ``span``; for a ``tested`` one its p-value against 0.

    ``reason`` is why there is none; ``extra`` an error (in the figure's units, 95%) that the spread
    does not show.
    """
    if reason:
        return Estimate(figure.value, reason=reason)
    variance = figure.variance
    if not math.isfinite(variance):
        return Estimate(figure.value, reason="no interval: it hangs on a single cluster")
    scale = max(1.0, abs(figure.value))
    if math.sqrt(variance) < 1e-12 * scale and not extra:
        p_value = 1.0 if tested and abs(figure.value) < 1e-12 * scale else None
        return Estimate(figure.value, p_value=p_value, reason="no interval: nothing varies")
    degrees = figure.degrees if variance > 0 else figure.most
    quantile = float(t_quantile(degrees))
    error = math.sqrt(variance + (extra / quantile) ** 2)
    p_value = two_sided(figure.value, error, degrees) if tested else None
    low, high = figure.value - quantile * error, figure.value + quantile * error
    if span is not None:
        low, high = max(span[0], low), min(span[1], high)
    return Estimate(figure.value, min(low, figure.value), max(high, figure.value), p_value)


def share_interval(
    figure: Jackknifed, clusters: int, rows: int, reason: str | None, extra: float = 0.0
) -> Estimate:
    """Wilson's interval of a share with the number of rows that its variance speaks of: at most
    ``rows``, and ``clusters`` at 0 and 1, where there is no variance."""
    value = min(1.0, max(0.0, figure.value))
    if reason:
        return Estimate(value, reason=reason)
    variance = figure.variance
    if not math.isfinite(variance):
        return Estimate(value, reason="no interval: it hangs on a single cluster")
    base = value * (1 - value)
    plain = base <= 0 or variance <= 1e-15
    degrees = max(1.0, clusters - 1.0) if plain else figure.degrees
    quantile = float(t_quantile(degrees))
    variance += (extra / quantile) ** 2
    size = float(clusters) if plain and not extra else min(base / variance, rows)
    low, high = _wilson(value, max(size, 1.0), quantile)
    return Estimate(value, low, high)


def two_sided(value: float, error: float, degrees: float) -> float:
    """p-value of a figure against 0; never 0 itself, which would be certainty."""
    from scipy.special import stdtr

    return max(float(2 * stdtr(degrees, -abs(value) / error)), TINY)


def difference_span(span: Span | None) -> Span | None:
    """How far apart two means on a scale can be."""
    return None if span is None else (span[0] - span[1], span[1] - span[0])


def _wilson(share: float, size: float, quantile: float) -> Span:
    square = quantile**2
    middle = (share + square / (2 * size)) / (1 + square / size)
    half = quantile * math.sqrt(share * (1 - share) / size + square / (4 * size * size))
    half /= 1 + square / size
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def _few(sample: Sample) -> str | None:
    count = cluster_count(sample)
    if count >= MIN_FOR_MEAN:
        return None
    what = "row" if count == len(sample.scores) else "cluster"
    what += "" if count == 1 else "s"
    return f"no interval: {count} {what}, fewer than {MIN_FOR_MEAN}"


def _empty(sample: Sample) -> str | None:
    return None if len(sample.scores) else "no rows"
