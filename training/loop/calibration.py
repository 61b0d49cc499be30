"""Fit a judge's calibration on the validation rows of its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from sklearn.isotonic import IsotonicRegression

from medal_judges.models.base.heads import Calibration, Head, corn_probabilities
from medal_judges.training.rows.examples import TrainingExample

MIN_ROWS = 20  # below this a fit would follow the noise


def fit_calibrations(
    examples: Sequence[TrainingExample],
    logits: Mapping[str, np.ndarray],
    heads: Mapping[str, Head],
    method: str,
) -> dict[str, Calibration]:
    """Calibration of each dimension with at least 20 labelled validation rows.

    ``method`` is ``temperature``, ``isotonic`` (a monotone map of the score, over the
    temperature) or ``none``.
    """
    if method == "none":
        return {}
    found: dict[str, Calibration] = {}
    for name, head in heads.items():
        rows = [i for i, e in enumerate(examples) if name in e.targets]
        if len(rows) >= MIN_ROWS:
            targets = np.stack([np.asarray(examples[i].targets[name], float) for i in rows])
            found[name] = _fit(head, logits[name][rows].astype(float), targets, method)
    return found


def _fit(head: Head, logits: np.ndarray, targets: np.ndarray, method: str) -> Calibration:
    kind = head.config.kind
    temperature, spread = 1.0, None
    if kind == "binary":
        temperature = fit_temperature(logits[:, 0], targets)
    elif kind == "regression":
        spread = float(np.std(targets - np.clip(logits[:, 0], 0, 1)))
    else:
        temperature = fit_class_temperature(logits, targets, corn=kind == "ordinal")
    isotonic = None
    if method == "isotonic":
        scores = head.scores(torch.from_numpy(logits).float(), temperature).tolist()
        units = [head.dimension.to_unit(s) for s in scores]
        isotonic = fit_isotonic(units, _unit_targets(head, targets).tolist())
    return Calibration(temperature=temperature, spread=spread, isotonic=isotonic, rows=len(targets))


def _unit_targets(head: Head, targets: np.ndarray) -> np.ndarray:
    """Targets [n] on [0, 1]; distributions over levels by their mean."""
    if targets.ndim == 1:
        return targets
    return np.asarray(targets @ np.linspace(0, 1, head.levels))


def fit_temperature(logits: np.ndarray, targets: np.ndarray) -> float:
    """Temperature that minimises the binary cross-entropy of ``logits`` [n] (Guo et al., 2017).

    ``targets`` [n] are probabilities of label 1. Bounded to [0.2, 5]: a small validation set must
    not make a judge certain.
    """

    def loss(log_temperature: float) -> float:
        z = logits / np.exp(log_temperature)
        return float(np.mean(np.logaddexp(0, z) - targets * z))

    fitted = minimize_scalar(loss, bounds=(np.log(0.2), np.log(5)), method="bounded")
    return float(np.exp(fitted.x))


def fit_class_temperature(logits: np.ndarray, targets: np.ndarray, corn: bool) -> float:
    """The same for several classes; ``logits`` [n, outputs], ``targets`` [n, levels]."""
    z, t = torch.from_numpy(logits), torch.from_numpy(targets)

    def loss(log_temperature: float) -> float:
        scaled = z / float(np.exp(log_temperature))
        p = corn_probabilities(scaled) if corn else torch.softmax(scaled, dim=-1)
        return float(-(t * p.clamp_min(1e-9).log()).sum(-1).mean())

    fitted = minimize_scalar(loss, bounds=(np.log(0.2), np.log(5)), method="bounded")
    return float(np.exp(fitted.x))


def fit_isotonic(
    units: Sequence[float], targets: Sequence[float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Knots (x, y) of the isotonic regression of ``targets`` on ``units``, both on [0, 1]."""
    fitted = IsotonicRegression(out_of_bounds="clip").fit(np.asarray(units), np.asarray(targets))
    x, y = fitted.X_thresholds_, fitted.y_thresholds_
    return tuple(map(float, x)), tuple(map(float, y))
