"""Calibration: what maps a judge's raw outputs to a dimension's scale, fitted on labelled rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from sklearn.metrics import f1_score

from medal_judges.models.base.heads import (
    Calibration,
    OutputHead,
    fit_isotonic,
    isotonic_map,
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
    is_binary = head.dimension.kind == "binary"
    if head.config.kind == "regression":
        units = on_scale(outputs[:, 0])
        return fit_units(units, targets[:, 0], method, is_binary=is_binary)
    tensor = torch.from_numpy(outputs)

    def probabilities(temperature: float) -> np.ndarray:
        return head.probabilities(tensor, temperature, None).numpy()

    temperature = fit_temperature(probabilities, targets)
    levels = np.linspace(0, 1, head.levels)
    if head.targets > 1:
        targets = targets @ levels
    return fit_units(
        probabilities(temperature) @ levels,
        targets.ravel(),
        method,
        is_binary=is_binary,
        temperature=temperature,
    )


def fit_temperature(
    probabilities: Callable[[float], np.ndarray],
    targets: np.ndarray,
) -> float:
    """Returns the temperature that minimises the cross-entropy (Guo et al., 2017).

    ``probabilities`` returns those of the levels [n, levels] at a temperature. ``targets`` [n,
    levels] are probabilities, or [n, 1] those of the second of two levels. Bounded to [0.2, 5]: a
    small validation set must not make a judge certain.
    """
    if targets.shape[1] == 1:
        targets = np.hstack([1 - targets, targets])

    def loss(log_temperature: float) -> float:
        chances = np.maximum(probabilities(float(np.exp(log_temperature))), 1e-9)
        return float(-(targets * np.log(chances)).sum(axis=1).mean())

    fitted = minimize_scalar(loss, bounds=(np.log(0.2), np.log(5)), method="bounded")
    return float(np.exp(fitted.x))


def fit_units(
    units: np.ndarray,
    targets: np.ndarray,
    method: str,
    *,
    is_binary: bool,
    temperature: float | None = None,
) -> Calibration:
    """Returns the calibration of the scores ``units`` [n] by the labels ``targets`` [n], both on
    [0, 1]. ``method`` is the setting ``calibration``. ``is_binary`` says whether the dimension
    is an issue.

    Without a ``temperature`` the scores are a regression's. They get the spread of their errors,
    and the margin if the dimension is not binary.
    """
    settings: dict[str, Any] = {"rows": len(targets)}
    if temperature is None:
        settings["spread"] = float(np.std(targets - units))
    else:
        settings["temperature"] = temperature
    if method == "isotonic" and is_binary:
        settings |= _threshold(units, targets >= 0.5)
    elif method == "isotonic":
        settings["isotonic"] = fit_isotonic(units, targets)
    fitted = Calibration(**settings)
    if temperature is not None or is_binary:
        return fitted
    # The split conformal quantile (Lei and others, 2018): nine in ten ratings are within it.
    mapped = fitted.map_chances(fitted.chances(units))
    errors = np.sort(np.abs(mapped - targets))
    rank = min(int(np.ceil((len(errors) + 1) * COVERAGE)), len(errors))
    return replace(fitted, margin=float(errors[rank - 1]))


def _threshold(
    units: np.ndarray,
    has_issue: np.ndarray,
) -> dict[str, Any]:
    """Returns the fields of the calibration of a binary dimension: the map, the threshold of the
    best F1."""
    isotonic = fit_isotonic(units, has_issue)
    chances = isotonic_map(units, isotonic)
    levels = np.unique([0.0, *chances])
    thresholds = (levels[1:] + levels[:-1]) / 2
    f1_scores = [f1_score(has_issue, chances >= threshold) for threshold in thresholds]
    best = thresholds[int(np.argmax(f1_scores))]
    return {"isotonic": isotonic, "threshold": float(best)}
