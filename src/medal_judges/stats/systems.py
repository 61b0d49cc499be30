"""Which of two systems is better: their difference, paired in the contexts that they share.

Each row belongs to a context. In a shared context the mean of one system is subtracted from the
mean of the other (a paired comparison; it counts by its dialogues). The other rows of both are an
unpaired comparison, and the two are weighted by their precision. With human labels the same is done
with prediction-powered means (ppi.py). Errors are by context: repeated dialogues in one context are
no new evidence about other contexts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
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
    few_clusters,
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
        labels, label_weights = self.labels, self.label_weights
        if labels is None:
            labels = np.full(len(self.scores), np.nan)
        if label_weights is not None:
            label_weights = label_weights[rows]
        return LabelledSample(self.sample(rows, weights), labels[rows], label_weights)

    def whole(self) -> LabelledSample:
        """Returns all rows, with equal weights."""
        return self.labelled_sample(
            np.arange(len(self.scores)), np.ones(len(self.scores))
        )


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
    first: SystemRows,
    second: SystemRows,
    span: Span | None = None,
    label_span: Span | None = None,
) -> SystemDifference:
    """Returns ``first`` minus ``second``. ``span`` is the scale of the scores, ``label_span`` that
    of the labels.

    A difference without an interval has a ``reason``: fewer than 5 contexts, or equal scores. A
    correction needs 5 labelled contexts of each.
    """
    systems = (first, second)
    names = np.concatenate([np.asarray(system.contexts) for system in systems])
    labels, numbers = np.unique(names, return_inverse=True)
    codes = np.split(numbers, [len(first.contexts)])
    counts = np.stack([np.bincount(part, minlength=len(labels)) for part in codes])
    shared: Mask = np.asarray((counts > 0).all(axis=0))
    inside = [shared[part] for part in codes]
    parts = _parts(codes, counts, inside)
    corrected = None
    if first.labels is not None or second.labels is not None:
        corrected = _corrected(systems, parts, label_span)
    pairing: Pairing = "unpaired"
    if shared.any():
        pairing = "partly paired"
        if all(rows.all() for rows in inside):
            pairing = "paired"
    by_context = bool(shared.any()) and all(
        2 * rows.sum() >= len(rows) for rows in inside
    )
    tolerance = max(first.values.tolerance, second.values.tolerance)
    if by_context:
        means = []
        for system, code, count in zip(systems, codes, counts, strict=True):
            means.append(
                np.bincount(code, system.scores, len(labels))[shared] / count[shared]
            )
        outcomes = signs(means[0] - means[1], tolerance)
        wins, losses = int((outcomes > 0).sum()), int((outcomes < 0).sum())
        ties = len(outcomes) - wins - losses
    else:
        wins, ties, losses = _outcomes_of_pairs(first.scores, second.scores, tolerance)
    first_count, second_count = (sum(len(rows[k]) for rows, _ in parts) for k in (0, 1))
    return SystemDifference(
        _judge(systems, parts, span),
        corrected,
        pairing,
        shared=int(shared.sum()),
        rows=(first_count, second_count),
        left_out=(len(first.scores) - first_count, len(second.scores) - second_count),
        wins=wins,
        ties=ties,
        losses=losses,
        by_context=by_context,
    )


def _outcomes_of_pairs(
    first: Floats, second: Floats, tolerance: float
) -> tuple[int, int, int]:
    """Returns the wins, ties and losses of the first system over all pairs of a row of each."""
    sorted_scores = np.sort(second)
    wins = int(np.searchsorted(sorted_scores, first - tolerance, side="left").sum())
    upto = np.searchsorted(sorted_scores, first + tolerance, side="right")
    losses = int((len(sorted_scores) - upto).sum())
    return wins, len(first) * len(second) - wins - losses, losses


# Rows of both systems and their weights: those of shared contexts, or the others.
_Part = tuple[Sequence[Rows], Sequence[Floats]]


def _parts(codes: Sequence[Rows], counts: Rows, inside: Sequence[Mask]) -> list[_Part]:
    """Returns the paired part and the unpaired part; only the paired part if one system has no
    other rows; all rows as an unpaired part if too few contexts are shared."""
    if (counts > 0).all(axis=0).sum() < MIN_FOR_MEAN:
        return [_all_rows(codes)]
    paired = [np.flatnonzero(rows) for rows in inside]
    weights = []
    for code, count, rows in zip(codes, counts, paired, strict=True):
        # A context counts by its dialogues of both systems, and in each as one mean.
        weights.append((counts.sum(axis=0) / np.maximum(count, 1))[code[rows]])
    parts: list[_Part] = [(paired, weights)]
    outside = [np.flatnonzero(~rows) for rows in inside]
    contexts = [
        len(np.unique(code[rows])) for code, rows in zip(codes, outside, strict=True)
    ]
    if min(contexts) >= MIN_FOR_MEAN:
        parts.append((outside, [np.ones(len(rows)) for rows in outside]))
    return parts


def _all_rows(columns: Sequence[npt.NDArray[np.generic]]) -> _Part:
    sizes = [len(column) for column in columns]
    return [np.arange(size) for size in sizes], [np.ones(size) for size in sizes]


def _judge(
    systems: Sequence[SystemRows], parts: Sequence[_Part], span: Span | None
) -> Difference:
    samples = []
    for rows, weights in parts:
        for k, system in enumerate(systems):
            samples.append(system.sample(rows[k], weights[k]))
    if not all(len(sample.scores) for sample in samples):
        return Difference(None, reason="no scored rows of one of the two")
    smallest = min(samples, key=cluster_count)
    reason = few_clusters(smallest, ("dialogue", "context"), " of one of the two")
    return difference_from(_joined(left_out_means(samples)), reason, span)


def _corrected(
    systems: Sequence[SystemRows], parts: Sequence[_Part], span: Span | None
) -> Difference:
    """Does the same as ``_judge`` with labels; if a part has too few labels, all rows are one
    unpaired part."""

    def labelled(parts: Sequence[_Part]) -> list[LabelledSample]:
        samples = []
        for rows, weights in parts:
            for k, system in enumerate(systems):
                samples.append(system.labelled_sample(rows[k], weights[k]))
        return samples

    samples = labelled(parts)
    if any(too_few_labels(sample) for sample in samples):
        samples = labelled([_all_rows([system.scores for system in systems])])
    for name, sample in zip(("first", "second"), samples, strict=False):
        reason = too_few_labels(sample)
        if reason is not None:
            return Difference(None, reason=f"not corrected: {reason}, of the {name}")
    fit = correct(samples, span)
    return difference_from(
        _joined(fit.figures), fit.certain, span, math.hypot(*fit.hidden)
    )


def _joined(figures: Sequence[Jackknifed]) -> Jackknifed:
    """Returns the difference of a part, or of two parts weighted by their precision: by their
    dialogues if one of them does not vary, which else would leave the other part no weight."""
    paired = figures[0] - figures[1]
    if len(figures) == 2:
        return paired
    unpaired = figures[2] - figures[3]
    variance, unpaired_variance = paired.variance, unpaired.variance
    if not (math.isfinite(variance) and math.isfinite(unpaired_variance)):
        return paired
    if not (paired.varies and unpaired.varies):
        # A shared context counts one dialogue of each system, another one of one system.
        variance = 0.5 / np.count_nonzero(paired.share)
        unpaired_variance = 1 / np.count_nonzero(unpaired.share)
    return paired.mixed(
        unpaired, float(unpaired_variance / (variance + unpaired_variance))
    )


# The p-value after correction of one system against another.
PValueOf = Callable[[int, int], float | None]


def rank_intervals(
    values: Sequence[float], p_value: PValueOf, level: float = LEVEL
) -> list[tuple[int, int]]:
    """Returns the (best, worst) rank that each system may have, 1 for the largest value: a system
    that differs from it at ``level`` is surely above or below. With p-values after Holm's
    correction all intervals hold together at 1 - ``level`` (Mogstad et al. 2024)."""
    count = len(values)
    intervals = []
    for i in range(count):
        surely_above = surely_below = 0
        for j in range(count):
            if j != i and _differs(p_value(i, j), level):
                surely_above += values[j] > values[i]
                surely_below += values[j] <= values[i]
        intervals.append((1 + surely_above, count - surely_below))
    return intervals


def indistinct_groups(
    values: Sequence[float], p_value: PValueOf, level: float = LEVEL
) -> list[tuple[int, ...]]:
    """Returns the largest groups of systems of which no two differ at ``level``, the best group
    first. A system may be in several groups (the compact letter display of Piepho 2004)."""
    order = sorted(range(len(values)), key=lambda i: -values[i])
    alike: dict[int, set[int]] = {i: set() for i in order}
    for i, j in combinations(range(len(values)), 2):
        if not _differs(p_value(i, j), level):
            alike[i].add(j)
            alike[j].add(i)
    rank = {system: n for n, system in enumerate(order)}
    groups = []
    for group in _cliques(set(), set(order), set(), alike):
        groups.append(tuple(sorted(group, key=rank.__getitem__)))
    return sorted(groups, key=lambda group: [rank[i] for i in group])


def _cliques(
    group: set[int],
    candidates: set[int],
    excluded: set[int],
    alike: Mapping[int, set[int]],
) -> Iterator[set[int]]:
    """Yields each largest group that has all of ``group``, others of the ``candidates``, and none
    of the ``excluded`` (Bron and Kerbosch 1973)."""
    if group and not candidates and not excluded:
        yield group
    for i in sorted(candidates):
        yield from _cliques(
            group | {i}, candidates & alike[i], excluded & alike[i], alike
        )
        candidates = candidates - {i}
        excluded = excluded | {i}


def _differs(p_value: float | None, level: float) -> bool:
    return p_value is not None and p_value < level
