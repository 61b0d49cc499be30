"""Validation figures while training: per dimension, averaged over sources."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from medal_judges.errors import ConfigError
from medal_judges.training.rows.examples import TrainingExample

Predictions = Mapping[str, np.ndarray]


def validation_figures(
    examples: Sequence[TrainingExample], predictions: Predictions, binary: Collection[str]
) -> dict[str, float]:
    """``spearman/DIM`` and ``auc/DIM`` (binary dimensions), each the mean over the sources on which
    it is defined, and their means over dimensions ``spearman`` and ``auc``.

    ``predictions`` maps a dimension to a score per example [n].
    """
    figures: dict[str, float] = {}
    for name, scores in predictions.items():
        kind = "auc" if name in binary else "spearman"
        each = [_figure(kind, *pair) for pair in _by_source(examples, name, scores)]
        if defined := [figure for figure in each if figure is not None]:
            figures[f"{kind}/{name}"] = float(np.mean(defined))
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
    """Figures that validation on ``examples`` can have, judged by the labels alone (a dimension
    without labels, or with equal ones, has none). Their values mean nothing."""
    rising = np.arange(len(examples), dtype=float)
    return {"loss": 0.0} | validation_figures(examples, dict.fromkeys(names, rising), binary)


def _by_source(
    examples: Sequence[TrainingExample], name: str, scores: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(human, score) arrays of each source with labels of dimension ``name``."""
    rows: dict[str, list[tuple[float, float]]] = {}
    for example, score in zip(examples, scores, strict=True):
        if name in example.human:
            rows.setdefault(example.source, []).append((example.human[name], float(score)))
    return [(np.array([r[0] for r in v]), np.array([r[1] for r in v])) for v in rows.values()]


def _figure(kind: str, human: np.ndarray, score: np.ndarray) -> float | None:
    if len(set(human)) < 2 or len(set(score)) < 2:
        return None
    if kind == "auc":
        from sklearn.metrics import roc_auc_score

        return float(roc_auc_score(human >= 0.5, score)) if len(set(human >= 0.5)) == 2 else None
    from scipy.stats import spearmanr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(spearmanr(human, score).statistic)


def watched(figures: Mapping[str, float], metric: str) -> float:
    """The figure that early stopping watches. Raises ConfigError for a name that is not there."""
    if metric not in figures:
        raise ConfigError(
            f"stop.metric {metric!r} is not a figure of this run's validation",
            hint=f"there are: {', '.join(sorted(figures))}",
        )
    return figures[metric]
