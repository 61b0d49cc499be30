"""Drawing: matplotlib without a display or global state, the same way for every page's figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from medal_judges.errors import MissingExtraError
from medal_judges.report.colours import colour_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
_ACROSS = 4


@contextmanager
def drawing() -> Iterator[None]:
    """Within it, figures are drawn in the pages' style. Raises MissingExtraError."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("matplotlib", "report", "drawing the PNG figures") from error
    # A judge named "$x$" is a name, not a formula.
    style: dict[str, object] = {"text.parse_math": False, "font.size": 9, "axes.spines.top": False}
    style |= {"axes.spines.right": False, "font.family": _families()}
    with matplotlib.rc_context(style):  # type: ignore[arg-type]
        yield


def _families() -> list[str]:
    from matplotlib.font_manager import fontManager

    installed = set(fontManager.get_font_names())
    return ["DejaVu Sans", *(name for name in _MORE_FONTS if name in installed)]


def save(figure: Figure, path: Path) -> None:
    """Write a PNG without software version or date: the same figures give the same bytes."""
    figure.savefig(path, dpi=_DPI, metadata={"Software": None})


def new_figure(width: float, height: float, title: str) -> Figure:
    """An empty figure of so many inches, drawn by Agg."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=11)
    return figure


def panel_figure(count: int, title: str) -> tuple[Figure, list[Axes]]:
    """A figure of ``count`` small panels, at most four across."""
    across = min(count, _ACROSS)
    down = -(-count // across)
    figure = new_figure(max(2.7 * across, 5.4), 2.7 * down + 0.4, title)
    axes = list(figure.subplots(down, across, squeeze=False).flat)
    for spare in axes[count:]:
        spare.set_visible(False)
    return figure, axes[:count]


def colour_legend(figure: Figure, named: Sequence[tuple[str, int]]) -> None:
    """Colours with names, (name, colour index), under the panels."""
    from matplotlib.lines import Line2D

    marks = [Line2D([], [], marker="o", ls="", color=colour_of(index)) for _, index in named]
    names = [name for name, _ in named]
    figure.legend(marks, names, loc="outside lower center", ncols=min(4, len(names)), frameon=False)
