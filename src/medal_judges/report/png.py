"""PNG files of figures, drawn by matplotlib without a display or global state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medal_judges.errors import MissingExtraError
from medal_judges.report.console import cell_text
from medal_judges.report.figure import (
    NEGATIVE,
    POSITIVE,
    Bars,
    Figure,
    Line,
    Plot,
    Tone,
    colour_of,
)
from medal_judges.report.numbers import DASH, number
from medal_judges.report.table import Heat, IntervalBar, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_DPI = 150
# matplotlib's own font has no Chinese, Japanese or Korean; these have, where one is installed.
_MORE_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "Arial Unicode MS",
)
_STYLES: dict[str, dict[str, Any]] = {
    "trend": {"color": "#333333", "lw": 1},
    "trend dashed": {"color": "#333333", "lw": 1, "ls": "--", "alpha": 0.6},
    "ideal": {"color": "#777777", "lw": 0.8, "ls": "--", "zorder": 0},
    "whisker": {"color": "#333333", "lw": 0.8, "alpha": 0.5},
}
_CEILING = colour_of(1)


def write_png(figures: Mapping[str, Figure], folder: Path) -> list[Path]:
    """Write each figure under its name; paths as written, no folder where there are none.

    Without software version or date: the same figures give the same bytes. Raises
    MissingExtraError where matplotlib is not installed.
    """
    paths = []
    with _style():
        for name, figure in figures.items():
            folder.mkdir(parents=True, exist_ok=True)
            paths.append(folder / f"{name}.png")
            _draw(figure).savefig(paths[-1], dpi=_DPI, metadata={"Software": None})
    return paths


@contextmanager
def _style() -> Iterator[None]:
    try:
        import matplotlib
        from matplotlib.font_manager import fontManager
    except ImportError as error:
        raise MissingExtraError("matplotlib", "report", "drawing the PNG figures") from error
    installed = set(fontManager.get_font_names())
    families = ["DejaVu Sans", *(name for name in _MORE_FONTS if name in installed)]
    # A judge named "$x$" is a name, not a formula.
    style: dict[str, object] = {"text.parse_math": False, "font.size": 9, "font.family": families}
    style |= {"axes.spines.top": False, "axes.spines.right": False}
    with matplotlib.rc_context(style):  # type: ignore[arg-type]
        yield


def _draw(figure: Figure) -> Canvas:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    (width, height), most, draw = _layout(figure.panels[0])
    across = min(len(figure.panels), most)
    down = -(-len(figure.panels) // across)
    size = (max(width * across, 5.4), height * down + 0.4 + 0.3 * bool(figure.legend))
    canvas = Canvas(figsize=size, layout="constrained")
    FigureCanvasAgg(canvas)
    canvas.suptitle(figure.title, fontsize=11)
    axes = list(canvas.subplots(down, across, squeeze=False).flat)
    for spare in axes[len(figure.panels) :]:
        spare.set_visible(False)
    for each, panel in zip(axes, figure.panels, strict=False):
        draw(each, panel)
        if len(figure.panels) > 1 or isinstance(panel, Plot):
            each.set_title(_heading(panel), fontsize=8)
    if figure.legend:
        _legend(canvas, figure)
    return canvas


def _layout(panel: Plot | Bars | Table) -> tuple[tuple[float, float], int, Callable[..., None]]:
    """Inches of a panel, how many stand side by side, and what draws one."""
    if isinstance(panel, Plot):
        return (2.7, 2.7), 4, _plot
    if isinstance(panel, Bars):
        if panel.wide:
            return (6.4, 0.34 * len(panel.bars) + 1.2), 1, _bars
        return (2.7, max(2.0, 0.2 * len(panel.bars) + 0.7)), 4, _bars
    if "heat" in panel.style:
        columns = len(panel.columns) - 1
        return (0.75 * columns + 2.4, 0.32 * len(panel.rows) + 1.4), 3, _heat
    return (6.4, 0.36 * len(panel.rows) + 1.2), 1, _intervals


def _heading(panel: Plot | Bars | Table) -> str:
    if isinstance(panel, Plot) and panel.figure is not None:
        name, estimate = panel.figure
        known = DASH if estimate.value is None else number(estimate.value)
        return f"{panel.title}\n{name} {known}"
    return panel.title


def _legend(canvas: Canvas, figure: Figure) -> None:
    """Colours with names under the panels."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marks = [
        Line2D([], [], marker="o", ls="", color=colour_of(colour))
        if isinstance(colour, int)
        else Patch(facecolor=_mixed(colour), edgecolor="#999999", lw=0.4)
        for _, colour in figure.legend
    ]
    names = [name for name, _ in figure.legend]
    across = min(4, len(names)) if isinstance(figure.legend[0][1], int) else len(names)
    canvas.legend(marks, names, loc="outside lower center", ncols=across, frameon=False)


def _plot(axes: Axes, panel: Plot) -> None:
    for mark in panel.marks:
        if isinstance(mark, Line):
            x = [point[0] for point in mark.points]
            y = [float("nan") if point[1] is None else point[1] for point in mark.points]
            look = _STYLES[mark.style] if mark.colour is None else {"color": colour_of(mark.colour)}
            axes.plot(x, y, **({"lw": 1} | look))
        else:
            hues = [colour_of(dot.colour) for dot in mark]
            sizes = [(dot.radius + 0.2) ** 2 for dot in mark]
            points = ([dot.x for dot in mark], [dot.y for dot in mark])
            axes.scatter(*points, c=hues, s=sizes, alpha=0.6 if len(mark) > 20 else 1, lw=0)
    if panel.missing:
        axes.text(0.5, 0.5, panel.missing, transform=axes.transAxes, ha="center", fontsize=7)
    else:
        axes.set(xlim=panel.x.span, ylim=panel.y.span)
        if panel.x.named:
            axes.set_xticks(*map(list, zip(*panel.x.named, strict=True)), fontsize=7)
    axes.set_xlabel(panel.x.label, fontsize=8)
    axes.set_ylabel(panel.y.label, fontsize=8)


def _bars(axes: Axes, panel: Bars) -> None:
    for y, bar in enumerate(panel.bars):
        left = 0.0
        for part in bar.segments:
            axes.barh(y, part.length, left=left, height=0.7, color=_mixed(part.colour),
                      edgecolor="#999999", lw=0.4)  # fmt: skip
            left += part.length
        if bar.interval is not None:
            axes.plot(bar.interval, [y, y], **_STYLES["whisker"])
    axes.set_yticks(range(len(panel.bars)), [bar.name for bar in panel.bars])
    axes.invert_yaxis()
    axes.set_xlim(0, panel.end)


def _heat(axes: Axes, table: Table) -> None:
    cells = [row[1:] for row in table.rows]
    colours = [
        [_mixed((c.sign, c.percent)) if isinstance(c, Heat) else (1.0, 1.0, 1.0)
         for c in row]
        for row in cells
    ]  # fmt: skip
    axes.imshow(colours, aspect="auto")
    for y, row in enumerate(cells):
        for x, cell in enumerate(row):
            axes.text(x, y, cell_text(cell, brief=True), ha="center", va="center", fontsize=7)
    axes.set_xticks(range(len(table.columns) - 1), table.columns[1:])
    if max(map(len, table.columns[1:]), default=0) > 6:
        for name in axes.get_xticklabels():
            name.set(rotation=30, ha="right")
    axes.set_yticks(range(len(table.rows)), [cell_text(row[0]) for row in table.rows])


def _intervals(axes: Axes, table: Table) -> None:
    """The bars of a table's rows, the human ceiling as a line."""
    bars = [
        (cell_text(row[0]), cell)
        for i, row in enumerate(table.rows)
        if table.pin(i) is None
        for cell in row
        if isinstance(cell, IntervalBar)
    ]
    for y, (_, bar) in enumerate(bars):
        value, low, high = bar.estimate.value, bar.estimate.low, bar.estimate.high
        if value is None:
            across = axes.get_yaxis_transform()  # in shares of the panel
            reason = f"{DASH} {bar.estimate.reason}"
            axes.text(0.02, y, reason, transform=across, va="center", fontsize=7, color="#555555")
            continue
        if low is not None and high is not None:
            axes.plot([low, high], [y, y], color=colour_of(0), lw=2, alpha=0.5)
        axes.plot([value], [y], "o", color=colour_of(0))
    if any(bar.span[0] <= 0 <= bar.span[1] for _, bar in bars):
        axes.axvline(0, color="#999999", lw=0.8)
    ceiling = next((bar.ceiling for _, bar in bars if bar.ceiling is not None), None)
    if ceiling is not None:
        axes.axvline(ceiling, color=_CEILING, lw=1.2, ls="--", label="human ceiling")
        rings = [(bar.like, y) for y, (_, bar) in enumerate(bars) if bar.like is not None]
        ends: Sequence[Sequence[float]] = list(zip(*rings, strict=True)) or [(), ()]
        axes.plot(*ends, "o", mfc="none", ms=9, color=colour_of(0), label="judge, like for like")
        axes.figure.legend(loc="outside lower right", frameon=False, ncols=2)
    axes.set_yticks(range(len(bars)), [name for name, _ in bars])
    axes.set_ylim(len(bars) - 0.4, -0.6)
    # The figure stands in the column before its bar.
    axes.set_xlabel(f"{table.columns[table.column_kinds().index('bar') - 1]}, 95% interval")


def _mixed(colour: int | Tone) -> str | tuple[float, float, float]:
    """A category's colour, or the tone's hue mixed into white by its strength."""
    from matplotlib.colors import to_rgb

    if isinstance(colour, int):
        return colour_of(colour)
    share = colour[1] / 100
    r, g, b = to_rgb(NEGATIVE if colour[0] == "neg" else POSITIVE)
    return 1 - share * (1 - r), 1 - share * (1 - g), 1 - share * (1 - b)
