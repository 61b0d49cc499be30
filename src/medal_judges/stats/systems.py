"""Which of two systems is better: their difference, paired in the contexts that they share.

Each row belongs to a context. In a shared context the mean of one system is subtracted from the
mean of the other (a paired comparison; it counts by its dialogues). The other rows of both are an
unpaired comparison, and the two are weighted by their precision. With human labels the same is done
with prediction-powered means (ppi.py). Errors are by context: repeated dialogues in one context are
no new evidence about other contexts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from medal_judges.stats.correlation import Floats
from medal_judges.stats.difference import LEVEL, Difference
from medal_judges.stats.equal import Values, signs
from medal_judges.stats.means import (
    MIN_FOR_MEAN,
    ClusterNames,
    Jackknifed,
    Sample,
    Span,
    cluster_count,
    difference_from,
    left_out_means,
)
from medal_judges.stats.ppi import LabelledSample, correct, too_few_labels

Pairing = Literal["paired", "partly paired", "unpaired"]
Rows = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SystemRows:
    """The rows of one system on one dimension.

    ``values``: the scores. ``contexts``: the context of each row; equal names in two systems are
    the same context. ``clusters`` (by default the contexts): larger units that vary together, such
    as users. ``labels``: people's means, NaN without a label; None for no labels.
    ``label_weights``: see LabelledSample.
    """

    values: Values
    contexts: ClusterNames
    clusters: ClusterNames | None = None
    labels: Floats | None = None
    label_weights: Floats | None = None

    @property
    def scores(self) -> Floats:
        """The numbers of ``values``."""
        return self.values.numbers

    def sample(self, rows: Rows, weights: Floats) -> Sample:
        """Returns the scores of some of the rows."""
        names = self.contexts if self.clusters is None else self.clusters
        return Sample(self.values[rows], np.asarray(names)[rows], weights)

    def labelled_sample(self, rows: Rows, weights: Floats) -> LabelledSample:
        """Returns the scores and labels of some of the rows."""
        labels = np.full(len(self.scores), np.nan) if self.labels is None else self.labels
        own = None if self.label_weights is None else self.label_weights[rows]
        return LabelledSample(self.sample(rows, weights), labels[rows], own)

    def whole(self) -> LabelledSample:
        """Returns all rows, with equal weights."""
        return self.labelled_sample(np.arange(len(self.scores)), np.ones(len(self.scores)))


@dataclass(frozen=True, slots=True)
class SystemDifference:
    """The mean of the first system minus that of the second.

    ``judge`` is by the judge's scores alone, ``corrected`` by people's labels (None without
    labels). ``shared`` counts contexts of both; ``rows`` the rows of each system in the difference;
    ``left_out`` the rows of each whose contexts the other system lacks. ``wins``, ``ties`` and
    ``losses`` of the first system, by the judge, count the shared contexts if these have half of
    each system's rows (``by_context``), else all pairs of a row of each.
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
    by_context: bool

    @property
    def best(self) -> Difference:
        """The corrected difference if there is one, else the judge's."""
        return self.judge if self.corrected is None else self.corrected


def system_difference(
    first: SystemRows, second: SystemRows, span: Span | None = None, label_span: Span | None = None
) -> SystemDifference:
    """Returns ``first`` minus ``second``. ``span`` is the scale of the scores, ``label_span`` that
    of the labels.

    A difference without an interval has a ``reason``: fewer than 5 contexts, or equal scores. A
    correction needs 5 labelled contexts of each.
    """
    both, sizes = (first, second), (len(first.scores), len(second.scores))
    named = np.concatenate([np.asarray(system.contexts) for system in both])
    labels, numbered = np.unique(named, return_inverse=True)
    codes = np.split(numbered, [len(first.contexts)])
    counts = np.stack([np.bincount(part, minlength=len(labels)) for part in codes])
    shared: Mask = np.asarray((counts > 0).all(axis=0))
    inside = [shared[part] for part in codes]
    is_shared = bool(shared.any())
    parts = _parts(codes, counts, inside)
    judge = _judge(both, parts, span)
    corrected = None
    if first.labels is not None or second.labels is not None:
        corrected = _corrected(both, parts, label_span)
    by_context = is_shared and all(2 * rows.sum() >= len(rows) for rows in inside)
    tolerance = max(first.values.tolerance, second.values.tolerance)
    if by_context:
        means = [
            np.bincount(codes[k], both[k].scores, len(labels))[shared] / counts[k][shared]
            for k in (0, 1)
        ]
        outcomes = signs(means[0] - means[1], tolerance)
        wins, losses = int((outcomes > 0).sum()), int((outcomes < 0).sum())
        ties = len(outcomes) - wins - losses
    else:  # all pairs of rows
        ordered = np.sort(second.scores)
        wins = int(np.searchsorted(ordered, first.scores - tolerance, side="left").sum())
        upto = np.searchsorted(ordered, first.scores + tolerance, side="right")
        losses = int((len(ordered) - upto).sum())
        ties = sizes[0] * sizes[1] - wins - losses
    used = [sum(len(rows[k]) for rows, _ in parts) for k in (0, 1)]
    every = is_shared and all(rows.all() for rows in inside)
    pairing: Pairing = "paired" if every else "partly paired" if is_shared else "unpaired"
    return SystemDifference(
        judge,
        corrected,
        pairing,
        int(shared.sum()),
        (used[0], used[1]),
        (sizes[0] - used[0], sizes[1] - used[1]),
        wins,
        ties,
        losses,
        by_context,
    )


# Rows of both systems and their weights: those of shared contexts, or the others.
_Part = tuple[Sequence[Rows], Sequence[Floats]]


def _parts(codes: Sequence[Rows], counts: Rows, inside: Sequence[Mask]) -> list[_Part]:
    """Returns the paired part and the unpaired part; only the paired part if one system has no
    other rows; all rows as an unpaired part if too few contexts are shared."""
    if (counts > 0).all(axis=0).sum() < MIN_FOR_MEAN:
        return [_all_rows(codes)]
    paired = [np.flatnonzero(rows) for rows in inside]
    # A context counts by its dialogues of both systems, and in each as one mean.
    weights = [
        (counts.sum(axis=0) / np.maximum(counts[k], 1))[codes[k][rows]]
        for k, rows in enumerate(paired)
    ]
    parts: list[_Part] = [(paired, weights)]
    outside = [np.flatnonzero(~rows) for rows in inside]
    if min(len(np.unique(codes[k][rows])) for k, rows in enumerate(outside)) >= MIN_FOR_MEAN:
        parts.append((outside, [np.ones(len(rows)) for rows in outside]))
    return parts


def _all_rows(columns: Sequence[npt.NDArray[np.generic]]) -> _Part:
    return [np.arange(len(each)) for each in columns], [np.ones(len(each)) for each in columns]


def _judge(both: Sequence[SystemRows], parts: Sequence[_Part], span: Span | None) -> Difference:
    samples = [
        system.sample(rows[k], weights[k])
        for rows, weights in parts
        for k, system in enumerate(both)
    ]
    if not all(len(sample.scores) for sample in samples):
        return Difference(None, reason="no scored rows of one of the two")
    few = min(samples, key=cluster_count)
    count = cluster_count(few)
    reason = None
    if count < MIN_FOR_MEAN:
        what = "dialogue" if count == len(few.scores) else "context"
        what += "" if count == 1 else "s"
        reason = f"no interval: {count} {what} of one of the two, fewer than {MIN_FOR_MEAN}"
    return difference_from(_joined(left_out_means(samples)), reason, span)


def _corrected(both: Sequence[SystemRows], parts: Sequence[_Part], span: Span | None) -> Difference:
    """Does the same as ``_judge`` with labels; if a part has too few labels, all rows are one
    unpaired part."""

    def labelled(chosen: Sequence[_Part]) -> list[LabelledSample]:
        return [
            system.labelled_sample(rows[k], weights[k])
            for rows, weights in chosen
            for k, system in enumerate(both)
        ]

    samples = labelled(parts)
    if any(too_few_labels(sample) for sample in samples):
        samples = labelled([_all_rows([system.scores for system in both])])
    for name, sample in zip(("first", "second"), samples, strict=False):
        if reason := too_few_labels(sample):
            return Difference(None, reason=f"not corrected: {reason}, of the {name}")
    fit = correct(samples, span)
    return difference_from(_joined(fit.figures), fit.certain, span, math.hypot(*fit.hidden))


def _joined(figures: Sequence[Jackknifed]) -> Jackknifed:
    """Returns the difference of a part, or of two parts weighted by their precision: by their
    dialogues if one of them does not vary, which else would leave the other part no weight."""
    paired = figures[0] - figures[1]
    if len(figures) == 2:
        return paired
    rest = figures[2] - figures[3]
    one, two = paired.variance, rest.variance
    if not (math.isfinite(one) and math.isfinite(two)):
        return paired
    if not (paired.varies and rest.varies):
        # A shared context counts one dialogue of each system, another one of one system.
        one, two = 0.5 / np.count_nonzero(paired.share), 1 / np.count_nonzero(rest.share)
    return paired.mixed(rest, float(two / (one + two)))


# The p-value after correction of one system against another.
PValueOf = Callable[[int, int], float | None]


def rank_intervals(
    values: Sequence[float], p_value: PValueOf, level: float = LEVEL
) -> list[tuple[int, int]]:
    """Returns the (best, worst) rank that each system may have, 1 for the largest value: a system
    that differs from it at ``level`` is surely above or below. With p-values after Holm's
    correction all intervals hold together at 1 - ``level`` (Mogstad et al. 2024)."""
    count = len(values)
    found = []
    for i in range(count):
        sure = [j for j in range(count) if j != i and _differs(p_value(i, j), level)]
        above = sum(values[j] > values[i] for j in sure)
        found.append((1 + above, count - (len(sure) - above)))
    return found


def indistinct_groups(
    values: Sequence[float], p_value: PValueOf, level: float = LEVEL
) -> list[tuple[int, ...]]:
    """Returns the largest groups of systems of which no two differ at ``level``, the best group
    first. A system may be in several groups (the compact letter display of Piepho 2004)."""
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
