"""Figure: the data of a chart, and its drawing by matplotlib, for the page and for files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from medal_judges.errors import visible
from medal_judges.report.table import (
    IntervalBar,
    Table,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

OTHER_INDEX = 8  # of grey, after the colours: nobody can tell a ninth hue apart
MAX_DRAWN = 400  # more dots than this make a smear and a heavy page

# File endings, and the metadata that would make two runs differ.
_FORMATS: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    "svg": {"Creator": None, "Date": None},
}
_STYLE: dict[str, Any] = {
    "text.parse_math": False,  # a judge named "$x$" is a name, not a formula
    "font.size": 9,
    "svg.hashsalt": "medal",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E2DED5",
    "text.color": "#1C2227",
    "axes.labelcolor": "#57616A",
    "xtick.color": "#57616A",
    "ytick.color": "#57616A",
}
# Distinct with every common colour vision: the colours of Okabe and Ito (2008), darkened if too
# pale on white. The diverging pair is blue and orange, never red and green.
COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#B3589A",
    "#4BA3DB",
    "#C98B00",
    "#6F4FA0",
    "#806A3A",
    "#8A8F94",
)
_TONES = {"pos": "#4A98C9", "neg": "#E8873A"}
_INK, _CEILING = "#1C2227", "#B4560A"
_LINES: dict[str, dict[str, Any]] = {
    "trend": {"color": _INK, "lw": 1.2},
    "trend dashed": {"color": _INK, "lw": 1.2, "ls": "--"},
    "ideal": {"color": "#57616A", "lw": 0.8, "ls": "--"},
    "whisker": {"color": _INK, "lw": 0.8, "alpha": 0.4},
}
_ACROSS = 4  # panels side by side

Range = tuple[float, float]
Tone = tuple[Literal["pos", "neg"], int]  # blue or orange, and its strength in percent


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a plot. ``named`` has (position, text) of its ticks (default: round numbers)."""

    label: str
    span: Range
    named: Sequence[tuple[float, str]] = ()


@dataclass(frozen=True, slots=True)
class Dot:
    """A point; ``colour`` is an index of COLOURS."""

    x: float
    y: float
    colour: int


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points; a point with y of None breaks it. A ``colour`` index replaces the
    style."""

    points: Sequence[tuple[float, float | None]]
    style: Literal["trend", "trend dashed", "ideal", "whisker"] = "trend"
    colour: int | None = None


@dataclass(frozen=True, slots=True)
class Plot:
    """A panel with two axes, lines and groups of dots."""

    title: str
    x: Axis
    y: Axis
    marks: Sequence[Line | Sequence[Dot]]


@dataclass(frozen=True, slots=True)
class BarSegment:
    """A part of a bar: its length in units of the axis, its colour (an index or a tone), and its
    text."""

    length: float
    colour: int | Tone
    text: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A named bar of segments, with an interval, and ``text`` after its end."""

    name: str
    segments: Sequence[BarSegment]
    interval: Range | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """A panel of horizontal bars from 0 to ``end``; a ``wide`` one fills the page."""

    title: str
    bars: Sequence[Bar]
    end: float
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels with one legend of (name, colour) pairs. A Table as a panel is drawn as one interval
    for each row. The page shows the heading."""

    title: str
    panels: Sequence[Plot | Bars | Table]
    heading: str = ""
    legend: Sequence[tuple[str, int | Tone]] = ()


def padded(values: Sequence[float], share: float = 0.05) -> Range:
    """The range of ``values``, widened by ``share`` of its length on both sides; never empty."""
    low, high = min(values), max(values)
    pad = (high - low) * share or max(abs(low), 1.0) * 0.5
    return low - pad, high + pad


# -- drawing ---------------------------------------------------------------------------------------


def write_figures(figures: Mapping[str, Figure], folder: Path) -> dict[int, bytes]:
    """Writes NAME.png, NAME.pdf and NAME.svg for each figure, and returns each SVG by the ``id`` of
    its figure. The same figures give the same bytes."""
    drawings = {}
    if figures:
        folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        for ending, content in draw(figure, tuple(_FORMATS)).items():
            (folder / f"{name}.{ending}").write_bytes(content)
            drawings[id(figure)] = content
    return drawings


def draw(figure: Figure, endings: Sequence[str] = ("svg",)) -> dict[str, bytes]:
    """Returns the picture of a figure in each format."""
    import matplotlib

    contents = {}
    with matplotlib.rc_context(_STYLE):  # type: ignore[arg-type]
        canvas = _canvas(figure)
        canvas.draw_without_rendering()
        # Laid out once: with a layout engine each format would be drawn twice.
        canvas.set_layout_engine(None)
        for ending in endings:
            file = BytesIO()
            canvas.savefig(file, format=ending, dpi=150, metadata=_FORMATS[ending])
            contents[ending] = file.getvalue()
    return contents


def _canvas(figure: Figure) -> Canvas:
    """Draws the panels of a figure, under its title and above its legend."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    sizes = [_inches(panel) for panel in figure.panels]
    width, height = (max(lengths) for lengths in zip(*sizes, strict=True))
    across = min(len(sizes), max(1, int(_ACROSS * 3 / width)))
    down = math.ceil(len(sizes) / across)
    inches = (max(width * across, 5.4), height * down + 0.7)
    canvas = Canvas(figsize=inches, layout="constrained")
    FigureCanvasAgg(canvas)
    canvas.suptitle(visible(figure.title), fontsize=11)
    all_axes = list(canvas.subplots(down, across, squeeze=False).flat)
    for axes in all_axes[len(sizes) :]:
        axes.set_axis_off()
    for axes, panel in zip(all_axes, figure.panels, strict=False):
        _draw_panel(axes, panel)
        if len(sizes) > 1:
            axes.set_title(visible(panel.title), fontsize=9)
    if figure.legend:
        _draw_legend(canvas, figure.legend)
    return canvas


def _inches(panel: Plot | Bars | Table) -> Range:
    """Returns the width and height of a panel."""
    if isinstance(panel, Plot):
        return 3.0, 2.7
    if isinstance(panel, Bars):
        return (9.0 if panel.wide else 3.6), 0.28 * len(panel.bars) + 0.6
    return 6.0, 0.28 * len(panel.rows) + 0.7


def _draw_panel(axes: Axes, panel: Plot | Bars | Table) -> None:
    if isinstance(panel, Plot):
        _draw_plot(axes, panel)
    elif isinstance(panel, Bars):
        _draw_bars(axes, panel)
    else:
        _draw_intervals(axes, panel)


def _draw_plot(axes: Axes, plot: Plot) -> None:
    axes.set(xlim=plot.x.span, ylim=plot.y.span)
    axes.set(xlabel=visible(plot.x.label), ylabel=visible(plot.y.label))
    if plot.x.named:
        positions, texts = zip(*plot.x.named, strict=True)
        axes.set_xticks(positions, map(visible, texts), rotation=25, ha="right")
    for mark in plot.marks:
        if isinstance(mark, Line):
            look = _LINES[mark.style]
            if mark.colour is not None:
                look = {"color": COLOURS[mark.colour], "lw": 1.2}
            # None becomes NaN, which breaks the line.
            axes.plot(
                *np.array(mark.points or [(np.nan, np.nan)], dtype=float).T, **look
            )
        elif mark:
            step = math.ceil(len(mark) / MAX_DRAWN)
            xs, ys, colours = zip(
                *((dot.x, dot.y, COLOURS[dot.colour]) for dot in mark[::step]),
                strict=True,
            )
            axes.scatter(xs, ys, c=colours, s=14, alpha=0.7, linewidths=0, zorder=3)


def _draw_bars(axes: Axes, panel: Bars) -> None:
    rows = range(len(panel.bars))
    axes.set(xlim=(0, panel.end * 1.12), ylim=(len(panel.bars) - 0.5, -0.5))
    axes.set_yticks(rows, [visible(bar.name) for bar in panel.bars])
    axes.grid(visible=False, axis="y")
    for row, bar in enumerate(panel.bars):
        end = 0.0
        for segment in bar.segments:
            colour = _colour(segment.colour)
            axes.barh(row, segment.length, 0.7, end, color=colour, alpha=0.85)
            if segment.text and segment.length > 0.06 * panel.end:
                middle = end + segment.length / 2
                axes.text(middle, row, segment.text, ha="center", va="center", size=8)
            end += segment.length
        if bar.interval is not None:
            axes.plot(bar.interval, (row, row), **_LINES["whisker"])
            end = max(end, bar.interval[1])
        axes.text(end + 0.01 * panel.end, row, visible(bar.text), va="center", size=8)


def _draw_intervals(axes: Axes, table: Table) -> None:
    """Draws the intervals of a table: a dot on its line, the human ceiling as a diamond, and the
    judge like for like as a ring."""
    column = table.column_kinds().index("bar")
    bars = [row[column] for row in table.rows]
    spans = [bar.span for bar in bars if isinstance(bar, IntervalBar)]
    pad = 0.02 * (spans[0][1] - spans[0][0])
    axes.set(xlim=(spans[0][0] - pad, spans[0][1] + pad), ylim=(len(bars) - 0.5, -0.5))
    axes.set_yticks(range(len(bars)), [visible(str(row[0])) for row in table.rows])
    axes.grid(visible=False, axis="y")
    axes.axvline(0, color="#57616A", lw=0.8)
    for row, bar in enumerate(bars):
        if not isinstance(bar, IntervalBar):
            continue
        estimate = bar.estimate
        if estimate.low is not None and estimate.high is not None:
            ends = (estimate.low, estimate.high)
            axes.plot(ends, (row, row), color=COLOURS[0], lw=3, alpha=0.45)
        if bar.ceiling is not None:
            axes.plot(bar.ceiling, row, "D", color=_CEILING, ms=6)
        if estimate.value is not None:
            axes.plot(estimate.value, row, "o", color=COLOURS[0], ms=6)
        if bar.like is not None:
            axes.plot(bar.like, row, "o", mfc="none", mec=COLOURS[0], ms=8)


def _draw_legend(canvas: Canvas, legend: Sequence[tuple[str, int | Tone]]) -> None:
    from matplotlib.patches import Patch

    marks = [Patch(color=_colour(colour)) for _, colour in legend]
    names = [visible(name) for name, _ in legend]
    columns = min(6, len(legend))
    canvas.legend(
        marks, names, loc="outside lower center", ncols=columns, frameon=False
    )


def _colour(colour: int | Tone) -> str | Any:
    """Returns a colour by its index, or a tone mixed with white by its strength."""
    from matplotlib.colors import to_rgb

    if isinstance(colour, int):
        return COLOURS[colour]
    sign, percent = colour
    return tuple(1 - percent / 100 * (1 - part) for part in to_rgb(_TONES[sign]))
