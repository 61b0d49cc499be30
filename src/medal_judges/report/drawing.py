"""Drawings: every chart is drawn once, as SVG elements. The page shows them as they are, with the
colours of style.css; figure_files.py paints the same elements into files.

A drawing is an element ``svg`` whose units are pixels. Its elements are line, polyline, polygon,
circle, rect, text and g; a title inside one of them is its tooltip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from markupsafe import Markup
from rich.cells import cell_len

from medal_judges.report.console import cell_text
from medal_judges.report.figure import Bar, Bars, Line, Plot, Tone, thinned
from medal_judges.report.table import Heat, IntervalBar, Table, number

_WIDTH, _HEIGHT = 240, 206
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 8, 8, 34  # −0.01 fits beside the name of the axis
_TEXT_FITS = 34  # pixels of a bar's segment from which on its text is drawn
_CHARACTER = 6  # pixels of an average character
_TABLE_ROW, _FILE_BAR = 20, 260  # pixels: height of a row, width of an interval in a file


def svg(drawn: Plot | Bars | IntervalBar) -> Markup:
    """Returns the SVG of a panel, or of an interval in a cell of a table, for the page."""
    if isinstance(drawn, Plot):
        return markup(plot_drawing(drawn))
    if isinstance(drawn, Bars):
        return markup(bars_drawing(drawn))
    return markup(interval_drawing(drawn))


def markup(drawing: Element) -> Markup:
    """Returns the drawing as text; names in it are escaped."""
    return Markup(ElementTree.tostring(drawing, encoding="unicode", short_empty_elements=False))


def panel_drawing(panel: Plot | Bars | Table) -> Element:
    """Returns the drawing of any panel of a figure."""
    if isinstance(panel, Plot):
        return plot_drawing(panel)
    if isinstance(panel, Bars):
        return bars_drawing(panel)
    return table_drawing(panel)


def _element(name: str, *content: str | Element, **attributes: str | float) -> Element:
    """Returns an element with texts or elements inside. Floats have one decimal. In names of
    attributes, a trailing underscore is dropped and the others become dashes."""
    element = Element(name)
    for key, value in attributes.items():
        if value == "":
            continue
        text = f"{value:.1f}" if isinstance(value, float) else str(value)
        element.set(key.rstrip("_").replace("_", "-"), text)
    for part in content:
        if isinstance(part, Element):
            element.append(part)
        else:
            element.text = part
    return element


def _line(style: str, x1: float, y1: float, x2: float, y2: float) -> Element:
    return _element("line", class_=style, x1=x1, y1=y1, x2=x2, y2=y2)


def _text(text: str, x: float, y: float, anchor: str = "", style: str = "") -> Element:
    return _element("text", text, class_=style, x=x, y=y, text_anchor=anchor)


def _circle(style: str, x: float, y: float, radius: float, tooltip: str = "") -> Element:
    return _element("circle", *_tooltip(tooltip), class_=style, cx=x, cy=y, r=radius)


def _box(
    colour: int | Tone, x: float, y: float, width: float, height: float, tooltip: str = ""
) -> Element:
    look = {"class_": "share"}
    if not isinstance(colour, int):
        look = {"class_": f"bin {colour[0]}", "style": f"--s:{colour[1]}%"}
    return _element("rect", *_tooltip(tooltip), **look, x=x, y=y, width=width, height=height)


def _tooltip(text: str) -> list[Element]:
    return [_element("title", text)] if text else []


def _panel(
    width: float, height: float, marks: Iterable[Element], description: str, style: str = "panel"
) -> Element:
    box = f"0 0 {width} {height}"
    return _element("svg", *marks, class_=style, viewBox=box, role="img", aria_label=description)


def plot_drawing(plot: Plot) -> Element:
    """Draws a plot with its grid, tick labels and the names of its axes."""
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT

    def x_pixel(value: float) -> float:
        low, high = plot.x.span
        return _LEFT + (value - low) / (high - low) * (right - _LEFT)

    def y_pixel(value: float) -> float:
        low, high = plot.y.span
        return bottom - (value - low) / (high - low) * (bottom - _TOP)

    marks: list[Element] = []
    for value, label in plot.x.ticks():
        x = x_pixel(value)
        is_last_date = bool(plot.x.named) and x > right - 16  # dates are wide
        anchor = "end" if is_last_date else "middle"
        marks.append(_line("grid", x, _TOP, x, bottom))
        marks.append(_text(label, x, bottom + 12, anchor))
    for value, label in plot.y.ticks():
        y = y_pixel(value)
        marks.append(_line("grid", _LEFT, y, right, y))
        marks.append(_text(label, _LEFT - 4, y + 3.2, "end"))
    marks.append(_text(plot.x.label, (_LEFT + right) / 2, _HEIGHT - 5, "middle", "axis"))
    up = (_TOP + bottom) / 2
    y_label = _text(plot.y.label, 9, up, "middle", "axis")
    y_label.set("transform", f"rotate(-90 9 {up})")
    marks.append(y_label)
    for mark in plot.marks:
        if isinstance(mark, Line):
            marks += _segments(mark, x_pixel, y_pixel)
            continue
        for dot in thinned(mark):
            style = f"{dot.kind} c{dot.colour}"
            marks.append(_circle(style, x_pixel(dot.x), y_pixel(dot.y), dot.radius, dot.tooltip))
    return _panel(_WIDTH, _HEIGHT, marks, plot.description)


def _segments(
    line: Line, x_pixel: Callable[[float], float], y_pixel: Callable[[float], float]
) -> Iterator[Element]:
    """Yields one polyline, or a line a segment, so that a missing point leaves a gap."""
    if line.colour is not None:
        points = [(x_pixel(x), y_pixel(y)) for x, y in line.points if y is not None]
        yield _element("polyline", class_=f"c{line.colour}", points=_points(points))
        return
    for (x1, y1), (x2, y2) in pairwise(line.points):
        if y1 is not None and y2 is not None:
            yield _line(line.style, x_pixel(x1), y_pixel(y1), x_pixel(x2), y_pixel(y2))


def _points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def bars_drawing(panel: Bars) -> Element:
    """Draws horizontal bars, their names before them and their texts inside or behind them."""
    if panel.wide:
        width, height, left, right = 720, 26, 64.0, 4
    else:
        longest = max(len(bar.name) for bar in panel.bars)
        width, height, right = 240, 19, 40
        left = float(max(42, min(_CHARACTER * longest + 10, 100)))
    pixels = (width - left - right) / panel.end
    rows = []
    for i, bar in enumerate(panel.bars):
        rows.append(_bar(bar, left, 2 + i * height, height, pixels, is_wide=panel.wide))
    style = "stack" if panel.wide else "panel"
    return _panel(width, height * len(rows) + 4, rows, panel.description, style)


def _bar(
    bar: Bar, left: float, top: float, height: float, pixels: float, *, is_wide: bool
) -> Element:
    """Draws one bar from ``left`` on; ``pixels`` are those of a unit of the axis."""
    middle = top + height / 2
    baseline = middle + (4 if is_wide else 3.2)
    gap = 8 if is_wide else 6
    marks = [_text(bar.name, left - gap, baseline, "end"), *_tooltip(bar.tooltip)]
    x = left
    for segment in bar.segments:
        length = segment.length * pixels
        marks.append(_box(segment.colour, x, top + 3, length, height - 6, segment.tooltip))
        if segment.text and length > _TEXT_FITS:
            marks.append(_text(segment.text, x + length / 2, baseline, "middle", "on"))
        x += length
    if bar.interval is not None:
        low, high = bar.interval
        x = left + high * pixels
        marks.append(_line("whisker", left + low * pixels, middle, x, middle))
    if bar.text:
        if bar.segments or not is_wide:
            x += 5
        marks.append(_text(bar.text, x, baseline))
    return _element("g", *marks)


def interval_drawing(bar: IntervalBar, width: int = 132) -> Element:
    """Draws an interval as a line with a dot; also the zero line, the human ceiling as a diamond,
    and the like-for-like figure as a ring. Screen readers skip it, since the next cell has the
    number."""
    height, pad = 16, 6
    low, high = bar.span

    def x_pixel(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return pad + share * (width - 2 * pad)

    estimate = bar.estimate
    marks = [_line("track", pad, 8, width - pad, 8)]
    if low < 0 < high:
        marks.append(_line("zero", x_pixel(0), 2, x_pixel(0), 14))
    if bar.ceiling is not None:
        marks.append(_diamond(x_pixel(bar.ceiling), 8))
    if estimate.value is not None:
        if estimate.low is not None and estimate.high is not None:
            marks.append(_line("span", x_pixel(estimate.low), 8, x_pixel(estimate.high), 8))
        marks.append(_circle("dot", x_pixel(estimate.value), 8, 4))
    if bar.like is not None:
        marks.append(_circle("ring", x_pixel(bar.like), 8, 4.5))
    box = f"0 0 {width} {height}"
    size = {"width": width, "height": height}
    return _element("svg", *marks, class_="bar", viewBox=box, **size, aria_hidden="true")


def _diamond(x: float, y: float) -> Element:
    corners = [(x, y - 6), (x + 4, y), (x, y + 6), (x - 4, y)]
    return _element("polygon", class_="ceiling", points=_points(corners))


def rank_svg(people: float, judge: float) -> Markup:
    """Returns the SVG of a dialogue's ranks by people (diamond) and judge (dot), lowest on the
    left."""
    first, second = 6 + 188 * people, 6 + 188 * judge
    drawing = _element(
        "svg",
        _line("track", 6, 6, 194, 6),
        _line("span", first, 6, second, 6),
        _diamond(first, 6),
        _circle("dot", second, 6, 4),
        class_="track",
        viewBox="0 0 200 12",
        aria_hidden="true",
    )
    return markup(drawing)


def table_drawing(table: Table) -> Element:
    """Draws a table for a file: a heat map with all its columns; of another table the names, the
    intervals, and the numbers before them."""
    columns = _drawn_columns(table)
    width, marks = 0.0, list[Element]()
    for i in columns:
        cells = [row[i] for row in table.rows]
        drawn, column_width = _column(table.columns[i], cells, width, is_name=i == 0)
        marks += drawn
        width += column_width
    return _panel(width, _TABLE_ROW * (len(table.rows) + 1) + 4, marks, table.title)


def _drawn_columns(table: Table) -> list[int]:
    kinds = table.column_kinds()
    if "heat" in table.style:
        return list(range(len(kinds)))
    columns = [0]
    for i, kind in enumerate(kinds):
        if kind == "bar":
            columns += [i - 1, i]
    return columns


def _column(
    heading: str, cells: Sequence[object], left: float, *, is_name: bool
) -> tuple[list[Element], float]:
    """Returns the marks of a column that begins at ``left``, and its width."""
    texts = ["" if isinstance(cell, IntervalBar) else cell_text(cell) for cell in cells]
    longest = max(map(cell_len, [heading, *texts]))
    width = float(_CHARACTER * longest + 14)
    if any(isinstance(cell, IntervalBar) for cell in cells):
        width = _FILE_BAR + 14.0
        heading = _axis_text(cells)
    x, anchor = left + width / 2, "middle"
    if is_name:
        x, anchor = left + width - 8, "end"
    marks = [_text(heading, x, 14, anchor, "axis")]
    for i, (cell, text) in enumerate(zip(cells, texts, strict=True), start=1):
        top = i * _TABLE_ROW
        if isinstance(cell, IntervalBar):
            moved = f"translate({left + 7} {top + 2})"
            marks.append(_element("g", *interval_drawing(cell, _FILE_BAR), transform=moved))
            continue
        style = ""
        if isinstance(cell, Heat):
            style = "on"
            marks.append(_box((cell.sign, cell.percent), left, top, width, _TABLE_ROW))
        marks.append(_text(text, x, top + 14, anchor, style))
    return marks, width


def _axis_text(cells: Iterable[object]) -> str:
    """Says from where to where the intervals of a column are drawn, if it is the same for all."""
    spans = {cell.span for cell in cells if isinstance(cell, IntervalBar)}
    if len(spans) > 1:
        return "95% interval"
    ((low, high),) = spans
    return f"95% interval, drawn from {number(low)} to {number(high)}"
