"""Bootstrap: percentile intervals over resampled clusters.

Dialogues of one chatbot resemble each other, and so do the rows of one conversation: drawing
single rows would give intervals that are too narrow. Whole clusters are drawn instead (Field and
Welsh 2007, "Bootstrapping clustered data", the randomised cluster bootstrap).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from medal_judges.eval.correlation import Floats, Statistic
from medal_judges.eval.results import Estimate

MIN_CHATBOTS = 5
CONFIDENCE = 0.95
_CHUNK = 2_000_000  # weights held at once: 16 MB


@dataclass(frozen=True, slots=True)
class Clusters:
    """The cluster of each row. ``unit`` says what is drawn."""

    unit: Literal["chatbot", "conversation"]
    names: tuple[str, ...]

    @property
    def count(self) -> int:
        return len(set(self.names))

    def part(self, rows: Sequence[int]) -> Clusters:
        """The same for a selection of rows."""
        return Clusters(self.unit, tuple(self.names[i] for i in rows))


@dataclass(frozen=True, slots=True)
class Interval:
    """95% percentile interval; ``undefined`` is the share of resamples without a figure."""

    low: float | None
    high: float | None
    undefined: float


def choose_clusters(chatbots: Sequence[str | None], groups: Sequence[str]) -> Clusters:
    """By chatbot where every row names one and there are at least 5, else by conversation.

    With fewer chatbots a resample often holds one or two of them, and the percentiles of so few
    different samples mean nothing.
    """
    named = {bot for bot in chatbots if bot is not None}
    if None not in chatbots and len(named) >= MIN_CHATBOTS:
        return Clusters("chatbot", tuple(str(bot) for bot in chatbots))
    return Clusters("conversation", tuple(groups))


def resample_weights(
    clusters: Clusters, resamples: int, rng: np.random.Generator
) -> Iterator[Floats]:
    """Row weights in blocks of shape (some, rows): how often each row's cluster was drawn.

    Clusters are numbered by name, so the order of the rows does not change the draws.
    """
    names, member = np.unique(np.asarray(clusters.names), return_inverse=True)
    even = np.full(len(names), 1 / len(names))
    size = max(1, _CHUNK // max(1, len(member)))
    for start in range(0, resamples, size):
        drawn = rng.multinomial(len(names), even, size=min(size, resamples - start))
        yield drawn[:, member].astype(np.float64)


def resampled(
    statistic: Statistic, clusters: Clusters, resamples: int, rng: np.random.Generator
) -> dict[str, Floats]:
    """Each figure in every resample, shape (resamples,); NaN where undefined."""
    blocks = [statistic(weights) for weights in resample_weights(clusters, resamples, rng)]
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def interval_of(values: Floats) -> Interval:
    """Percentile interval of the defined values."""
    kept = values[np.isfinite(values)]
    undefined = 1 - len(kept) / len(values)
    if not len(kept):
        return Interval(None, None, undefined)
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(kept, [tail, 100 - tail])
    return Interval(float(low), float(high), undefined)


def with_intervals(
    estimates: Mapping[str, Estimate],
    statistic: Statistic,
    clusters: Clusters,
    *,
    resamples: int,
    rng: np.random.Generator,
) -> dict[str, Estimate]:
    """``estimates`` with 95% intervals where the figure is defined.

    No interval for ``resamples`` 0 or a single cluster. ``undefined`` of the estimate is the share
    of resamples in which the figure had no value.
    """
    if resamples < 1 or clusters.count < 2:
        return dict(estimates)
    values = resampled(statistic, clusters, resamples, rng)
    return {
        name: estimate if estimate.value is None else _with(estimate, interval_of(values[name]))
        for name, estimate in estimates.items()
    }


def _with(estimate: Estimate, interval: Interval) -> Estimate:
    return replace(estimate, low=interval.low, high=interval.high)
