"""Figure: the content of a chart in data units; svg.py draws it on the page, figure_files.py as
files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from markupsafe import Markup, escape

from medal_judges.report.table import IntervalBar, Table, number
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


MAX_DRAWN = 400  # more dots than this make a smear and a heavy page; the CSV has them all
_WIDTH, _HEIGHT = 240, 206
_LEFT, _RIGHT, _TOP, _BOTTOM = 36, 8, 8, 34
_TEXT_FITS = 34  # pixels of a bar's segment from which on its text is drawn


def thinned(dots: Sequence[Dot]) -> Sequence[Dot]:
    """Every k-th dot, at most MAX_DRAWN: a sample of every part of the plot."""
    return dots[:: -(-len(dots) // MAX_DRAWN) or 1]


def _tag(name: str, content: object = "", **attributes: object) -> Markup:
    """An element, floats with one decimal, everything escaped. Names of attributes lose a trailing
    underscore, and other underscores become dashes."""
    text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="'
        f'{f"{value:.1f}" if isinstance(value, float) else escape(value)}"'
        for key, value in attributes.items()
    )
    return Markup(f"<{name}{text}>{escape(content)}</{name}>")


def _joined(parts: Iterable[Markup]) -> Markup:
    return Markup("").join(parts)


def plot_svg(plot: Plot) -> Markup:
    """A plot with its grid, tick labels and the names of its axes."""

    def px(value: float) -> float:
        low, high = plot.x.span
        return _LEFT + (value - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def py(value: float) -> float:
        low, high = plot.y.span
        return _HEIGHT - _BOTTOM - (value - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    parts, bottom, right = [], _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for value, label in plot.x.ticks():
        x = px(value)
        parts.append(_tag("line", class_="grid", x1=x, y1=_TOP, x2=x, y2=bottom))
        anchor = "end" if plot.x.named and x > right - 16 else "middle"  # dates are wide
        parts.append(_tag("text", label, x=x, y=bottom + 12, text_anchor=anchor))
    for value, label in plot.y.ticks():
        y = py(value)
        parts.append(_tag("line", class_="grid", x1=_LEFT, y1=y, x2=right, y2=y))
        parts.append(_tag("text", label, x=_LEFT - 4, y=y, dy=3.2, text_anchor="end"))
    across, up = (_LEFT + right) / 2, (_TOP + bottom) / 2
    parts += [
        _tag("text", plot.x.label, class_="axis", x=across, y=_HEIGHT - 5, text_anchor="middle"),
        _tag("text", plot.y.label, class_="axis", text_anchor="middle",
             transform=f"translate(9 {up}) rotate(-90)"),
    ]  # fmt: skip
    for mark in plot.marks:
        if not isinstance(mark, Line):
            parts += [
                _tag("circle", _tag("title", dot.tooltip), class_=f"{dot.kind} c{dot.colour}",
                     cx=px(dot.x), cy=py(dot.y), r=dot.radius)
                for dot in thinned(mark)
            ]  # fmt: skip
        elif mark.colour is not None:
            ends = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in mark.points if y is not None)
            parts.append(_tag("polyline", class_=f"c{mark.colour}", points=ends))
        else:
            parts += [
                _tag("line", class_=mark.style, x1=px(a), y1=py(u), x2=px(b), y2=py(v))
                for (a, u), (b, v) in pairwise(mark.points)
                if u is not None and v is not None
            ]
    return _svg("panel", _WIDTH, _HEIGHT, plot.description, parts)


def bars_svg(panel: Bars) -> Markup:
    """Horizontal bars, their names before them and their texts inside or behind them."""
    wide = panel.wide
    width, row, left, right, gap = (720, 26, 64, 4, 8) if wide else (240, 19, 42, 40, 6)
    unit = (width - left - right) / panel.end
    rows = []
    for i, bar in enumerate(panel.bars):
        y = 2 + i * row
        middle, base = y + row / 2, y + row / 2 + (4 if wide else 3.2)
        parts = [_tag("text", bar.name, x=left - gap, y=base, text_anchor="end")]
        if bar.tooltip:
            parts.append(_tag("title", bar.tooltip))
        x = float(left)
        for part in bar.segments:
            length, look = part.length * unit, {"class_": "share"}
            if not isinstance(part.colour, int):
                look = {"class_": f"bin {part.colour[0]}", "style": f"--s:{part.colour[1]}%"}
            title = _tag("title", part.tooltip) if part.tooltip else ""
            parts.append(_tag("rect", title, **look, x=x, y=y + 3, width=length, height=row - 6))
            if part.text and length > _TEXT_FITS:
                parts.append(_tag("text", part.text, class_="on", x=x + length / 2, y=base))
            x += length
        if bar.interval is not None:
            low, x = (left + end * unit for end in bar.interval)
            parts.append(_tag("line", class_="whisker", x1=low, y1=middle, x2=x, y2=middle))
        if bar.text:
            x += 0 if not bar.segments and wide else 5
            parts.append(_tag("text", bar.text, x=x, y=base))
        rows.append(_tag("g", _joined(parts)))
    return _svg("stack" if wide else "panel", width, row * len(rows) + 4, panel.description, rows)


def interval_svg(bar: IntervalBar) -> Markup:
    """An interval as a line with a dot, the zero line, the human ceiling as a rhomb, like for like
    as a ring. The cell beside it has the number, so screen readers skip the bar."""
    width, height, pad = 132, 16, 6

    def at(value: float) -> float:
        low, high = bar.span
        return pad + (min(max(value, low), high) - low) / (high - low) * (width - 2 * pad)

    low, high, value = bar.estimate.low, bar.estimate.high, bar.estimate.value
    parts = [_tag("line", class_="track", x1=pad, y1=8, x2=width - pad, y2=8)]
    if bar.span[0] < 0 < bar.span[1]:
        parts.append(_tag("line", class_="zero", x1=at(0), y1=2, x2=at(0), y2=14))
    if bar.ceiling is not None:
        parts.append(_tag("path", class_="ceiling", d=f"M{at(bar.ceiling):.1f} 2l4 6-4 6-4-6z"))
    if value is not None and low is not None and high is not None:
        parts.append(_tag("line", class_="span", x1=at(low), y1=8, x2=at(high), y2=8))
    if value is not None:
        parts.append(_tag("circle", class_="dot", cx=at(value), cy=8, r=4))
    if bar.like is not None:
        parts.append(_tag("circle", class_="ring", cx=at(bar.like), cy=8, r=4.5))
    return _tag("svg", _joined(parts), class_="bar", viewBox=f"0 0 {width} {height}", width=width,
                height=height, aria_hidden="true")  # fmt: skip


def rank_svg(people: float, judge: float) -> Markup:
    """Where people (rhomb) and judge (dot) rank a dialogue, from lowest (left) to highest."""
    first, second = 6 + 188 * people, 6 + 188 * judge
    parts = (
        _tag("line", class_="track", x1=6, y1=6, x2=194, y2=6),
        _tag("line", class_="span", x1=first, y1=6, x2=second, y2=6),
        _tag("path", class_="ceiling", d=f"M{first:.1f} 0l4 6-4 6-4-6z"),
        _tag("circle", class_="dot", cx=second, cy=6, r=4),
    )
    return _tag("svg", _joined(parts), class_="track", viewBox="0 0 200 12", aria_hidden="true")


def _svg(kind: str, width: int, height: int, description: str, parts: Iterable[Markup]) -> Markup:
    return _tag("svg", _joined(parts), class_=kind, viewBox=f"0 0 {width} {height}", role="img",
                aria_label=description)  # fmt: skip
