"""Figures of a judge on validation rows: per dimension, averaged over sources."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from medal_judges.errors import ConfigError


class RatedRow(Protocol):
    """A row with the mean rating of people (``human``) by dimension, and its ``source``."""

    @property
    def source(self) -> str: ...

    @property
    def human(self) -> Mapping[str, float]: ...


def validation_figures(
    examples: Sequence[RatedRow],
    predictions: Mapping[str, np.ndarray],
    binary: Collection[str],
) -> dict[str, float]:
    """Returns ``spearman/DIM``, or ``auc/DIM`` of binary dimensions: the mean over the sources in
    which it is defined. The means over dimensions are ``spearman`` and ``auc``.

    ``predictions`` maps a dimension to a score per example [n].
    """
    figures: dict[str, float] = {}
    for name, scores in predictions.items():
        pairs_by_source: dict[str, list[tuple[float, float]]] = {}
        for example, score in zip(examples, scores, strict=True):
            if name in example.human:
                pairs = pairs_by_source.setdefault(example.source, [])
                pairs.append((example.human[name], float(score)))
        estimates = []
        for pairs in pairs_by_source.values():
            human, score = np.array(pairs).T
            labels = human >= 0.5 if name in binary else human
            if len(set(labels)) < 2 or len(set(score)) < 2:
                continue
            if name in binary:
                estimates.append(roc_auc_score(labels, score))
            else:
                estimates.append(spearmanr(human, score).statistic)
        if estimates:
            kind = "auc" if name in binary else "spearman"
            figures[f"{kind}/{name}"] = float(np.mean(estimates))
    return figures | means_over_dimensions(figures)


def means_over_dimensions(figures: Mapping[str, float]) -> dict[str, float]:
    """Returns the means ``spearman`` and ``auc`` of the figures of single dimensions."""
    means = {}
    for kind in ("spearman", "auc"):
        values = [
            value for name, value in figures.items() if name.startswith(f"{kind}/")
        ]
        if values:
            means[kind] = float(np.mean(values))
    return means


def require_figure(
    metric: str,
    examples: Sequence[RatedRow],
    dimensions: Collection[str],
    binary: Collection[str],
) -> None:
    """Raises ConfigError if the validation of a run cannot have the figure ``metric``: it is found
    out before the first step, not after the last."""
    # has every figure that the labels allow
    rising = np.arange(len(examples), dtype=float)
    possible = {
        "loss",
        *validation_figures(examples, dict.fromkeys(dimensions, rising), binary),
    }
    if metric.removeprefix("eval_") not in possible:
        raise ConfigError(
            f"args.metric_for_best_model: {metric!r} is not a figure of this run's validation",
            hint=f"there are: {', '.join(sorted(possible))}",
        )
