"""The page of a report, with its tables and figures beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from markupsafe import Markup

from medal_judges.eval.report.conversations import Conversation, pack
from medal_judges.eval.report.figures import GateResult, ReportFigures, Timeline
from medal_judges.eval.report.scores import Scores
from medal_judges.eval.report.tables import (
    change_table,
    column_name,
    findings,
    group_table,
    ordered,
    sheets,
    summary_table,
)
from medal_judges.records.dimension import Dimension
from medal_judges.report.figure import Axis, Bar, Bars, BarSegment, Dot, Figure, Line, Plot, padded
from medal_judges.report.page import (
    TURN_KEY,
    Block,
    Fold,
    Section,
    counted,
    facts_section,
    fragment,
    write_page,
)
from medal_judges.report.table import (
    Table,
    interval,
    number,
    percent,
    percent_interval,
    unique_slugs,
)
from medal_judges.stats.correlation import Floats

_PACKAGE = "medal_judges.eval.report"
_IN_SIGHT = 20  # groups; the rest of a long table is folded
_BINS = 8
_LEVELS = 10  # an ordinal scale of more levels gets bins
_TICKS = 4
_LIST = (
    '<div id="conversation-list"><noscript><p class="note">The list needs JavaScript.</p>'
    "</noscript></div>"
)


def write_report(
    folder: Path,
    title: str,
    scores: Scores,
    figures: ReportFigures,
    found: Mapping[int, Conversation],
    *,
    gates: Sequence[GateResult] = (),
    facts: Sequence[tuple[str, str]] = (),
) -> Path:
    """Writes report.html, tables/*.csv and figures/* into ``folder``; returns the page's path."""
    timeline = figures.timeline
    time = None
    if timeline is not None and len(timeline.periods) > 1:
        panels = [_panel(scores, timeline, name) for name in ordered(scores, figures)]
        time = Figure(f"By {timeline.unit}", panels, f"By {timeline.unit}")
    distribution = None
    if scores.dimensions:
        names = [*scores.graded, *scores.issues]
        bars = [_distribution(scores.dimensions[name], scores.scores[name]) for name in names]
        distribution = Figure("Distribution of the scores", bars)
    table = summary_table(scores, figures)
    summary: list[Block] = ["The file has no judgements: nothing to report on."]
    if scores.rows:
        values = {"tiles": _tiles(scores, figures), "gates": gates, "by": figures.corrected}
        values["findings"] = findings(scores, figures)
        summary = [fragment(_PACKAGE, "summary.html", **values), table]
    changes: list[Block] = [] if timeline is None else [change_table(scores, timeline)]
    conversations: list[Block] = []
    if len(found) < scores.rows:
        conversations.append(
            f"{len(found):,} of {scores.rows:,} {scores.unit}s are on this page: the worst, the "
            "least certain, and a random sample of the others. The figures above are of all."
        )
    if not any(each.turns for each in found.values()):
        conversations.append("The texts are not here: give the scored chats with --chats.")
    elif any(each.judgement.contributions for each in found.values()):
        conversations.append(TURN_KEY)
    conversations.append(Markup(_LIST))
    conversations.append(pack(scores, found))
    slugs = dict(zip(figures.groups, unique_slugs(list(figures.groups)), strict=True))
    sections = [
        Section("summary", "In short", summary),
        Section("time", "Over time", [*([time] if time else []), *changes]),
        *(_group_section(scores, figures, *each) for each in slugs.items()),
        Section("conversations", "Conversations", conversations if found else []),
        Section("distribution", "Distribution", [distribution] if distribution else []),
        facts_section(facts),
    ]
    counts = [(scores.frame["id"].nunique(), "conversation")]
    if scores.unit == "judged turn":
        counts.append((scores.rows, scores.unit))
    counts.append((len(scores.dimensions), "dimension"))
    if (lang := scores.columns.get("lang")) is not None:
        counts.append((len(lang.categories), "language"))
    line = Markup("<p><code>{}</code> <span class='ci'>{:,} {}s</span></p>")
    signatures = [line.format(text, n, scores.unit) for text, n in scores.signatures.items()]
    drawn = {"distribution": distribution, "time": time}
    for name, part in (("graded", scores.graded), ("issues", scores.issues)):
        if rows := [row for row in table.rows if row[0] in part]:
            drawn[name] = Figure(title, [Table(table.title, table.columns, rows)])
    for column, slug in slugs.items():
        of = group_table(scores, figures, column, figures.groups[column][:_IN_SIGHT])
        if "95%" in of.columns:
            drawn[f"by-{slug}"] = Figure(of.title, [of])
    return write_page(
        folder / "report.html",
        title,
        counted(counts),
        sections,
        foot=Section("signatures", "Signature of the judge", signatures),
        leads=_PACKAGE,
        scripts=("conversations.js",),
        tables=sheets(scores, figures),
        figures=drawn,
    )


def _tiles(scores: Scores, figures: ReportFigures) -> list[tuple[str, str, str, str]]:
    """(Name, figure, interval, meaning) of the few figures that come first."""
    tiles = []
    issues = [name for name in scores.issues if scores.dimensions[name].good == "low"]
    most = max(issues, key=lambda name: figures.lead(name).value or 0.0, default=None)
    for name in filter(None, (scores.headline, most)):
        estimate, dimension = figures.lead(name), scores.dimensions[name]
        who = "corrected by human labels" if figures.is_corrected(name) else "as judged"
        scale = "" if name in scores.assumed else f"of {dimension.low:g} to {dimension.high:g}, "
        what = f"the most frequent issue, {who}" if name == most else f"mean, {scale}{who}"
        if estimate.value is None:
            tiles.append((name, "–", "", estimate.reason or ""))
        elif scores.is_issue(name):
            tiles.append((name, percent(estimate.value), percent_interval(estimate), what))
        else:
            tiles.append((name, number(estimate.value), interval(estimate), what))
    if scores.coverage is not None:
        missing = scores.rows - scores.scored
        text = f"{missing:,} are not scored in full" if missing else "none is missing"
        what = f"of {scores.rows:,} {scores.unit}s; {text}"
        tiles.append(("scored", f"{100 * scores.coverage:.1f}%", "", what))
    return tiles


def _group_section(scores: Scores, figures: ReportFigures, column: str, slug: str) -> Section:
    groups, name = figures.groups[column], column_name(column)
    table = group_table(scores, figures, column, groups)
    top, rest = table.rows[:_IN_SIGHT], table.rows[_IN_SIGHT:]
    blocks: list[Block] = [replace(table, rows=top)]
    if len(groups) == 1:
        blocks.insert(0, f"All rows have one {column}: there is nothing to compare.")
    if rest:
        more = Table(f"{table.title}: the smaller ones", table.columns, rest)
        blocks.append(Fold(f"{len(rest)} more, smaller ones", [more]))
    lead = fragment(_PACKAGE, "group_lead.html", column=column, unit=scores.cluster_name)
    return Section(f"by-{slug}", f"By {name.lower()}", blocks, lead=lead, link=name)


def _distribution(dimension: Dimension, scores: Floats) -> Bars:
    """The share of rows by score."""
    values, levels = scores[np.isfinite(scores)], dimension.levels
    low, high, is_issue = dimension.low, dimension.high, dimension.kind == "binary"
    if not is_issue and 2 < len(levels) <= _LEVELS:
        counts = [int(np.sum(np.round(values) == level)) for level in levels]
        names = [f"{level:g}" for level in levels]
    else:
        count, span = 5 if is_issue else _BINS, high - low
        edges = np.linspace(low, high, count + 1)
        places = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, count - 1)
        counts = np.bincount(places, minlength=count).tolist()
        digits = 0 if span >= 50 else 1 if span > 2 else 2
        names = [f"≥ {edge:.{digits}f}" for edge in edges[:-1]]  # the lower end of a bin
    total = len(values)
    bars = []
    for name, n in zip(names, counts, strict=True):
        tip = f"{n:,} of {total:,}"
        segment = BarSegment(n / total, 0, tooltip=tip)
        bars.append(Bar(name, [segment], text=percent(n / total), tooltip=tip))
    about = "probability" if is_issue else "score"
    title = f"{dimension.name}{' (probability)' if is_issue else ''}"
    description = f"Share of rows by {about}, {dimension.name}"
    return Bars(title, bars, max(max(counts) / total, 0.01), description)


def _panel(scores: Scores, timeline: Timeline, name: str) -> Plot:
    """A dimension over time."""
    share, estimates, periods = scores.is_issue(name), timeline.figures[name], timeline.periods
    factor, text = (100.0, percent) if share else (1.0, number)
    ends = [factor * v for e in estimates for v in (e.low, e.value, e.high) if v is not None]
    low, high = padded(ends or [0.0])
    if share:
        low, high = (0.0, min(100.0, high) if any(ends) else 1.0)
    marks: list[Line | list[Dot]] = []
    dots: list[Dot] = []
    curve: list[tuple[float, float | None]] = []
    for i, e in enumerate(estimates):
        curve.append((float(i), None if e.value is None else factor * e.value))
        span = ""
        if e.low is not None and e.high is not None:
            marks.append(Line([(i, factor * e.low), (i, factor * e.high)], "whisker"))
            span = f" [{text(e.low)}, {text(e.high)}]"
        if e.value is not None:
            tip = f"{periods[i]}: {text(e.value)}{span}, {timeline.counts[i]:,} rows"
            dots.append(Dot(float(i), factor * e.value, 0, tip, 2.4, "bin"))
    marks += [Line(curve, "trend"), dots]
    step = timeline.changes[name]
    p_value = step.difference.p_value
    if step.searched and step.start is not None and p_value is not None and p_value < 0.05:
        marks.append(Line([(step.start - 0.5, low), (step.start - 0.5, high)], "ideal"))
    # A few dates, without the year if it is the same for all.
    last = len(periods) - 1
    places = sorted(set(np.linspace(0, last, min(_TICKS, last + 1)).round().astype(int).tolist()))
    short = timeline.unit != "month" and periods[0][:4] == periods[-1][:4]
    named = [(float(i), periods[i][5:] if short else periods[i]) for i in places]
    return Plot(
        title=name,
        x=Axis(timeline.unit, (-0.5, last + 0.5), named),
        y=Axis("% with issue" if share else "mean", (low, high)),
        marks=marks,
        description=f"{name} by {timeline.unit}, {len(periods)} {timeline.unit}s",
        missing="" if dots else "nothing scored",
    )
