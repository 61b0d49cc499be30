"""Plots: judge against people coloured by chatbot, and cascades by the share deferred."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from medal_judges.eval.page.arrangement import Arrangement, SetKey, shown
from medal_judges.report.figure import (
    OTHER_INDEX,
    Axis,
    Dot,
    Figure,
    Line,
    Plot,
    Range,
    index_by_frequency,
    padded,
)
from medal_judges.report.numbers import number
from medal_judges.report.page import Block, Section
from medal_judges.report.svg import MAX_DRAWN, thinned
from medal_judges.report.table import Table
from medal_judges.stats.results import CascadeCurve, Point, ResultRow

UNKNOWN = "unknown chatbot"
_SCATTER = (
    "Each dot is one judged row; hover or tap shows its id. Across: mean human answer, up: "
    "the judge's score, each panel on its own scale. The line is a least-squares fit over all rows."
)
_CASCADES = (
    "A weak judge answers, and a strong one is asked for the rows that the weak one is least sure "
    "of. Solid: Spearman ρ by the share deferred, with its 95% interval; dashed: the same share "
    "deferred at random, which uncertainty has to beat. The ends are the two judges alone, on the "
    "rows that both scored. Scores are mixed as they stand, each on its own judge's scale. Costs "
    "are for 1,000 rows; an amount that a judge did not record counts as 0."
)


def scatter(view: Arrangement) -> Section:
    """One figure a set."""
    figures = [figure for key in view.sets if (figure := scatter_figure(view, key)) is not None]
    return Section("scatter", "Judge against people", figures, _SCATTER, link="Scatter")


def scatter_figure(view: Arrangement, key: SetKey) -> Figure | None:
    """A panel for each judge on the headline dimension of a set, the same colours in all; None
    where no row has points to draw."""
    headline = view.headline(key)
    rows = [] if headline is None else [row for row in view.rows(key, headline) if row.points]
    if not rows:
        return None
    colours = index_by_frequency(p.chatbot or UNKNOWN for row in rows for p in row.points)
    span = padded([p.human for row in rows for p in row.points])
    legend = [(name, index) for name, index in colours.items() if index < OTHER_INDEX]
    if len(legend) < len(colours):
        legend.append((f"{len(colours) - len(legend)} others", OTHER_INDEX))
    title = f"{key.label}: {headline}"
    panels = [_scatter_panel(row, span, colours) for row in rows]
    return Figure(title, panels, title, legend, "Chatbots")


def _scatter_panel(row: ResultRow, span: Range, colours: Mapping[str, int]) -> Plot:
    dots = [_dot(p, colours) for p in row.points]
    line = trend(row.points)
    low, high = min(p.human for p in row.points), max(p.human for p in row.points)
    ends = [] if line is None else [(x, line[0] + line[1] * x) for x in (low, high)]
    drawn = f", {len(thinned(dots)):,} drawn" if len(dots) > MAX_DRAWN else ""
    return Plot(
        title=row.judge,
        x=Axis("people", span),
        y=Axis("judge", padded([p.score for p in row.points])),
        marks=[dots, Line(ends)],
        description=f"{row.judge} against people on {row.set_name}, {len(dots)} rows",
        figure=("ρ", shown(row, "spearman")),
        count=f"{len(dots):,} rows{drawn}",
    )


def _dot(point: Point, colours: Mapping[str, int]) -> Dot:
    chatbot = point.chatbot or UNKNOWN
    turn = "" if point.turn is None else f", turn {point.turn}"
    tooltip = (
        f"{point.id}{turn} · people {number(point.human)} · judge {number(point.score)} · "
        f"{chatbot} · {point.lang}"
    )
    return Dot(point.human, point.score, colours[chatbot], tooltip)


def trend(points: Sequence[Point]) -> tuple[float, float] | None:
    """(intercept, slope) of the least-squares line; None where people never differ."""
    humans, scores, weights = (
        np.array([getattr(p, name) for p in points]) for name in ("human", "score", "weight")
    )
    if humans.min() == humans.max():
        return None
    slope, intercept = np.polyfit(humans, scores, 1, w=np.sqrt(weights))
    return float(intercept), float(slope)


def cascades(view: Arrangement) -> Section:
    """A panel and a table for each curve."""
    curves = view.benchmark.cascades
    figure = cascade_figure(curves)
    blocks: list[Block] = [] if figure is None else [figure, *map(_cascade_table, curves)]
    return Section("cascades", "Cascades", blocks, _CASCADES)


def cascade_figure(curves: Sequence[CascadeCurve]) -> Figure | None:
    """A panel for each curve; None where there are none."""
    return Figure("Cascades", [_cascade_panel(curve) for curve in curves]) if curves else None


def _cascade_title(curve: CascadeCurve) -> str:
    key = SetKey(curve.set_name, curve.level)
    return f"{curve.weak}, then {curve.strong}: {key.label}, {curve.dimension}"


def _cascade_panel(curve: CascadeCurve) -> Plot:
    title = _cascade_title(curve)
    estimates = [p.spearman for p in curve.points if p.spearman.value is not None]
    ends = [v for e in estimates for v in (e.low, e.value, e.high) if v is not None]
    ends += [p.at_random for p in curve.points if estimates and p.at_random is not None]
    whiskers = [
        Line([(p.share, p.spearman.low), (p.share, p.spearman.high)], "whisker")
        for p in curve.points
    ]
    return Plot(
        title=title,
        x=Axis("share deferred", (0.0, 1.0)),
        y=Axis("Spearman ρ", padded(ends or [0.0])),
        marks=[
            *(line for line in whiskers if None not in (line.points[0][1], line.points[1][1])),
            Line([(p.share, p.at_random) for p in curve.points], "trend dashed"),
            Line([(p.share, p.spearman.value) for p in curve.points], "trend"),
        ],
        description=f"Spearman by share deferred, {title}",
        count=f"{curve.n:,} rows",
        missing="" if ends else "undefined",
    )


def _cascade_table(curve: CascadeCurve) -> Table:
    costs = list(dict.fromkeys(key for point in curve.points for key in point.cost))
    return Table(
        _cascade_title(curve),
        ("Share deferred", "Spearman ρ", "ρ at random", *(f"{k} for 1,000 rows" for k in costs)),
        [
            (
                f"{100 * p.share:.0f}% ({p.deferred:,})",
                p.spearman,
                p.at_random,
                *(1000 * p.cost[key] if key in p.cost else None for key in costs),
            )
            for p in curve.points
        ],
    )
