"""Estimate: a figure with its interval."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95% interval (see intervals.py).

    ``reason`` says why ``value`` is None, or why a value has no interval. ``beside``: the same with
    the interval for other chatbots (or, if that one leads, for these).
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    reason: str | None = None
    beside: Estimate | None = None


def undefined(names: Iterable[str], reason: str) -> dict[str, Estimate]:
    """Returns an undefined Estimate with the same reason for each of ``names``."""
    return {name: Estimate(None, reason=reason) for name in names}


def defined(value: float, reason: str) -> Estimate:
    """Returns an Estimate of ``value``; if that is no finite number, an undefined one with the
    ``reason``."""
    if math.isfinite(value):
        return Estimate(value)
    return Estimate(None, reason=reason)
