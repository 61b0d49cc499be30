"""Validation figures while training: per dimension, averaged over sources."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from medal_judges.errors import ConfigError
from medal_judges.training.rows.examples import TrainingExample


def validation_figures(
    examples: Sequence[TrainingExample],
    predictions: Mapping[str, np.ndarray],
    binary: Collection[str],
) -> dict[str, float]:
    """``spearman/DIM`` and ``auc/DIM`` (binary dimensions), each the mean over the sources where it
    is defined, and their means over dimensions ``spearman`` and ``auc``.

    ``predictions`` maps a dimension to a score per example [n].
    """
    from scipy.stats import spearmanr
    from sklearn.metrics import roc_auc_score

    figures: dict[str, float] = {}
    for name, scores in predictions.items():
        rows: dict[str, list[tuple[float, float]]] = {}
        for example, score in zip(examples, scores, strict=True):
            if name in example.human:
                rows.setdefault(example.source, []).append((example.human[name], float(score)))
        found = []
        for pairs in rows.values():
            human, score = np.array(pairs).T
            label = human >= 0.5 if name in binary else human
            if len(set(label)) < 2 or len(set(score)) < 2:
                continue
            if name in binary:
                found.append(roc_auc_score(label, score))
            else:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found.append(spearmanr(human, score).statistic)
        if found:
            figures[f"{'auc' if name in binary else 'spearman'}/{name}"] = float(np.mean(found))
    return figures | means_over_dimensions(figures)


def means_over_dimensions(figures: Mapping[str, float]) -> dict[str, float]:
    """The means ``spearman`` and ``auc`` of the figures of single dimensions."""
    means = {}
    for kind in ("spearman", "auc"):
        if values := [v for k, v in figures.items() if k.startswith(f"{kind}/")]:
            means[kind] = float(np.mean(values))
    return means


def possible_figures(
    examples: Sequence[TrainingExample], names: Sequence[str], binary: Collection[str]
) -> dict[str, float]:
    """The figures that validation on ``examples`` can have, by the labels alone (a dimension
    without labels, or with equal ones, has none). Their values mean nothing."""
    rising = np.arange(len(examples), dtype=float)
    return {"loss": 0.0} | validation_figures(examples, dict.fromkeys(names, rising), binary)


def watched(figures: Mapping[str, float], metric: str) -> float:
    """The figure that early stopping watches. Raises ConfigError for an unknown name."""
    if metric not in figures:
        raise ConfigError(
            f"stop.metric {metric!r} is not a figure of this run's validation",
            hint=f"there are: {', '.join(sorted(figures))}",
        )
    return figures[metric]
