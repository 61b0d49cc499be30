"""Inline SVG: axes, scales and the interval bar, drawn from numbers only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from medal_judges.report.numbers import number
from medal_judges.stats.results import Estimate

WIDTH, HEIGHT = 240, 206
_LEFT, _RIGHT, _TOP, _BOTTOM = 36, 8, 8, 34
Range = tuple[float, float]


def padded(values: Sequence[float], share: float = 0.05) -> Range:
    """The range of ``values`` with ``share`` of its span on both sides; never empty."""
    low, high = min(values), max(values)
    pad = (high - low) * share or max(abs(low), 1.0) * 0.5
    return low - pad, high + pad


def ticks(span: Range, about: int = 5) -> list[float]:
    """Round values inside ``span``: steps of 1, 2, 2.5 or 5 times a power of ten."""
    low, high = span
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def tick_text(value: float, values: Sequence[float]) -> str:
    """A tick's label with as many decimals as the step needs."""
    step = abs(values[1] - values[0]) if len(values) > 1 else 1.0
    digits = next((d for d in range(4) if abs(round(step, d) - step) < 1e-9 * max(step, 1)), 4)
    return number(value, digits)


@dataclass(frozen=True, slots=True)
class Frame:
    """The plotting area of a small panel and the ranges of its two axes."""

    x: Range
    y: Range
    x_label: str
    y_label: str

    def px(self, value: float) -> float:
        low, high = self.x
        return _LEFT + (value - low) / (high - low) * (WIDTH - _LEFT - _RIGHT)

    def py(self, value: float) -> float:
        low, high = self.y
        return HEIGHT - _BOTTOM - (value - low) / (high - low) * (HEIGHT - _TOP - _BOTTOM)

    def line(self, x0: float, y0: float, x1: float, y1: float, kind: str) -> str:
        """A line in data units, of CSS class ``kind``."""
        return (
            f'<line class="{kind}" x1="{self.px(x0):.1f}" y1="{self.py(y0):.1f}" '
            f'x2="{self.px(x1):.1f}" y2="{self.py(y1):.1f}"/>'
        )

    def axes(self) -> str:
        """Grid lines, tick labels and axis names (labels are ours, not from data)."""
        parts = []
        x_ticks, y_ticks = ticks(self.x), ticks(self.y)
        for v in x_ticks:
            x = f"{self.px(v):.1f}"
            parts.append(
                f'<line class="grid" x1="{x}" y1="{_TOP}" x2="{x}" y2="{HEIGHT - _BOTTOM}"/>'
                f'<text x="{x}" y="{HEIGHT - _BOTTOM + 12}" text-anchor="middle">'
                f"{tick_text(v, x_ticks)}</text>"
            )
        for v in y_ticks:
            y = f"{self.py(v):.1f}"
            parts.append(
                f'<line class="grid" x1="{_LEFT}" y1="{y}" x2="{WIDTH - _RIGHT}" y2="{y}"/>'
                f'<text x="{_LEFT - 4}" y="{y}" dy="3.2" text-anchor="end">'
                f"{tick_text(v, y_ticks)}</text>"
            )
        middle = (_LEFT + WIDTH - _RIGHT) / 2
        centre = (_TOP + HEIGHT - _BOTTOM) / 2
        parts.append(
            f'<text class="axis" x="{middle}" y="{HEIGHT - 5}" text-anchor="middle">'
            f'{self.x_label}</text><text class="axis" text-anchor="middle" '
            f'transform="translate(9 {centre}) rotate(-90)">{self.y_label}</text>'
        )
        return "".join(parts)

    def svg(self, body: str, description: str) -> str:
        """The panel; ``description`` (already escaped) is what a screen reader says."""
        return (
            f'<svg class="panel" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-label="{description}">{self.axes()}{body}</svg>'
        )


def interval_bar(
    estimate: Estimate, span: Range, ceiling: float | None = None, like: float | None = None
) -> str:
    """An interval as a line with a dot, the zero line, the human ceiling as a rhomb, and as a ring
    the judge held against what the ceiling is held against (``like``).

    The text of the figure stands in the cell beside it, so the bar is hidden from readers.
    """
    width, height, pad = 132, 16, 6

    def at(value: float) -> float:
        low, high = span
        share = (min(max(value, low), high) - low) / (high - low)
        return pad + share * (width - 2 * pad)

    parts = [f'<line class="track" x1="{pad}" y1="8" x2="{width - pad}" y2="8"/>']
    if span[0] < 0 < span[1]:
        parts.append(f'<line class="zero" x1="{at(0):.1f}" y1="2" x2="{at(0):.1f}" y2="14"/>')
    if ceiling is not None:
        x = at(ceiling)
        parts.append(f'<path class="ceiling" d="M{x:.1f} 2l4 6-4 6-4-6z"/>')
    if estimate.value is not None:
        if estimate.low is not None and estimate.high is not None:
            parts.append(
                f'<line class="span" x1="{at(estimate.low):.1f}" y1="8" '
                f'x2="{at(estimate.high):.1f}" y2="8"/>'
            )
        parts.append(f'<circle class="dot" cx="{at(estimate.value):.1f}" cy="8" r="4"/>')
    if like is not None:
        parts.append(f'<circle class="ring" cx="{at(like):.1f}" cy="8" r="4.5"/>')
    return (
        f'<svg class="bar" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'aria-hidden="true">{"".join(parts)}</svg>'
    )
