"""Figures as PNG, PDF and SVG files, drawn by matplotlib without a display or global state."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medal_judges.errors import MissingExtraError
from medal_judges.report.console import cell_text
from medal_judges.report.figure import NEGATIVE, POSITIVE, Bars, Figure, Line, Plot, Tone, colour_of
from medal_judges.report.table import DASH, Heat, IntervalBar, Table, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

logger = logging.getLogger(__name__)

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
_LINES: dict[str, dict[str, Any]] = {
    "trend": {"color": "#333333", "lw": 1},
    "trend dashed": {"color": "#333333", "lw": 1, "ls": "--", "alpha": 0.6},
    "ideal": {"color": "#777777", "lw": 0.8, "ls": "--", "zorder": 0},
    "whisker": {"color": "#333333", "lw": 0.8, "alpha": 0.5},
}


def write_figures(figures: Mapping[str, Figure], folder: Path) -> None:
    """Writes NAME.png, NAME.pdf and NAME.svg for each figure. The same figures give the same bytes.

    Without matplotlib it writes nothing and logs one line.
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
        height = max(2.0, 0.2 * len(first.bars) + 0.7)
        if first.wide:
            width, height, most = 6.4, 0.34 * len(first.bars) + 1.2, 1
    elif isinstance(first, Table):
        width, height, most = 6.4, 0.36 * len(first.rows) + 1.2, 1
        if "heat" in first.style:
            width, height = 0.75 * (len(first.columns) - 1) + 2.4, 0.32 * len(first.rows) + 1.4
            most = 3
    across = min(len(panels), most)
    down = -(-len(panels) // across)
    size = (max(width * across, 5.4), height * down + 0.4 + 0.3 * bool(figure.legend))
    canvas = Canvas(figsize=size, layout="constrained")
    FigureCanvasAgg(canvas)
    canvas.suptitle(figure.title, fontsize=11)
    axes = list(canvas.subplots(down, across, squeeze=False).flat)
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
            _draw_bars(each, panel)
        elif "heat" in panel.style:
            _draw_heat(each, panel)
        else:
            _draw_intervals(each, panel)
        if len(panels) > 1 or isinstance(panel, Plot):
            each.set_title(title, fontsize=8)
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


def _draw_bars(axes: Axes, panel: Bars) -> None:
    for y, bar in enumerate(panel.bars):
        left = 0.0
        for part in bar.segments:
            look: dict[str, Any] = {"color": _mixed(part.colour), "edgecolor": "#999999"}
            axes.barh(y, part.length, left=left, height=0.7, lw=0.4, **look)
            left += part.length
        if bar.interval is not None:
            axes.plot(bar.interval, [y, y], **_LINES["whisker"])
    axes.set_yticks(range(len(panel.bars)), [bar.name for bar in panel.bars])
    axes.invert_yaxis()
    axes.set_xlim(0, panel.end)


def _draw_heat(axes: Axes, table: Table) -> None:
    cells = [row[1:] for row in table.rows]
    white = (1.0, 1.0, 1.0)
    axes.imshow(
        [[_mixed((c.sign, c.percent)) if isinstance(c, Heat) else white for c in r] for r in cells],
        aspect="auto",
    )
    for y, row in enumerate(cells):
        for x, cell in enumerate(row):
            axes.text(x, y, cell_text(cell, brief=True), ha="center", va="center", fontsize=7)
    names = table.columns[1:]
    is_long = max(map(len, names), default=0) > 6
    turned: dict[str, Any] = {"rotation": 30, "ha": "right"} if is_long else {}
    axes.set_xticks(range(len(names)), names, **turned)
    axes.set_yticks(range(len(table.rows)), [cell_text(row[0]) for row in table.rows])


def _draw_intervals(axes: Axes, table: Table) -> None:
    """The intervals of a table's rows, the human ceiling as a dashed line."""
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
        axes.axvline(ceiling, color=colour_of(1), lw=1.2, ls="--", label="human ceiling")
        axes.figure.legend(loc="outside lower right", frameon=False)
    axes.set_yticks(range(len(bars)), [name for name, _ in bars])
    axes.set_ylim(len(bars) - 0.4, -0.6)
    # The column before the bar holds the figure.
    axes.set_xlabel(f"{table.columns[table.column_kinds().index('bar') - 1]}, 95% interval")


def _mixed(colour: int | Tone) -> str | tuple[float, float, float]:
    """A category's colour, or the tone's hue mixed into white by its strength."""
    from matplotlib.colors import to_rgb

    if isinstance(colour, int):
        return colour_of(colour)
    share = colour[1] / 100
    r, g, b = to_rgb(NEGATIVE if colour[0] == "neg" else POSITIVE)
    return 1 - share * (1 - r), 1 - share * (1 - g), 1 - share * (1 - b)
