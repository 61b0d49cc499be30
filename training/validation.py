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
    """Returns how well a judge's scores agree with people's ratings, such as ``{"spearman/overall":
    0.6}``.

    The value is the mean over sources. The result is empty if no source has two different ratings
    and scores.

    Args:
        name: The dimension.
        human: [n] people's mean ratings, NaN if missing.
        scores: [n] the judge's scores.
        sources: [n] the source of each row.
        is_binary: Whether to compute AUC (``auc/overall``) instead of Spearman's ρ.
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
    """Returns ``statistics`` (such as ``{"spearman/overall": 0.6}``) with two means over dimensions
    added, ``spearman`` and ``auc``."""
    means = {}
    for kind in ("spearman", "auc"):
        values = [
            value for key, value in statistics.items() if key.startswith(f"{kind}/")
        ]
        if values:
            means[kind] = float(np.mean(values))
    return dict(statistics) | means
