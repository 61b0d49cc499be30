"""The scale of a figure's interval: one without ends, on which its spread is about normal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

_CORRELATIONS = ("pearson", "spearman", "spearmanr", "kendall", "within_system", "centred")
_SHARES = (
    "share",
    "f1_",
    "auc_",
    "roc_auc",
    "precision",
    "recall",
    "accuracy",
    "exact",
    "adjacent",
)


@dataclass(frozen=True, slots=True)
class Scale:
    """``to`` leads from the figure to its scale, ``back`` from there, ``slope`` is the derivative
    of ``to``. Figures lie between ``low`` and ``high``, where ``to`` is infinite."""

    low: float
    high: float
    to: Callable[[float], float]
    back: Callable[[float], float]
    slope: Callable[[float], float]

    def inside(self, value: float) -> bool:
        return self.low < value < self.high


def _logistic(value: float) -> float:
    return 0.5 * (1 + math.tanh(value / 2))  # never overflows


PLAIN = Scale(-math.inf, math.inf, lambda v: v, lambda v: v, lambda v: 1.0)
FISHER = Scale(-1.0, 1.0, math.atanh, math.tanh, lambda v: 1 / (1 - v * v))
LOGIT = Scale(0.0, 1.0, lambda v: math.log(v / (1 - v)), _logistic, lambda v: 1 / (v * (1 - v)))


def is_correlation(metric: str) -> bool:
    """True for a figure between -1 and 1 that is 0 where nothing agrees."""
    return metric in _CORRELATIONS


def scale_of(metric: str) -> Scale:
    """Fisher's z for correlations and Krippendorff's alpha, the logit for shares, F1 and areas
    under the ROC curve, else (means) the figure's own."""
    if is_correlation(metric) or metric == "alpha":
        return FISHER
    return LOGIT if metric.startswith(_SHARES) else PLAIN
