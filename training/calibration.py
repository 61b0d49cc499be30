"""Calibration: what maps a judge's raw outputs to a dimension's scale, fitted on labelled rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize_scalar
from sklearn.isotonic import IsotonicRegression

from medal_judges.models.base.heads import Calibration, OutputHead, corn_probabilities, on_scale
from medal_judges.training.rows import TrainingExample

COVERAGE = 0.9  # of the interval around a regression's score
MIN_ROWS = 20  # a fit on fewer would follow the noise


def fit_calibrations(
    examples: Sequence[TrainingExample],
    logits: Mapping[str, np.ndarray],
    heads: Mapping[str, OutputHead],
    method: str,
) -> dict[str, Calibration]:
    """Calibration of each dimension with at least 20 labelled validation rows.

    ``method`` is ``temperature``, ``isotonic`` (a monotone map of the score, after the
    temperature) or ``none``.
    """
    calibrations: dict[str, Calibration] = {}
    for name, head in heads.items() if method != "none" else ():
        rows = [i for i, e in enumerate(examples) if name in e.targets]
        if len(rows) < MIN_ROWS:
            continue
        targets = np.stack([np.asarray(examples[i].targets[name], float) for i in rows])
        raw, kind = logits[name][rows].astype(float), head.config.kind
        temperature, spread = 1.0, None
        if kind == "binary":
            temperature = fit_temperature(raw[:, 0], targets)
        elif kind == "regression":
            spread = float(np.std(targets - on_scale(raw[:, 0])))
        else:
            temperature = fit_class_temperature(raw, targets, corn=kind == "ordinal")
        isotonic = None
        if method == "isotonic":
            scores = head.scores(torch.from_numpy(raw).float(), temperature).tolist()
            units = [head.dimension.to_unit(s) for s in scores]
            means = targets if targets.ndim == 1 else targets @ np.linspace(0, 1, head.levels)
            isotonic = fit_isotonic(units, means.tolist())
        fitted = Calibration(
            temperature=temperature, spread=spread, isotonic=isotonic, rows=len(targets)
        )
        if kind == "regression":
            mapped = [fitted.map_unit(unit) for unit in on_scale(raw[:, 0]).tolist()]
            fitted = fitted.model_copy(update={"margin": margin_of(mapped, targets)})
        calibrations[name] = fitted
    return calibrations


def margin_of(scores: npt.ArrayLike, targets: np.ndarray) -> float:
    """Returns the distance within which a new rating lies nine times in ten, for ratings drawn as
    these: the split conformal quantile (Lei and others, 2018)."""
    errors = np.sort(np.abs(np.asarray(scores) - targets))
    place = min(int(np.ceil((len(errors) + 1) * COVERAGE)), len(errors)) - 1
    return float(errors[place])


def fit_temperature(logits: np.ndarray, targets: np.ndarray) -> float:
    """Temperature that minimises the binary cross-entropy of ``logits`` [n] (Guo et al., 2017).

    ``targets`` [n] are probabilities of label 1. Bounded to [0.2, 5]: a small validation set must
    not make a judge certain.
    """

    def loss(log_temperature: float) -> float:
        z = logits / np.exp(log_temperature)
        return float(np.mean(np.logaddexp(0, z) - targets * z))

    return _best_temperature(loss)


def fit_class_temperature(logits: np.ndarray, targets: np.ndarray, corn: bool) -> float:
    """The same for several classes; ``logits`` [n, outputs], ``targets`` [n, levels]."""
    z, t = torch.from_numpy(logits), torch.from_numpy(targets)

    def loss(log_temperature: float) -> float:
        scaled = z / float(np.exp(log_temperature))
        p = corn_probabilities(scaled) if corn else torch.softmax(scaled, dim=-1)
        return float(-(t * p.clamp_min(1e-9).log()).sum(-1).mean())

    return _best_temperature(loss)


def _best_temperature(loss: Callable[[float], float]) -> float:
    fitted = minimize_scalar(loss, bounds=(np.log(0.2), np.log(5)), method="bounded")
    return float(np.exp(fitted.x))


def fit_isotonic(
    units: npt.ArrayLike, targets: npt.ArrayLike
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Knots (x, y) of the isotonic regression of ``targets`` on ``units``, both on [0, 1]."""
    fitted = IsotonicRegression(out_of_bounds="clip").fit(np.asarray(units), np.asarray(targets))
    x, y = fitted.X_thresholds_, fitted.y_thresholds_
    return tuple(map(float, x)), tuple(map(float, y))
