"""95% intervals and p-values that are valid for few chatbots: the jackknife over whole clusters.

An interval holds for *these* chatbots in new conversations, or for *other* chatbots like these. For
these, each conversation is left out in turn, and is compared with the other conversations of its
chatbot. A context that several chatbots met is left out as a whole. For others, each chatbot is
left out in turn. If chatbots are not named, or there is only one, each conversation is left out.

Student's t is applied to the spread of the values, on a scale without ends (Fisher's z or the
logit). This is the estimator CV3 of MacKinnon, Nielsen and Webb 2023, "Cluster-robust inference: a
guide to empirical practice". docs/results/intervals.md has the measured coverage
(benchmarks/interval_coverage.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from medal_judges.stats.correlation import Floats, Statistic

LEVEL = 0.05  # of tests; intervals hold at 1 - LEVEL
MIN_ROWS = 10  # of an interval; with fewer it spans nearly all values or covers rarely
MIN_CLUSTERS = 3
MIN_OTHERS = 5  # chatbots of an interval for others beside the one for these
METHOD = "95%, jackknife: each chatbot or conversation is left out in turn, Student's t"
# Thousands of conversations are left out in this many random parts: t at 199 degrees of freedom
# is 0.6% above the normal, and the cost stays that of 200 figures.
MAX_PARTS = 200
# Evenness, by simulation: a figure is skewed if chatbots differ much, and needs a wider t than
# chatbots - 1 degrees of freedom give; the difference of two judges is not.
FIGURE, DIFFERENCE = 2.0, 3.0
# Whom an interval is for, and the column of the interval for others, from 5 chatbots on.
THESE, OTHERS = "these chatbots in new conversations", "Other chatbots"
Strata = npt.NDArray[np.intp]
TINY = float(np.finfo(float).tiny)
_ROUNDING = 1e-12  # figures that differ by less are equal
_CHUNK = 2_000_000  # weights held at once: 16 MB
_CORRELATIONS = ("pearson", "spearman", "spearmanr", "kendall", "within_system")
_SHARES = ("pairwise", "precision", "recall", "accuracy", "exact", "adjacent", "share")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95% interval and its p-value.

    Attributes:
        value: The value, None if it is undefined.
        low: Lower end of the interval, None without an interval.
        high: Upper end of the interval, None without an interval.
        p_value: Two-sided p-value for the hypothesis that the true value is 0. None if it is not
            tested.
        reason: Why there is no value or no interval, such as ``no rows``.
        beside: The same value, with an interval that generalizes to chatbots outside the data. None
            if there are too few chatbots.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    reason: str | None = None
    beside: Estimate | None = None


def undefined_estimates(names: Iterable[str], reason: str) -> dict[str, Estimate]:
    """Returns name -> Estimate for each of ``names``. Each Estimate has no value, and
    the given ``reason``."""
    return {name: Estimate(None, reason=reason) for name in names}


def estimate_or_reason(value: float, reason: str) -> Estimate:
    """Returns an Estimate of ``value`` without an interval. If ``value`` is NaN or infinite, the
    Estimate has no value and the given ``reason``."""
    if math.isfinite(value):
        return Estimate(value)
    return Estimate(None, reason=reason)


@dataclass(frozen=True, slots=True)
class Transform:
    """A transformation of a metric to an unbounded scale, such as Fisher's z. The metric's interval
    is computed there and transformed back.

    Attributes:
        low: Lowest possible value of the metric, such as -1.
        high: Highest possible value of the metric, such as 1.
        to: Transforms a value to the unbounded scale.
        back: Inverse of ``to``.
        slope: Derivative of ``to``.
    """

    low: float
    high: float
    to: Callable[[float], float]
    back: Callable[[float], float]
    slope: Callable[[float], float]


PLAIN = Transform(
    -math.inf,
    math.inf,
    lambda v: v,
    lambda v: v,
    lambda v: 1.0,
)
FISHER = Transform(
    -1.0,
    1.0,
    math.atanh,
    math.tanh,
    lambda v: 1 / (1 - v * v),
)
LOGIT = Transform(
    0.0,
    1.0,
    lambda v: math.log(v / (1 - v)),
    lambda v: 0.5 * (1 + math.tanh(v / 2)),  # never overflows
    lambda v: 1 / (v * (1 - v)),
)


def transform_of(metric: str) -> Transform:
    """Returns the transformation with which the interval of ``metric`` is computed.

    It is Fisher's z for correlations and alpha, and the logit for shares, F1 and AUC. Any other
    metric is not transformed.
    """
    if metric in _CORRELATIONS or metric == "alpha":
        return FISHER
    if metric in _SHARES or metric.startswith("f1_") or metric.endswith("auc"):
        return LOGIT
    return PLAIN


@dataclass(frozen=True, slots=True)
class Clusters:
    """Groups of rows that the jackknife leaves out in turn to estimate a standard error.

    Attributes:
        unit: What the rows of one group share: their ``chatbot``, ``conversation`` or ``context``
            (what conversations start from, such as a scenario).
        names: Name of each row's group [rows].
        crossed: Context of each row [rows], for two-way clustering by chatbot and context. Empty
            for one-way clustering.
        strata: Chatbot of each row [rows], if conversations are compared only with others of the
            same chatbot. Otherwise empty.
        beside: Groups for a second interval, which generalizes to chatbots outside the data. None
            if there are too few chatbots.
    """

    unit: Literal["chatbot", "conversation", "context"]
    names: tuple[str, ...]
    crossed: tuple[str, ...] = ()
    strata: tuple[str, ...] = ()
    beside: Clusters | None = None

    @property
    def count(self) -> int:
        """Returns the number of groups."""
        return len(set(self.names))


def choose_clusters(chatbots: Sequence[str | None], groups: Sequence[str]) -> Clusters:
    """Returns the groups of rows that the jackknife leaves out in turn.

    The groups are contexts (such as scenarios) if several chatbots share a context. Otherwise they
    are conversations. With 5 chatbots or more, ``beside`` has the groups for a second interval,
    which generalizes to chatbots outside the data.

    Args:
        chatbots: Chatbot of each row [rows], None if it is unknown.
        groups: Name of each row's conversation [rows], or of its context if several conversations
            share one.
    """
    names = tuple(groups)
    bots = tuple(bot for bot in chatbots if bot is not None)
    if len(bots) < len(chatbots) or len(set(bots)) < 2:
        return Clusters("conversation", names)
    of_these = Clusters("conversation", names, strata=bots)
    of_others = Clusters("chatbot", bots)
    if len(set(zip(names, bots, strict=True))) > len(set(names)):
        # Chatbots share contexts.
        of_these = Clusters("context", names)
        of_others = Clusters("chatbot", bots, crossed=names)
    if len(set(bots)) < MIN_OTHERS:
        return of_these
    return replace(of_these, beside=of_others)


def too_few_reason(clusters: Clusters) -> str | None:
    """Returns why there are too few rows or clusters for an interval, or None if there are enough.

    Args:
        clusters: Groups of rows that the jackknife leaves out in turn. At least 3 groups and 10
            rows are needed.

    Returns:
        A text such as ``no interval: 2 chatbots, fewer than 3``.
    """
    if len(clusters.names) < MIN_ROWS:
        return f"no interval: {len(clusters.names)} rows, fewer than {MIN_ROWS}"
    if clusters.count < MIN_CLUSTERS:
        return (
            f"no interval: {clusters.count} {clusters.unit}s, fewer than {MIN_CLUSTERS}"
        )
    return None


def estimate_metrics(
    statistic: Statistic,
    clusters: Clusters,
    reason: str,
    names: Iterable[str] = (),
    scale: Callable[[str], Transform] = transform_of,
) -> dict[str, Estimate]:
    """Returns metrics with 95% intervals. Correlations also get p-values.

    Args:
        statistic: Function that takes row weights [samples, rows] and returns metric -> values
            [samples].
        clusters: Groups of rows that the jackknife leaves out in turn.
        reason: Text for the Estimate of a metric that is undefined.
        names: Metrics to return. Empty for all.
        scale: Function from a metric's name to the transformation with which its interval is
            computed, such as Fisher's z.

    Returns:
        Metric -> Estimate. Its ``reason`` says why a value or an interval is missing.
    """
    estimates = estimates_without_intervals(
        statistic,
        len(clusters.names),
        reason,
        names,
    )
    intervals = _estimates_with_intervals(
        estimates,
        statistic,
        clusters,
        scale,
    )
    if clusters.beside is not None:
        beside = _estimates_with_intervals(
            estimates,
            statistic,
            clusters.beside,
            scale,
        )
        for name, estimate in intervals.items():
            if estimate.value is not None:
                intervals[name] = replace(estimate, beside=beside[name])
    return intervals


def estimates_without_intervals(
    statistic: Statistic,
    rows: int,
    reason: str,
    names: Iterable[str] = (),
) -> dict[str, Estimate]:
    """Returns the metrics of all rows, without intervals, as metric -> Estimate.

    Args:
        statistic: Function that takes row weights [samples, rows] and returns metric -> values
            [samples].
        rows: Number of rows.
        reason: Text for the Estimate of a metric that is undefined.
        names: Metrics to return. Empty for all.
    """
    values = statistic(np.ones((1, rows)))
    return {
        name: estimate_or_reason(float(values[name][0]), reason)
        for name in names or values
    }


def _estimates_with_intervals(
    estimates: Mapping[str, Estimate],
    statistic: Statistic,
    clusters: Clusters,
    scale: Callable[[str], Transform],
) -> dict[str, Estimate]:
    """Returns ``estimates`` with 95% intervals, and correlations also with p-values.

    Args:
        estimates: Metric -> Estimate on all rows.
        statistic: Function that takes row weights [samples, rows] and returns metric -> values
            [samples].
        clusters: Groups of rows that the jackknife leaves out in turn.
        scale: Function from a metric's name to the transformation with which its interval is
            computed.
    """
    spreads: Mapping[str, Spread] = {}
    if reason := too_few_reason(clusters):
        spreads = dict.fromkeys(estimates, Spread(math.nan, 0, reason))
    else:
        spreads = jackknife(statistic, clusters)
    intervals = {}
    for name, estimate in estimates.items():
        is_tested = name in _CORRELATIONS
        intervals[name] = add_interval(
            estimate, spreads[name], scale(name), tested=is_tested
        )
    return intervals


@dataclass(frozen=True, slots=True)
class StudentT:
    """Student's t distribution.

    Attributes:
        degrees: Degrees of freedom.
    """

    degrees: float

    def p_value(self, distance: float) -> float:
        """Returns the two-sided p-value of a value that is ``distance`` standard errors away from
        0. It is never exactly 0."""
        from scipy.special import stdtr  # what scipy.stats.t calls, without its checks

        # The smallest float instead of 0, which would be certainty.
        return max(float(2 * stdtr(self.degrees, -distance)), TINY)

    def critical_value(self, level: float = LEVEL) -> float:
        """Returns the distance from 0, in standard errors, at which the two-sided p-value equals
        ``level`` (0.05 by default)."""
        from scipy.special import stdtrit

        return -float(stdtrit(self.degrees, level / 2))


@dataclass(frozen=True, slots=True)
class Spread:
    """The standard error of a value, with the degrees of freedom of its interval.

    Attributes:
        error: Standard error, NaN or 0 if there is no interval.
        degrees: Degrees of freedom of Student's t, 0 if there is no interval.
        reason: Why there is no interval, None if there is one.
    """

    error: float
    degrees: float
    reason: str | None = None

    @property
    def half_width(self) -> float:
        """Returns half the width of the 95% interval."""
        return self.error * StudentT(self.degrees).critical_value()

    def p_value(self, distance: float) -> float:
        """Returns the two-sided p-value of a value.

        Args:
            distance: The value minus the value under the null hypothesis.
        """
        return StudentT(self.degrees).p_value(abs(distance) / self.error)


def jackknife_variance(
    left: Floats, figures: Floats, strata: Strata | None = None
) -> Floats:
    """Returns the jackknife variance of one value or of an array of values.

    Args:
        left: Leave-one-out values [..., clusters]. Each is computed without one cluster.
        figures: The values over all rows [...].
        strata: Stratum index of each cluster [clusters]. A cluster is compared only with clusters
            of its stratum. None for a single stratum.

    Returns:
        The variances [...].
    """
    count = left.shape[-1]
    if strata is None:
        spread: Floats = (
            (count - 1) / count * ((left - figures[..., None]) ** 2).sum(axis=-1)
        )
        return spread
    sizes = np.bincount(strata)[strata]
    squares = sizes / (sizes - 1) * _deviations(left, strata) ** 2
    within: Floats = ((count - 1) / count) ** 2 * squares.sum(axis=-1)
    return within


def _deviations(left: Floats, strata: Strata | None) -> Floats:
    """Returns each leave-one-out value minus the mean of its stratum, [..., clusters].

    Args:
        left: Leave-one-out values [..., clusters]: each is computed without one cluster.
        strata: Stratum index of each cluster [clusters], None for a single stratum.
    """
    if strata is None:
        centred: Floats = left - left.mean(axis=-1, keepdims=True)
        return centred
    member = np.eye(strata.max() + 1)[strata]
    within: Floats = left - (left @ (member / member.sum(axis=0))) @ member.T
    return within


def degrees_of_freedom(
    left: Floats, evenness: float, strata: Strata | None = None
) -> Floats:
    """Returns the degrees of freedom of Student's t for the jackknife interval of each value.

    They are fewer if few clusters carry most of the variance.

    Args:
        left: Leave-one-out values [..., clusters]. Each is computed without one cluster.
        evenness: 2 (``FIGURE``) for a single value, 3 (``DIFFERENCE``) for the difference of two
            values. A larger number gives more degrees of freedom.
        strata: Stratum index of each cluster [clusters], None for a single stratum.

    Returns:
        The degrees of freedom, of the shape of ``left`` without its last axis.
    """
    stratum_count = 1
    if strata is not None:
        stratum_count = int(strata.max()) + 1
    highest = left.shape[-1] - stratum_count
    # Below a third (one chatbot unlike all others) intervals get wide and hold no more often.
    return degrees_from_deviations(
        _deviations(left, strata), evenness, max(1.0, highest / 3), highest
    )


def degrees_from_deviations(
    away: Floats, evenness: float, lowest: float, highest: float
) -> Floats:
    """Returns the degrees of freedom of Student's t, from each cluster's influence on the value.

    Args:
        away: Change of the value when one cluster is left out [..., clusters].
        evenness: 2 (``FIGURE``) for a single value, 3 (``DIFFERENCE``) for the difference of two
            values. A larger number gives more degrees of freedom.
        lowest: Lower bound of the degrees of freedom.
        highest: Upper bound of the degrees of freedom.

    Returns:
        The degrees of freedom, of the shape of ``away`` without its last axis.
    """
    squares = away**2
    # 1 for a single cluster that matters, 1 / clusters where all matter alike
    share = (squares**2).sum(axis=-1) / squares.sum(axis=-1) ** 2
    bounded: Floats = np.clip(evenness / share - evenness, lowest, highest)
    return bounded


def jackknife(
    statistic: Statistic, clusters: Clusters, evenness: float = FIGURE
) -> dict[str, Spread]:
    """Returns the standard error and degrees of freedom of metrics, as metric -> Spread.

    Args:
        statistic: Function that takes row weights [samples, rows] and returns metric -> values
            [samples].
        clusters: Groups of rows that are left out in turn.
        evenness: 2 (``FIGURE``) for a single metric, 3 (``DIFFERENCE``) for the difference of two.
            A larger number gives more degrees of freedom.
    """
    figures = statistic(np.ones((1, len(clusters.names))))
    labels, left, strata = _compute_without_each(
        statistic, clusters.names, clusters.strata
    )
    variances = {
        n: jackknife_variance(left[n], value, strata).item()
        for n, value in figures.items()
    }
    if clusters.crossed:
        pairs = tuple(map(repr, zip(clusters.crossed, clusters.names, strict=True)))
        _, without_context, _ = _compute_without_each(statistic, clusters.crossed)
        _, without_pair, _ = _compute_without_each(statistic, pairs)
        for name, value in figures.items():
            # Cameron, Gelbach and Miller 2011: what chatbots and contexts share counts once.
            of_contexts = jackknife_variance(without_context[name], value)
            addition = float(
                (of_contexts - jackknife_variance(without_pair[name], value))[0]
            )
            # NaN stays: the figure is undefined without one of them.
            if not addition < 0:
                variances[name] += addition
    spreads = {}
    for name in figures:
        spreads[name] = spread_of(
            left[name], variances[name], labels, clusters.unit, evenness, strata
        )
    return spreads


def spread_of(
    left: Floats,
    variance: float,
    labels: Sequence[str] = (),
    unit: str = "conversation",
    evenness: float = FIGURE,
    strata: Strata | None = None,
) -> Spread:
    """Returns the standard error and degrees of freedom of one value, or the reason
    why it has no interval.

    Args:
        left: Leave-one-out values [clusters]. Each is computed without one cluster.
        variance: Jackknife variance of the value.
        labels: Name of each cluster [clusters], for the text of the reason.
        unit: What a cluster is, such as ``chatbot``, for the text of the reason.
        evenness: 2 (``FIGURE``) for a single value, 3 (``DIFFERENCE``) for the difference of two. A
            larger number gives more degrees of freedom.
        strata: Stratum index of each cluster [clusters], None for a single stratum.
    """
    if not math.isfinite(variance):
        missing = np.flatnonzero(~np.isfinite(left))
        cluster = f"one {unit}"
        if unit == "chatbot" and len(missing):
            cluster = f"the chatbot {labels[missing[0]]}"
        return Spread(math.nan, 0, f"no interval: undefined without {cluster}")
    if np.ptp(left) < _ROUNDING or math.sqrt(variance) < _ROUNDING:
        return Spread(0.0, 0, f"no interval: the same whichever {unit} is left out")
    return Spread(
        math.sqrt(variance), float(degrees_of_freedom(left, evenness, strata))
    )


def _compute_without_each(
    statistic: Statistic, names: Sequence[str], chatbots: Sequence[str] = ()
) -> tuple[list[str], dict[str, Floats], Strata | None]:
    """Computes metrics without each cluster of rows in turn.

    More than 200 clusters are first merged at random into about 200 larger ones.

    Args:
        statistic: Function that takes row weights [samples, rows] and returns metric -> values
            [samples].
        names: Cluster of each row [rows].
        chatbots: Chatbot of each row [rows], to make each chatbot a stratum. Empty for no strata.

    Returns:
        Names of the clusters (numbers for merged ones), metric -> values [clusters], and stratum
            index of each cluster (None without ``chatbots``).
    """
    # Numbered by name: the order of the rows changes nothing.
    labels, first, member = np.unique(names, return_index=True, return_inverse=True)
    strata = np.zeros(len(labels), dtype=np.intp)
    if chatbots:
        strata = _stratum_indices(np.asarray(chatbots)[first])
    if len(labels) > MAX_PARTS:
        part_of_label, strata = _merge_into_random_parts(strata)
        member, labels = part_of_label[member], np.arange(len(strata))
    size = max(1, _CHUNK // len(member))
    turns = np.arange(len(labels))[:, None]
    blocks: dict[str, list[Floats]] = {}
    for start in range(0, len(labels), size):
        weights = (member != turns[start : start + size]).astype(np.float64)
        for name, values in statistic(weights).items():
            blocks.setdefault(name, []).append(values)
    left = {name: np.concatenate(values) for name, values in blocks.items()}
    return labels.astype(str).tolist(), left, strata if chatbots else None


def _stratum_indices(chatbots: npt.NDArray[np.str_]) -> Strata:
    """Returns for each conversation the index of its stratum (a group for
    comparisons): its chatbot.

    Chatbots with a single conversation are merged with others, because a stratum needs two.

    Args:
        chatbots: Chatbot of each conversation [conversations].
    """
    strata: Strata = np.unique(chatbots, return_inverse=True)[1]
    # Chatbots with one conversation share a stratum; a single one joins the largest.
    is_single = np.bincount(strata)[strata] == 1
    if is_single.sum() > 1:
        strata[is_single] = strata[is_single][0]
    elif is_single.any():
        strata[is_single] = np.bincount(strata).argmax()
    return np.unique(strata, return_inverse=True)[1]


def _merge_into_random_parts(strata: Strata) -> tuple[Strata, Strata]:
    """Merges the clusters of each stratum at random into larger parts, about ``MAX_PARTS`` in all.

    Args:
        strata: Stratum index of each cluster [clusters].

    Returns:
        Part index of each cluster [clusters], and stratum index of each part [parts].
    """
    rng = np.random.default_rng(0)
    part_of_cluster = np.empty_like(strata)
    stratum_of_part: list[int] = []
    for stratum, size in enumerate(np.bincount(strata)):
        count = max(2, round(MAX_PARTS * size / len(strata)))
        part_of_cluster[strata == stratum] = (
            len(stratum_of_part) + rng.permutation(size) % count
        )
        stratum_of_part += [stratum] * count
    return part_of_cluster, np.array(stratum_of_part)


def add_interval(
    estimate: Estimate, spread: Spread, scale: Transform, *, tested: bool = False
) -> Estimate:
    """Returns a copy of ``estimate`` with a 95% interval, or with the reason why it has none.

    Args:
        estimate: An Estimate without an interval. If it has no value, it is returned unchanged.
        spread: Standard error and degrees of freedom of the value, or the reason for no interval.
        scale: Transformation with which the interval is computed, such as Fisher's z.
        tested: Whether to add a p-value for the hypothesis that the true value is 0.
    """
    value, reason = estimate.value, spread.reason
    if value is None:
        return estimate
    if not reason and not scale.low < value < scale.high:
        reason = "no interval: the result is at the end of its range"
    if reason:
        return replace(estimate, reason=reason)
    position = scale.to(value)
    on_scale = replace(spread, error=spread.error * scale.slope(value))
    p_value = None
    if tested:
        p_value = on_scale.p_value(position)
    return replace(
        estimate,
        low=scale.back(position - on_scale.half_width),
        high=scale.back(position + on_scale.half_width),
        p_value=p_value,
    )


def wilson_interval(successes: float, n: float) -> tuple[float, float]:
    """Returns the lower and upper end of Wilson's 95% score interval (1927) for the
    share ``successes / n``.

    Args:
        successes: Number of successes. Fractions are allowed.
        n: Number of trials, above 0. It may be an effective number, such as 12.5.
    """
    return wilson_interval_at(successes / n, n, 1.959963984540054)


def wilson_interval_at(share: float, n: float, quantile: float) -> tuple[float, float]:
    """Returns the lower and upper end of Wilson's interval for a ``share`` of ``n`` trials.

    Args:
        share: Share of successes, on [0, 1].
        n: Number of trials, above 0. It may be an effective number, such as 12.5.
        quantile: Two-sided normal or t quantile, such as 1.96 for 95%.
    """
    square = quantile**2
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = (
        quantile
        * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
        / (1 + square / n)
    )
    # An interval ends exactly at a share of 0 or 1; rounding would leave 1e-16.
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))
