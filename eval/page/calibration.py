"""Calibration: mean score of the judge in each bin against the mean human answer in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from medal_judges.eval.page.arrangement import Arrangement, SetKey
from medal_judges.rating import rescale
from medal_judges.report.figure import OTHER_INDEX, Axis, Dot, Figure, Line, Plot, padded
from medal_judges.report.numbers import number
from medal_judges.report.page import Block, Fold, Section, Strip
from medal_judges.stats.results import ResultRow

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

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
    panels = _panels(view, first)
    blocks: list[Block] = [Figure("Calibration panels", panels)] if panels else []
    for key in view.sets:
        others = [d for d in view.dimensions(key) if d != view.headline(key)]
        more = _panels(view, [(key, dimension) for dimension in others])
        if more:
            name = f"{key.label}: {len(others)} more dimensions"
            blocks.append(Fold(name, [Figure(name, more)], is_open=not panels))
    if blocks:
        blocks = [Strip(list(_colours(view).items()), "Judges", blocks)]
    return Section("calibration", "Calibration", blocks, _LEAD)


def calibration_figure(view: Arrangement, key: SetKey) -> Figure | None:
    """A panel for each dimension of a set; None where no row has points."""
    panels = _panels(view, [(key, dimension) for dimension in view.dimensions(key)])
    if not panels:
        return None
    return Figure(f"{key.label}: calibration", panels, legend=list(_colours(view).items()))


def _colours(view: Arrangement) -> dict[str, int]:
    return {judge: min(i, OTHER_INDEX) for i, judge in enumerate(view.judges)}


def _panels(view: Arrangement, wanted: Sequence[tuple[SetKey, str]]) -> list[Plot]:
    colours = _colours(view)
    return [
        _panel(f"{key.label}: {dimension}", rows, colours)
        for key, dimension in wanted
        if (rows := [row for row in view.rows(key, dimension) if row.points])
    ]


def _panel(title: str, rows: Sequence[ResultRow], colours: Mapping[str, int]) -> Plot:
    binned = [(row, parts) for row in rows if (parts := bins(row))]
    values = [v for _, parts in binned for b in parts for v in (b.score, b.human)]
    span = (-0.04, 1.04) if rows[0].kind == "binary" else padded(values or [0.0])
    marks: list[Line | list[Dot]] = [Line([(span[0], span[0]), (span[1], span[1])], "ideal")]
    for row, parts in binned:
        colour, largest = colours[row.judge], max(b.n for b in parts)
        marks.append(Line([(b.score, b.human) for b in parts], colour=colour))
        marks.append([_dot(row.judge, b, colour, largest) for b in parts])
    return Plot(
        title=title,
        x=Axis("mean score of the judge", span),
        y=Axis("mean human answer", span),
        marks=marks,
        description=f"Calibration on {title}",
        gaps=[(row.judge, colours[row.judge], _gap_text(row)) for row in rows],
        missing="" if binned else "No judge answers on this scale.",
    )


def _dot(judge: str, part: Bin, colour: int, largest: int) -> Dot:
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
