"""Page: the report on scored chats as one HTML file, with its tables and figures beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from markupsafe import Markup

from medal_judges.eval.report.conversations import LONGEST, REASONS, Conversation, Selection, pack
from medal_judges.eval.report.figures import GateResult, ReportFigures, Timeline
from medal_judges.eval.report.options import moment_text
from medal_judges.eval.report.scores import THRESHOLD, Scores
from medal_judges.eval.report.tables import (
    change_table,
    column_name,
    findings,
    group_map,
    group_table,
    is_share,
    ordered,
    sheets,
    summary_table,
)
from medal_judges.records.dimension import Dimension
from medal_judges.report.chat import TURN_KEY, account, chat_html
from medal_judges.report.figure import Axis, Bar, Bars, BarSegment, Dot, Figure, Line, Plot, padded
from medal_judges.report.numbers import interval, number, percent, percent_interval
from medal_judges.report.page import (
    Block,
    Fold,
    Section,
    counted,
    facts_section,
    fragment,
    write_page,
)
from medal_judges.report.table import Table, unique_slugs
from medal_judges.stats.correlation import Floats
from medal_judges.stats.estimate import Estimate

_PACKAGE = "medal_judges.eval.report"
_IN_SIGHT = 20  # groups; the rest of a long table is folded
_BINS = 8
_LEVELS = 10  # an ordinal scale of more levels gets bins
_TICKS = 4
Found = Mapping[int, Conversation]


def write_report(
    folder: Path,
    title: str,
    scores: Scores,
    figures: ReportFigures,
    selection: Selection,
    found: Found,
    *,
    gates: Sequence[GateResult] = (),
    people: Section | None = None,
    facts: Sequence[tuple[str, str]] = (),
) -> Path:
    """Writes report.html, tables/*.csv and figures/* into ``folder``; returns the page's path."""
    time, timeline = timeline_figure(scores, figures), figures.timeline
    distribution = distribution_figure(scores)
    summary: list[Block] = ["The file has no judgements: nothing to report on."]
    if scores.rows:
        values = {"tiles": _tiles(scores, figures), "gates": gates}
        values["findings"] = findings(scores, figures)
        body = fragment(_PACKAGE, "summary.html", **values)
        summary = [body, summary_table(scores, figures)]
    changes: list[Block] = [] if timeline is None else [change_table(scores, timeline)]
    slugs = dict(zip(figures.groups, unique_slugs(list(figures.groups)), strict=True))
    sections = [
        Section("summary", "In short", summary),
        *([people] if people else []),
        Section("time", "Over time", [*([time] if time else []), *changes]),
        *(_group_section(scores, figures, *each) for each in slugs.items()),
        _first_section(scores, selection, found),
        _all_section(scores, selection, found),
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
    if any(e.value is not None for e in figures.overall.values()):
        table = summary_table(scores, figures)
        for name, part in (("graded", scores.graded), ("issues", scores.issues)):
            if rows := [row for row in table.rows if row[0] in part]:
                drawn[name] = Figure(title, [Table(table.title, table.columns, rows)])
    for column, slug in slugs.items():
        table = group_table(scores, figures, column, figures.groups[column][:_IN_SIGHT])
        if "95%" in table.columns:
            drawn[f"by-{slug}"] = Figure(table.title, [table])
    return write_page(
        folder / "report.html",
        title,
        counted(counts),
        sections,
        foot=Section("signatures", "Signature of the judge", signatures),
        leads=_PACKAGE,
        scripts=("conversations.js",),
        tables=sheets(scores, figures, selection, found),
        figures=drawn,
    )


def _tiles(scores: Scores, figures: ReportFigures) -> list[tuple[str, str, str, str]]:
    """(Name, figure, interval, meaning) of the few figures that come first."""
    tiles = []

    def add(name: str, estimate: Estimate, what: str, *, share: bool = True) -> None:
        if estimate.value is None:
            tiles.append((name, "–", "", estimate.reason or ""))
        elif share:
            tiles.append((name, percent(estimate.value), percent_interval(estimate), what))
        else:
            tiles.append((name, number(estimate.value), interval(estimate), what))

    def who(name: str) -> str:
        return "corrected by human labels" if figures.is_corrected(name) else "as judged"

    if (head := scores.headline) is not None:
        dimension = scores.dimensions[head]
        scale = "" if head in scores.assumed else f"of {dimension.low:g} to {dimension.high:g}, "
        add(head, figures.lead(head), f"mean, {scale}{who(head)}", share=False)
    if figures.any_issue is not None:
        add("any issue", figures.any_issue, f"{scores.unit}s with at least one issue, as judged")
    shares = [name for name in scores.issues if scores.dimensions[name].good == "low"]
    if shares:
        most = max(shares, key=lambda name: figures.lead(name).value or 0.0)
        add(most, figures.lead(most), f"the most frequent issue, {who(most)}")
    if scores.coverage is not None:
        missing = scores.rows - scores.scored
        text = f"{missing:,} are not scored in full" if missing else "none is missing"
        what = f"of {scores.rows:,} {scores.unit}s; {text}"
        tiles.append(("scored", f"{100 * scores.coverage:.1f}%", "", what))
    return tiles


def _group_section(scores: Scores, figures: ReportFigures, column: str, slug: str) -> Section:
    groups, name = figures.groups[column], column_name(column)
    blocks: list[Block] = []
    if len(groups) == 1:
        blocks.append(f"All rows have one {column}: there is nothing to compare.")
    for make in (group_table, group_map):
        table = make(scores, figures, column, groups)
        if len(table.columns) < 2:
            continue
        top, rest = table.rows[:_IN_SIGHT], table.rows[_IN_SIGHT:]
        blocks.append(Table(table.title, table.columns, top, table.note, style=table.style))
        if rest:
            title = f"{table.title}: the smaller ones"
            more = Table(title, table.columns, rest, style=table.style)
            blocks.append(Fold(f"{len(rest)} more, smaller ones", [more]))
    lead = fragment(_PACKAGE, "group_lead.html", column=column, unit=scores.cluster_name)
    return Section(f"by-{slug}", f"By {name.lower()}", blocks, lead=lead, link=name)


def _first_section(scores: Scores, selection: Selection, found: Found) -> Section:
    blocks: list[Block] = []
    if selection.first:
        if not any(each.turns for each in found.values()):
            blocks.append("The texts are not here: give the chats that were scored with --chats.")
        elif any(each.judgement.contributions for each in found.values()):
            blocks.append(TURN_KEY)
    for reason in REASONS:
        rows = [row for row, why in selection.first.items() if why == reason]
        if rows:
            cards = Markup("").join(_card(scores, selection, found[row]) for row in rows)
            body = Markup('<div class="cards">{}</div>').format(cards)
            is_worst = reason == "worst"
            blocks.append(Fold(f"{reason.capitalize()}: {len(rows)}", [body], is_open=is_worst))
    if scores.rows and not selection.first:
        blocks.append("Nothing is scored, so no conversation comes first.")
    return Section("first", "Read these first", blocks, link="Read first")


def _card(scores: Scores, selection: Selection, found: Conversation) -> Markup:
    judgement, row = found.judgement, found.row
    head = scores.headline
    if head not in judgement.contributions:
        head = next(iter(judgement.contributions), None)
    given = None if head is None else judgement.contributions[head]
    shown = []
    for name in scores.scores:
        if (value := judgement.scores.get(name)) is not None:
            share = is_share(scores, name)
            is_low = scores.dimensions[name].good == "low"
            is_fault = share and (value >= THRESHOLD) == is_low
            shown.append((name, percent(value) if share else number(value), is_fault))
    chips = [str(c.categories[c.codes[row]]) for c in scores.columns.values() if c.codes[row] >= 0]
    if scores.times is not None and (moment := moment_text(scores.times[row])):
        chips.append(moment)
    is_odd = selection.first[row] == "most unusual"
    return fragment(
        _PACKAGE,
        "card.html",
        id=judgement.id,
        turn=judgement.turn,
        chips=chips,
        scores=sorted(shown, key=lambda each: (each[0] != scores.headline, not each[2])),
        why=selection.why_unusual(scores, row) if is_odd else "",
        reasons=found.reasons,
        account=f"{head}: {account(given, len(found.turns))}" if given and found.turns else "",
        cut=found.cut,
        chat=chat_html(found.turns, given, judgement.turn) if found.turns else "",
    )


def _all_section(scores: Scores, selection: Selection, found: Found) -> Section:
    if not scores.rows:
        return Section("conversations", "All conversations", [])
    data, longest = pack(scores, selection, found)
    here, total = len(selection.rows), scores.rows
    blocks: list[Block] = []
    if here < total:
        blocks.append(
            f"{here:,} of {total:,} {scores.unit}s are on this page: the "
            f"{selection.worst_kept:,} worst of all, the least certain and the most unusual, "
            "and a random sample of the others. The figures above are of all."
        )
    if longest < LONGEST:
        blocks.append(
            f"Texts are cut at {longest:,} characters a conversation, so that the page stays under "
            "20 MB."
        )
    body = Markup(
        '<div id="conversation-list"><noscript><p class="note">The list needs JavaScript; '
        "tables/conversations.csv has it too.</p></noscript></div>"
    )
    heading = "All conversations" if here == total else "Conversations"
    return Section("conversations", heading, [*blocks, body, data], link="Conversations")


def distribution_figure(scores: Scores) -> Figure | None:
    """A panel for each dimension: the share of rows by score; None without scores."""
    panels = [
        _distribution(scores.dimensions[name], scores.scores[name])
        for name in [*scores.graded, *scores.issues]
    ]
    return Figure("Distribution of the scores", panels) if panels else None


def _distribution(dimension: Dimension, scores: Floats) -> Bars:
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
    title = f"{dimension.name}{' (probability)' if is_issue else ''}"
    about = "probability" if is_issue else "score"
    description = f"Share of rows by {about}, {dimension.name}"
    return Bars(title, bars, max(max(counts) / total, 0.01), description)


def timeline_figure(scores: Scores, figures: ReportFigures) -> Figure | None:
    """A panel for each dimension, the headline first; None for fewer than two periods."""
    timeline = figures.timeline
    if timeline is None or len(timeline.periods) < 2:
        return None
    panels = [_panel(scores, timeline, name) for name in ordered(scores, figures)]
    title = f"By {timeline.unit}"
    return Figure(title, panels, title)


def _panel(scores: Scores, timeline: Timeline, name: str) -> Plot:
    share, estimates, periods = is_share(scores, name), timeline.figures[name], timeline.periods
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
    count = min(_TICKS, len(periods))
    places = sorted({round(k * last / max(count - 1, 1)) for k in range(count)})
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
