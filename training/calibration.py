"""Calibration: what maps a judge's raw outputs to a dimension's scale, fitted on labelled rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize_scalar
from sklearn.isotonic import IsotonicRegression

from medal_judges.models.base.heads import (
    Calibration,
    OutputHead,
    corn_probabilities,
    on_scale,
)
from medal_judges.training.rows import TrainingExample

COVERAGE = 0.9  # of the interval around a regression's score
MIN_ROWS = 20  # a fit on fewer would follow the noise


def fit_calibrations(
    examples: Sequence[TrainingExample],
    logits: Mapping[str, np.ndarray],
    heads: Mapping[str, OutputHead],
    method: str,
) -> dict[str, Calibration]:
    """Returns the calibration of each dimension with at least 20 labelled validation rows.

    ``method`` is ``temperature``, ``isotonic`` (a monotone map of the score, after the
    temperature) or ``none``.
    """
    calibrations: dict[str, Calibration] = {}
    for name, head in heads.items():
        rows = [row for row, example in enumerate(examples) if name in example.targets]
        if method == "none" or len(rows) < MIN_ROWS:
            continue
        # Of ordinal and classification heads, a probability per level.
        targets = np.stack(
            [np.asarray(examples[row].targets[name], float) for row in rows]
        )
        outputs, kind = logits[name][rows].astype(float), head.config.kind
        fitted = Calibration(rows=len(targets))
        if kind == "regression":
            units = on_scale(outputs[:, 0])
            spread = float(np.std(targets - units))
            fitted = fitted.model_copy(update={"spread": spread})
        else:
            if kind == "binary":
                temperature = fit_temperature(outputs[:, 0], targets)
            else:
                temperature = fit_class_temperature(
                    outputs, targets, corn=kind == "ordinal"
                )
                targets = targets @ np.linspace(0, 1, head.levels)
            fitted = fitted.model_copy(update={"temperature": temperature})
            scores = head.scores(torch.from_numpy(outputs).float(), temperature)
            units = np.array(
                [head.dimension.to_unit(score) for score in scores.tolist()]
            )
        if method == "isotonic":
            fitted = fitted.model_copy(
                update={"isotonic": fit_isotonic(units, targets)}
            )
        if kind == "regression":
            fitted = with_margin(fitted, units, targets)
        calibrations[name] = fitted
    return calibrations


def with_margin(
    calibration: Calibration, units: np.ndarray, targets: np.ndarray
) -> Calibration:
    """Returns the calibration with the distance within which a new rating lies nine times in ten of
    the calibrated score, for ratings drawn as ``targets`` [n]: the split conformal quantile (Lei
    and others, 2018). ``units`` [n] are the scores on [0, 1] before the calibration."""
    mapped = np.array([calibration.map_unit(unit) for unit in units.tolist()])
    errors = np.sort(np.abs(mapped - targets))
    rank = min(int(np.ceil((len(errors) + 1) * COVERAGE)), len(errors))
    return calibration.model_copy(update={"margin": float(errors[rank - 1])})


def fit_temperature(logits: np.ndarray, targets: np.ndarray) -> float:
    """Returns the temperature that minimises the binary cross-entropy of ``logits`` [n] (Guo et
    al., 2017).

    ``targets`` [n] are probabilities of label 1. Bounded to [0.2, 5]: a small validation set must
    not make a judge certain.
    """

    def loss(log_temperature: float) -> float:
        z = logits / np.exp(log_temperature)
        return float(np.mean(np.logaddexp(0, z) - targets * z))

    return _best_temperature(loss)


def fit_class_temperature(logits: np.ndarray, targets: np.ndarray, corn: bool) -> float:
    """The same for several classes; ``logits`` [n, outputs], ``targets`` [n, levels]."""
    outputs, shares = torch.from_numpy(logits), torch.from_numpy(targets)

    def loss(log_temperature: float) -> float:
        scaled = outputs / float(np.exp(log_temperature))
        probabilities = torch.softmax(scaled, dim=-1)
        if corn:
            probabilities = corn_probabilities(scaled)
        return float(-(shares * probabilities.clamp_min(1e-9).log()).sum(-1).mean())

    return _best_temperature(loss)


def _best_temperature(loss: Callable[[float], float]) -> float:
    fitted = minimize_scalar(loss, bounds=(np.log(0.2), np.log(5)), method="bounded")
    return float(np.exp(fitted.x))


def fit_isotonic(
    units: npt.ArrayLike, targets: npt.ArrayLike
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns the knots (x, y) of the isotonic regression of ``targets`` on ``units``, both on
    [0, 1]."""
    fitted = IsotonicRegression(out_of_bounds="clip").fit(
        np.asarray(units), np.asarray(targets)
    )
    x, y = fitted.X_thresholds_, fitted.y_thresholds_
    return tuple(map(float, x)), tuple(map(float, y))
