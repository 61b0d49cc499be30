"""Measures the agreement of scores with people's ratings during training."""

from __future__ import annotations

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
    """Returns how well a judge's scores agree with people's ratings of one dimension, such as
    ``{"spearman/overall": 0.6}``.

    The value is the mean over data sources. A source whose ratings are all equal is left out. If
    none remains, the result is empty. If the scores are all equal or NaN, the AUC
    is 0.5 and ρ is 0.

    Args:
        name: The dimension.
        human: [n] people's mean ratings, NaN if missing.
        scores: [n] the judge's scores of the same rows.
        sources: [n] the name or number of each row's data source.
        is_binary: Whether to compute AUC (``auc/overall``) instead of Spearman's ρ. Ratings from
            0.5 on are positive.
    """
    values = []
    for source in np.unique(sources):
        rows = (sources == source) & np.isfinite(human)
        labels = human[rows]
        values_of_judge = scores[rows]
        if is_binary:
            labels = labels >= 0.5
        if len(np.unique(labels)) < 2:
            continue
        # Equal scores, or NaN after training diverged, are as good as chance.
        if not np.ptp(values_of_judge) > 0:
            values.append(0.5 if is_binary else 0.0)
        elif is_binary:
            values.append(roc_auc_score(labels, values_of_judge))
        else:
            values.append(spearmanr(labels, values_of_judge).statistic)
    if not values:
        return {}
    kind = "auc" if is_binary else "spearman"
    return {f"{kind}/{name}": float(np.mean(values))}


def with_means(statistics: dict[str, float]) -> dict[str, float]:
    """Returns a copy of ``statistics`` with the means over dimensions, ``spearman`` and ``auc``. A
    mean without values is left out.

    Args:
        statistics: Statistic -> value, such as ``{"spearman/overall": 0.6}``.
    """
    means = {}
    for kind in ("spearman", "auc"):
        values = [
            value for key, value in statistics.items() if key.startswith(f"{kind}/")
        ]
        if values:
            means[kind] = float(np.mean(values))
    return statistics | means
