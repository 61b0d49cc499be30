"""Figure: the data of a chart. It is drawn as inline SVG on the page, and by matplotlib as PNG, PDF
and SVG files."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from markupsafe import Markup, escape

from medal_judges.errors import MissingExtraError, visible
from medal_judges.report.console import cell_text
from medal_judges.report.table import DASH, Heat, IntervalBar, Table, number
from medal_judges.stats.estimate import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

logger = logging.getLogger(__name__)

# Distinct with every common colour vision: the categorical colours are those of Okabe and Ito
# (2008), darkened if too pale on white; the diverging pair is blue and orange, never red and green.
# style.css has the same colours, and others for a dark page.
_CATEGORICAL = ("#0072B2", "#D55E00", "#009E73", "#B3589A", "#4BA3DB", "#C98B00", "#6F4FA0",
                "#806A3A")  # fmt: skip
_OTHER = "#8A8F94"
OTHER_INDEX = len(_CATEGORICAL)  # nobody can tell a ninth hue apart
POSITIVE, NEGATIVE = "#4A98C9", "#E8873A"

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
        """Position and text of each tick: about five, in steps of 1, 2, 2.5 or 5 times a power of
        ten, with as many decimals as the step needs."""
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


def colour_of(index: int) -> str:
    """Hex colour of category ``index``, grey for any beyond the palette."""
    return _CATEGORICAL[index] if index < OTHER_INDEX else _OTHER


def padded(values: Sequence[float], share: float = 0.05) -> Range:
    """The range of ``values``, widened by ``share`` of its length on both sides; never empty."""
    low, high = min(values), max(values)
    pad = (high - low) * share or max(abs(low), 1.0) * 0.5
    return low - pad, high + pad


MAX_DRAWN = 400  # more dots than this make a smear and a heavy page; the CSV has them all
_WIDTH, _HEIGHT = 240, 206
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 8, 8, 34  # −0.01 fits beside the name of the axis
_TEXT_FITS = 34  # pixels of a bar's segment from which on its text is drawn


def thinned(dots: Sequence[Dot]) -> Sequence[Dot]:
    """At most MAX_DRAWN dots, evenly spaced in the list."""
    return dots[:: -(-len(dots) // MAX_DRAWN) or 1]


def _tag(name: str, content: object = "", **attributes: object) -> Markup:
    """An element with a text or a list of elements inside. Escapes everything and writes floats
    with one decimal. In names of attributes, a trailing underscore is dropped and the others become
    dashes."""
    text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="'
        f'{f"{value:.1f}" if isinstance(value, float) else escape(value)}"'
        for key, value in attributes.items()
    )
    inner = Markup("").join(content) if isinstance(content, list) else escape(content)
    return Markup(f"<{name}{text}>{inner}</{name}>")


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
    return _tag("svg", parts, class_="panel", viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img",
                aria_label=plot.description)  # fmt: skip


def bars_svg(panel: Bars) -> Markup:
    """Horizontal bars, their names before them and their texts inside or behind them."""
    wide = panel.wide
    width, row, left, right, gap = (720, 26, 64, 4, 8) if wide else (240, 19, 42, 40, 6)
    left = max(left, min(6 * max(len(bar.name) for bar in panel.bars) + 10, 0 if wide else 100))
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
        rows.append(_tag("g", parts))
    box = f"0 0 {width} {row * len(rows) + 4}"
    return _tag("svg", rows, class_="stack" if wide else "panel", viewBox=box, role="img",
                aria_label=panel.description)  # fmt: skip


def interval_svg(bar: IntervalBar) -> Markup:
    """An interval as a line with a dot. Also draws the zero line, the human ceiling as a diamond,
    and the like-for-like figure as a ring. Screen readers skip it, since the next cell has the
    number."""
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
    return _tag("svg", parts, class_="bar", viewBox=f"0 0 {width} {height}", width=width,
                height=height, aria_hidden="true")  # fmt: skip


def rank_svg(people: float, judge: float) -> Markup:
    """The ranks of a dialogue by people (diamond) and judge (dot), lowest on the left."""
    first, second = 6 + 188 * people, 6 + 188 * judge
    parts = [
        _tag("line", class_="track", x1=6, y1=6, x2=194, y2=6),
        _tag("line", class_="span", x1=first, y1=6, x2=second, y2=6),
        _tag("path", class_="ceiling", d=f"M{first:.1f} 0l4 6-4 6-4-6z"),
        _tag("circle", class_="dot", cx=second, cy=6, r=4),
    ]
    return _tag("svg", parts, class_="track", viewBox="0 0 200 12", aria_hidden="true")


# File endings, and the metadata that would make two runs differ.
_FORMATS: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    "svg": {"Creator": None, "Date": None},
}
_STYLE: dict[str, Any] = {
    "text.parse_math": False,  # a judge named "$x$" is a name, not a formula
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "medal",
}
_AFTER: dict[str, Any] = {"fontsize": 7, "va": "center"}
_INSIDE: dict[str, Any] = {"ha": "center", **_AFTER}
_LINES: dict[str, dict[str, Any]] = {
    "trend": {"color": "#333333", "lw": 1},
    "trend dashed": {"color": "#333333", "lw": 1, "ls": "--", "alpha": 0.6},
    "ideal": {"color": "#777777", "lw": 0.8, "ls": "--", "zorder": 0},
    "whisker": {"color": "#333333", "lw": 0.8, "alpha": 0.5},
}


def write_figures(figures: Mapping[str, Figure], folder: Path) -> None:
    """Writes NAME.png, NAME.pdf and NAME.svg for each figure. The same figures give the same bytes.

    Without matplotlib it writes nothing and logs a warning.
    """
    if not figures:
        return
    try:
        import matplotlib
    except ImportError:
        needed = MissingExtraError("matplotlib", "report", "drawing them")
        logger.warning("skipped the figure files: %s; %s", needed.message, needed.hint)
        return
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(_STYLE):  # type: ignore[arg-type]
        for name, figure in figures.items():
            canvas = _drawn(figure)
            for ending, metadata in _FORMATS.items():
                canvas.savefig(folder / f"{name}.{ending}", dpi=150, metadata=metadata)
                canvas.set_layout_engine("none")  # laid out once, by the first format


def _drawn(figure: Figure) -> Canvas:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    panels, first = figure.panels, figure.panels[0]
    width, height, most = 2.7, 2.7, 4  # inches of a panel, and how many stand side by side
    if isinstance(first, Bars):
        longest = max(len(panel.bars) for panel in panels if isinstance(panel, Bars))
        height = max(2.0, 0.2 * longest + 0.7)
        if first.wide:
            width, height, most = 6.4, 0.34 * longest + 1.2, 1
    elif isinstance(first, Table):
        width, height, most = 6.4, 0.36 * len(first.rows) + 1.2, 1
        if len(panels) > 1:
            width, most = 3.2, 3
        if "heat" in first.style:
            width, height = 0.75 * (len(first.columns) - 1) + 2.4, 0.32 * len(first.rows) + 1.4
            most = 3
    across = min(len(panels), most)
    down = -(-len(panels) // across)
    size = (max(width * across, 5.4), height * down + 0.4 + 0.3 * bool(figure.legend))
    canvas = Canvas(figsize=size, layout="constrained")
    FigureCanvasAgg(canvas)
    canvas.suptitle(visible(figure.title), fontsize=11)
    shared = isinstance(first, Table) and "heat" not in first.style
    axes = list(canvas.subplots(down, across, squeeze=False, sharex=shared).flat)
    for spare in axes[len(panels) :]:
        spare.set_visible(False)
    for each, panel in zip(axes, panels, strict=False):
        title = panel.title
        if isinstance(panel, Plot):
            _draw_plot(each, panel)
            if panel.figure is not None:
                name, estimate = panel.figure
                known = DASH if estimate.value is None else number(estimate.value)
                title = f"{title}\n{name} {known}"
        elif isinstance(panel, Bars):
            for y, bar in enumerate(panel.bars):
                left = 0.0
                for part in bar.segments:
                    look: dict[str, Any] = {"color": _mixed(part.colour), "edgecolor": "#999999"}
                    each.barh(y, part.length, left=left, height=0.7, lw=0.4, **look)
                    if part.text and part.length > 0.08 * panel.end:
                        each.text(left + part.length / 2, y, part.text, **_INSIDE)
                    left += part.length
                if bar.text:
                    each.text(max(left, (bar.interval or (0, 0))[1]), y, f" {bar.text}", **_AFTER)
                if bar.interval is not None:
                    each.plot(bar.interval, [y, y], **_LINES["whisker"])
            each.set_yticks(range(len(panel.bars)), [visible(bar.name) for bar in panel.bars])
            each.invert_yaxis()
            each.set_xlim(0, panel.end)
        elif "heat" in panel.style:
            _draw_heat(each, panel)
        else:
            _draw_intervals(each, panel)
        each.tick_params(labelbottom=True)  # where a shared axis would leave them out
        if len(panels) > 1 or not isinstance(panel, Table):
            each.set_title(visible(title), fontsize=8)
    if figure.legend:
        marks = [
            Line2D([], [], marker="o", ls="", color=colour_of(colour))
            if isinstance(colour, int)
            else Patch(facecolor=_mixed(colour), edgecolor="#999999", lw=0.4)
            for _, colour in figure.legend
        ]
        names = [name for name, _ in figure.legend]
        across = min(4, len(names)) if isinstance(figure.legend[0][1], int) else len(names)
        canvas.legend(marks, names, loc="outside lower center", ncols=across, frameon=False)
    return canvas


def _draw_plot(axes: Axes, panel: Plot) -> None:
    for mark in panel.marks:
        if isinstance(mark, Line):
            points = [(x, float("nan") if y is None else y) for x, y in mark.points]
            look = _LINES[mark.style] if mark.colour is None else {"color": colour_of(mark.colour)}
            axes.plot(*zip(*points, strict=True), **({"lw": 1} | look))
        else:
            axes.scatter(
                [dot.x for dot in mark],
                [dot.y for dot in mark],
                c=[colour_of(dot.colour) for dot in mark],
                s=[(dot.radius + 0.2) ** 2 for dot in mark],
                alpha=0.6 if len(mark) > 20 else 1,
                lw=0,
            )
    if panel.missing:
        axes.text(0.5, 0.5, panel.missing, transform=axes.transAxes, ha="center", fontsize=7)
    else:
        axes.set(xlim=panel.x.span, ylim=panel.y.span)
        if panel.x.named:
            axes.set_xticks(*map(list, zip(*panel.x.named, strict=True)), fontsize=7)
    axes.set_xlabel(panel.x.label, fontsize=8)
    axes.set_ylabel(panel.y.label, fontsize=8)


def _draw_heat(axes: Axes, table: Table) -> None:
    colours = []
    for y, row in enumerate(table.rows):
        tones = [(c.sign, c.percent) if isinstance(c, Heat) else ("pos", 0) for c in row[1:]]
        colours.append([_mixed(tone) for tone in tones])
        for x, cell in enumerate(row[1:]):
            axes.text(x, y, cell_text(cell, brief=True), ha="center", va="center", fontsize=7)
    axes.imshow(colours, aspect="auto")
    names = [visible(name) for name in table.columns[1:]]
    is_long = max(map(len, names), default=0) > 6
    turned: dict[str, Any] = {"rotation": 30, "ha": "right"} if is_long else {}
    axes.set_xticks(range(len(names)), names, **turned)
    axes.set_yticks(range(len(table.rows)), [cell_text(row[0]) for row in table.rows])


def _draw_intervals(axes: Axes, table: Table) -> None:
    """Draws the interval of each row of a table, and the human ceiling as a dashed line."""
    free = [row for i, row in enumerate(table.rows) if table.pin(i) is None]
    bars = [(cell_text(row[0]), c) for row in free for c in row if isinstance(c, IntervalBar)]
    for y, (_, bar) in enumerate(bars):
        value, low, high = bar.estimate.value, bar.estimate.low, bar.estimate.high
        if low is not None and high is not None:
            axes.plot([low, high], [y, y], color=colour_of(0), lw=2, alpha=0.5)
        if value is not None:
            axes.plot([value], [y], "o", color=colour_of(0))
    if any(bar.span[0] <= 0 <= bar.span[1] for _, bar in bars):
        axes.axvline(0, color="#999999", lw=0.8)
    ceiling = next((bar.ceiling for _, bar in bars if bar.ceiling is not None), None)
    if ceiling is not None:
        name = "" if axes.figure.legends else "human ceiling"  # once, however many panels
        axes.axvline(ceiling, color=colour_of(1), lw=1.2, ls="--", label=name)
        if name:
            axes.figure.legend(loc="outside lower right", frameon=False)
    axes.set_yticks(range(len(bars)), [name for name, _ in bars])
    axes.set_ylim(len(bars) - 0.4, -0.6)
    # The column before the bar holds the figure.
    axes.set_xlabel(f"{table.columns[table.column_kinds().index('bar') - 1]}, 95% interval")


def _mixed(colour: int | Tone) -> str | tuple[float, float, float]:
    """The colour of a category, or a tone's colour mixed with white by its strength."""
    from matplotlib.colors import to_rgb

    if isinstance(colour, int):
        return colour_of(colour)
    share = colour[1] / 100
    r, g, b = to_rgb(NEGATIVE if colour[0] == "neg" else POSITIVE)
    return 1 - share * (1 - r), 1 - share * (1 - g), 1 - share * (1 - b)
