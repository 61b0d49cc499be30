"""Fits calibrations on labelled rows. A calibration corrects the raw outputs of a judge for one
dimension.
"""

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
    map_isotonic,
    squash_to_unit,
)

COVERAGE = 0.9  # of the interval around a regression's score
MIN_ROWS = 20  # a fit on fewer would follow the noise


def fit_calibration(
    head: OutputHead,
    targets: np.ndarray,
    logits: np.ndarray,
    method: str,
) -> Calibration | None:
    """Returns the calibration of one dimension, fitted on the rows that have a label.

    Args:
        head: The output head that computed ``logits``.
        targets: [n, columns] labels of n rows, NaN if missing. A single column holds a number on
            [0, 1]. Several columns hold the probability of each level (possible rating).
        logits: [n, outputs] outputs of ``head`` for the same rows. The outputs of a regression head
            are scores near [0, 1].
        method: ``temperature`` fits a classifier's softmax temperature. ``isotonic`` also fits a
            monotone map of the scores. ``none`` fits nothing.

    Returns:
        The calibration, or None if ``method`` is ``none`` or fewer than 20 rows have a label.
    """
    rows = np.isfinite(targets).all(axis=1)
    if method == "none" or rows.sum() < MIN_ROWS:
        return None
    targets, outputs = targets[rows].astype(float), logits[rows].astype(float)
    is_binary = head.dimension.kind == "binary"
    if head.config.kind == "regression":
        units = squash_to_unit(outputs[:, 0])
        return fit_score_map(units, targets[:, 0], method, is_binary=is_binary)
    tensor = torch.from_numpy(outputs)

    def probabilities(temperature: float) -> np.ndarray:
        return head.probabilities(tensor, temperature, None).numpy()

    temperature = fit_temperature(probabilities, targets)
    levels = np.linspace(0, 1, head.levels)
    if head.targets > 1:
        targets = targets @ levels
    return fit_score_map(
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
    """Returns the softmax temperature, between 0.2 and 5, with the lowest cross-entropy (Guo et
    al., 2017).

    Args:
        probabilities: A function that takes a temperature and returns the judge's probabilities of
            n rows, [n, levels].
        targets: [n, levels] true probabilities of the same rows. For two levels it may be [n, 1],
            with the probability of the second level.
    """
    if targets.shape[1] == 1:
        targets = np.hstack([1 - targets, targets])

    def loss(log_temperature: float) -> float:
        chances = np.maximum(probabilities(float(np.exp(log_temperature))), 1e-9)
        return float(-(targets * np.log(chances)).sum(axis=1).mean())

    # The bounds keep a small validation set from making a judge too certain.
    fitted = minimize_scalar(loss, bounds=(np.log(0.2), np.log(5)), method="bounded")
    return float(np.exp(fitted.x))


def fit_score_map(
    units: np.ndarray,
    targets: np.ndarray,
    method: str,
    *,
    is_binary: bool,
    temperature: float | None = None,
) -> Calibration:
    """Returns the calibration of a judge's scores, fitted on labels.

    The calibration of a regression (``temperature`` is None) has the standard deviation of the
    errors. On a scale that is not binary, it also has the half-width of the interval around a score
    that contains 90% of the labels.

    Args:
        units: [n] scores on [0, 1].
        targets: [n] labels of the same rows, on [0, 1].
        method: ``isotonic`` fits a monotone map of the scores, and a decision threshold for a
            binary dimension. ``temperature`` leaves the scores unchanged.
        is_binary: Whether the dimension is binary.
        temperature: The fitted softmax temperature of a classifier, which becomes part of the
            result. None for a regression.
    """
    settings: dict[str, Any] = {"rows": len(targets)}
    if temperature is None:
        settings["spread"] = float(np.std(targets - units))
    else:
        settings["temperature"] = temperature
    if method == "isotonic" and is_binary:
        settings |= _fit_map_and_threshold(units, targets >= 0.5)
    elif method == "isotonic":
        settings["isotonic"] = fit_isotonic(units, targets)
    fitted = Calibration(**settings)
    if temperature is not None or is_binary:
        return fitted
    # The split conformal quantile (Lei and others, 2018): nine in ten ratings are within it.
    mapped = fitted.center_on_threshold(fitted.apply_isotonic(units))
    errors = np.sort(np.abs(mapped - targets))
    rank = min(int(np.ceil((len(errors) + 1) * COVERAGE)), len(errors))
    return replace(fitted, margin=float(errors[rank - 1]))


def _fit_map_and_threshold(
    units: np.ndarray,
    has_issue: np.ndarray,
) -> dict[str, Any]:
    """Fits the monotone map and the decision threshold of a binary dimension.

    Args:
        units: [n] scores on [0, 1].
        has_issue: [n] whether the label of the same row is positive.

    Returns:
        ``isotonic`` -> a monotone map from scores to probabilities, and ``threshold`` -> the lowest
            probability that counts as positive, chosen for the highest F1.
    """
    isotonic = fit_isotonic(units, has_issue)
    chances = map_isotonic(units, isotonic)
    levels = np.unique([0.0, *chances])
    thresholds = (levels[1:] + levels[:-1]) / 2
    f1_scores = [f1_score(has_issue, chances >= threshold) for threshold in thresholds]
    best = thresholds[int(np.argmax(f1_scores))]
    return {"isotonic": isotonic, "threshold": float(best)}
