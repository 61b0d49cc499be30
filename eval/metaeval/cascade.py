"""Cascades: a weak judge scores, and a strong one rescores the rows of which it is least sure.

Computed from both judges' scores of all rows. The weak judge's uncertainty is the standard
deviation of its own distribution (Judgement.uncertainty), as in the hybrid judge ``cascade``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medal_judges.errors import MedalError
from medal_judges.eval.metaeval.metaeval import JudgedRows
from medal_judges.stats.correlation import correlations, spearman_statistic, undefined_reason
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import with_intervals
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
    weak: JudgedRows, strong: JudgedRows, judge_dimension: str, seed: int = 0
) -> CascadeCurve:
    """Returns agreement and cost for shares of rows deferred from 0 to 1, the least sure first.

    The first and last point are the judges' own figures on the rows that both scored.
    ``judge_dimension``: the weak judge's name; ``seed``: of the random orders. Raises MedalError if
    the weak judge gives no distribution.
    """
    at = {(row.id, row.turn): j for j, row in enumerate(strong.aligned.rows)}
    pairs = [
        (i, at[row.id, row.turn])
        for i, row in enumerate(weak.aligned.rows)
        if (row.id, row.turn) in at
    ]
    rows = weak.aligned.part(i for i, _ in pairs)
    others = strong.aligned.part(j for _, j in pairs)
    spreads = [judgement.uncertainty(judge_dimension) for judgement in rows.judgements]
    if None in spreads:
        raise MedalError(
            f"{weak.row.judge} gives no distribution of {judge_dimension!r}, so a cascade cannot "
            "measure its uncertainty",
            hint="a weak judge needs an ordinal or binary dimension, and a calibration",
        )
    count, human = len(pairs), rows.human
    order = np.argsort(-np.array(spreads, dtype=np.float64), kind="stable")
    weights = np.ones(count) if rows.weights is None else rows.weights
    judgements = list(zip(rows.judgements, others.judgements, strict=True))
    kinds = {kind for pair in judgements for one in pair for kind in one.usage}
    points = []
    for share in SHARES:
        deferred = np.zeros(count, dtype=bool)
        deferred[order[: round(share * count)]] = True
        number = int(deferred.sum())
        cost = {}
        for kind in (kind for kind in COSTS if kind in kinds):
            usage = np.array([[one.usage.get(kind, 0.0) for one in pair] for pair in judgements])
            cost[kind] = float(weights @ (usage[:, 0] + usage[:, 1] * deferred)) / (
                float(weights.sum()) or 1.0
            )
        mixed = np.where(deferred, others.score, rows.score)
        figure = {"spearman": correlations(human, mixed)["spearman"]}
        if figure["spearman"].value is not None:
            statistic = weighted(spearman_statistic(human, mixed), rows.weights)
            figure = revalued(figure, statistic, rows.weights)
            figure = with_intervals(figure, statistic, rows.clusters)
        rng = np.random.default_rng(seed)
        at_random = []
        for _ in range(1 if number in (0, count) else _RANDOM_ORDERS):
            mixed = rows.score.copy()
            chosen = rng.permutation(count)[:number]
            mixed[chosen] = others.score[chosen]
            if undefined_reason(human, mixed) is None:
                statistic = weighted(spearman_statistic(human, mixed), rows.weights)
                at_random.append(float(statistic(np.ones((1, count)))["spearman"][0]))
        mean = sum(at_random) / len(at_random) if at_random else None
        points.append(CascadePoint(share, number, figure["spearman"], mean, cost))
    row = weak.row
    return CascadeCurve(
        row.judge, strong.row.judge, row.set_name, row.level, row.dimension, count, points
    )
