"""Figure: the content of a chart in data units; svg.py draws it on the page, figure_files.py as
files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from medal_judges.report.numbers import number
from medal_judges.report.table import Table
from medal_judges.stats.estimate import Estimate

# Distinct with every common colour vision: the categorical colours are those of Okabe and Ito
# (2008), darkened if too pale on white; the diverging pair is blue and orange, never red and green.
# style.css has the same colours, and others for a dark page.
_CATEGORICAL = ("#0072B2", "#D55E00", "#009E73", "#B3589A", "#4BA3DB", "#C98B00", "#6F4FA0",
                "#806A3A")  # fmt: skip
_OTHER = "#8A8F94"
OTHER_INDEX = len(_CATEGORICAL)
POSITIVE, NEGATIVE = "#4A98C9", "#E8873A"

Range = tuple[float, float]
Tone = tuple[Literal["pos", "neg"], int]  # blue or orange, and its strength in percent


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a plot. ``named``: (place, name) of its ticks, instead of round numbers."""

    label: str
    span: Range
    named: Sequence[tuple[float, str]] = ()

    def ticks(self) -> list[tuple[float, str]]:
        """Place and text of each tick: about five, in steps of 1, 2, 2.5 or 5 times a power of ten,
        with as many decimals as the step needs."""
        if self.named:
            return list(self.named)
        low, high = self.span
        raw = (high - low) / 5
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        digits = next((d for d in range(4) if abs(round(step, d) - step) < 1e-9 * max(step, 1)), 4)
        return [(k * step, number(k * step, digits)) for k in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class Dot:
    """A point; ``colour`` is an index of a categorical colour, ``radius`` is in pixels."""

    x: float
    y: float
    colour: int
    tooltip: str
    radius: float = 2.8
    kind: Literal["pt", "bin"] = "pt"


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points, broken at each y of None. A ``colour`` index replaces the style."""

    points: Sequence[tuple[float, float | None]]
    style: Literal["trend", "trend dashed", "ideal", "whisker"] = "trend"
    colour: int | None = None


@dataclass(frozen=True, slots=True)
class Plot:
    """A panel with two axes, lines and groups of dots; ``description`` is for screen readers.

    ``figure`` is a named estimate in the head of the panel; ``gaps`` are (name, colour index, text)
    lines below it. A panel without marks shows the text ``missing``.
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
    """A part of a bar: its length on the axis, an index or tone as colour, a text inside it."""

    length: float
    colour: int | Tone
    text: str = ""
    tooltip: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A named bar of segments, with an interval and a ``text`` behind its end."""

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
    its ``Heat`` cells, or as one interval a row. Files show the title, the page the heading."""

    title: str
    panels: Sequence[Plot | Bars | Table]
    heading: str = ""
    legend: Sequence[tuple[str, int | Tone]] = ()
    legend_name: str = ""


def colour_of(index: int) -> str:
    """Hex colour of category ``index``, grey for any beyond the palette."""
    return _CATEGORICAL[index] if index < OTHER_INDEX else _OTHER


def index_by_frequency(names: Iterable[str]) -> Mapping[str, int]:
    """Colour index of each name, the most frequent first, ties by name. Names beyond the palette
    share the grey of 'other': nobody can tell a ninth hue apart."""
    ranked = sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0]))
    return {name: min(i, OTHER_INDEX) for i, (name, _) in enumerate(ranked)}


def padded(values: Sequence[float], share: float = 0.05) -> Range:
    """The range of ``values`` with ``share`` of its span on both sides; never empty."""
    low, high = min(values), max(values)
    pad = (high - low) * share or max(abs(low), 1.0) * 0.5
    return low - pad, high + pad
