"""Plots: judge against people by chatbot, cascades by the share deferred, and calibration; and the
rows that all parts of the page read.

Functions that draw add their figures, by file name, to ``figures``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from medal_judges.eval.metaeval.comparison import CascadeCurve
from medal_judges.eval.metaeval.metaeval import ResultRow
from medal_judges.records.labelled import rescale
from medal_judges.records.signature import Signature, require_comparable
from medal_judges.report.figure import (
    MAX_DRAWN,
    OTHER_INDEX,
    Axis,
    Dot,
    Figure,
    Line,
    Plot,
    index_by_frequency,
    padded,
    thinned,
)
from medal_judges.report.page import Block, Fold, Section, Strip
from medal_judges.report.table import Row, Table, checked, number, unique_slugs
from medal_judges.stats.estimate import Estimate

UNKNOWN = "unknown chatbot"
_GRADED_BINS, _BINARY_BINS = 8, 10
# Rows with similar scores: mean score and mean human answer on the scale of people's answers, the
# number of rows, and their weight.
Bin = tuple[float, float, int, float]
Figures = dict[str, Figure]


class View:
    """Result rows by set, dimension and judge, in order of appearance; ``sets`` are the sets' names
    with those in file names, ``headlines`` each set's ``overall`` or first graded dimension. Raises
    MedalError if signatures of one table differ in data or dimension."""

    def __init__(self, rows: Sequence[ResultRow]) -> None:
        self.judges = list(dict.fromkeys(row.judge for row in rows))
        names = list(dict.fromkeys(row.set_name for row in rows))
        self.sets = dict(zip(names, unique_slugs(names), strict=True))
        self._rows: dict[tuple[str, str], dict[str, ResultRow]] = {}
        for row in rows:
            self._rows.setdefault((row.set_name, row.dimension), {})[row.judge] = row
        for by_judge in self._rows.values():
            # A signature without data (a bare baseline) cannot contradict the others.
            signatures = [Signature.parse(row.signature) for row in by_judge.values()]
            require_comparable([s for s in signatures if s.data is not None])
        graded = {name: self.dimensions(name, binary=False) for name in self.sets}
        self.headlines = {name: found[0] for name, found in graded.items() if found}

    def dimensions(self, name: str, *, binary: bool | None = None) -> list[str]:
        """Returns the dimensions of a set, ``overall`` first; only issues, or only others."""
        found = sorted((d for one, d in self._rows if one == name), key=lambda d: d != "overall")
        kinds = {d: self.rows(name, d)[0].kind == "binary" for d in found}
        return [d for d in found if binary in (None, kinds[d])]

    def rows(self, name: str, dimension: str) -> list[ResultRow]:
        """Returns one row a judge, in the judges' order."""
        by_judge = self._rows[name, dimension]
        return [by_judge[judge] for judge in self.judges if judge in by_judge]

    def row(self, judge: str, name: str, dimension: str) -> ResultRow | None:
        return self._rows[name, dimension].get(judge)


def primary_metric(kind: str) -> str:
    """Returns the headline metric of a dimension: F1+ if binary, else Spearman."""
    return "f1_present" if kind == "binary" else "spearman"


def shown(row: ResultRow | None, metric: str, source: str = "metrics") -> Estimate:
    """Returns what the page prints for ``metric`` of a field of the row (``like_for_like``): no
    figure if coverage is below the minimum."""
    if row is None:
        return Estimate(None, reason="this judge was not run here")
    if row.under_floor:
        percent = f"{100 * (row.coverage or 0):.1f}%"
        floor = f"{100 * row.min_coverage:g}%"
        reason = f"coverage {percent} is below the minimum of {floor}: no headline figure"
        return Estimate(None, reason=reason)
    return checked(getattr(row, source).get(metric))


def scatter(view: View, figures: Figures) -> Section:
    """For each set a panel a judge on the headline dimension, with the same colours."""
    blocks = []
    for name, headline in view.headlines.items():
        rows = [row for row in view.rows(name, headline) if row.points]
        if not rows:
            continue
        colours = index_by_frequency(p.chatbot or UNKNOWN for row in rows for p in row.points)
        span = padded([p.human for row in rows for p in row.points])
        legend = [(bot, index) for bot, index in colours.items() if index < OTHER_INDEX]
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
            people, score, weight = _columns(row)
            ends = []
            if np.ptp(people) > 0:
                slope, start = np.polyfit(people, score, 1, w=np.sqrt(weight))
                ends = [(float(x), float(start + slope * x)) for x in (people.min(), people.max())]
            drawn = f", {len(thinned(dots)):,} drawn" if len(dots) > MAX_DRAWN else ""
            panels.append(
                Plot(
                    title=row.judge,
                    x=Axis("people", span),
                    y=Axis("judge", padded(score.tolist())),
                    marks=[dots, Line(ends)],
                    description=f"{row.judge} against people on {row.set_name}, {len(dots)} rows",
                    figure=("ρ", shown(row, "spearman")),
                    count=f"{len(dots):,} rows{drawn}",
                )
            )
        title = f"{name}: {headline}"
        blocks.append(figure := Figure(title, panels, title, legend, "Chatbots"))
        figures[f"scatter-{view.sets[name]}"] = figure
    return Section("scatter", "Judge against people", blocks, link="Scatter")


def _columns(row: ResultRow) -> list[np.ndarray]:
    """Human answers, scores and weights of the row's points."""
    return [np.array([getattr(p, n) for p in row.points]) for n in ("human", "score", "weight")]


def cascades(curves: Sequence[CascadeCurve], figures: Figures) -> Section:
    """A panel and a table for each curve."""
    panels, tables = [], []
    for curve in curves:
        title = f"{curve.weak}, then {curve.strong}: {curve.set_name}, {curve.dimension}"
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
        tables.append(Table(title, columns, rows))
        each = [(p.share, p.spearman, p.at_random) for p in curve.points]
        ends = [v for _, e, mean in each for v in (e.low, e.value, e.high, mean) if v is not None]
        panels.append(
            Plot(
                title=title,
                x=Axis("share deferred", (0.0, 1.0)),
                y=Axis("Spearman ρ", padded(ends or [0.0])),
                marks=[
                    *(Line([(x, e.low), (x, e.high)], "whisker") for x, e, _ in each),
                    Line([(x, mean) for x, _, mean in each], "trend dashed"),
                    Line([(x, e.value) for x, e, _ in each], "trend"),
                ],
                description=f"Spearman by share deferred, {title}",
                count=f"{curve.n:,} rows",
                missing="" if ends else "undefined",
            )
        )
    if panels:
        figures["cascades"] = Figure("Cascades", panels)
    blocks: list[Block] = [figures["cascades"], *tables] if panels else []
    return Section("cascades", "Cascades", blocks)


def calibration(view: View, figures: Figures) -> Section:
    """For each set a panel a dimension, the first set in sight."""
    colours = {judge: min(i, OTHER_INDEX) for i, judge in enumerate(view.judges)}
    legend = list(colours.items())
    folds: list[Block] = []
    for name in view.sets:
        panels = [
            calibration_panel(f"{name}: {dimension}", rows, colours)
            for dimension in view.dimensions(name)
            if (rows := [row for row in view.rows(name, dimension) if row.points])
        ]
        if panels:
            title = f"{name}: calibration"
            figures[f"calibration-{view.sets[name]}"] = Figure(title, panels, legend=legend)
            folds.append(Fold(name, [Figure(title, panels)], is_open=not folds))
    blocks = [Strip(legend, "Judges", folds)] if folds else []
    return Section("calibration", "Calibration", blocks)


def calibration_panel(title: str, rows: Sequence[ResultRow], colours: Mapping[str, int]) -> Plot:
    """Mean human answer by mean score of each bin, a line a judge."""
    binned = {row.judge: bins(row) for row in rows}
    values = [v for parts in binned.values() for score, human, *_ in parts for v in (score, human)]
    span = (-0.04, 1.04) if rows[0].kind == "binary" else padded(values or [0.0])
    marks: list[Line | list[Dot]] = [Line([(span[0], span[0]), (span[1], span[1])], "ideal")]
    gaps = []
    for row in rows:
        judge, parts, colour = row.judge, binned[row.judge], colours[row.judge]
        text = off_scale(row) or number(gap(parts))
        if parts:
            largest = max(n for *_, n, _ in parts)
            marks.append(Line([(score, human) for score, human, *_ in parts], colour=colour))
            dots = []
            for score, human, n, _ in parts:
                tooltip = f"{judge}: score {number(score)}, people {number(human)}, {n:,} rows"
                radius = 1.5 + 3 * (n / largest) ** 0.5
                dots.append(Dot(score, human, colour, tooltip, radius, "bin"))
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


def bins(row: ResultRow) -> list[Bin]:
    """Returns the row's bins by rising score, on the scale of people's answers; empty if the scores
    cannot be put on it (``off_scale``). Equal scores share a bin."""
    if off_scale(row) is not None:
        return []
    human, score, weight = _columns(row)
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
    found = []
    for part in (member == place for place in np.unique(member)):
        total = float(sum(weight[part]))
        means = [float(sum(weight[part] * side[part]) / total) for side in (score, human)]
        found.append((means[0], means[1], int(part.sum()), total))
    return found


def gap(parts: Sequence[Bin]) -> float:
    """Returns the mean distance between score and human answer over bins, by rows (ECE)."""
    return sum(w * abs(score - human) for score, human, _, w in parts) / sum(w for *_, w in parts)


def off_scale(row: ResultRow) -> str | None:
    """Returns why the scores are not comparable with people's answers, None if they are: both
    scales are stated, and 95% of the scores are on the judge's (with 10% leeway)."""
    if row.kind == "binary":
        inside = all(0 <= p.score <= 1 for p in row.points)
        return None if inside else "its scores are not probabilities"
    if row.human_scale is None or row.judge_scale is None:
        return "its scale is not stated" if row.human_scale else "people's scale is not stated"
    low, high = padded(row.judge_scale, 0.1)
    inside = sum(low <= p.score <= high for p in row.points) >= 0.95 * len(row.points)
    return None if inside else "its scores leave its own scale"
