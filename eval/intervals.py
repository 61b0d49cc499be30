"""95% intervals and p-values that hold for few chatbots: the jackknife over whole clusters.

Chatbots are a random sample: an interval is for other chatbots like these, in new dialogues. Each
chatbot is left out once, and Student's t with chatbots - 1 degrees of freedom goes with the spread
of what remains, on a scale without ends (Fisher's z, logit). Where chatbots are not named, or there
is one only, conversations take their place, and the interval is for these chatbots.

Source: MacKinnon, Nielsen and Webb 2023, "Cluster-robust inference: a guide to empirical practice",
the estimator CV3. How often the intervals hold, beside what was rejected (the percentile cluster
bootstrap holds 70 to 90% of the time at 5 to 8 chatbots), is measured in docs/intervals.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from medal_judges.eval.correlation import Floats, Statistic
from medal_judges.eval.results import Estimate
from medal_judges.eval.scales import is_correlation, scale_of

MIN_ROWS = 10  # of an interval; with fewer it spans nearly all values, or promises too much
MIN_CLUSTERS = 3
CONFIDENCE = 0.95
METHOD = "95%, jackknife: each chatbot or conversation is left out in turn, Student's t"
# Thousands of conversations are left out in this many random parts: t at 199 degrees of freedom
# is 0.6% above the normal, and the cost stays that of 200 figures.
MAX_PARTS = 200
_CHUNK = 2_000_000  # weights held at once: 16 MB


@dataclass(frozen=True, slots=True)
class Clusters:
    """The cluster of each row. ``unit`` says what is left out at a time.

    ``crossed``: the conversation or context of each row, given where some of them meet several
    chatbots; their share of the variance is added to that of the chatbots.
    """

    unit: Literal["chatbot", "conversation"]
    names: tuple[str, ...]
    crossed: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return len(set(self.names))


def choose_clusters(chatbots: Sequence[str | None], groups: Sequence[str]) -> Clusters:
    """By chatbot where every row names one and there are several, else by conversation."""
    bots = tuple(bot for bot in chatbots if bot is not None)
    if len(bots) < len(chatbots) or len(set(bots)) < 2:
        return Clusters("conversation", tuple(groups))
    pairs = set(zip(groups, bots, strict=True))
    return Clusters("chatbot", bots, tuple(groups) if len(pairs) > len(set(groups)) else ())


def too_few(clusters: Clusters) -> str | None:
    """Why these rows are too few for an interval; None where they are enough."""
    if len(clusters.names) < MIN_ROWS:
        return f"no interval: {len(clusters.names)} rows, fewer than {MIN_ROWS}"
    if clusters.count < MIN_CLUSTERS:
        return f"no interval: {clusters.count} {clusters.unit}s, fewer than {MIN_CLUSTERS}"
    return None


def with_intervals(
    estimates: Mapping[str, Estimate], statistic: Statistic, clusters: Clusters
) -> dict[str, Estimate]:
    """``estimates`` with 95% intervals, and the p-values of correlations.

    A figure that cannot have an interval keeps its value and says why in ``reason``: fewer than 10
    rows or 3 clusters, a figure that is undefined without one of the clusters, or that stands at
    the end of its range.
    """
    if reason := too_few(clusters):
        return {name: _without(estimate, reason) for name, estimate in estimates.items()}
    spreads = jackknife(statistic, clusters)
    return {name: _spanned(name, estimate, spreads[name]) for name, estimate in estimates.items()}


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard error of a figure and the degrees of freedom of its Student's t. ``reason`` says
    why there is none."""

    error: float
    degrees: int
    reason: str | None = None

    @property
    def half(self) -> float:
        """Half the width of the 95% interval around the figure."""
        from scipy.stats import t

        return float(t.ppf((1 + CONFIDENCE) / 2, self.degrees)) * self.error

    def p_value(self, distance: float) -> float:
        """Two-sided p of a figure that is this far from what it is tested against."""
        from scipy.stats import t

        return float(2 * t.sf(abs(distance) / self.error, self.degrees))


def jackknife(statistic: Statistic, clusters: Clusters) -> dict[str, Spread]:
    """The spread of each figure of ``statistic`` when each cluster is left out in turn."""
    whole = {name: float(v[0]) for name, v in statistic(np.ones((1, len(clusters.names)))).items()}
    labels, left = _left_out(statistic, clusters.names)
    variances = {name: _variance(left[name], value) for name, value in whole.items()}
    if clusters.crossed:
        pairs = tuple(map(repr, zip(clusters.crossed, clusters.names, strict=True)))
        _, contexts = _left_out(statistic, clusters.crossed)
        _, both = _left_out(statistic, pairs)
        for name, value in whole.items():
            # Cameron, Gelbach and Miller 2011: what chatbots and contexts share counts once.
            more = _variance(contexts[name], value) - _variance(both[name], value)
            variances[name] += max(0.0, more)
    return {name: _spread(variances[name], left[name], labels, clusters.unit) for name in whole}


def _spread(variance: float, left: Floats, labels: Sequence[str], unit: str) -> Spread:
    missing = np.flatnonzero(~np.isfinite(left))
    if len(missing):
        which = f"the chatbot {labels[missing[0]]}" if unit == "chatbot" else f"one {unit}"
        return Spread(math.nan, 0, f"no interval: undefined without {which}")
    if not variance > 0:
        return Spread(0.0, 0, f"no interval: the same whichever {unit} is left out")
    return Spread(math.sqrt(variance), len(left) - 1)


def _left_out(statistic: Statistic, names: Sequence[str]) -> tuple[list[str], dict[str, Floats]]:
    """The names left out in turn, and each figure without them, shape (parts,)."""
    labels, member = np.unique(np.asarray(names), return_inverse=True)
    if len(labels) > MAX_PARTS:  # numbered by name: the order of the rows changes nothing
        part = np.random.default_rng(0).permutation(len(labels)) % MAX_PARTS
        member, labels = part[member], np.arange(MAX_PARTS)
    size = max(1, _CHUNK // len(member))
    turns = np.arange(len(labels))[:, None]
    blocks = [
        statistic((member != turns[start : start + size]).astype(np.float64))
        for start in range(0, len(labels), size)
    ]
    return list(map(str, labels)), {k: np.concatenate([b[k] for b in blocks]) for k in blocks[0]}


def _variance(left: Floats, whole: float) -> float:
    return float((len(left) - 1) / len(left) * ((left - whole) ** 2).sum())


def _spanned(name: str, estimate: Estimate, spread: Spread) -> Estimate:
    if estimate.value is None:
        return estimate
    if spread.reason:
        return _without(estimate, spread.reason)
    scale = scale_of(name)
    if not scale.inside(estimate.value):
        return _without(estimate, "no interval: the figure is at the end of its range")
    here = scale.to(estimate.value)
    on_scale = replace(spread, error=spread.error * scale.slope(estimate.value))
    low, high = scale.back(here - on_scale.half), scale.back(here + on_scale.half)
    p_value = on_scale.p_value(here) if is_correlation(name) else None
    return replace(estimate, low=low, high=high, p_value=p_value)


def _without(estimate: Estimate, reason: str) -> Estimate:
    return estimate if estimate.value is None else replace(estimate, reason=reason)
