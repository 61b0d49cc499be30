"""The charts of a benchmark. ``figures`` are collected by file name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from medal_judges.eval.benchmark.results import FOLLOW_UPS
from medal_judges.eval.benchmark.view import View, human_ceiling, shown, slice_names
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
from medal_judges.report.table import IntervalBar, Row, Table, number, slug
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
        counts = Counter[str]()
        labels: list[float] = []
        for row in rows:
            counts.update(point.chatbot or UNKNOWN for point in row.points)
            labels += [point.human for point in row.points]
        # The chatbots with the fewest rows share the last colour.
        chatbots = sorted(counts, key=lambda chatbot: (-counts[chatbot], chatbot))
        legend = [(chatbot, i) for i, chatbot in enumerate(chatbots[:OTHER_INDEX])]
        colours = dict.fromkeys(chatbots, OTHER_INDEX) | dict(legend)
        if len(legend) < len(colours):
            legend.append((f"{len(colours) - len(legend)} others", OTHER_INDEX))
        plots = [_scatter_plot(row, colours, padded(labels)) for row in rows]
        title = f"{name}: {dimension}"
        figure = Figure(title, plots, title, legend, "Chatbots")
        figures[f"scatter-{view.sets[name]}-{view.slugs[dimension]}"] = figure
        if dimension == view.headlines[name]:
            blocks.append(figure)
    return Section("scatter", "Judge against labels", blocks, link="Scatter")


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
    legend = [(judge, min(i, OTHER_INDEX)) for i, judge in enumerate(view.judges)]
    folds: list[Block] = []
    for name in view.sets:
        plots = []
        for dimension in view.dimensions(name):
            rows = [row for row in view.rows(name, dimension) if row.points]
            if rows:
                title = f"{name}: {dimension}"
                plots.append(_calibration_plot(title, rows, dict(legend)))
        if plots:
            figure = Figure(f"{name}: calibration", plots)
            figures[f"calibration-{view.sets[name]}"] = replace(figure, legend=legend)
            folds.append(Fold(name, [figure], is_open=not folds))
    blocks: list[Block] = []
    if folds:
        blocks.append(Strip(legend, "Judges", folds))
    return Section("calibration", "Calibration", blocks)


def _calibration_plot(
    title: str, rows: Sequence[ResultRow], colours: Mapping[str, int]
) -> Plot:
    marks: list[Line | list[Dot]] = []
    gaps = []
    means: list[float] = []
    for row in rows:
        judge_bins, colour = bins(row), colours[row.judge]
        gaps.append((row.judge, colour, _gap_text(row, judge_bins)))
        if judge_bins:
            points = [(score, label_mean) for score, label_mean, _ in judge_bins]
            marks.append(Line(points, colour=colour))
            marks.append(_bin_dots(row.judge, judge_bins, colour))
            for point in points:
                means += point
    missing = ""
    if not means:
        missing = "No judge answers on this scale."
    low, high = (-0.04, 1.04)
    if rows[0].kind != "binary":
        low, high = padded(means or [0.0])
    return Plot(
        title=title,
        x=Axis("mean score of the judge", (low, high)),
        y=Axis("mean label", (low, high)),
        marks=[Line([(low, low), (high, high)], "ideal"), *marks],
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
    if judge_bins and row.judge_scale and _is_rescaled(row):
        low, high = row.judge_scale
        text += f" (from {low:g}–{high:g})"
    return text


def _is_rescaled(row: ResultRow) -> bool:
    """Returns whether the scores are graded, on another scale than the labels."""
    return row.kind != "binary" and row.judge_scale != row.human_scale


def bins(row: ResultRow) -> list[Bin]:
    """Returns the row's bins by rising score, on the labels' scale. Equal scores share a bin. Empty
    if the scores cannot be converted to that scale (``off_scale``)."""
    if off_scale(row) is not None:
        return []
    labels, scores = _columns(row)
    if row.kind == "binary":
        bin_of_row = np.clip((scores * _BINARY_BINS).astype(int), 0, _BINARY_BINS - 1)
    else:
        if row.judge_scale and row.human_scale and _is_rescaled(row):
            scales = row.judge_scale, row.human_scale
            scores = np.array([rescale(score, *scales) for score in scores])
        order = np.argsort(scores, kind="stable")
        scores, labels = scores[order], labels[order]
        bin_of_row = _graded_bins(scores, tolerance_of(row.human_scale, scores))
    judge_bins = []
    for index in np.unique(bin_of_row):
        in_bin = bin_of_row == index
        score, label_mean = scores[in_bin].mean(), labels[in_bin].mean()
        judge_bins.append((float(score), float(label_mean), int(in_bin.sum())))
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
    scores, label_means, counts = np.array(judge_bins).T
    return float(np.average(np.abs(scores - label_means), weights=counts))


def off_scale(row: ResultRow) -> str | None:
    """Returns why the scores cannot be compared with the labels, or None. They can if both
    scales are stated and 95% of the scores are on the judge's scale, with 10% leeway."""
    scores = _columns(row)[1]
    if row.kind == "binary":
        if ((scores >= -EQUAL) & (scores <= 1 + EQUAL)).all():
            return None
        return "its scores are not probabilities"
    if row.human_scale is None:
        return "the labels' scale is not stated"
    if row.judge_scale is None:
        return "its scale is not stated"
    low, high = padded(row.judge_scale, 0.1)
    if ((scores >= low) & (scores <= high)).sum() >= 0.95 * len(scores):
        return None
    return "its scores leave its own scale"


# -- the papers' charts ----------------------------------------------------------------------------


def papers_figures(view: View, tables: Sequence[Table]) -> Figures:
    """Returns charts of the papers, for files: correlations and F1+ by language (MEDAL, Figures 4,
    11 and 14); F1+, F1-, precision, recall and accuracy of each issue (5, 12, 13) and the rows with
    it (13); and the follow-ups that were chosen (DIET, 3)."""
    figures: Figures = {}
    for name in view.sets:
        for dimension in view.dimensions(name):
            figures |= _charts_by_language(view, name, dimension)
        issues = view.dimensions(name, binary=True)
        if issues:
            figures |= _charts_by_issue(view, name, issues)
    for table in tables:
        if table.title == FOLLOW_UPS:
            figures |= _follow_up_charts(view, table)
    return figures


def _charts_by_language(view: View, name: str, dimension: str) -> Figures:
    rows = view.rows(name, dimension)
    languages = slice_names(rows, "lang")
    if len(languages) < 2:
        return {}
    metrics = ["spearman", "pearson"]
    if rows[0].kind == "binary":
        metrics = ["f1_present"]
    figures: Figures = {}
    for metric in metrics:
        panels = [_panel("all", rows, metric)]
        for part in reversed(languages):
            title = part.removeprefix("lang:")
            panels.insert(0, _panel(title, rows, metric, part))
        chart_name = f"{metric}-{view.sets[name]}-{view.slugs[dimension]}"
        figures[chart_name] = Figure(f"{name}: {dimension} by language", panels)
    return figures


def _charts_by_issue(view: View, name: str, issues: Sequence[str]) -> Figures:
    """Returns a chart of the rows with each issue, and one of each metric of verdicts."""
    counts: list[Bars] = []
    panels: dict[str, list[Table]] = {metric: [] for metric in METRICS}
    for issue in issues:
        rows = view.rows(name, issue)
        counts.append(_issue_counts(rows, issue))
        for metric in METRICS:
            panels[metric].append(_panel(issue, rows, metric))
    set_slug = view.sets[name]
    figures = {f"rows-{set_slug}": Figure(f"{name}: rows with the issue", counts)}
    for metric in METRICS:
        title = f"{name}: {label(metric)}"
        figures[f"{metric}-{set_slug}"] = Figure(title, panels[metric])
    return figures


def _issue_counts(rows: Sequence[ResultRow], issue: str) -> Bars:
    """Rows with the issue by each judge, and by people: the mean over annotators."""
    counts = {row.judge: float(row.counts.get("judge_present", 0)) for row in rows}
    counts["labels"] = float(_columns(rows[0])[0].sum())
    bars = [_plain_bar(judge, count, f"{count:g}") for judge, count in counts.items()]
    return Bars(issue, bars, max(counts.values()) or 1, issue)


def _plain_bar(name: str, length: float, text: str) -> Bar:
    return Bar(name, [BarSegment(length, 0)], text=text)


def _follow_up_charts(view: View, table: Table) -> Figures:
    """Returns a chart of each set, with a panel for each judge and dimension."""
    bars_by_set: dict[str, dict[str, list[Bar]]] = {}
    longest: dict[str, float] = {}
    for set_name, judge, dimension, text, *_, share in table.rows:
        if isinstance(share, float):
            name = str(set_name)
            longest[name] = max(share, longest.get(name, 0))
            bars_by_panel = bars_by_set.setdefault(name, {})
            bars = bars_by_panel.setdefault(f"{judge}: {dimension}", [])
            bars.append(_plain_bar(str(text), share, number(share, 1)))
    figures: Figures = {}
    for name, bars_by_panel in bars_by_set.items():
        panels = []
        for panel, bars in bars_by_panel.items():
            panels.append(Bars(panel, bars, longest[name], panel, wide=True))
        set_slug = view.sets.get(name, slug(name))
        title = f"{name}: follow-ups, % of choices"
        figures[f"follow-ups-{set_slug}"] = Figure(title, panels)
    return figures


def _panel(title: str, rows: Sequence[ResultRow], metric: str, part: str = "") -> Table:
    """Returns the metric of all judges on a set, or on a slice such as ``lang:de``, and the
    ceiling."""
    ceiling = human_ceiling(rows, metric, part).value
    lines: list[Row] = []
    for row in rows:
        estimate = shown(row, metric, part=part)
        lines.append((row.judge, estimate, IntervalBar(estimate, (0.0, 1.0), ceiling)))
    return Table(title, ("Judge", label(metric), ""), lines)
