"""How a number is written: 2 decimals, the interval in brackets, undefined as a dash."""

from __future__ import annotations

import math
from collections.abc import Callable

from medal_judges.stats.estimate import Estimate

DASH = "–"

LABELS = {
    "spearman": "Spearman ρ",
    "pearson": "Pearson r",
    "kendall": "Kendall τ-b",
    "within_system": "ρ within chatbots",
    "f1_present": "F1+",
    "f1_absent": "F1−",
    "precision": "Precision",
    "recall": "Recall",
    "accuracy": "Accuracy",
}


def label(metric: str) -> str:
    """Name of a metric in a table head."""
    return LABELS.get(metric, metric.replace("_", " "))


def number(value: float, digits: int = 2) -> str:
    """``value`` with ``digits`` decimals and a real minus sign; never minus zero."""
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", "−")


def percent(share: float) -> str:
    """``12.3%``; two decimals below 1%, so that rare issues keep their size."""
    return f"{_hundredths(share)}%"


def points(difference: float) -> str:
    """A difference of shares in percentage points: ``+4.8 pts``."""
    return f"{'+' if difference > 0 else ''}{_hundredths(difference)} pts"


def _hundredths(share: float) -> str:
    return number(100 * share, 2 if 0 < abs(share) < 0.00995 else 1)


def p_value_text(value: float) -> str:
    """``0.034``, ``0.62``, ``< 0.001``: never 0.00."""
    return "< 0.001" if value < 0.001 else number(value, 3 if value < 0.1 else 2)


def interval(estimate: Estimate, text: Callable[[float], str] = number) -> str:
    """``[low, high]``, or nothing without an interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"[{text(estimate.low)}, {text(estimate.high)}]"


def percent_interval(estimate: Estimate) -> str:
    """``[low, high]`` in percent, or nothing without an interval."""
    return interval(estimate, _hundredths)


def checked(estimate: Estimate | None) -> Estimate:
    """The estimate if it has a finite number, else None with a reason."""
    if estimate is None:
        return Estimate(None, reason="not computed")
    if estimate.value is None:
        return Estimate(None, reason=estimate.reason or "undefined (no reason recorded)")
    is_number = math.isfinite(estimate.value)
    return estimate if is_number else Estimate(None, reason="not a finite number")
