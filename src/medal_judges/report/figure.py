"""Figure: the data of a chart, and its drawing by matplotlib, for the page and for files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from medal_judges.errors import printable
from medal_judges.stats.intervals import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

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
BLUE, ORANGE = "#0072B2", "#B4560A"  # distinct with every common colour vision
_ACROSS = 4  # panels side by side
_TICKS = 4  # names below a series
Range = tuple[float, float]
Colour = Any  # whatever matplotlib takes


@dataclass(frozen=True, slots=True)
class Series:
    """A panel of estimates from left to right, such as one for each day.

    Attributes:
        title: Title above the panel, shown if the figure has several panels.
        names: Name of each estimate. At most 4 are shown on the horizontal axis.
        estimates: Values with their intervals, in the order of ``names``.
        span: Lowest and highest value of the vertical axis.
        label: Label of the vertical axis.
    """

    title: str
    names: Sequence[str]
    estimates: Sequence[Estimate]
    span: Range
    label: str = ""


@dataclass(frozen=True, slots=True)
class Intervals:
    """A panel with a row for each estimate and its interval.

    Attributes:
        title: Title above the panel, shown if the figure has several panels.
        names: Names of the rows, from top to bottom.
        estimates: Value of each row with its interval, in the order of ``names``.
        span: Lowest and highest value of the horizontal axis.
        ceiling: A value for all rows, drawn as a diamond on each: the human ceiling (agreement
            among people). None for no diamonds.
        rings: A second value of each row, drawn as a ring. None for a row without a ring. Empty for
            no rings.
    """

    title: str
    names: Sequence[str]
    estimates: Sequence[Estimate]
    span: Range
    ceiling: float | None = None
    rings: Sequence[float | None] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """A horizontal bar of coloured segments.

    Attributes:
        name: Text on the left of the bar.
        segments: (length, colour) of each segment, from left to right. The length is in units of
            the horizontal axis. A colour is for example ``#0072B2``.
        text: Text on the right of the bar.
    """

    name: str
    segments: Sequence[tuple[float, Colour]]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """A panel of horizontal bars.

    Attributes:
        title: Title above the panel, shown if the figure has several panels.
        bars: Bars from top to bottom.
        end: Upper end of the axis, which starts at 0.
    """

    title: str
    bars: Sequence[Bar]
    end: float


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of one or several panels.

    Attributes:
        title: Title inside the figure.
        panels: Panels, which are drawn side by side.
        heading: Heading above the figure on a page.
        legend: (name, colour) pairs that explain the colours, such as ``("good", "#0072B2")``.
    """

    title: str
    panels: Sequence[Series | Intervals | Bars]
    heading: str = ""
    legend: Sequence[tuple[str, Colour]] = ()


def axis_range(estimates: Sequence[Estimate], share: float = 0.05) -> Range:
    """Returns the lower and upper end of an axis that shows ``estimates`` and their intervals.

    Args:
        share: Margin on each side: 0.05 for 5% of the distance between the lowest and the highest
            shown value.
    """
    ends: list[float] = []
    for estimate in estimates:
        for end in (estimate.low, estimate.value, estimate.high):
            if end is not None:
                ends.append(end)
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    pad = (high - low) * share or max(abs(low), 1.0) * 0.5
    return low - pad, high + pad


# -- drawing ---------------------------------------------------------------------------------------


def write_figures(figures: Mapping[str, Figure], folder: Path) -> dict[int, bytes]:
    """Writes each figure to ``folder`` as PNG, PDF and SVG.

    Args:
        figures: File name without its ending, such as ``scores`` -> figure.

    Returns:
        ``id(figure)`` (Python's identity of the object) -> content of the figure's SVG file.
    """
    drawings = {}
    if figures:
        folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        for ending, content in render_bytes(figure, tuple(_FORMATS)).items():
            (folder / f"{name}.{ending}").write_bytes(content)
            drawings[id(figure)] = content
    return drawings


def render_bytes(figure: Figure, endings: Sequence[str] = ("svg",)) -> dict[str, bytes]:
    """Draws ``figure`` in one or several file formats.

    Args:
        endings: Formats to return, some of ``png``, ``pdf`` and ``svg``.

    Returns:
        Format -> content of the file, such as ``{"svg": b"..."}``.
    """
    import matplotlib

    contents = {}
    with matplotlib.rc_context(_STYLE):  # type: ignore[arg-type]
        canvas = _draw_canvas(figure)
        canvas.draw_without_rendering()
        # Laid out once: with a layout engine each format would be drawn twice.
        canvas.set_layout_engine(None)
        for ending in endings:
            file = BytesIO()
            canvas.savefig(file, format=ending, dpi=150, metadata=_FORMATS[ending])
            contents[ending] = file.getvalue()
    return contents


def _draw_canvas(figure: Figure) -> Canvas:
    """Draws the panels of ``figure`` below its title and above its legend. Returns
    a matplotlib figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas
    from matplotlib.patches import Patch

    sizes = [_size_in_inches(panel) for panel in figure.panels]
    width, height = (max(lengths) for lengths in zip(*sizes, strict=True))
    across = min(len(sizes), max(1, int(_ACROSS * 3 / width)))
    down = math.ceil(len(sizes) / across)
    inches = (max(width * across, 5.4), height * down + 0.7)
    canvas = Canvas(figsize=inches, layout="constrained")
    FigureCanvasAgg(canvas)
    canvas.suptitle(printable(figure.title), fontsize=11)
    all_axes = list(canvas.subplots(down, across, squeeze=False).flat)
    for axes in all_axes[len(sizes) :]:
        axes.set_axis_off()
    for axes, panel in zip(all_axes, figure.panels, strict=False):
        if isinstance(panel, Series):
            _draw_series(axes, panel)
        elif isinstance(panel, Bars):
            _draw_bars(axes, panel)
        else:
            _draw_intervals(axes, panel)
        if len(sizes) > 1:
            axes.set_title(printable(panel.title), fontsize=9)
    if figure.legend:
        patches = [Patch(color=colour) for _, colour in figure.legend]
        names = [printable(name) for name, _ in figure.legend]
        canvas.legend(patches, names, loc="outside lower center", ncols=6)
    return canvas


def _size_in_inches(panel: Series | Intervals | Bars) -> Range:
    """Returns the width and height of ``panel`` in inches."""
    if isinstance(panel, Series):
        return 3.0, 2.7
    if isinstance(panel, Bars):
        return 3.6, 0.28 * len(panel.bars) + 0.6
    return 6.0, 0.28 * len(panel.names) + 0.7


def _draw_series(axes: Axes, panel: Series) -> None:
    last = len(panel.names) - 1
    axes.set(xlim=(-0.5, last + 0.5), ylim=panel.span, ylabel=printable(panel.label))
    ticks = np.linspace(0, last, min(_TICKS, last + 1)).round().astype(int).tolist()
    names = [printable(panel.names[tick]) for tick in ticks]
    axes.set_xticks(ticks, names, rotation=25, ha="right")
    # None becomes NaN, which breaks the line.
    values = np.array([estimate.value for estimate in panel.estimates], dtype=float)
    axes.plot(values, "o-", color=BLUE, ms=4, lw=1.2)
    for position, estimate in enumerate(panel.estimates):
        if estimate.low is not None and estimate.high is not None:
            axes.vlines(position, estimate.low, estimate.high, color=BLUE, alpha=0.4)


def _draw_intervals(axes: Axes, panel: Intervals) -> None:
    _label_rows(axes, panel.names)
    pad = 0.02 * (panel.span[1] - panel.span[0])
    axes.set_xlim(panel.span[0] - pad, panel.span[1] + pad)
    for row, estimate in enumerate(panel.estimates):
        if estimate.low is not None and estimate.high is not None:
            axes.hlines(row, estimate.low, estimate.high, color=BLUE, lw=3, alpha=0.45)
        if estimate.value is not None:
            axes.plot(estimate.value, row, "o", color=BLUE, ms=6)
        if panel.ceiling is not None:
            axes.plot(panel.ceiling, row, "D", color=ORANGE, ms=6)
    for row, value in enumerate(panel.rings):
        if value is not None:
            axes.plot(value, row, "o", mfc="none", mec=BLUE, ms=8)


def _draw_bars(axes: Axes, panel: Bars) -> None:
    _label_rows(axes, [bar.name for bar in panel.bars])
    axes.set_xlim(0, panel.end * 1.12)
    for row, bar in enumerate(panel.bars):
        end = 0.0
        for length, colour in bar.segments:
            axes.barh(row, length, 0.7, end, color=colour, alpha=0.85)
            end += length
        axes.text(end + 0.01 * panel.end, row, printable(bar.text), va="center", size=8)


def _label_rows(axes: Axes, names: Sequence[str]) -> None:
    """Labels the rows of a panel with ``names``, from top to bottom."""
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), [printable(name) for name in names])
    axes.grid(visible=False, axis="y")
