"""Figure: the data of a chart. drawing.py draws it once, for the page and for the figure files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from medal_judges.report.table import Table, number
from medal_judges.stats.estimate import Estimate

OTHER_INDEX = (
    8  # the index of grey, after the colours: nobody can tell a ninth hue apart
)
MAX_DRAWN = (
    400  # more dots than this make a smear and a heavy page; the CSV has them all
)

Range = tuple[float, float]
Tone = tuple[Literal["pos", "neg"], int]  # blue or orange, and its strength in percent


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a plot. ``named`` has (position, text) of its ticks; without it, ticks are round
    numbers."""

    label: str
    span: Range
    named: Sequence[tuple[float, str]] = ()

    def ticks(self) -> list[tuple[float, str]]:
        """Returns the position and text of each tick: about five, in steps of 1, 2, 2.5 or 5 times
        a power of ten, with as many decimals as the step needs."""
        if self.named:
            return list(self.named)
        low, high = self.span
        step = _tick_step((high - low) / 5)
        digits = 0
        while digits < 4 and abs(round(step, digits) - step) >= 1e-9 * max(step, 1):
            digits += 1
        first = math.ceil(low / step - 1e-9)
        last = math.floor(high / step + 1e-9)
        ticks = []
        for multiple in range(first, last + 1):
            position = multiple * step
            ticks.append((position, number(position, digits)))
        return ticks


def _tick_step(smallest: float) -> float:
    """Returns the first round number from ``smallest`` on."""
    power = 10.0 ** math.floor(math.log10(smallest))
    for factor in (1, 2, 2.5, 5):
        if factor * power >= smallest * 0.999:
            return factor * power
    return 10 * power


@dataclass(frozen=True, slots=True)
class Dot:
    """A point; ``colour`` is an index of a categorical colour, ``radius`` is in pixels."""

    x: float
    y: float
    colour: int
    tooltip: str = ""
    radius: float = 2.8
    kind: Literal["pt", "bin"] = "pt"


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points; a point with y of None breaks it. A ``colour`` index replaces the
    style."""

    points: Sequence[tuple[float, float | None]]
    style: Literal["trend", "trend dashed", "ideal", "whisker"] = "trend"
    colour: int | None = None


@dataclass(frozen=True, slots=True)
class Plot:
    """A panel with two axes, lines and groups of dots.

    ``description`` is for screen readers, ``figure`` a named estimate beside the title. ``gaps``
    are (name, colour index, text) lines below the panel. A panel without marks shows the text
    ``missing``.
    """

    title: str
    x: Axis
    y: Axis
    marks: Sequence[Line | Sequence[Dot]]
    description: str
    figure: tuple[str, Estimate] | None = None
    count: str = ""
    gaps: Sequence[tuple[str, int, str]] = ()
    missing: str = ""


@dataclass(frozen=True, slots=True)
class BarSegment:
    """A part of a bar: its length in units of the axis, its colour (an index or a tone), and its
    text."""

    length: float
    colour: int | Tone
    text: str = ""
    tooltip: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A named bar of segments, with an interval, and ``text`` after its end."""

    name: str
    segments: Sequence[BarSegment]
    interval: Range | None = None
    text: str = ""
    tooltip: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """A panel of horizontal bars from 0 to ``end``; a ``wide`` one fills the page."""

    title: str
    bars: Sequence[Bar]
    end: float
    description: str
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels with one legend of (name, colour) pairs. A Table as a panel is drawn as a heat map of
    its ``Heat`` cells, or else as one interval for each row. Files show the title, the page shows
    the heading."""

    title: str
    panels: Sequence[Plot | Bars | Table]
    heading: str = ""
    legend: Sequence[tuple[str, int | Tone]] = ()
    legend_name: str = ""


def padded(values: Sequence[float], share: float = 0.05) -> Range:
    """The range of ``values``, widened by ``share`` of its length on both sides; never empty."""
    low, high = min(values), max(values)
    pad = (high - low) * share or max(abs(low), 1.0) * 0.5
    return low - pad, high + pad


def thinned(dots: Sequence[Dot]) -> Sequence[Dot]:
    """Returns at most MAX_DRAWN dots, evenly spaced in the list."""
    step = math.ceil(len(dots) / MAX_DRAWN)
    return dots[:: max(step, 1)]
