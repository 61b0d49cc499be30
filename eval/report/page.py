"""The page of ``medal report``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from markupsafe import Markup

from medal_judges.eval.report.conversations import Conversation, pack
from medal_judges.eval.report.figures import (
    GateResult,
    GroupFigures,
    ReportFigures,
    Timeline,
)
from medal_judges.eval.report.tables import (
    change_table,
    column_name,
    findings,
    group_table,
    ordered,
    sheets,
    summary_table,
)
from medal_judges.eval.report.worst import WorstChat, worst_table
from medal_judges.eval.scores.scores import Scores
from medal_judges.report.figure import (
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
)
from medal_judges.report.page import (
    TURN_KEY,
    Block,
    Fold,
    Page,
    Section,
    counted,
    fragment,
)
from medal_judges.report.table import (
    Table,
    ends_of,
    interval,
    number,
    percent,
    percent_interval,
    unique_slugs,
)
from medal_judges.stats.correlation import Floats
from medal_judges.stats.intervals import LEVEL

_PACKAGE = "medal_judges.eval.report"
_IN_SIGHT = 20  # groups; the rest of a long table is folded
_BINS = 8
_ISSUE_BINS = 5
_LEVELS = 10  # an ordinal scale of more levels gets bins
_TICKS = 4
_FEW = 5  # rows; a period with fewer is grey
_MOST_FEW = 12  # such periods that are named
_MOST_QUALITIES = 3  # yes/no qualities at the top of the page
_LIST = (
    '<div id="conversation-list"><noscript><p class="note">The list needs JavaScript.</p>'
    "</noscript></div>"
)


def report_page(
    title: str,
    scores: Scores,
    figures: ReportFigures,
    conversations: Mapping[int, Conversation],
    gates: Sequence[GateResult] = (),
    facts: Sequence[tuple[str, str]] = (),
    trust: Section | None = None,
    worst: Sequence[WorstChat] = (),
) -> Page:
    """Returns report.html with its tables and figures."""
    summary = summary_table(scores, figures)
    over_time: list[Block] = []
    drawn, group_sections = _by_column(scores, figures)
    if timeline := figures.timeline:
        if len(timeline.periods) > 1:
            heading = f"By {timeline.unit}"
            panels = []
            for name in ordered(scores, figures):
                panels.append(_timeline_plot(scores, timeline, name))
            drawn["time"] = Figure(heading, panels, heading)
            over_time.append(drawn["time"])
        over_time.append(change_table(scores, timeline))
    distribution: list[Block] = []
    if scores.dimensions:
        drawn["distribution"] = _distributions(scores)
        distribution.append(drawn["distribution"])
    for name, dimensions in (("graded", scores.graded), ("issues", scores.issues)):
        rows = [row for row in summary.rows if row[0] in dimensions]
        if rows:
            drawn[name] = Figure(title, [Table(summary.title, summary.columns, rows)])
    chats = list(_conversations(scores, conversations))
    tables = sheets(scores, figures)
    worst_blocks: list[Block] = []
    if worst:
        tables["worst"] = list(worst[0]), [chat.values() for chat in worst]
        worst_blocks.append(worst_table(scores, worst))
    pairs = list(facts)
    for text, count in scores.signatures.items():
        pairs.append((f"Judge of {count:,} {scores.unit}s", text))
    sections = [
        Section("summary", "In short", _summary(scores, figures, gates, summary)),
        Section("time", "Over time", over_time),
        Section("worst", f"The worst {scores.unit}s", worst_blocks, link="Worst"),
        trust or Section("trust", "", []),
        *group_sections,
        Section("conversations", "Conversations", chats),
        Section("distribution", "Distribution", distribution),
        Section("facts", "How to read this", [pairs] if pairs else []),
    ]
    return Page(
        name="report",
        title=title,
        subtitle=_subtitle(scores),
        sections=sections,
        leads=_PACKAGE,
        scripts=("conversations.js",),
        tables=tables,
        figures=drawn,
    )


def _subtitle(scores: Scores) -> str:
    counts = [(scores.frame["id"].nunique(), "conversation")]
    if scores.unit == "judged turn":
        counts.append((scores.rows, scores.unit))
    counts.append((len(scores.judged), "dimension"))
    if "lang" in scores.columns:
        counts.append((len(scores.columns["lang"].categories), "language"))
    return ". ".join([*scores.ordinary(), counted(counts)])


def _summary(
    scores: Scores, figures: ReportFigures, gates: Sequence[GateResult], table: Table
) -> list[Block]:
    if not scores.rows:
        return ["The file has no judgements: nothing to report on."]
    lead = fragment(
        _PACKAGE,
        "summary.html",
        tiles=list(_tiles(scores, figures)),
        gates=gates,
        findings=findings(scores, figures),
        by=figures.corrected,
    )
    return [lead, table]


def _tiles(
    scores: Scores, figures: ReportFigures
) -> Iterator[tuple[str, str, str, str]]:
    """Yields the few figures at the top of the page, as (name, figure, interval, meaning)."""
    for name, meaning in _meanings(scores, figures).items():
        estimate = figures.lead(name)
        how = "corrected by human labels" if figures.is_corrected(name) else "as judged"
        meaning = f"{meaning}, {how}"
        if estimate.value is None:
            yield name, "–", "", estimate.reason or ""
        elif scores.is_issue(name):
            yield name, percent(estimate.value), percent_interval(estimate), meaning
        else:
            yield name, number(estimate.value), interval(estimate), meaning
    if scores.coverage is not None:
        missing = scores.rows - scores.scored
        text = f"{missing:,} are not scored in full" if missing else "none is missing"
        if scores.skipped:
            text += f"; unreadable lines, not counted here: {scores.skipped:,}"
        meaning = f"of {scores.rows:,} {scores.unit}s; {text}"
        yield "scored", f"{100 * scores.coverage:.1f}%", "", meaning


def _meanings(scores: Scores, figures: ReportFigures) -> dict[str, str]:
    """Returns the dimensions that have a figure at the top of the page, and what it means."""
    meanings: dict[str, str] = {}
    if scores.headline is not None:
        dimension = scores.dimensions[scores.headline]
        meanings[scores.headline] = f"mean, of {dimension.low:g} to {dimension.high:g}"
    faults = [name for name in scores.issues if scores.dimensions[name].good == "low"]
    if faults:
        most_frequent = max(faults, key=lambda name: figures.lead(name).value or 0.0)
        meanings[most_frequent] = "the most frequent issue"
    qualities = [name for name in scores.issues if name not in faults]
    for name in qualities[:_MOST_QUALITIES]:
        meanings[name] = f"share of {scores.unit}s, more is better"
    return meanings


def _conversations(
    scores: Scores, conversations: Mapping[int, Conversation]
) -> Iterator[Block]:
    if not conversations:
        return
    if len(conversations) < scores.rows:
        yield (
            f"{len(conversations):,} of {scores.rows:,} {scores.unit}s are on this page: the "
            "worst, the least certain, and a random sample of the others. The figures above are of "
            "all."
        )
    if not any(conversation.turns for conversation in conversations.values()):
        yield "The texts are not here: give the scored chats with --chats."
    elif any(part.judgement.contributions for part in conversations.values()):
        yield TURN_KEY
    yield Markup(_LIST)
    yield pack(scores, conversations)


def _by_column(
    scores: Scores, figures: ReportFigures
) -> tuple[dict[str, Figure], list[Section]]:
    """Returns the figures and the sections of the columns that rows are grouped by."""
    drawn: dict[str, Figure] = {}
    sections = []
    slugs = unique_slugs(list(figures.groups))
    for slug, (column, groups) in zip(slugs, figures.groups.items(), strict=True):
        table = group_table(scores, figures, column, groups)
        largest = replace(table, rows=table.rows[:_IN_SIGHT])
        if "95%" in table.columns:
            drawn[f"by-{slug}"] = Figure(table.title, [largest])
        lead = fragment(
            _PACKAGE, "group_lead.html", column=column, unit=scores.cluster_name
        )
        blocks = _group_blocks(table, largest, column, groups)
        name = column_name(column)
        sections.append(
            Section(f"by-{slug}", f"By {name.lower()}", blocks, lead=lead, link=name)
        )
    return drawn, sections


def _group_blocks(
    table: Table, largest: Table, column: str, groups: Sequence[GroupFigures]
) -> list[Block]:
    blocks: list[Block] = [largest]
    if len(groups) == 1:
        blocks.insert(0, f"All rows have one {column}: there is nothing to compare.")
    smaller = table.rows[_IN_SIGHT:]
    if smaller:
        folded = Table(f"{table.title}: the smaller ones", table.columns, smaller)
        blocks.append(Fold(f"{len(smaller)} more, smaller ones", [folded]))
    return blocks


def _distributions(scores: Scores) -> Figure:
    heading = f"Share of {scores.unit}s by score"
    names = [*scores.graded, *scores.issues]
    return Figure(heading, [_distribution(scores, name) for name in names], heading)


def _distribution(scores: Scores, name: str) -> Bars:
    """Returns a bar chart of the share of rows by score."""
    values = scores.scores[name]
    values = values[np.isfinite(values)]
    noun, title = "a score", name
    if scores.is_issue(name):
        noun, title = "a probability", f"{name} (probability)"
    bars: list[Bar] = []
    texts: list[str] = []
    end = 0.01
    for bin_name, count in _counts_by_score(scores, name, values).items():
        share = count / len(values)
        end = max(end, share)
        text = percent(share)
        texts.append(f"{text} have {noun} of {bin_name}")
        of_all = f"{count:,} of {len(values):,}"
        tooltip = f"{text} of {scores.unit}s have {noun} of {bin_name}: {of_all}"
        bars.append(Bar(bin_name, [BarSegment(share, 0)], text=text, tooltip=tooltip))
    description = f"{name}, share of {scores.unit}s: {', '.join(texts)}"
    return Bars(title, bars, end, description)


def _counts_by_score(scores: Scores, name: str, values: Floats) -> dict[str, int]:
    """Returns the number of rows of each level, or of each bin of equal width."""
    dimension = scores.dimensions[name]
    counts: dict[str, int] = {}
    if not scores.is_issue(name) and 2 < len(dimension.levels) <= _LEVELS:
        rounded = np.round(values)
        for level in dimension.levels:
            counts[f"{level:g}"] = int((rounded == level).sum())
        return counts
    bins = _ISSUE_BINS if scores.is_issue(name) else _BINS
    span = dimension.high - dimension.low
    digits = 2
    if span > 2:
        digits = 0 if span >= 50 else 1
    # A score outside the scale is in the bin at that end.
    inside = np.clip(values, dimension.low, dimension.high)
    sizes, edges = np.histogram(inside, bins, (dimension.low, dimension.high))
    for size, (low, high) in zip(sizes.tolist(), pairwise(edges), strict=True):
        counts[f"{low:.{digits}f} to {high:.{digits}f}"] = size
    return counts


def _timeline_plot(scores: Scores, timeline: Timeline, name: str) -> Plot:
    """Returns a plot of a dimension by period: whiskers, dots and a line through them."""
    estimates, periods = timeline.figures[name], timeline.periods
    factor = 1.0
    text: Callable[[float], str] = number
    if scores.is_issue(name):
        factor, text = 100.0, percent
    whiskers: list[Line] = []
    dots: list[Dot] = []
    curve: list[tuple[float, float | None]] = []
    for i, (estimate, count) in enumerate(zip(estimates, timeline.counts, strict=True)):
        if estimate.value is None:
            curve.append((i, None))
            continue
        y = factor * estimate.value
        curve.append((i, y))
        if estimate.low is not None and estimate.high is not None:
            ends = [(i, factor * estimate.low), (i, factor * estimate.high)]
            whiskers.append(Line(ends, "whisker"))
        parts = f"{text(estimate.value)} {interval(estimate, text)}".rstrip()
        tooltip = f"{periods[i]}: {parts}, {count:,} rows"
        colour = OTHER_INDEX if count < _FEW else 0
        dots.append(Dot(i, y, colour, tooltip, 2.4, "bin"))
    y_axis = _timeline_axis(scores, timeline, name)
    marks: list[Line | list[Dot]] = [*whiskers, Line(curve, "trend"), dots]
    change = timeline.changes[name]
    p_value = change.difference.p_value
    is_significant = p_value is not None and p_value < LEVEL
    if change.searched and change.start is not None and is_significant:
        x = change.start - 0.5
        low, high = y_axis.span
        marks.append(Line([(x, low), (x, high)], "ideal"))
    gaps = []
    if few := _few_rows(timeline):
        gaps.append((f"fewer than {_FEW} {scores.unit}s", OTHER_INDEX, few))
    return Plot(
        title=name,
        x=Axis(timeline.unit, (-0.5, len(periods) - 0.5), _dates(timeline)),
        y=y_axis,
        marks=marks,
        description=f"{name} by {timeline.unit}, {len(periods)} {timeline.unit}s",
        gaps=gaps,
        missing="" if dots else "nothing scored",
    )


def _timeline_axis(scores: Scores, timeline: Timeline, name: str) -> Axis:
    """Returns the axis of a mean, which fits the data, or of percents, which begins at 0."""
    if not scores.is_issue(name):
        dimension = scores.dimensions[name]
        ends = ends_of(timeline.figures[name]) or [dimension.low]
        low, high = padded(ends)
        low = max(low, dimension.low)
        high = min(high, dimension.high)
        return Axis("mean", (low, high))
    percents = [100 * end for end in ends_of(timeline.figures[name])]
    high = 1.0
    if any(percents):
        high = min(100.0, padded(percents)[1])
    return Axis(f"% of {scores.unit}s", (0.0, high))


def _few_rows(timeline: Timeline) -> str:
    """Names the first periods with few rows, and their numbers."""
    texts = []
    for period, count in zip(timeline.periods, timeline.counts, strict=True):
        if 0 < count < _FEW:
            texts.append(f"{period[5:]} ({count})")
    return ", ".join(texts[:_MOST_FEW])


def _dates(timeline: Timeline) -> list[tuple[float, str]]:
    """Returns the positions and texts of a few dates, without the year if all are of one."""
    periods = timeline.periods
    last = len(periods) - 1
    positions = np.linspace(0, last, min(_TICKS, last + 1)).round().astype(int).tolist()
    is_one_year = timeline.unit != "month" and periods[0][:4] == periods[-1][:4]
    start = 5 if is_one_year else 0
    return [(float(i), periods[i][start:]) for i in sorted(set(positions))]
