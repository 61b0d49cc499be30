"""Calibration: what turns a judge's raw output into a probability or a fair spread.

Fitted on validation rows, saved in the judge's config.json as plain numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medal_judges.config import Config


class Calibration(Config):
    """One dimension's calibration; the defaults change nothing.

    ``temperature`` divides the logits of a binary, ordinal or classification head. ``spread`` is
    the standard deviation of a regression's residuals on the scale [0, 1]. ``isotonic`` is a
    monotone map of the unit score (knots x, knots y). ``rows`` says how many rows it was fitted on.
    """

    temperature: float = 1.0
    spread: float | None = None
    isotonic: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    rows: int = 0

    def map_unit(self, unit: float) -> float:
        """The isotonic map applied to a score on [0, 1]; unchanged where none was fitted."""
        if self.isotonic is None:
            return unit
        x, y = self.isotonic
        return float(np.interp(unit, x, y))


def fit_temperature(logits: np.ndarray, targets: np.ndarray) -> float:
    """Temperature that minimises the binary cross-entropy of ``logits`` [n] (Guo et al., 2017).

    ``targets`` [n] are probabilities of label 1. Bounded to [0.2, 5]: a small validation set must
    not make a judge certain.
    """
    from scipy.optimize import minimize_scalar

    def loss(log_temperature: float) -> float:
        z = logits / np.exp(log_temperature)
        return float(np.mean(np.logaddexp(0, z) - targets * z))

    found = minimize_scalar(loss, bounds=(np.log(0.2), np.log(5)), method="bounded")
    return float(np.exp(found.x))


def fit_class_temperature(logits: np.ndarray, targets: np.ndarray, corn: bool) -> float:
    """The same for several classes; ``logits`` [n, outputs], ``targets`` [n, levels]."""
    import torch
    from scipy.optimize import minimize_scalar

    from medal_judges.models.base.heads import corn_probabilities

    z, t = torch.from_numpy(logits), torch.from_numpy(targets)

    def loss(log_temperature: float) -> float:
        scaled = z / float(np.exp(log_temperature))
        p = corn_probabilities(scaled) if corn else torch.softmax(scaled, dim=-1)
        return float(-(t * p.clamp_min(1e-9).log()).sum(-1).mean())

    found = minimize_scalar(loss, bounds=(np.log(0.2), np.log(5)), method="bounded")
    return float(np.exp(found.x))


def fit_isotonic(
    units: Sequence[float], targets: Sequence[float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Knots (x, y) of the isotonic regression of ``targets`` on ``units``, both on [0, 1]."""
    from sklearn.isotonic import IsotonicRegression

    fitted = IsotonicRegression(out_of_bounds="clip").fit(np.asarray(units), np.asarray(targets))
    x, y = fitted.X_thresholds_, fitted.y_thresholds_
    return tuple(map(float, x)), tuple(map(float, y))
