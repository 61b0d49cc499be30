"""Plots: judge against people by chatbot, cascades by the share deferred, and calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from medal_judges.eval.metaeval.results import CascadeCurve, Point, ResultRow
from medal_judges.eval.page.arrangement import Arrangement, SetKey, shown
from medal_judges.records.rating import rescale
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
from medal_judges.report.page import Block, Fold, Section, Strip
from medal_judges.report.svg import MAX_DRAWN, thinned
from medal_judges.report.table import Table

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
UNKNOWN = "unknown chatbot"
_GRADED_BINS = 8
_BINARY_BINS = 10


def scatter(view: Arrangement) -> Section:
    """One figure a set."""
    figures = [figure for key in view.sets if (figure := scatter_figure(view, key)) is not None]
    return Section("scatter", "Judge against people", figures, link="Scatter")


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
    dots = [_point_dot(p, colours) for p in row.points]
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


def _point_dot(point: Point, colours: Mapping[str, int]) -> Dot:
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
    return Section("cascades", "Cascades", blocks)


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


@dataclass(frozen=True, slots=True)
class Bin:
    """Rows whose scores lie together: means on the scale of the answers, and how many; ``weight``
    is what they count for."""

    score: float
    human: float
    n: int
    weight: float


def bins(row: ResultRow) -> list[Bin]:
    """The row's bins by rising score, on the scale of people's answers; empty where the scores
    cannot be put on it (``off_scale``). Equal scores are never split between two bins."""
    if off_scale(row) is not None:
        return []
    score, human, weight = (
        np.array([getattr(p, name) for p in row.points]) for name in ("score", "human", "weight")
    )
    judge, people = row.judge_scale, row.human_scale
    if row.kind == "binary":
        member = np.clip((score * _BINARY_BINS).astype(int), 0, _BINARY_BINS - 1)
    else:
        if judge is not None and people is not None and judge != people:
            score = np.array([rescale(value, judge, people) for value in score])
        order = np.argsort(score, kind="stable")
        score, human, weight = score[order], human[order], weight[order]
        member = _equal_parts(score)
    parts = (member == part for part in np.unique(member))
    return [
        Bin(
            float(sum(weight[part] * score[part]) / total),
            float(sum(weight[part] * human[part]) / total),
            int(part.sum()),
            total,
        )
        for part in parts
        if (total := float(sum(weight[part])))
    ]


def gap(parts: Sequence[Bin]) -> float:
    """Mean distance between score and human answer over bins, weighted by rows (ECE)."""
    return sum(b.weight * abs(b.score - b.human) for b in parts) / sum(b.weight for b in parts)


def off_scale(row: ResultRow) -> str | None:
    """Why the scores cannot stand beside people's answers; None where they can.

    Both scales must be stated, and nearly all scores (95%, with 10% leeway) lie on the judge's.
    """
    if row.kind == "binary":
        inside = all(0 <= p.score <= 1 for p in row.points)
        return None if inside else "its scores are not probabilities"
    if row.human_scale is None:
        return "people's scale is not stated"
    if row.judge_scale is None:
        return "its scale is not stated"
    low, high = padded(row.judge_scale, 0.1)
    inside = sum(low <= p.score <= high for p in row.points) >= 0.95 * len(row.points)
    return None if inside else "its scores leave its own scale"


def _equal_parts(scores: Floats) -> Ints:
    """A bin for each score, of equal size as far as equal scores stay together."""
    _, member, counts = np.unique(scores, return_inverse=True, return_counts=True)
    size = len(scores) / min(_GRADED_BINS, max(1, len(scores) // 5))
    parts, filled = [0], 0
    for count in counts:
        full = filled >= size - 1e-9
        parts.append(parts[-1] + full)
        filled = count if full else filled + count
    return np.array(parts[1:])[member]


def calibration(view: Arrangement) -> Section:
    """Headline dimensions in sight, the others folded by set."""
    first = [(key, d) for key in view.sets if (d := view.headline(key))]
    panels = _calibration_panels(view, first)
    blocks: list[Block] = [Figure("Calibration panels", panels)] if panels else []
    for key in view.sets:
        others = [d for d in view.dimensions(key) if d != view.headline(key)]
        more = _calibration_panels(view, [(key, dimension) for dimension in others])
        if more:
            name = f"{key.label}: {len(others)} more dimensions"
            blocks.append(Fold(name, [Figure(name, more)], is_open=not panels))
    if blocks:
        blocks = [Strip(list(_colours(view).items()), "Judges", blocks)]
    return Section("calibration", "Calibration", blocks)


def calibration_figure(view: Arrangement, key: SetKey) -> Figure | None:
    """A panel for each dimension of a set; None where no row has points."""
    panels = _calibration_panels(view, [(key, dimension) for dimension in view.dimensions(key)])
    if not panels:
        return None
    return Figure(f"{key.label}: calibration", panels, legend=list(_colours(view).items()))


def _colours(view: Arrangement) -> dict[str, int]:
    return {judge: min(i, OTHER_INDEX) for i, judge in enumerate(view.judges)}


def _calibration_panels(view: Arrangement, wanted: Sequence[tuple[SetKey, str]]) -> list[Plot]:
    colours = _colours(view)
    return [
        calibration_panel(f"{key.label}: {dimension}", rows, colours)
        for key, dimension in wanted
        if (rows := [row for row in view.rows(key, dimension) if row.points])
    ]


def calibration_panel(title: str, rows: Sequence[ResultRow], colours: Mapping[str, int]) -> Plot:
    binned = [(row, parts) for row in rows if (parts := bins(row))]
    values = [v for _, parts in binned for b in parts for v in (b.score, b.human)]
    span = (-0.04, 1.04) if rows[0].kind == "binary" else padded(values or [0.0])
    marks: list[Line | list[Dot]] = [Line([(span[0], span[0]), (span[1], span[1])], "ideal")]
    for row, parts in binned:
        colour, largest = colours[row.judge], max(b.n for b in parts)
        marks.append(Line([(b.score, b.human) for b in parts], colour=colour))
        marks.append([_bin_dot(row.judge, b, colour, largest) for b in parts])
    return Plot(
        title=title,
        x=Axis("mean score of the judge", span),
        y=Axis("mean human answer", span),
        marks=marks,
        description=f"Calibration on {title}",
        gaps=[(row.judge, colours[row.judge], _gap_text(row)) for row in rows],
        missing="" if binned else "No judge answers on this scale.",
    )


def _bin_dot(judge: str, part: Bin, colour: int, largest: int) -> Dot:
    tooltip = f"{judge}: score {number(part.score)}, people {number(part.human)}, {part.n:,} rows"
    radius = 1.5 + 3 * (part.n / largest) ** 0.5
    return Dot(part.score, part.human, colour, tooltip, radius, "bin")


def _gap_text(row: ResultRow) -> str:
    """The gap, with the judge's scale where it answers on another one than people."""
    if reason := off_scale(row):
        return reason
    text = number(gap(bins(row)))
    if row.kind == "binary" or row.judge_scale in (None, row.human_scale):
        return text
    low, high = row.judge_scale or (0.0, 1.0)
    return f"{text} (from {low:g}–{high:g})"
