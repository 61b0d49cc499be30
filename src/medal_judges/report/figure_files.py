"""Figure files: paints the drawings of a figure with matplotlib, as PNG, PDF and SVG."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np

from medal_judges.errors import MissingExtraError, visible
from medal_judges.report.drawing import svg
from medal_judges.report.figure import Figure, Plot, Tone
from medal_judges.report.table import DASH, Table, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.patches import Patch

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
    "svg.hashsalt": "medal",
}
_PIXELS_PER_INCH = 72
_MOST_ACROSS = 960  # pixels of the panels that stand side by side
# Distinct with every common colour vision: the categorical colours are those of Okabe and Ito
# (2008), darkened if too pale on white; the diverging pair is blue and orange, never red and green.
# style.css has the same colours, and others for a dark page.
_CATEGORICAL = (
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
_INK, _SOFT = "#1C2227", "#57616A"
# The classes of style.css, as matplotlib's properties of a patch.
_LOOKS: dict[str, dict[str, Any]] = {
    "grid": {"edgecolor": "#E2DED5", "lw": 0.8},
    "track": {"edgecolor": "#E2DED5", "lw": 0.8},
    "zero": {"edgecolor": _SOFT, "lw": 0.8},
    "span": {"edgecolor": "#0B5C8A", "lw": 2.5, "alpha": 0.45},
    "dot": {"facecolor": "#0B5C8A"},
    "ring": {"edgecolor": "#0B5C8A", "lw": 1.2},
    "ceiling": {"facecolor": "#B4560A"},
    "trend": {"edgecolor": _INK, "lw": 1.1},
    "dashed": {"ls": "--", "alpha": 0.6},
    "ideal": {"edgecolor": _SOFT, "lw": 0.8, "ls": "--"},
    "whisker": {"edgecolor": _INK, "lw": 0.8, "alpha": 0.4},
    "share": {"facecolor": _CATEGORICAL[1], "alpha": 0.8},
    "pt": {"alpha": 0.7},
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
            canvas = _canvas(figure)
            canvas.draw_without_rendering()
            # Laid out once: with a layout engine each format would be drawn twice.
            canvas.set_layout_engine(None)
            for ending, metadata in _FORMATS.items():
                canvas.savefig(folder / f"{name}.{ending}", dpi=150, metadata=metadata)


def _canvas(figure: Figure) -> Canvas:
    """Paints the panels of a figure, under its title and above its legend."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    drawings = [_parsed(svg(panel)) for panel in figure.panels]
    boxes = np.array(
        [drawing.attrib["viewBox"].split() for drawing in drawings], dtype=float
    )
    width, height = boxes[:, 2:].max(axis=0).tolist()
    across = max(1, min(len(drawings), int(_MOST_ACROSS // width)))
    down = math.ceil(len(drawings) / across)
    inches = (
        max(width * across / _PIXELS_PER_INCH, 5.4),
        (height + 30) * down / _PIXELS_PER_INCH + 0.8,
    )
    canvas = Canvas(figsize=inches, layout="constrained")
    FigureCanvasAgg(canvas)
    canvas.suptitle(visible(figure.title), fontsize=11)
    all_axes = list(canvas.subplots(down, across, squeeze=False).flat)
    for axes in all_axes:
        axes.set_axis_off()
    for axes, panel, drawing in zip(all_axes, figure.panels, drawings, strict=False):
        axes.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
        _paint(axes, drawing)
        title = panel.title
        if isinstance(panel, Plot) and panel.figure is not None:
            name, estimate = panel.figure
            title += (
                f"\n{name} {DASH if estimate.value is None else number(estimate.value)}"
            )
        if len(drawings) > 1 or not isinstance(panel, Table):
            # With a height of its own, no axis is measured to place the title above its labels.
            axes.set_title(visible(title), fontsize=8, y=1)
        if isinstance(panel, Plot) and panel.missing:
            axes.text(width / 2, height / 2, panel.missing, ha="center", fontsize=7)
    if figure.legend:
        _draw_legend(canvas, figure.legend)
    return canvas


def _parsed(drawing: str) -> Element:
    """Parses a drawing; characters that XML cannot have are spelled out."""
    return ElementTree.fromstring(visible(drawing))


def _draw_legend(canvas: Canvas, legend: Sequence[tuple[str, int | Tone]]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marks: list[Line2D | Patch] = []
    columns = len(legend)
    for _, colour in legend:
        if isinstance(colour, int):
            marks.append(Line2D([], [], marker="o", ls="", color=_CATEGORICAL[colour]))
            columns = min(4, len(legend))
        else:
            marks.append(Patch(facecolor=_mixed(*colour), edgecolor="#999999", lw=0.4))
    names = [visible(name) for name, _ in legend]
    canvas.legend(
        marks, names, loc="outside lower center", ncols=columns, frameon=False
    )


def _paint(axes: Axes, parent: Element, left: float = 0.0, top: float = 0.0) -> None:
    """Paints the elements inside ``parent``, moved by ``left`` and ``top`` pixels."""
    from matplotlib.transforms import Affine2D

    for element in parent:
        if element.tag in ("g", "svg"):
            _paint(
                axes,
                element,
                float(element.get("x", left)),
                float(element.get("y", top)),
            )
        elif element.tag == "text":
            _paint_text(axes, element)
        elif element.tag != "title":
            patch = _patch(element)
            patch.set(lw=0, fill=False)
            patch.set(**_look(element))
            patch.set_transform(Affine2D().translate(left, top) + axes.transData)
            axes.add_artist(patch)


def _patch(element: Element) -> Patch:
    """Returns the shape of an element."""
    from matplotlib.patches import Circle, PathPatch, Rectangle
    from matplotlib.path import Path as Outline

    def numbers(*names: str) -> list[float]:
        return [float(element.attrib[name]) for name in names]

    if element.tag == "circle":
        x, y, radius = numbers("cx", "cy", "r")
        return Circle((x, y), radius)
    if element.tag == "rect":
        x, y, width, height = numbers("x", "y", "width", "height")
        return Rectangle((x, y), width, height)
    if element.tag == "line":
        x1, y1, x2, y2 = numbers("x1", "y1", "x2", "y2")
        return PathPatch(Outline([(x1, y1), (x2, y2)]))
    points = []
    for point in element.attrib["points"].split():
        horizontal, _, vertical = point.partition(",")
        points.append((float(horizontal), float(vertical)))
    return PathPatch(Outline(points, closed=False))


def _look(element: Element) -> dict[str, Any]:
    """Returns the properties of the element's classes."""
    look: dict[str, Any] = {}
    for name in element.attrib["class"].split():
        look |= _LOOKS.get(name, {})
        if name in _TONES:
            strength = int(element.attrib["style"].removeprefix("--s:").rstrip("%"))
            look |= {
                "facecolor": _mixed(name, strength),
                "edgecolor": "#999999",
                "lw": 0.4,
            }
        elif name[0] == "c" and name[1:].isdigit():
            colour = _CATEGORICAL[int(name[1:])]
            is_line = element.tag == "polyline"
            look |= (
                {"edgecolor": colour, "lw": 1.2} if is_line else {"facecolor": colour}
            )
    if "facecolor" in look:
        look["fill"] = True
    return look


def _paint_text(axes: Axes, element: Element) -> None:
    anchors = {"middle": "center", "end": "right"}
    axes.text(
        float(element.attrib["x"]),
        float(element.attrib["y"]),
        element.text or "",
        ha=anchors.get(element.get("text-anchor", ""), "left"),
        va="baseline",
        rotation=90 if element.get("transform") else 0,
        rotation_mode="anchor",
        fontsize=8,
        color=_INK if element.get("class") == "on" else _SOFT,
    )


def _mixed(sign: str, percent: int) -> tuple[float, float, float]:
    """Returns the colour of a tone, mixed with white by its strength."""
    from matplotlib.colors import to_rgb

    share = percent / 100
    red, green, blue = to_rgb(_TONES[sign])
    return 1 - share * (1 - red), 1 - share * (1 - green), 1 - share * (1 - blue)
