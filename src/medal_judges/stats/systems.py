"""Which of two systems is better: their difference, paired where they met the same contexts.

Each row belongs to a context (its own where nothing is shared). On contexts that both systems met,
each context counts by its dialogues and the two means in it are subtracted (a paired comparison);
the other rows of both are an unpaired one, and the two are weighed by their precision. Where people
labelled rows, the same is done with prediction-powered means (ppi.py). Contexts are what varies:
repeated dialogues in one context are no new evidence about others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from medal_judges.stats.correlation import Floats
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import t_quantile
from medal_judges.stats.means import (
    MIN_FOR_MEAN,
    ClusterNames,
    Jackknifed,
    Sample,
    Span,
    cluster_count,
    difference_span,
    interval_of,
    left_out_means,
)
from medal_judges.stats.ppi import LabelledSample, correct, too_few_labels

Pairing = Literal["paired", "partly paired", "unpaired"]
POWER = 0.8
_TIE = 1e-9  # scores closer than this are equal
Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class SystemRows:
    """The rows of one system on one dimension.

    ``scores``: shape (rows,). ``contexts``: the context of each row, the same name in two systems
    being the same one. ``clusters``: what varies together, where it is more than a context (a
    user); the contexts unless given. ``labels``: people's means, NaN where there are none, or None
    for no labels at all; ``label_weights`` as in LabelledSample.
    """

    scores: Floats
    contexts: ClusterNames
    clusters: ClusterNames | None = None
    labels: Floats | None = None
    label_weights: Floats | None = None

    def sample(self, rows: Rows, weights: Floats) -> Sample:
        """The scores of some of the rows."""
        names = self.contexts if self.clusters is None else self.clusters
        return Sample(self.scores[rows], np.asarray(names)[rows], weights)

    def labelled_sample(self, rows: Rows, weights: Floats) -> LabelledSample:
        """The same with labels; none are there where ``labels`` is None."""
        labels = np.full(len(self.scores), np.nan) if self.labels is None else self.labels
        own = None if self.label_weights is None else self.label_weights[rows]
        return LabelledSample(self.sample(rows, weights), labels[rows], own)

    def whole(self) -> LabelledSample:
        """All rows, each counting once."""
        return self.labelled_sample(np.arange(len(self.scores)), np.ones(len(self.scores)))


@dataclass(frozen=True, slots=True)
class Tested:
    """A difference with its interval and p-value; ``smallest`` is the difference that as many rows
    show with a power of 0.8 (two-sided, 5%), None where there is no interval."""

    estimate: Estimate
    smallest: float | None = None

    def times_more(self, difference: float) -> float | None:
        """By how much the rows must be multiplied to show ``difference``; at least 1."""
        if self.smallest is None or difference == 0:
            return None
        return max(1.0, (self.smallest / abs(difference)) ** 2)


@dataclass(frozen=True, slots=True)
class SystemDifference:
    """Mean of the first system minus that of the second.

    ``judge`` is by the judge's scores alone, ``corrected`` by people (None without labels).
    ``shared``: contexts that both met; ``rows``: how many of each system went into the difference;
    ``left_out``: how many of each did not, since the other system met none of their kind.
    ``wins``, ``ties``, ``losses`` of the first, by the judge: of the shared contexts where these
    hold half of each system's rows (``by_context``), else of all pairs of a row of each.
    """

    judge: Tested
    corrected: Tested | None
    pairing: Pairing
    shared: int
    rows: tuple[int, int]
    left_out: tuple[int, int]
    wins: int
    ties: int
    losses: int
    by_context: bool

    @property
    def best(self) -> Tested:
        """What is to be believed: the corrected one where there is one."""
        return self.judge if self.corrected is None else self.corrected


def system_difference(
    first: SystemRows, second: SystemRows, span: Span | None = None, label_span: Span | None = None
) -> SystemDifference:
    """``first`` minus ``second``. ``span``: scale of the scores; ``label_span``: of the labels.

    A difference without an interval says why in its ``reason``: fewer than 5 contexts, or scores
    that do not vary; a correction needs 5 labelled contexts of each.
    """
    met = _contexts(first, second)
    parts = _parts(first, second, met)
    judge = _judge(first, second, parts, span)
    corrected = None
    if first.labels is not None or second.labels is not None:
        corrected = _corrected(first, second, parts, label_span)
    by_context = all(2 * inside.sum() >= len(inside) for inside in met.inside) and met.shared > 0
    wins, ties, losses = _wins(first, second, met, by_context)
    used = tuple(sum(len(part.rows[k]) for part in parts) for k in (0, 1))
    sizes = len(first.scores), len(second.scores)
    every = met.shared > 0 and all(inside.all() for inside in met.inside)
    pairing: Pairing = "paired" if every else "partly paired" if met.shared else "unpaired"
    return SystemDifference(
        judge,
        corrected,
        pairing,
        met.shared,
        (used[0], used[1]),
        (sizes[0] - used[0], sizes[1] - used[1]),
        wins,
        ties,
        losses,
        by_context,
    )


# -- the parts of a difference ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of both systems and their weights: those of shared contexts, or the others."""

    rows: tuple[Rows, Rows]
    weights: tuple[Floats, Floats]


@dataclass(frozen=True, slots=True)
class _Contexts:
    """The number of each row's context, for both systems, and each context's rows, shape (2,
    contexts)."""

    codes: tuple[Rows, Rows]
    counts: Rows

    @property
    def both(self) -> npt.NDArray[np.bool_]:
        """Which contexts both systems met, shape (contexts,)."""
        return np.asarray((self.counts > 0).all(axis=0))

    @property
    def shared(self) -> int:
        return int(self.both.sum())

    @property
    def inside(self) -> list[npt.NDArray[np.bool_]]:
        """Which rows of each system are of a shared context."""
        return [self.both[codes] for codes in self.codes]


def _contexts(first: SystemRows, second: SystemRows) -> _Contexts:
    named = np.concatenate([np.asarray(system.contexts) for system in (first, second)])
    labels, codes = np.unique(named, return_inverse=True)
    one, two = codes[: len(first.contexts)], codes[len(first.contexts) :]
    counts = np.stack([np.bincount(part, minlength=len(labels)) for part in (one, two)])
    return _Contexts((one, two), counts)


def _parts(first: SystemRows, second: SystemRows, met: _Contexts) -> list[_Part]:
    """The paired part and the unpaired one; all rows unpaired where too few contexts are shared;
    the paired one alone where only one system has other rows."""
    if met.shared < MIN_FOR_MEAN:
        return [_everything(first, second)]
    inside = [np.flatnonzero(rows) for rows in met.inside]
    # a context counts by its dialogues of both systems, and in each as one mean
    weights = [
        (met.counts.sum(axis=0) / np.maximum(met.counts[k], 1))[met.codes[k][rows]]
        for k, rows in enumerate(inside)
    ]
    parts = [_Part((inside[0], inside[1]), (weights[0], weights[1]))]
    outside = [np.flatnonzero(~rows) for rows in met.inside]
    others = [len(np.unique(met.codes[k][rows])) for k, rows in enumerate(outside)]
    if min(others) >= MIN_FOR_MEAN:
        ones = np.ones(len(outside[0])), np.ones(len(outside[1]))
        parts.append(_Part((outside[0], outside[1]), ones))
    return parts


def _everything(first: SystemRows, second: SystemRows) -> _Part:
    sizes = len(first.scores), len(second.scores)
    return _Part((np.arange(sizes[0]), np.arange(sizes[1])), (np.ones(sizes[0]), np.ones(sizes[1])))


def _judge(
    first: SystemRows, second: SystemRows, parts: Sequence[_Part], span: Span | None
) -> Tested:
    samples = [
        system.sample(part.rows[k], part.weights[k])
        for part in parts
        for k, system in enumerate((first, second))
    ]
    if not all(len(sample.scores) for sample in samples):
        return Tested(Estimate(None, reason="no scored rows of one of the two"))
    few = min(samples, key=cluster_count)
    count = cluster_count(few)
    what = "dialogue" if count == len(few.scores) else "context"
    what += "" if count == 1 else "s"
    reason = f"no interval: {count} {what} of one of the two, fewer than {MIN_FOR_MEAN}"
    return _tested(_joined(left_out_means(samples)), reason if count < MIN_FOR_MEAN else None, span)


def _corrected(
    first: SystemRows, second: SystemRows, parts: Sequence[_Part], span: Span | None
) -> Tested:
    """As ``_judge``; where a part has too few labels, all rows are taken as one unpaired part."""

    def labelled(chosen: Sequence[_Part]) -> list[LabelledSample]:
        return [
            system.labelled_sample(part.rows[k], part.weights[k])
            for part in chosen
            for k, system in enumerate((first, second))
        ]

    samples = labelled(parts)
    if any(too_few_labels(sample) for sample in samples):
        samples = labelled([_everything(first, second)])
    for name, sample in zip(("first", "second"), samples, strict=False):
        if reason := too_few_labels(sample):
            return Tested(Estimate(None, reason=f"not corrected: {reason}, of the {name}"))
    fit = correct(samples, span)
    return _tested(_joined(fit.figures), fit.certain, span, math.hypot(*fit.hidden))


def _joined(figures: Sequence[Jackknifed]) -> Jackknifed:
    """The difference of a part, or of two parts weighed by their precision."""
    paired = figures[0] - figures[1]
    if len(figures) == 2:
        return paired
    rest = figures[2] - figures[3]
    one, two = paired.variance, rest.variance
    if not (math.isfinite(one) and math.isfinite(two) and one + two > 0):
        return paired
    return paired.mixed(rest, two / (one + two))


def _tested(
    figure: Jackknifed, reason: str | None, span: Span | None, hidden: float = 0.0
) -> Tested:
    from scipy.special import stdtrit

    apart = difference_span(span)
    estimate = interval_of(figure, reason, apart, tested=True, extra=hidden)
    if estimate.low is None:
        return Tested(estimate)
    whole = interval_of(figure, reason, None, tested=False, extra=hidden)  # not cut to the scale
    assert whole.high is not None and whole.value is not None
    degrees = figure.degrees if figure.variance > 0 else figure.most
    sure = float(t_quantile(degrees))
    error = (whole.high - whole.value) / sure
    return Tested(estimate, error * (sure + float(stdtrit(degrees, POWER))))


def _wins(
    first: SystemRows, second: SystemRows, met: _Contexts, by_context: bool
) -> tuple[int, int, int]:
    """Wins, ties and losses of the first: in shared contexts, or over all pairs of rows."""
    if by_context:
        size = met.counts.shape[1]
        sums = [
            np.bincount(codes, system.scores, size)
            for codes, system in zip(met.codes, (first, second), strict=True)
        ]
        one, two = (sums[k][met.both] / met.counts[k][met.both] for k in (0, 1))
        apart = one - two
        tied = int((np.abs(apart) <= _TIE).sum())
        return int((apart > _TIE).sum()), tied, int((apart < -_TIE).sum())
    ordered = np.sort(second.scores)
    below = int(np.searchsorted(ordered, first.scores - _TIE, side="left").sum())
    above = int((len(ordered) - np.searchsorted(ordered, first.scores + _TIE, side="right")).sum())
    return below, len(first.scores) * len(ordered) - below - above, above


# -- several systems ----------------------------------------------------------------------------

# The p-value after correction of one system against another.
PValueOf = Callable[[int, int], float | None]


def rank_intervals(
    values: Sequence[float], p_value: PValueOf, level: float = 0.05
) -> list[tuple[int, int]]:
    """(best, worst) rank that each system may have, 1 for the largest value: as many systems stand
    surely above it, and below it, as differ from it at ``level``. With p-values after Holm's
    correction all intervals hold together at 1 - ``level`` (Mogstad et al. 2024)."""
    count = len(values)
    found = []
    for i in range(count):
        sure = [j for j in range(count) if j != i and _differs(p_value(i, j), level)]
        above = sum(values[j] > values[i] for j in sure)
        found.append((1 + above, count - (len(sure) - above)))
    return found


def indistinct_groups(
    values: Sequence[float], p_value: PValueOf, level: float = 0.05
) -> list[tuple[int, ...]]:
    """Groups of systems that cannot be told apart, the best first: every two in a group do not
    differ at ``level``, and no system could be added. A system may stand in several (the compact
    letter display of Piepho 2004)."""
    order = sorted(range(len(values)), key=lambda i: -values[i])
    groups: list[set[int]] = [set(order)] if order else []
    for i in order:
        for j in order:
            if i < j and _differs(p_value(i, j), level):
                split = [g - {k} for g in groups if {i, j} <= g for k in (i, j)]
                groups = [g for g in groups if not {i, j} <= g] + split
                groups = [
                    g
                    for n, g in enumerate(groups)
                    if g and not any(g < other for other in groups) and g not in groups[:n]
                ]
    place = {system: n for n, system in enumerate(order)}
    listed = [tuple(sorted(group, key=place.__getitem__)) for group in groups]
    return sorted(listed, key=lambda group: [place[i] for i in group])


def _differs(p_value: float | None, level: float) -> bool:
    return p_value is not None and p_value < level
