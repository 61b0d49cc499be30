"""Drawings: every chart is drawn once, as SVG, by templates/drawings.svg. The page shows it as it
is, with the colours of style.css; figure_files.py paints the same SVG into files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from rich.cells import cell_len

from medal_judges.report import table as texts
from medal_judges.report.console import cell_text
from medal_judges.report.figure import Bars, Plot, thinned
from medal_judges.report.table import IntervalBar, Table, number

_TEXTS = (
    "checked",
    "number",
    "interval",
    "p_value_text",
    "percent",
    "percent_interval",
    "points",
)
_CHARACTER = 6  # pixels of an average character
# pixels of an interval in a cell of the page, and in a file
_CELL_BAR, _FILE_BAR = (132, 260)


def svg(drawn: Plot | Bars | Table | IntervalBar) -> Markup:
    """Returns the SVG of a panel of a figure, or of an interval in a cell of a table."""
    if isinstance(drawn, Plot):
        x, y = to_pixels(drawn.x.span, 46, 232), to_pixels(drawn.y.span, 172, 8)
        return _drawing("plot", drawn, x, y)
    if isinstance(drawn, Bars):
        return _bars(drawn)
    if isinstance(drawn, Table):
        return _table(drawn)
    return _drawing("interval", drawn, _interval_pixels(drawn, _CELL_BAR), _CELL_BAR)


def rank_svg(people: float, judge: float) -> Markup:
    """Returns the SVG of a dialogue's ranks by people and judge, as shares from 0 to 1."""
    return _drawing("ranks", 6 + 188 * people, 6 + 188 * judge)


def to_pixels(
    span: tuple[float, float], start: float, end: float
) -> Callable[[float], float]:
    """Returns the function from a value of ``span`` to its pixel between ``start`` and ``end``."""
    low, high = span
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _interval_pixels(bar: IntervalBar, width: int) -> Callable[[float], float]:
    """Returns the function from a value to its pixel; one outside the span is at its end."""
    low, high = bar.span
    pixel = to_pixels(bar.span, 6, width - 6)
    return lambda value: pixel(min(max(value, low), high))


def _bars(panel: Bars) -> Markup:
    if panel.wide:
        width, height, left, right = 720, 26, 64, 4
    else:
        longest = max(len(bar.name) for bar in panel.bars)
        width, height, right = 240, 19, 40
        left = max(42, min(_CHARACTER * longest + 10, 100))
    return _drawing(
        "bars", panel, width, height, left, (width - left - right) / panel.end
    )


def _table(table: Table) -> Markup:
    """Draws a heat map with all its columns; of another table the names, the intervals, and the
    numbers before them."""
    kinds = table.column_kinds()
    chosen = list(range(len(kinds)))
    if "heat" not in table.style:
        chosen = [i for i in chosen if i == 0 or "bar" in kinds[i : i + 2]]
    columns, left = [], 0
    for i in chosen:
        cells = [row[i] for row in table.rows]
        texts = [cell_text(cell) for cell in cells]
        heading = table.columns[i]
        width = _CHARACTER * max(map(cell_len, [heading, *texts])) + 14
        if kinds[i] == "bar":
            heading, width = _axis_text(cells), _FILE_BAR + 14
        columns.append((left, width, heading, list(zip(cells, texts, strict=True))))
        left += width
    return _drawing("table", table.title, columns, left, len(table.rows))


def _axis_text(cells: Sequence[object]) -> str:
    """Says from where to where the intervals of a column are drawn, if it is the same for all."""
    spans = {cell.span for cell in cells if isinstance(cell, IntervalBar)}
    if len(spans) > 1:
        return "95% interval"
    ((low, high),) = spans
    return f"95% interval, drawn from {number(low)} to {number(high)}"


def _drawing(name: str, *values: object) -> Markup:
    macros: Any = environment("medal_judges.report").get_template("drawings.svg").module
    drawing: Markup = getattr(macros, name)(*values)
    return drawing.replace("\n", "")


@cache
def environment(package: str) -> Environment:
    """Returns the templates of a package, which escape everything except Markup, with their
    filters."""
    templates = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {name: getattr(texts, name) for name in _TEXTS}
    templates.filters |= {
        "kind": lambda value: type(value).__name__,
        "pairwise": pairwise,
        "px": "{:.1f}".format,
        "svg": svg,
        "thinned": thinned,
        "to_pixels": _interval_pixels,
    }
    return templates
