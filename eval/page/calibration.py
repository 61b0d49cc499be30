"""Calibration: mean score of the judge in each bin against the mean human answer in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from medal_judges.eval.page.arrangement import Arrangement, SetKey
from medal_judges.rating import rescale
from medal_judges.report.colours import OTHER_INDEX
from medal_judges.report.markup import details, escape, legend, panel_grid, section
from medal_judges.report.numbers import number
from medal_judges.report.svg import Frame, padded
from medal_judges.stats.results import Point, ResultRow

_GRADED_BINS = 8
_BINARY_BINS = 10
_LEAD = (
    "Scores are first put on the scale of people's answers: a judge from 1 to 5 beside answers "
    "from 1 to 10 is stretched to these, in a straight line. Rows are put in bins by the score: "
    "bins of equal size for graded answers, tenths of the probability for issues (a reliability "
    "diagram). Across: mean score in the bin, up: mean human answer; on the dashed line the judge "
    "says what people say. The area of a dot grows with the number of rows in its bin; hover or "
    "tap shows it. Below each panel: the gap, the mean distance from the line, weighted by rows."
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
    points = _rescaled(row)
    parts = _tenths(points) if row.kind == "binary" else _equal_parts(points)
    return [
        Bin(
            sum(p.weight * p.score for p in part) / weight,
            sum(p.weight * p.human for p in part) / weight,
            len(part),
            weight,
        )
        for part in parts
        if (weight := sum(p.weight for p in part))
    ]


def gap(found: Sequence[Bin]) -> float:
    """Mean distance between score and human answer over bins, weighted by rows (ECE)."""
    return sum(b.weight * abs(b.score - b.human) for b in found) / sum(b.weight for b in found)


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


def _rescaled(row: ResultRow) -> Sequence[Point]:
    judge, people = row.judge_scale, row.human_scale
    if row.kind == "binary" or judge is None or people is None or judge == people:
        return row.points
    return [replace(p, score=rescale(p.score, judge, people)) for p in row.points]


def _tenths(points: Sequence[Point]) -> list[list[Point]]:
    found: list[list[Point]] = [[] for _ in range(_BINARY_BINS)]
    for point in points:
        found[max(0, min(int(point.score * _BINARY_BINS), _BINARY_BINS - 1))].append(point)
    return [part for part in found if part]


def _equal_parts(points: Sequence[Point]) -> list[list[Point]]:
    ordered = sorted(points, key=lambda p: p.score)
    size = len(ordered) / min(_GRADED_BINS, max(1, len(ordered) // 5))
    parts: list[list[Point]] = [[]]
    for _, same in groupby(ordered, key=lambda p: p.score):
        if len(parts[-1]) >= size - 1e-9:
            parts.append([])
        parts[-1].extend(same)
    return parts


def calibration(view: Arrangement) -> str:
    """The section: headline dimensions in sight, the others folded by set."""
    judges = {judge: min(i, OTHER_INDEX) for i, judge in enumerate(view.judges)}
    first = _grid(view, [(key, d) for key in view.sets if (d := view.headline(key))], judges)
    folds = []
    for key in view.sets:
        others = [d for d in view.dimensions(key) if d != view.headline(key)]
        panels = _grid(view, [(key, dimension) for dimension in others], judges)
        if panels:
            name = f"{key.label}: {len(others)} more dimensions"
            folds.append(details(name, panels, is_open=not first))
    if not first and not folds:
        return ""
    key_of_colours = legend([(index, judge) for judge, index in judges.items()], "Judges")
    body = f'<div class="strip">{key_of_colours}{first}{"".join(folds)}</div>'
    return section("calibration", "Calibration", body, _LEAD)


def _grid(
    view: Arrangement, wanted: Sequence[tuple[SetKey, str]], judges: Mapping[str, int]
) -> str:
    panels = [_panel(view, key, dimension, judges) for key, dimension in wanted]
    kept = [panel for panel in panels if panel]
    return panel_grid("Calibration panels", kept) if kept else ""


def _panel(view: Arrangement, key: SetKey, dimension: str, judges: Mapping[str, int]) -> str:
    rows = [row for row in view.rows(key, dimension) if row.points]
    if not rows:
        return ""
    drawn = [(row, found) for row in rows if (found := bins(row))]
    title = f"{key.label}: {dimension}"
    gaps = "".join(_gap(row, judges[row.judge]) for row in rows)
    return (
        f'<figure><figcaption><b dir="auto">{escape(title)}</b></figcaption>'
        f'{_chart(title, drawn, judges)}<ul class="gaps" aria-label="Gap">{gaps}</ul></figure>'
    )


def _gap(row: ResultRow, colour: int) -> str:
    value = off_scale(row) or f"{number(gap(bins(row)))}{_stretched(row)}"
    return (
        f'<li><i class="swatch c{colour}" aria-hidden="true"></i><bdi>{escape(row.judge)}</bdi>'
        f"<span>{escape(value)}</span></li>"
    )


def _stretched(row: ResultRow) -> str:
    """`` (from 1–5)`` where the judge answers on another scale than people."""
    if row.kind == "binary" or row.judge_scale in (None, row.human_scale):
        return ""
    low, high = row.judge_scale or (0.0, 1.0)
    return f" (from {low:g}–{high:g})"


def _chart(
    title: str, drawn: Sequence[tuple[ResultRow, list[Bin]]], judges: Mapping[str, int]
) -> str:
    if not drawn:
        return '<p class="count">No judge answers on this scale.</p>'
    values = [v for _, found in drawn for b in found for v in (b.score, b.human)]
    span = (-0.04, 1.04) if drawn[0][0].kind == "binary" else padded(values)
    frame = Frame(span, span, "mean score of the judge", "mean human answer")
    diagonal = frame.line(span[0], span[0], span[1], span[1], "ideal")
    lines = "".join(_line(frame, row, found, judges[row.judge]) for row, found in drawn)
    return frame.svg(diagonal + lines, escape(f"Calibration on {title}"))


def _line(frame: Frame, row: ResultRow, found: Sequence[Bin], colour: int) -> str:
    path = " ".join(f"{frame.px(b.score):.1f},{frame.py(b.human):.1f}" for b in found)
    largest = max(b.n for b in found)
    dots = "".join(
        f'<circle class="bin c{colour}" cx="{frame.px(b.score):.1f}" '
        f'cy="{frame.py(b.human):.1f}" r="{1.5 + 3 * (b.n / largest) ** 0.5:.1f}"><title>'
        f"{escape(row.judge)}: score {number(b.score)}, people {number(b.human)}, "
        f"{b.n:,} rows</title></circle>"
        for b in found
    )
    line = f'<polyline class="c{colour}" points="{path}"/>'
    return f'<g class="series" data-c="{colour}">{line}{dots}</g>'
