"""Measures the agreement of scores with people's ratings during training."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score


def agreement(
    name: str,
    human: np.ndarray,
    scores: np.ndarray,
    sources: np.ndarray,
    is_binary: bool,
) -> dict[str, float]:
    """Returns how well the judge's scores agree with people's ratings on the dimension ``name``.
    The key of the result is ``spearman/NAME``, or ``auc/NAME`` if ``is_binary``.

    ``human`` [n] are people's mean ratings, NaN for a row without one. ``scores`` [n] are the
    judge's. ``sources`` [n] says which source a row is from. The value is the mean over sources. A
    source whose ratings or scores are all equal has no value. If no source has one, the result is
    empty.
    """
    values = []
    for source in np.unique(sources):
        rows = (sources == source) & np.isfinite(human)
        labels = human[rows]
        values_of_judge = scores[rows]
        if is_binary:
            labels = labels >= 0.5
        if len(np.unique(labels)) < 2 or len(np.unique(values_of_judge)) < 2:
            continue
        if is_binary:
            values.append(roc_auc_score(labels, values_of_judge))
        else:
            values.append(spearmanr(labels, values_of_judge).statistic)
    if not values:
        return {}
    kind = "auc" if is_binary else "spearman"
    return {f"{kind}/{name}": float(np.mean(values))}


def with_means(statistics: Mapping[str, float]) -> dict[str, float]:
    """Returns ``statistics`` with two entries added: ``spearman`` and ``auc``, each the mean over
    all dimensions that have this statistic."""
    means = {}
    for kind in ("spearman", "auc"):
        values = [
            value for key, value in statistics.items() if key.startswith(f"{kind}/")
        ]
        if values:
            means[kind] = float(np.mean(values))
    return dict(statistics) | means
