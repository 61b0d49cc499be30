"""What maps a judge's raw outputs to a dimension's scale, fitted on labelled rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import least_squares, minimize_scalar
from sklearn.isotonic import IsotonicRegression

from medal_judges.errors import ConfigError
from medal_judges.models.base.heads import Calibration, Head, corn_probabilities
from medal_judges.records.dimension import Dimension
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.rating import mean, rescale
from medal_judges.training.rows.examples import TrainingExample

COVERAGE = 0.9  # of the interval around a regression's score
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
    calibrations: dict[str, Calibration] = {}
    for name, head in heads.items():
        rows = [i for i, e in enumerate(examples) if name in e.targets]
        if len(rows) >= MIN_ROWS:
            targets = np.stack([np.asarray(examples[i].targets[name], float) for i in rows])
            calibrations[name] = _fit(head, logits[name][rows].astype(float), targets, method)
    return calibrations


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
    fitted = Calibration(
        temperature=temperature, spread=spread, isotonic=isotonic, rows=len(targets)
    )
    if kind == "regression":
        mapped = [fitted.map_unit(unit) for unit in np.clip(logits[:, 0], 0, 1).tolist()]
        fitted = fitted.model_copy(update={"margin": conformal_margin(mapped, targets)})
    return fitted


def conformal_margin(units: Sequence[float], targets: np.ndarray) -> float:
    """How far from its score a new rating lies at most, nine times in ten: the split conformal
    quantile of ``units`` against ``targets`` [n], both on [0, 1] (Lei and others, 2018).

    It promises that for ratings drawn as these were: other raters or chatbots may do worse.
    """
    errors = np.sort(np.abs(np.asarray(units) - targets))
    place = int(np.ceil((len(errors) + 1) * COVERAGE))
    return float(errors[min(place, len(errors)) - 1])


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
    units: Sequence[float], targets: Sequence[float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Knots (x, y) of the isotonic regression of ``targets`` on ``units``, both on [0, 1]."""
    fitted = IsotonicRegression(out_of_bounds="clip").fit(np.asarray(units), np.asarray(targets))
    x, y = fitted.X_thresholds_, fitted.y_thresholds_
    return tuple(map(float, x)), tuple(map(float, y))


# -- the scale of an untrained judge: which raw value means which rating -----------------------


@dataclass(frozen=True, slots=True)
class FittedScale:
    """``center`` and ``spread`` of models/followup's LogisticScale, the rows they come from, and
    the mean absolute error on the dimension's scale: fitted, and of always saying the mean
    rating."""

    center: float
    spread: float
    rows: int
    error: float
    error_of_mean: float


def human_units(rows: Sequence[LabelledDialogue], name: str, dimension: Dimension) -> list[float]:
    """Mean rating of label ``name`` as a share of its scale [rows]; 1 is the dimension's good end.

    Raises ConfigError where a row has no such label, or the label no bounds.
    """
    units = []
    for row in rows:
        rating = row.rating(name)
        value = mean(rating) if rating is not None else None
        if rating is None or value is None:
            raise ConfigError(f"{row.id} has no rating of {name!r}")
        if rating.scale is None:
            raise ConfigError(
                f"the ratings of {name!r} have no bounds, so nothing tells where its scale begins",
                hint="fit on a set with bounds, such as dstc9:train",
            )
        units.append(rescale(value, rating.scale, (0.0, 1.0)))
    return [1 - u for u in units] if dimension.good == "low" else units


def fit_scale(raw: Sequence[float], units: Sequence[float], dimension: Dimension) -> FittedScale:
    """The sigmoid of ``raw`` that comes nearest to ``units`` (least squares).

    The sigmoid has to rise: where raw and rating disagree, its spread becomes as wide as the bound
    allows and every score is near the mean rating. Raises ConfigError with fewer than 20 rows.
    """
    x, y = np.asarray(raw, dtype=float), np.asarray(units, dtype=float)
    if len(x) < MIN_ROWS:
        raise ConfigError(f"{len(x)} rows are too few to fit a scale on, at least {MIN_ROWS}")
    unit = float(x.std()) or 1.0
    z = (x - x.mean()) / unit

    def predicted(p: np.ndarray) -> np.ndarray:
        values: np.ndarray = 1 / (1 + np.exp(-(p[0] + np.exp(p[1]) * z)))
        return values

    level = float(np.clip(y.mean(), 0.02, 0.98))
    first = np.array([np.log(level / (1 - level)), -1.0])
    fitted = least_squares(lambda p: predicted(p) - y, first, bounds=([-6, -5], [6, 2])).x
    spread = unit / float(np.exp(fitted[1]))
    center = float(x.mean()) - float(fitted[0]) * spread
    width = dimension.high - dimension.low
    return FittedScale(
        center=center,
        spread=spread,
        rows=len(x),
        error=width * float(np.abs(predicted(fitted) - y).mean()),
        error_of_mean=width * float(np.abs(y - y.mean()).mean()),
    )
