"""Calibration: what maps a judge's raw outputs to a dimension's scale, fitted on labelled rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize_scalar

from medal_judges.models.base.heads import (
    Calibration,
    OutputHead,
    corn_probabilities,
    fit_isotonic,
    on_scale,
)

COVERAGE = 0.9  # of the interval around a regression's score
MIN_ROWS = 20  # a fit on fewer would follow the noise


def fit_calibration(
    head: OutputHead,
    targets: np.ndarray,
    logits: np.ndarray,
    method: str,
) -> Calibration | None:
    """Returns the calibration of one dimension. None for ``none`` and for fewer than 20 rows with a
    label.

    ``targets`` [n, targets] are NaN without a label: a number on [0, 1], or a probability per level
    for ordinal and classification heads. ``logits`` [n, outputs] are the head's. ``method`` is
    ``temperature``, ``isotonic`` (a monotone map of the score, after the temperature) or ``none``.
    """
    rows = np.isfinite(targets).all(axis=1)
    if method == "none" or rows.sum() < MIN_ROWS:
        return None
    targets, outputs = targets[rows].astype(float), logits[rows].astype(float)
    if head.targets == 1:
        targets = targets[:, 0]
    changes: dict[str, Any] = {"rows": len(targets)}
    if head.config.kind == "regression":
        units = on_scale(outputs[:, 0])
        changes["spread"] = float(np.std(targets - units))
    else:
        temperature = fit_head_temperature(head, outputs, targets)
        changes["temperature"] = temperature
        scores = head.scores(torch.from_numpy(outputs).float(), temperature)
        units = np.array([head.dimension.to_unit(score) for score in scores.tolist()])
        if targets.ndim == 2:
            targets = targets @ np.linspace(0, 1, head.levels)
    if method == "isotonic":
        changes["isotonic"] = fit_isotonic(units, targets)
    fitted = Calibration(**changes)
    if head.config.kind == "regression":
        fitted = with_margin(fitted, units, targets)
    return fitted


def fit_head_temperature(
    head: OutputHead,
    logits: np.ndarray,
    targets: np.ndarray,
) -> float:
    """Returns the temperature of a head with probabilities for its ``logits`` [n, outputs];
    ``targets`` are [n] for a binary head, else [n, levels]."""
    kind = head.config.kind
    if kind == "binary":
        return fit_temperature(logits[:, 0], targets)
    return fit_class_temperature(logits, targets, corn=kind == "ordinal")


def with_margin(
    calibration: Calibration,
    units: np.ndarray,
    targets: np.ndarray,
) -> Calibration:
    """Returns the calibration with the distance within which a new rating lies nine times in ten of
    the calibrated score, for ratings drawn as ``targets`` [n]: the split conformal quantile (Lei
    and others, 2018). ``units`` [n] are the scores on [0, 1] before the calibration."""
    mapped = np.array([calibration.map_unit(unit) for unit in units.tolist()])
    errors = np.sort(np.abs(mapped - targets))
    rank = min(int(np.ceil((len(errors) + 1) * COVERAGE)), len(errors))
    return calibration.model_copy(update={"margin": float(errors[rank - 1])})


def fit_temperature(
    logits: np.ndarray,
    targets: np.ndarray,
) -> float:
    """Returns the temperature that minimises the binary cross-entropy of ``logits`` [n] (Guo et
    al., 2017).

    ``targets`` [n] are probabilities of label 1. Bounded to [0.2, 5]: a small validation set must
    not make a judge certain.
    """

    def loss(log_temperature: float) -> float:
        z = logits / np.exp(log_temperature)
        return float(np.mean(np.logaddexp(0, z) - targets * z))

    return _best_temperature(loss)


def fit_class_temperature(
    logits: np.ndarray,
    targets: np.ndarray,
    corn: bool,
) -> float:
    """The same for several classes; ``logits`` [n, outputs], ``targets`` [n, levels]."""
    outputs, shares = torch.from_numpy(logits), torch.from_numpy(targets)

    def loss(log_temperature: float) -> float:
        scaled = outputs / float(np.exp(log_temperature))
        if corn:
            probabilities = corn_probabilities(scaled)
        else:
            probabilities = torch.softmax(scaled, dim=-1)
        return float(-(shares * probabilities.clamp_min(1e-9).log()).sum(-1).mean())

    return _best_temperature(loss)


def _best_temperature(loss: Callable[[float], float]) -> float:
    fitted = minimize_scalar(loss, bounds=(np.log(0.2), np.log(5)), method="bounded")
    return float(np.exp(fitted.x))
