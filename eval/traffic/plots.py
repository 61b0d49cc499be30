"""Plots of a body of scored chats: distributions of scores, figures over time."""

from __future__ import annotations

import numpy as np

from medal_judges.eval.traffic.figures import Timeline, TrafficFigures
from medal_judges.eval.traffic.tables import is_share, ordered
from medal_judges.eval.traffic.traffic import Traffic
from medal_judges.records.dimension import Dimension
from medal_judges.report.figure import (
    Axis,
    Bar,
    Bars,
    BarSegment,
    Dot,
    Figure,
    Line,
    Plot,
    padded,
)
from medal_judges.report.numbers import number, percent
from medal_judges.stats.correlation import Floats
from medal_judges.stats.estimate import Estimate

_BINS = 8
_LEVELS = 10  # an ordinal scale of more levels is put into bins
_TICKS = 4


def distribution_figure(traffic: Traffic) -> Figure | None:
    """A panel for each dimension: how many rows lie where on its scale; None without scores."""
    panels = [
        _distribution(traffic.dimensions[name], column[np.isfinite(column)])
        for name in [*traffic.graded, *traffic.issues]
        if np.isfinite(column := traffic.scores[name]).any()
    ]
    return Figure("Distribution of the scores", panels) if panels else None


def _distribution(dimension: Dimension, values: Floats) -> Bars:
    low, high = dimension.low, dimension.high
    levels = dimension.levels
    if dimension.kind != "binary" and 2 < len(levels) <= _LEVELS:
        counts = [int(np.sum(np.round(values) == level)) for level in levels]
        names = [f"{level:g}" for level in levels]
    else:
        count = 5 if dimension.kind == "binary" else _BINS
        edges = np.linspace(low, high, count + 1)
        places = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, count - 1)
        counts = np.bincount(places, minlength=count).tolist()
        names = [_edge(a, high - low) for a in edges[:-1]]
    total = len(values)
    bars = [
        Bar(
            name,
            [BarSegment(n / total, 0, tooltip=f"{n:,} of {total:,}")],
            text=percent(n / total),
            tooltip=f"{n:,} of {total:,}",
        )
        for name, n in zip(names, counts, strict=True)
    ]
    most = max(counts) / total
    about = "probability" if dimension.kind == "binary" else "score"
    return Bars(
        f"{dimension.name}{' (probability)' if dimension.kind == 'binary' else ''}",
        bars,
        max(most, 0.01),
        f"Share of rows by {about}, {dimension.name}",
    )


def _edge(value: float, span: float) -> str:
    """The lower end of a bin, with as many digits as the scale needs."""
    return f"≥ {value:.{0 if span >= 50 else 1 if span > 2 else 2}f}"


def timeline_figure(traffic: Traffic, figures: TrafficFigures) -> Figure | None:
    """A panel for each dimension, the headline first; None for fewer than two periods."""
    timeline = figures.timeline
    if timeline is None or len(timeline.periods) < 2:
        return None
    names = [*traffic.graded, *(n for n in ordered(traffic, figures) if n in traffic.issues)]
    panels = [_panel(traffic, timeline, name) for name in names]
    title = f"By {timeline.unit}"
    return Figure(title, panels, title)


def _panel(traffic: Traffic, timeline: Timeline, name: str) -> Plot:
    share = is_share(traffic, name)
    factor = 100.0 if share else 1.0
    estimates = timeline.figures[name]
    values = [None if e.value is None else factor * e.value for e in estimates]
    ends = [factor * v for e in estimates for v in (e.low, e.value, e.high) if v is not None]
    y = padded(ends or [0.0])
    if share:
        y = (min(0.0, y[0] if not ends else 0.0), min(100.0, y[1]) if max(ends, default=0) else 1.0)
    whiskers = [
        Line([(float(i), factor * e.low), (float(i), factor * e.high)], "whisker")
        for i, e in enumerate(estimates)
        if e.low is not None and e.high is not None
    ]
    dots = [
        Dot(float(i), value, 0, _told(timeline, i, estimates[i], share), 2.4, "bin")
        for i, value in enumerate(values)
        if value is not None
    ]
    step = timeline.changes[name]
    found = step.searched and step.difference.p_value is not None
    marks: list[Line | list[Dot]] = [
        *whiskers,
        Line([(float(i), value) for i, value in enumerate(values)], "trend"),
        dots,
    ]
    p_value = step.difference.p_value
    if found and step.start is not None and p_value is not None and p_value < 0.05:
        at = step.start - 0.5
        marks.append(Line([(at, y[0]), (at, y[1])], "ideal"))
    return Plot(
        title=name,
        x=Axis(timeline.unit, (-0.5, len(values) - 0.5), _named(timeline)),
        y=Axis("% with issue" if share else "mean", y),
        marks=marks,
        description=f"{name} by {timeline.unit}, {len(values)} {timeline.unit}s",
        missing="" if dots else "nothing scored",
    )


def _told(timeline: Timeline, i: int, estimate: Estimate, share: bool) -> str:
    shown = percent if share else number
    assert estimate.value is not None
    span = ""
    if estimate.low is not None and estimate.high is not None:
        span = f" [{shown(estimate.low)}, {shown(estimate.high)}]"
    return f"{timeline.periods[i]}: {shown(estimate.value)}{span}, {timeline.counts[i]:,} rows"


def _named(timeline: Timeline) -> list[tuple[float, str]]:
    """A few dates; the year only where the timeline leaves one."""
    periods = timeline.periods
    count = min(_TICKS, len(periods))
    places = sorted({round(k * (len(periods) - 1) / max(count - 1, 1)) for k in range(count)})
    short = timeline.unit != "month" and periods[0][:4] == periods[-1][:4]
    return [(float(i), periods[i][5:] if short else periods[i]) for i in places]
