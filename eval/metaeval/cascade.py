"""Cascades: a weak judge scores, and a strong one rescores the rows of which it is least sure.

Computed from both judges' scores of all rows. The weak judge's uncertainty is the standard
deviation of its own distribution (Judgement.uncertainty), as in the hybrid judge ``cascade``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medal_judges.errors import MedalError
from medal_judges.eval.metaeval.alignment import Aligned
from medal_judges.stats.correlation import (
    Floats,
    correlations,
    spearman_statistic,
    undefined_reason,
)
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import choose_clusters, with_intervals
from medal_judges.stats.weights import revalued, weighted

SHARES = tuple(k / 10 for k in range(11))
COSTS = ("tokens", "seconds", "money")
_RANDOM_ORDERS = 50


@dataclass(frozen=True, slots=True)
class CascadePoint:
    """``share`` of the rows (``deferred`` of them) scored by the strong judge: Spearman with
    people, its mean for as many rows deferred at random, and the mean cost a row by kind."""

    share: float
    deferred: int
    spearman: Estimate
    at_random: float | None
    cost: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class CascadeCurve:
    """A weak judge before a strong one, over the ``n`` rows of a set that both scored."""

    weak: str
    strong: str
    set_name: str
    level: str
    dimension: str
    n: int
    points: Sequence[CascadePoint]


def cascade_curve(
    weak: Aligned,
    strong: Aligned,
    names: tuple[str, str],
    *,
    set_name: str,
    dimension: str,
    judge_dimension: str,
    seed: int = 0,
    level: str = "dialogue",
) -> CascadeCurve:
    """Returns agreement and cost for shares of rows deferred from 0 to 1, the least sure first.

    The first and last point are the judges' own figures on the rows that both scored. ``seed``: of
    the random orders. Raises MedalError if the weak judge gives no distribution.
    """
    there = {(row.id, row.turn): j for j, row in enumerate(strong.rows)}
    shared = [(i, there[k]) for i, r in enumerate(weak.rows) if (k := (r.id, r.turn)) in there]
    rows = weak.part([i for i, _ in shared])
    judgements = [(weak.judgements[i], strong.judgements[j]) for i, j in shared]
    spreads = [first.uncertainty(judge_dimension) for first, _ in judgements]
    if None in spreads:
        raise MedalError(
            f"{names[0]} gives no distribution of {judge_dimension!r}, so a cascade cannot measure "
            "its uncertainty",
            hint="a weak judge needs an ordinal or binary dimension, and a calibration",
        )
    scores = np.array([[weak.score[i], strong.score[j]] for i, j in shared]).reshape(-1, 2)
    order = np.argsort(-np.array(spreads, dtype=np.float64), kind="stable")
    counts = np.ones(len(shared)) if rows.weights is None else rows.weights
    kinds = {kind for pair in judgements for one in pair for kind in one.usage}
    points = []
    for share in SHARES:
        deferred = np.zeros(len(shared), dtype=bool)
        deferred[order[: round(share * len(shared))]] = True
        cost = {}
        for kind in (kind for kind in COSTS if kind in kinds):
            usage = np.array([[one.usage.get(kind, 0.0) for one in pair] for pair in judgements])
            cost[kind] = float(counts @ (usage[:, 0] + usage[:, 1] * deferred)) / (
                float(counts.sum()) or 1.0
            )
        number = int(deferred.sum())
        mixed = np.where(deferred, scores[:, 1], scores[:, 0])
        at_random = _at_random(rows, scores, number, seed)
        points.append(CascadePoint(share, number, _spearman(rows, mixed), at_random, cost))
    return CascadeCurve(*names, set_name, level, dimension, len(shared), points)


def _spearman(rows: Aligned, score: Floats) -> Estimate:
    estimates = {"spearman": correlations(rows.human, score)["spearman"]}
    if estimates["spearman"].value is None:
        return estimates["spearman"]
    statistic = weighted(spearman_statistic(rows.human, score), rows.weights)
    clusters = choose_clusters(rows.chatbots, rows.groups)
    estimates = revalued(estimates, statistic, rows.weights)
    return with_intervals(estimates, statistic, clusters)["spearman"]


def _at_random(rows: Aligned, scores: Floats, count: int, seed: int) -> float | None:
    """Returns the mean figure if ``count`` rows are deferred at random."""
    human, one = rows.human, np.ones((1, len(rows.human)))
    rng = np.random.default_rng(seed)
    figures = []
    for _ in range(1 if count in (0, len(human)) else _RANDOM_ORDERS):
        mixed = scores[:, 0].copy()
        chosen = rng.permutation(len(human))[:count]
        mixed[chosen] = scores[chosen, 1]
        if undefined_reason(human, mixed) is None:
            statistic = weighted(spearman_statistic(human, mixed), rows.weights)
            figures.append(float(statistic(one)["spearman"][0]))
    return sum(figures) / len(figures) if figures else None
