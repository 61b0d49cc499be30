"""The cost of a cascade: a weak judge answers, and a strong one is asked where it is unsure.

Computed from what both have said of all rows, so that nothing is judged for the curve. The weak
judge's uncertainty is the standard deviation of its own distribution (Judgement.uncertainty), as
in the hybrid judge of kind ``cascade``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from medal_judges.errors import MedalError
from medal_judges.eval.metaeval.alignment import Aligned
from medal_judges.eval.metaeval.results import CascadeCurve, CascadePoint
from medal_judges.records.judgement import Judgement
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
    """Agreement and cost for shares of rows deferred from 0 to 1, the least sure first.

    Over the rows that both judges scored; ties of uncertainty are in the rows' order. The first
    and the last point are the judges' own figures on these rows. ``seed``: of the
    random orders. Raises MedalError where the weak judge gave a score without a distribution.
    """
    shared = _shared(weak, strong)
    first = [weak.judgements[i] for i, _ in shared]
    second = [strong.judgements[j] for _, j in shared]
    kept = weak.part([i for i, _ in shared])
    scores = np.array([[weak.score[i], strong.score[j]] for i, j in shared]).reshape(-1, 2)
    order = np.argsort(-_uncertainties(first, judge_dimension, names[0]), kind="stable")
    points = []
    for share in SHARES:
        count = round(share * len(shared))
        asked = np.zeros(len(shared), dtype=bool)
        asked[order[:count]] = True
        points.append(
            CascadePoint(
                share=share,
                deferred=count,
                spearman=_spearman(kept, np.where(asked, scores[:, 1], scores[:, 0])),
                at_random=_at_random(kept, scores, count, seed),
                cost=_cost(first, second, asked, kept.weights),
            )
        )
    return CascadeCurve(*names, set_name, level, dimension, len(shared), points)


def _shared(weak: Aligned, strong: Aligned) -> list[tuple[int, int]]:
    """Positions (in ``weak``, in ``strong``) of the rows that both scored."""
    there = {(row.id, row.turn): j for j, row in enumerate(strong.rows)}
    return [(i, there[k]) for i, row in enumerate(weak.rows) if (k := (row.id, row.turn)) in there]


def _uncertainties(judgements: Sequence[Judgement], dimension: str, judge: str) -> Floats:
    spreads = [judgement.uncertainty(dimension) for judgement in judgements]
    if None in spreads:
        raise MedalError(
            f"{judge} gives no distribution of {dimension!r}, so a cascade cannot tell when it is "
            "unsure",
            hint="a weak judge needs an ordinal or binary dimension, and a calibration",
        )
    return np.array(spreads, dtype=np.float64)


def _spearman(rows: Aligned, score: Floats) -> Estimate:
    """The figure with its interval, made as a judge's own is (metaeval), by whole clusters."""
    estimates = {"spearman": correlations(rows.human, score)["spearman"]}
    if estimates["spearman"].value is None:
        return estimates["spearman"]
    statistic = weighted(spearman_statistic(rows.human, score), rows.weights)
    clusters = choose_clusters(rows.chatbots, rows.groups)
    estimates = revalued(estimates, statistic, rows.weights)
    return with_intervals(estimates, statistic, clusters)["spearman"]


def _at_random(rows: Aligned, scores: Floats, count: int, seed: int) -> float | None:
    """Mean figure when ``count`` rows drawn at random are deferred."""
    human, one = rows.human, np.ones((1, len(rows.human)))
    rng = np.random.default_rng(seed)
    orders = 1 if count in (0, len(human)) else _RANDOM_ORDERS  # the ends have one way
    at_random = []
    for _ in range(orders):
        mixed = scores[:, 0].copy()
        asked = rng.permutation(len(human))[:count]
        mixed[asked] = scores[asked, 1]
        if undefined_reason(human, mixed) is None:
            statistic = weighted(spearman_statistic(human, mixed), rows.weights)
            at_random.append(float(statistic(one)["spearman"][0]))
    return sum(at_random) / len(at_random) if at_random else None


def _cost(
    first: Sequence[Judgement],
    second: Sequence[Judgement],
    asked: Floats,
    weights: Floats | None,
) -> Mapping[str, float]:
    """Mean per row of each amount that a judge recorded; what one did not record counts as 0."""
    counts = np.ones(len(first)) if weights is None else weights
    known = {key for j in (*first, *second) for key in j.usage}
    total = counts.sum() or 1.0
    return {
        key: float(
            sum(
                count * (a.usage.get(key, 0.0) + (b.usage.get(key, 0.0) if deferred else 0.0))
                for a, b, deferred, count in zip(first, second, asked, counts, strict=True)
            )
            / total
        )
        for key in COSTS
        if key in known
    }
