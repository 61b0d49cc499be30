"""Plots: judge against people by chatbot, cascades by the share deferred, and calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medal_judges.eval.benchmark.view import SetKey, View, shown
from medal_judges.eval.metaeval.cascade import CascadeCurve
from medal_judges.eval.metaeval.metaeval import Point, ResultRow
from medal_judges.records.rating import rescale
from medal_judges.report.figure import (
    OTHER_INDEX,
    Axis,
    Dot,
    Figure,
    Line,
    Plot,
    index_by_frequency,
    padded,
)
from medal_judges.report.numbers import number
from medal_judges.report.page import Block, Fold, Section, Strip
from medal_judges.report.svg import MAX_DRAWN, thinned
from medal_judges.report.table import Row, Table

UNKNOWN = "unknown chatbot"
_GRADED_BINS = 8
_BINARY_BINS = 10


def scatter(view: View) -> Section:
    """One figure a set."""
    figures = [figure for key in view.sets if (figure := scatter_figure(view, key)) is not None]
    return Section("scatter", "Judge against people", figures, link="Scatter")


def scatter_figure(view: View, key: SetKey) -> Figure | None:
    """A panel for each judge on the headline dimension of a set, with the same colours; None if no
    row has points."""
    headline = dict(view.headlines()).get(key)
    rows = [] if headline is None else [row for row in view.rows(key, headline) if row.points]
    if not rows:
        return None
    colours = index_by_frequency(p.chatbot or UNKNOWN for row in rows for p in row.points)
    span = padded([p.human for row in rows for p in row.points])
    legend = [(name, index) for name, index in colours.items() if index < OTHER_INDEX]
    if len(legend) < len(colours):
        legend.append((f"{len(colours) - len(legend)} others", OTHER_INDEX))
    panels = []
    for row in rows:
        dots = []
        for p in row.points:
            chatbot, turn = p.chatbot or UNKNOWN, "" if p.turn is None else f", turn {p.turn}"
            tooltip = (
                f"{p.id}{turn} · people {number(p.human)} · judge {number(p.score)} · "
                f"{chatbot} · {p.lang}"
            )
            dots.append(Dot(p.human, p.score, colours[chatbot], tooltip))
        line = trend(row.points)
        low, high = min(p.human for p in row.points), max(p.human for p in row.points)
        ends = [] if line is None else [(x, line[0] + line[1] * x) for x in (low, high)]
        drawn = f", {len(thinned(dots)):,} drawn" if len(dots) > MAX_DRAWN else ""
        panels.append(
            Plot(
                title=row.judge,
                x=Axis("people", span),
                y=Axis("judge", padded([p.score for p in row.points])),
                marks=[dots, Line(ends)],
                description=f"{row.judge} against people on {row.set_name}, {len(dots)} rows",
                figure=("ρ", shown(row, "spearman")),
                count=f"{len(dots):,} rows{drawn}",
            )
        )
    title = f"{key.label}: {headline}"
    return Figure(title, panels, title, legend, "Chatbots")


def trend(points: Sequence[Point]) -> tuple[float, float] | None:
    """Returns (intercept, slope) of the least-squares line; None if people never differ."""
    humans, scores, weights = (
        np.array([getattr(p, name) for p in points]) for name in ("human", "score", "weight")
    )
    if humans.min() == humans.max():
        return None
    slope, intercept = np.polyfit(humans, scores, 1, w=np.sqrt(weights))
    return float(intercept), float(slope)


def cascades(curves: Sequence[CascadeCurve]) -> Section:
    """A panel and a table for each curve."""
    blocks: list[Block] = []
    if figure := cascade_figure(curves):
        blocks.append(figure)
    for curve in curves:
        costs = list(dict.fromkeys(key for point in curve.points for key in point.cost))
        rows: list[Row] = [
            (
                f"{100 * p.share:.0f}% ({p.deferred:,})",
                p.spearman,
                p.at_random,
                *(1000 * p.cost[key] if key in p.cost else None for key in costs),
            )
            for p in curve.points
        ]
        units = [f"{key} for 1,000 rows" for key in costs]
        columns = ("Share deferred", "Spearman ρ", "ρ at random", *units)
        blocks.append(Table(_title(curve), columns, rows))
    return Section("cascades", "Cascades", blocks)


def _title(curve: CascadeCurve) -> str:
    label = SetKey(curve.set_name, curve.level).label
    return f"{curve.weak}, then {curve.strong}: {label}, {curve.dimension}"


def cascade_figure(curves: Sequence[CascadeCurve]) -> Figure | None:
    """A panel for each curve; None if there are none."""
    panels = []
    for curve in curves:
        estimates = [p.spearman for p in curve.points if p.spearman.value is not None]
        ends = [v for e in estimates for v in (e.low, e.value, e.high) if v is not None]
        ends += [p.at_random for p in curve.points if estimates and p.at_random is not None]
        whiskers = [
            Line([(p.share, p.spearman.low), (p.share, p.spearman.high)], "whisker")
            for p in curve.points
            if None not in (p.spearman.low, p.spearman.high)
        ]
        panels.append(
            Plot(
                title=_title(curve),
                x=Axis("share deferred", (0.0, 1.0)),
                y=Axis("Spearman ρ", padded(ends or [0.0])),
                marks=[
                    *whiskers,
                    Line([(p.share, p.at_random) for p in curve.points], "trend dashed"),
                    Line([(p.share, p.spearman.value) for p in curve.points], "trend"),
                ],
                description=f"Spearman by share deferred, {_title(curve)}",
                count=f"{curve.n:,} rows",
                missing="" if ends else "undefined",
            )
        )
    return Figure("Cascades", panels) if panels else None


@dataclass(frozen=True, slots=True)
class Bin:
    """Rows with similar scores: means on the scale of people's answers, and their number and
    weight."""

    score: float
    human: float
    n: int
    weight: float


def bins(row: ResultRow) -> list[Bin]:
    """Returns the row's bins by rising score, on the scale of people's answers; empty if the scores
    cannot be put on it (``off_scale``). Equal scores share a bin."""
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
        _, same, counts = np.unique(score, return_inverse=True, return_counts=True)
        size = len(score) / min(_GRADED_BINS, max(1, len(score) // 5))
        parts, filled = [0], 0
        for count in counts:
            full = filled >= size - 1e-9
            parts.append(parts[-1] + full)
            filled = count if full else filled + count
        member = np.array(parts[1:])[same]
    return [
        Bin(
            float(sum(weight[part] * score[part]) / total),
            float(sum(weight[part] * human[part]) / total),
            int(part.sum()),
            total,
        )
        for part in (member == number for number in np.unique(member))
        if (total := float(sum(weight[part])))
    ]


def gap(parts: Sequence[Bin]) -> float:
    """Returns the mean distance between score and human answer over bins, by rows (ECE)."""
    return sum(b.weight * abs(b.score - b.human) for b in parts) / sum(b.weight for b in parts)


def off_scale(row: ResultRow) -> str | None:
    """Returns why the scores are not comparable with people's answers, None if they are: both
    scales are stated, and 95% of the scores are on the judge's (with 10% leeway)."""
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


def calibration(view: View) -> Section:
    """Headline dimensions in sight, the others folded by set."""
    headlines = dict(view.headlines())
    panels = _panels(view, list(headlines.items()))
    blocks: list[Block] = [Figure("Calibration panels", panels)] if panels else []
    for key in view.sets:
        others = [(key, d) for d in view.dimensions(key) if d != headlines.get(key)]
        if more := _panels(view, others):
            name = f"{key.label}: {len(others)} more dimensions"
            blocks.append(Fold(name, [Figure(name, more)], is_open=not panels))
    if blocks:
        blocks = [Strip(list(_colours(view).items()), "Judges", blocks)]
    return Section("calibration", "Calibration", blocks)


def calibration_figure(view: View, key: SetKey) -> Figure | None:
    """A panel for each dimension of a set; None if no row has points."""
    panels = _panels(view, [(key, dimension) for dimension in view.dimensions(key)])
    legend = list(_colours(view).items())
    return Figure(f"{key.label}: calibration", panels, legend=legend) if panels else None


def _colours(view: View) -> dict[str, int]:
    return {judge: min(i, OTHER_INDEX) for i, judge in enumerate(view.judges)}


def _panels(view: View, wanted: Sequence[tuple[SetKey, str]]) -> list[Plot]:
    return [
        calibration_panel(f"{key.label}: {dimension}", rows, _colours(view))
        for key, dimension in wanted
        if (rows := [row for row in view.rows(key, dimension) if row.points])
    ]


def calibration_panel(title: str, rows: Sequence[ResultRow], colours: Mapping[str, int]) -> Plot:
    """Mean human answer by mean score of each bin, a line a judge."""
    binned = {row.judge: bins(row) for row in rows}
    values = [v for parts in binned.values() for b in parts for v in (b.score, b.human)]
    span = (-0.04, 1.04) if rows[0].kind == "binary" else padded(values or [0.0])
    marks: list[Line | list[Dot]] = [Line([(span[0], span[0]), (span[1], span[1])], "ideal")]
    gaps = []
    for row in rows:
        judge, parts, colour = row.judge, binned[row.judge], colours[row.judge]
        text = off_scale(row) or number(gap(parts))
        if parts:
            largest = max(b.n for b in parts)
            marks.append(Line([(b.score, b.human) for b in parts], colour=colour))
            dots = []
            for b in parts:
                tooltip = (
                    f"{judge}: score {number(b.score)}, people {number(b.human)}, {b.n:,} rows"
                )
                radius = 1.5 + 3 * (b.n / largest) ** 0.5
                dots.append(Dot(b.score, b.human, colour, tooltip, radius, "bin"))
            marks.append(dots)
            scale = row.judge_scale
            if row.kind != "binary" and scale is not None and scale != row.human_scale:
                text += f" (from {scale[0]:g}–{scale[1]:g})"
        gaps.append((judge, colour, text))
    return Plot(
        title=title,
        x=Axis("mean score of the judge", span),
        y=Axis("mean human answer", span),
        marks=marks,
        description=f"Calibration on {title}",
        gaps=gaps,
        missing="" if any(binned.values()) else "No judge answers on this scale.",
    )
