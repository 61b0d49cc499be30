"""The charts of a benchmark. ``figures`` are collected by file name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from medal_judges.eval.benchmark.results import FOLLOW_UPS
from medal_judges.eval.benchmark.view import View, human_ceiling, shown
from medal_judges.eval.metaeval.alignment import METRICS, label
from medal_judges.eval.metaeval.metaeval import Point, ResultRow
from medal_judges.records.dimension import EQUAL
from medal_judges.records.labelled import rescale
from medal_judges.report.figure import (
    MAX_DRAWN,
    OTHER_INDEX,
    Axis,
    Bar,
    Bars,
    BarSegment,
    Dot,
    Figure,
    Line,
    Plot,
    padded,
    thinned,
)
from medal_judges.report.page import Block, Fold, Section, Strip
from medal_judges.report.table import IntervalBar, Row, Table, checked, number, slug
from medal_judges.stats.correlation import Floats
from medal_judges.stats.equal import tolerance_of

UNKNOWN = "unknown chatbot"
_GRADED_BINS, _BINARY_BINS = 8, 10
# Rows with similar scores: mean score and mean label on the labels' scale, and their number.
Bin = tuple[float, float, int]
Figures = dict[str, Figure]
Range = tuple[float, float]


# -- judge against labels --------------------------------------------------------------------------


def scatter(view: View, figures: Figures) -> Section:
    """For each set a plot of every judge against labels on the headline dimension, and as files on
    each graded one. The judges' plots share their colours."""
    blocks: list[Block] = []
    for name, dimension in view.tables(binary=False):
        rows = [row for row in view.rows(name, dimension) if row.points]
        if not rows:
            continue
        colours = _colours_of_chatbots(rows)
        legend = [
            (chatbot, index)
            for chatbot, index in colours.items()
            if index < OTHER_INDEX
        ]
        if len(legend) < len(colours):
            legend.append((f"{len(colours) - len(legend)} others", OTHER_INDEX))
        labels = [point.human for row in rows for point in row.points]
        plots = [_scatter_plot(row, colours, padded(labels)) for row in rows]
        title = f"{name}: {dimension}"
        figure = Figure(title, plots, title, legend, "Chatbots")
        figures[f"scatter-{view.sets[name]}-{view.slugs[dimension]}"] = figure
        if dimension == view.headlines[name]:
            blocks.append(figure)
    return Section("scatter", "Judge against labels", blocks, link="Scatter")


def _colours_of_chatbots(rows: Sequence[ResultRow]) -> dict[str, int]:
    """Returns the colour of each chatbot; those with the fewest rows share the last one."""
    counts = Counter(point.chatbot or UNKNOWN for row in rows for point in row.points)
    by_count = sorted(counts, key=lambda chatbot: (-counts[chatbot], chatbot))
    return {chatbot: min(index, OTHER_INDEX) for index, chatbot in enumerate(by_count)}


def _scatter_plot(
    row: ResultRow, colours: Mapping[str, int], label_range: Range
) -> Plot:
    dots = [_scatter_dot(point, colours) for point in row.points]
    labels, scores = _columns(row)
    trend = []
    if np.ptp(labels) > 0:
        slope, intercept = np.polyfit(labels, scores, 1)
        for x in (labels.min(), labels.max()):
            trend.append((float(x), float(intercept + slope * x)))
    count = f"{len(dots):,} rows"
    if len(dots) > MAX_DRAWN:
        count += f", {len(thinned(dots)):,} drawn"
    return Plot(
        title=row.judge,
        x=Axis("label", label_range),
        y=Axis("judge", padded(scores.tolist())),
        marks=[dots, Line(trend)],
        description=f"{row.judge} against labels on {row.set_name}, {len(dots)} rows",
        figure=("ρ", shown(row, "spearman")),
        count=count,
    )


def _scatter_dot(point: Point, colours: Mapping[str, int]) -> Dot:
    chatbot = point.chatbot or UNKNOWN
    id = point.id
    if point.turn is not None:
        id += f", turn {point.turn}"
    tooltip = (
        f"{id} · label {number(point.human)} · judge {number(point.score)} · {chatbot} · "
        f"{point.lang}"
    )
    return Dot(point.human, point.score, colours[chatbot], tooltip)


def _columns(row: ResultRow) -> tuple[Floats, Floats]:
    """Returns the labels [n] and the scores [n] of the row's points."""
    labels = np.array([point.human for point in row.points])
    return labels, np.array([point.score for point in row.points])


# -- calibration -----------------------------------------------------------------------------------


def calibration(view: View, figures: Figures) -> Section:
    """For each set a calibration plot of every dimension, the first set unfolded: the mean label by
    the mean score of each bin, one line for each judge."""
    colours = {
        judge: min(index, OTHER_INDEX) for index, judge in enumerate(view.judges)
    }
    legend = list(colours.items())
    folds: list[Block] = []
    for name in view.sets:
        plots = []
        for dimension in view.dimensions(name):
            rows = [row for row in view.rows(name, dimension) if row.points]
            if rows:
                plots.append(_calibration_plot(f"{name}: {dimension}", rows, colours))
        if plots:
            title = f"{name}: calibration"
            figures[f"calibration-{view.sets[name]}"] = Figure(
                title, plots, legend=legend
            )
            folds.append(Fold(name, [Figure(title, plots)], is_open=not folds))
    blocks: list[Block] = []
    if folds:
        blocks.append(Strip(legend, "Judges", folds))
    return Section("calibration", "Calibration", blocks)


def _calibration_plot(
    title: str, rows: Sequence[ResultRow], colours: Mapping[str, int]
) -> Plot:
    bins_by_judge = {row.judge: bins(row) for row in rows}
    span = (-0.04, 1.04)
    if rows[0].kind != "binary":
        means = []
        for judge_bins in bins_by_judge.values():
            for score, label_mean, _ in judge_bins:
                means += [score, label_mean]
        span = padded(means or [0.0])
    marks: list[Line | list[Dot]] = [
        Line([(span[0], span[0]), (span[1], span[1])], "ideal")
    ]
    gaps = []
    for row in rows:
        judge_bins, colour = bins_by_judge[row.judge], colours[row.judge]
        if judge_bins:
            points = [(score, label_mean) for score, label_mean, _ in judge_bins]
            marks.append(Line(points, colour=colour))
            marks.append(_bin_dots(row.judge, judge_bins, colour))
        gaps.append((row.judge, colour, _gap_text(row, judge_bins)))
    missing = ""
    if not any(bins_by_judge.values()):
        missing = "No judge answers on this scale."
    return Plot(
        title=title,
        x=Axis("mean score of the judge", span),
        y=Axis("mean label", span),
        marks=marks,
        description=f"Calibration on {title}",
        gaps=gaps,
        missing=missing,
    )


def _bin_dots(judge: str, judge_bins: Sequence[Bin], colour: int) -> list[Dot]:
    largest = max(count for *_, count in judge_bins)
    dots = []
    for score, label_mean, count in judge_bins:
        tooltip = f"{judge}: score {number(score)}, labels {number(label_mean)}, {count:,} rows"
        radius = 1.5 + 3 * (count / largest) ** 0.5
        dots.append(Dot(score, label_mean, colour, tooltip, radius, "bin"))
    return dots


def _gap_text(row: ResultRow, judge_bins: Sequence[Bin]) -> str:
    text = off_scale(row) or number(gap(judge_bins))
    scale = row.judge_scale
    if (
        judge_bins
        and row.kind != "binary"
        and scale is not None
        and scale != row.human_scale
    ):
        text += f" (from {scale[0]:g}–{scale[1]:g})"
    return text


def bins(row: ResultRow) -> list[Bin]:
    """Returns the row's bins by rising score, on the labels' scale. Equal scores share a bin. Empty
    if the scores cannot be converted to that scale (``off_scale``)."""
    if off_scale(row) is not None:
        return []
    labels, scores = _columns(row)
    if row.kind == "binary":
        bin_of_row = np.clip((scores * _BINARY_BINS).astype(int), 0, _BINARY_BINS - 1)
    else:
        judge_scale, label_scale = row.judge_scale, row.human_scale
        if (
            judge_scale is not None
            and label_scale is not None
            and judge_scale != label_scale
        ):
            scores = np.array(
                [rescale(score, judge_scale, label_scale) for score in scores]
            )
        order = np.argsort(scores, kind="stable")
        scores, labels = scores[order], labels[order]
        bin_of_row = _graded_bins(scores, tolerance_of(label_scale, scores))
    judge_bins = []
    for index in np.unique(bin_of_row):
        in_bin = bin_of_row == index
        judge_bins.append(
            (
                float(scores[in_bin].mean()),
                float(labels[in_bin].mean()),
                int(in_bin.sum()),
            )
        )
    return judge_bins


def _graded_bins(scores: Floats, tolerance: float) -> Floats:
    """Returns the bin [n] of each of the rising ``scores``: bins of about equal size, and none that
    parts equal scores."""
    value_of_row = np.cumsum(np.diff(scores, prepend=scores[:1]) > tolerance)
    size = len(scores) / min(_GRADED_BINS, max(1, len(scores) // 5))
    bin_of_value = []
    current_bin, filled = 0, 0
    for count in np.bincount(value_of_row):
        if filled >= size - 1e-9:
            current_bin, filled = current_bin + 1, 0
        bin_of_value.append(current_bin)
        filled += count
    return np.array(bin_of_value)[value_of_row]


def gap(judge_bins: Sequence[Bin]) -> float:
    """Returns the mean distance between score and label, weighted by the rows of each bin
    (expected calibration error)."""
    distance = sum(
        count * abs(score - label_mean) for score, label_mean, count in judge_bins
    )
    return distance / sum(count for *_, count in judge_bins)


def off_scale(row: ResultRow) -> str | None:
    """Returns why the scores cannot be compared with the labels, or None. They can if both
    scales are stated and 95% of the scores are on the judge's scale, with 10% leeway."""
    if row.kind == "binary":
        if all(-EQUAL <= point.score <= 1 + EQUAL for point in row.points):
            return None
        return "its scores are not probabilities"
    if row.human_scale is None:
        return "the labels' scale is not stated"
    if row.judge_scale is None:
        return "its scale is not stated"
    low, high = padded(row.judge_scale, 0.1)
    inside_count = sum(low <= point.score <= high for point in row.points)
    if inside_count >= 0.95 * len(row.points):
        return None
    return "its scores leave its own scale"


# -- the papers' charts ----------------------------------------------------------------------------


def papers_figures(view: View, tables: Sequence[Table]) -> Figures:
    """Returns charts of the papers, for files: correlations and F1+ by language (MEDAL, Figures 4,
    11 and 14); F1+, F1-, precision, recall and accuracy of each issue (5, 12, 13) and the rows with
    it (13); and the follow-ups that were chosen (DIET, 3)."""
    figures: Figures = {}
    for name, set_slug in view.sets.items():
        for dimension in view.dimensions(name):
            figures |= _charts_by_language(view, name, dimension)
        issues = view.dimensions(name, binary=True)
        if issues:
            counts = [_issue_counts(view.rows(name, issue), issue) for issue in issues]
            figures[f"rows-{set_slug}"] = Figure(f"{name}: rows with the issue", counts)
            for metric in METRICS:
                panels = [
                    _panel(view.rows(name, issue), metric, "", issue)
                    for issue in issues
                ]
                figures[f"{metric}-{set_slug}"] = Figure(
                    f"{name}: {label(metric)}", panels
                )
    for table in tables:
        if table.title == FOLLOW_UPS:
            figures |= _follow_up_charts(view, table)
    return figures


def _charts_by_language(view: View, name: str, dimension: str) -> Figures:
    rows = view.rows(name, dimension)
    languages = sorted(
        {part for row in rows for part in row.slices if part.startswith("lang:")}
    )
    if len(languages) < 2:
        return {}
    metrics = ["spearman", "pearson"]
    if rows[0].kind == "binary":
        metrics = ["f1_present"]
    figures: Figures = {}
    for metric in metrics:
        panels = [_panel(rows, metric, part) for part in (*languages, "")]
        chart_name = f"{metric}-{view.sets[name]}-{view.slugs[dimension]}"
        figures[chart_name] = Figure(f"{name}: {dimension} by language", panels)
    return figures


def _issue_counts(rows: Sequence[ResultRow], issue: str) -> Bars:
    """Rows with the issue by each judge, and by people: the mean over annotators."""
    counts = {row.judge: float(row.counts.get("judge_present", 0)) for row in rows}
    counts["labels"] = sum(point.human for point in rows[0].points)
    bars = []
    for judge, count in counts.items():
        bars.append(Bar(judge, [BarSegment(count, 0)], text=f"{count:g}"))
    return Bars(issue, bars, max(counts.values()) or 1, issue)


def _follow_up_charts(view: View, table: Table) -> Figures:
    """Returns a chart of each set, with a panel for each judge and dimension."""
    bars_by_set: dict[str, dict[str, list[Bar]]] = {}
    for set_name, judge, dimension, text, *_, share in table.rows:
        if isinstance(share, float):
            bar = Bar(str(text), [BarSegment(share, 0)], text=number(share, 1))
            bars_by_panel = bars_by_set.setdefault(str(set_name), {})
            bars_by_panel.setdefault(f"{judge}: {dimension}", []).append(bar)
    figures: Figures = {}
    for set_name, bars_by_panel in bars_by_set.items():
        longest = max(
            bar.segments[0].length for bars in bars_by_panel.values() for bar in bars
        )
        panels = []
        for panel, bars in bars_by_panel.items():
            panels.append(Bars(panel, bars, longest, panel, wide=True))
        set_slug = view.sets.get(set_name, slug(set_name))
        title = f"{set_name}: follow-ups, % of choices"
        figures[f"follow-ups-{set_slug}"] = Figure(title, panels)
    return figures


def _panel(rows: Sequence[ResultRow], metric: str, part: str, title: str = "") -> Table:
    """Returns the metric of all judges on a set, or on a slice such as ``lang:de``, and the
    ceiling."""
    ceiling = human_ceiling(rows, metric, part).value
    cells: list[Row] = []
    for row in rows:
        estimate = shown(row, metric)
        if part and not row.under_floor:
            estimate = checked(row.slices.get(part, {}).get(metric))
        cells.append((row.judge, estimate, IntervalBar(estimate, (0.0, 1.0), ceiling)))
    return Table(
        title or part.removeprefix("lang:") or "all",
        ("Judge", label(metric), ""),
        cells,
    )
