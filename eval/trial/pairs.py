"""Quality from 1 to 5 of judgements, and the figures of a table of scored pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd

from medal_judges.eval.trial.dialogues import QUALITY
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.stats.correlation import (
    Floats,
    undefined_reason,
    weighted_auc,
    weighted_spearman,
    within_system_statistic,
)
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import FISHER, LOGIT, PLAIN, Clusters, Scale, estimated
from medal_judges.stats.means import Sample, mean_of, share_of

HALF = 0.5  # points; a larger shift counts as moved
_ROUNDING = 1e-9
_BINS = 5


def quality_parts(dimensions: Sequence[Dimension]) -> tuple[Dimension, ...]:
    """Returns ``overall`` if the judge has it, else all its dimensions."""
    return tuple(d for d in dimensions if d.name == "overall") or tuple(dimensions)


def oriented(judgement: Judgement | None, dimension: Dimension) -> float | None:
    """Returns the score of ``dimension`` on [0, 1], with 1 as the good end; None without one."""
    score = None if judgement is None else judgement.scores.get(dimension.name)
    if score is None:
        return None
    unit = dimension.to_unit(score)
    return unit if dimension.good == "high" else 1 - unit


def quality(judgement: Judgement | None, parts: Sequence[Dimension]) -> float | None:
    """Returns the mean of ``parts`` from 1 (poor) to 5; None if one of them has no score."""
    values = [oriented(judgement, dimension) for dimension in parts]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    low, high = QUALITY
    return low + (high - low) * sum(known) / len(known)


def with_scores(
    pairs: pd.DataFrame, before: Iterable[float | None], after: Iterable[float | None]
) -> pd.DataFrame:
    """Returns ``pairs`` with their scores ``x`` (before) and ``y`` (after), and ``change``: y - x,
    with rounding errors as 0. Drops pairs without a score on one side."""
    ends = {"x": np.array([*before], dtype=float), "y": np.array([*after], dtype=float)}
    scored = pairs.assign(**ends).dropna(subset=["x", "y"])
    change = scored.y - scored.x
    return scored.assign(change=change.where(change.abs() >= _ROUNDING, 0.0))


def mean(pairs: pd.DataFrame, values: pd.Series[float]) -> Estimate:
    """Returns the mean of ``values``, one a pair."""
    return mean_of(Sample(values.to_numpy(), pairs.conversation.tolist()))


def share(pairs: pd.DataFrame, flags: pd.Series[bool] | pd.Series[float]) -> Estimate:
    """Returns the share of pairs with a true flag."""
    return share_of(Sample(flags.to_numpy(dtype=np.float64), pairs.conversation.tolist()))


def auc(pairs: pd.DataFrame) -> Estimate:
    """Returns the probability that a faulty version (``y``) scores below a sound one (``x``), ties
    half, over all dialogues."""
    if pairs.empty:
        return Estimate(None, reason="no scored pair")
    scores = -np.r_[pairs.y, pairs.x]
    labels = np.r_[np.ones(len(pairs)), np.zeros(len(pairs))]
    order = np.argsort(scores, kind="stable")
    scores, labels = scores[order], labels[order]
    names = np.tile(pairs.conversation, 2)[order]
    return _estimate(
        lambda w: float(weighted_auc(labels, scores, w[None])[0]), names.tolist(), LOGIT
    )


def win(pairs: pd.DataFrame) -> Estimate:
    """Returns the share of faulty versions that score below their own control, ties half."""
    return share(pairs, 0.5 - 0.5 * np.sign(pairs.change))


def spearman(table: pd.DataFrame) -> Estimate:
    """Returns the rank correlation of ``x`` and ``y``."""
    x, y = table.x.to_numpy(), table.y.to_numpy()
    if (reason := undefined_reason(x, y)) is not None:
        return Estimate(None, reason=reason)
    groups = table.conversation.tolist()
    return _estimate(lambda w: float(weighted_spearman(x, y, w[None])[0]), groups, FISHER)


def spearman_by_language(pairs: pd.DataFrame) -> Estimate:
    """Returns the mean rank correlation within a language, weighted by pairs."""
    if pairs.empty:
        return Estimate(None, reason="no scored pair")
    x, y = pairs.x.to_numpy(), pairs.y.to_numpy()
    statistic = within_system_statistic(x, y, pairs.lang.tolist())

    def figure(weights: Floats) -> float:
        return float(statistic(weights[None])["within_system"][0])

    if not np.isfinite(figure(np.ones(len(pairs)))):
        return Estimate(None, reason="no language with five pairs on which the scores vary")
    return _estimate(figure, pairs.conversation.tolist(), FISHER)


def dose_slope(pairs: pd.DataFrame) -> Estimate:
    """Returns how much more the score falls with each step of strength, in points a step: the mean
    least-squares slope of (strength, drop) over dialogues with two strengths or more."""
    pairs = pairs.sort_values("strength", kind="stable")
    original = pairs.after.map(lambda id: id.rpartition("+")[0])
    slopes, names = [], []
    for (conversation, _), rows in pairs.groupby(["conversation", original], sort=False):
        if len(rows) > 1:
            away = rows.strength.to_numpy(dtype=float) - rows.strength.mean()
            slopes.append(float(-(away @ rows.change) / (away @ away)))
            names.append(conversation)
    return mean_of(Sample(np.array(slopes), names))


def calibration_gap(table: pd.DataFrame) -> Estimate:
    """Returns the mean distance of the judge's mean ``y`` from people's mean ``x`` over bins of
    equal size by the judge's score, weighted by rows."""
    if len(table) < _BINS:
        return Estimate(None, reason=f"{len(table)} rows, fewer than {_BINS}")
    apart = (table.y - table.x).to_numpy()
    bins = np.array_split(np.argsort(table.y.to_numpy(), kind="stable"), _BINS)

    def gap(weights: Floats) -> float:
        far = sum(abs(float(weights[rows] @ apart[rows])) for rows in bins)
        return far / float(weights.sum())

    return _estimate(gap, table.conversation.tolist(), PLAIN)


def _estimate(
    statistic: Callable[[Floats], float], groups: Sequence[str], scale: Scale
) -> Estimate:
    """Returns a figure of row weights with its interval, leaving out conversations in turn."""
    return estimated(
        lambda weights: {"figure": np.array([statistic(one) for one in weights])},
        Clusters("conversation", tuple(groups)),
        "undefined for these pairs",
        scale=lambda name: scale,
    )["figure"]
