"""Scatter: judge against people, one small panel a judge and set, coloured by chatbot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medal_judges.eval.page.arrangement import Arrangement, SetKey
from medal_judges.report.colours import OTHER_INDEX, index_by_frequency
from medal_judges.report.markup import escape, figure_text, legend, panel_grid, section
from medal_judges.report.numbers import number, shown
from medal_judges.report.svg import Frame, Range, padded
from medal_judges.stats.results import Point, ResultRow

MAX_DRAWN = 400  # more dots than this make a smear and a heavy page; the CSV has them all
UNKNOWN = "unknown chatbot"
_LEAD = (
    "Each dot is one judged row; hover or tap shows its id. Across: mean human answer, up: "
    "the judge's score, each panel on its own scale. The line is a least-squares fit over all rows."
)


def scatter(view: Arrangement) -> str:
    """The section, one strip of panels a set; empty where no row has points."""
    return section(
        "scatter", "Judge against people", "".join(_strip(view, k) for k in view.sets), _LEAD
    )


def scatter_rows(view: Arrangement, key: SetKey) -> list[ResultRow]:
    """Rows of the set's headline dimension that have points to draw."""
    headline = view.headline(key)
    return [] if headline is None else [row for row in view.rows(key, headline) if row.points]


def chatbot_colours(rows: Sequence[ResultRow]) -> Mapping[str, int]:
    """Colour index of each chatbot of a set, the same in all its panels."""
    return index_by_frequency(chatbot(p) for row in rows for p in row.points)


def chatbot(point: Point) -> str:
    return point.chatbot or UNKNOWN


def trend(points: Sequence[Point]) -> tuple[float, float] | None:
    """(intercept, slope) of the least-squares line; None where people never differ."""
    n = sum(p.weight for p in points)
    mean_x = sum(p.weight * p.human for p in points) / n
    mean_y = sum(p.weight * p.score for p in points) / n
    square = sum(p.weight * (p.human - mean_x) ** 2 for p in points)
    if square == 0:
        return None
    slope = sum(p.weight * (p.human - mean_x) * (p.score - mean_y) for p in points) / square
    return mean_y - slope * mean_x, slope


def drawn(points: Sequence[Point]) -> Sequence[Point]:
    """Every k-th point, so that at most MAX_DRAWN are drawn and every part keeps its share."""
    return points[:: -(-len(points) // MAX_DRAWN) or 1]


def _strip(view: Arrangement, key: SetKey) -> str:
    rows = scatter_rows(view, key)
    if not rows:
        return ""
    colours = chatbot_colours(rows)
    span = padded([p.human for row in rows for p in row.points])
    return (
        f'<div class="strip"><h3>{escape(key.label)}: {escape(rows[0].dimension)}</h3>'
        f"{legend(_entries(colours), 'Chatbots')}"
        f"{panel_grid(f'Panels of {key.label}', [_panel(row, span, colours) for row in rows])}"
        "</div>\n"
    )


def _entries(colours: Mapping[str, int]) -> list[tuple[int, str]]:
    named = [(index, name) for name, index in colours.items() if index < OTHER_INDEX]
    others = sum(index == OTHER_INDEX for index in colours.values())
    return [*named, (OTHER_INDEX, f"{others} others")] if others else named


def _panel(row: ResultRow, span: Range, colours: Mapping[str, int]) -> str:
    frame = Frame(span, padded([p.score for p in row.points]), "people", "judge")
    dots = "".join(_dot(frame, p, colours[chatbot(p)]) for p in drawn(row.points))
    said = f"{row.judge} against people on {row.set_name}, {len(row.points)} rows"
    few = drawn(row.points)
    part = f", {len(few):,} drawn" if len(few) < len(row.points) else ""
    return (
        f'<figure><figcaption><b dir="auto">{escape(row.judge)}</b>'
        f"<span>ρ {figure_text(shown(row, 'spearman'))}</span></figcaption>"
        f"{frame.svg(dots + _trend_line(frame, row.points), escape(said))}"
        f'<p class="count">{len(row.points):,} rows{part}</p></figure>'
    )


def _trend_line(frame: Frame, points: Sequence[Point]) -> str:
    line = trend(points)
    if line is None:
        return ""
    intercept, slope = line
    low, high = min(p.human for p in points), max(p.human for p in points)
    return frame.line(low, intercept + slope * low, high, intercept + slope * high, "trend")


def _dot(frame: Frame, point: Point, colour: int) -> str:
    turn = "" if point.turn is None else f", turn {point.turn}"
    title = (
        f"{point.id}{turn} · people {number(point.human)} · judge {number(point.score)} · "
        f"{chatbot(point)} · {point.lang}"
    )
    return (
        f'<circle class="pt c{colour}" cx="{frame.px(point.human):.1f}" '
        f'cy="{frame.py(point.score):.1f}" r="2.8"><title>{escape(title)}</title></circle>'
    )
