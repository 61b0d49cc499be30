"""Report: from files of scores (and chats) to figures, gates and the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import chain, pairwise, repeat
from pathlib import Path
from typing import Literal

import numpy as np
from markupsafe import Markup

from medal_judges import __version__
from medal_judges.errors import ConfigError, CoverageError
from medal_judges.eval.report.conversations import Conversation, collect, pack, select
from medal_judges.eval.report.figures import (
    OTHERS,
    GateResult,
    GroupFigures,
    ReportFigures,
    Timeline,
    check_gates,
    compute_figures,
)
from medal_judges.eval.report.options import ReportOptions
from medal_judges.eval.scores.files import frame_of, judgements_of, score_files
from medal_judges.eval.scores.labels import add_labels
from medal_judges.eval.scores.scores import Scores, load_scores
from medal_judges.eval.scores.trust import skipped_lines, trust_section
from medal_judges.reading.dialogues import ReadingReport, dialogues_of, labelled_of
from medal_judges.records.dialogue import Dialogue
from medal_judges.report.console import ProgressBar, cell_text, print_tables, wide_console
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
from medal_judges.report.junit import write_junit
from medal_judges.report.page import (
    TURN_KEY,
    Block,
    Fold,
    Section,
    Sheet,
    counted,
    facts_section,
    fragment,
    write_page,
)
from medal_judges.report.table import (
    Cell,
    IntervalBar,
    PValue,
    Row,
    Share,
    Table,
    interval,
    number,
    p_value_text,
    percent,
    percent_interval,
    unique_slugs,
)
from medal_judges.stats.equal import EQUAL_FACT
from medal_judges.stats.estimate import Estimate
from medal_judges.storage.jsonl import STDIN

_MOST, _NAME = 12, 32  # groups in the terminal, characters of their names


@dataclass(frozen=True, slots=True)
class Report:
    """The result of ``make_report``; ``page`` is the path of the page if ``out`` was given."""

    scores: Scores
    figures: ReportFigures
    gates: Sequence[GateResult]
    page: Path | None


def make_report(options: ReportOptions, reading: ReadingReport, bar: ProgressBar) -> Report:
    """Computes figures and gates; writes the page with its tables and figures if ``out`` is given.
    Counts bad rows in ``reading``.

    Writes the page before it raises for a gate that cannot be decided; see ``check_gates`` and
    ``load_scores``. Raises ConfigError for standard input.
    """
    if STDIN in (*options.scores, options.chats, options.human):
        raise ConfigError(
            "medal report reads its files more than once, so standard input does not work",
            hint="write it to a file first",
        )
    passes = chain([reading], repeat(ReadingReport(keep=0, strict=options.reading.strict)))

    def dialogues() -> Iterable[Dialogue] | None:
        chats = options.chats
        return None if chats is None else dialogues_of(chats, options.reading, next(passes))

    files = score_files(options.scores)
    scores = load_scores(frame_of(files), options, dialogues(), bar.advance)
    scores.skipped = sum(map(skipped_lines, files))
    if options.human is not None and scores.rows:
        people = labelled_of(options.human, options.reading, reading)
        add_labels(scores, options.human, people)
    figures = compute_figures(scores, options, lambda what: bar.advance(0, note=what))
    undecided: Exception | None = None
    gates: Sequence[GateResult] = ()
    try:
        leads = {name: figures.lead(name) for name in figures.overall}
        gates = check_gates(options.gates, scores, leads, options.min_coverage)
    except Exception as error:
        undecided = error
    page = None
    if options.out is not None:
        bar.advance(0, note="conversations")
        rows = select(scores, options.conversations)
        found = collect(rows, judgements_of(files), dialogues(), bar.advance)
        bar.advance(0, note="page")
        coverage = "–" if scores.coverage is None else f"{scores.coverage:.1%}"
        unit = scores.cluster_name
        drawn = "the conversation" if unit == "conversation" else f"all rows of one {unit}"
        read = (*files, options.chats, options.human)
        facts = [
            ("Files", ", ".join(Path(name).name for name in read if name)),
            (f"{scores.unit}s".capitalize(), f"{scores.rows:,}, {coverage} scored in full"),
            *([("Unreadable lines", f"{scores.skipped:,}")] if scores.skipped else []),
            (
                "Intervals",
                f"95%; the sampling unit is {drawn}. Means: jackknife over these, Student's t. "
                "Shares: Wilson at the effective size.",
            ),
            EQUAL_FACT,
            ("medal-judges", __version__),
        ]
        named = files[0].name if len(files) == 1 else f"{len(files)} files"
        title = options.title or f"Scored chats: {named}"
        trust = trust_section(scores.signatures, scores.dimensions.values(), scores.skipped)
        page = write_report(
            options.out, title, scores, figures, found, gates=gates, facts=facts, trust=trust
        )
    if undecided is not None:
        raise undecided
    if not scores.rows:
        raise CoverageError("no judgement was read", hint="score the chats first: medal score")
    if options.junit is not None:
        cases = ((gate.gate.name, gate.verdict, gate.text) for gate in gates)
        write_junit(options.junit, "medal report", cases)
    return Report(scores, figures, gates, page)


def print_report(report: Report) -> None:
    """Prints the figures, the findings, the gates, and the path of the page."""
    scores, figures = report.scores, report.figures
    console = wide_console()

    def show(text: object, style: str | None = None) -> None:
        console.print(str(text), style=style, highlight=False, soft_wrap=True)

    more = f"; unreadable lines: {scores.skipped:,}" if scores.skipped else ""
    show(f"{scores.rows:,} {scores.unit}s, {scores.coverage:.1%} scored in full{more}")
    for signature in scores.signatures:
        show(signature, "dim")
    tables = [summary_table(scores, figures)]
    for column, groups in figures.groups.items():
        table = group_table(scores, figures, column, groups[:_MOST])
        names = [str(row[0]) for row in table.rows]
        names = [name if len(name) <= _NAME else f"{name[: _NAME - 1]}…" for name in names]
        rows = [(name, *row[1:]) for name, row in zip(names, table.rows, strict=True)]
        more = f" ({_MOST} of {len(groups)})" if len(groups) > _MOST else ""
        tables.append(replace(table, title=table.title + more, rows=rows, note=""))
    print_tables(tables)
    for tone, text in findings(scores, figures):
        show({"worse": "▼ ", "better": "▲ ", "note": "· "}[tone] + text)
    for gate in report.gates:
        show(f"gate {gate.text}")
    if report.page is not None:
        show(report.page)


_PACKAGE = "medal_judges.eval.report"
_IN_SIGHT = 20  # groups; the rest of a long table is folded
_BINS = 8
_LEVELS = 10  # an ordinal scale of more levels gets bins
_TICKS = 4
_FEW = 5  # rows; a period with fewer is grey
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
    trust: Section | None = None,
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
        bars = [_distribution(scores, name) for name in names]
        heading = f"Share of {scores.unit}s by score"
        distribution = Figure(heading, bars, heading)
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
    by, drawn = list[Section](), {"distribution": distribution, "time": time}
    for slug, (column, groups) in zip(
        unique_slugs(list(figures.groups)), figures.groups.items(), strict=True
    ):
        grouped, name = group_table(scores, figures, column, groups), column_name(column)
        top, rest = replace(grouped, rows=grouped.rows[:_IN_SIGHT]), grouped.rows[_IN_SIGHT:]
        blocks: list[Block] = [top]
        if len(groups) == 1:
            blocks.insert(0, f"All rows have one {column}: there is nothing to compare.")
        if rest:
            more = Table(f"{grouped.title}: the smaller ones", grouped.columns, rest)
            blocks.append(Fold(f"{len(rest)} more, smaller ones", [more]))
        lead = fragment(_PACKAGE, "group_lead.html", column=column, unit=scores.cluster_name)
        by.append(Section(f"by-{slug}", f"By {name.lower()}", blocks, lead=lead, link=name))
        if "95%" in top.columns:
            drawn[f"by-{slug}"] = Figure(top.title, [top])
    sections = [
        Section("summary", "In short", summary),
        Section("time", "Over time", [*([time] if time else []), *changes]),
        *([trust] if trust else []),
        *by,
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
    for name, part in (("graded", scores.graded), ("issues", scores.issues)):
        if rows := [row for row in table.rows if row[0] in part]:
            drawn[name] = Figure(title, [Table(table.title, table.columns, rows)])
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
    """The few figures at the top of the page, as (name, figure, interval, meaning)."""
    tiles = []
    issues = [name for name in scores.issues if scores.dimensions[name].good == "low"]
    most = max(issues, key=lambda name: figures.lead(name).value or 0.0, default=None)
    for name in filter(None, (scores.headline, most)):
        estimate, dimension = figures.lead(name), scores.dimensions[name]
        who = "corrected by human labels" if figures.is_corrected(name) else "as judged"
        scale = f"of {dimension.low:g} to {dimension.high:g}, "
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
        if scores.skipped:
            text += f"; unreadable lines, not counted here: {scores.skipped:,}"
        what = f"of {scores.rows:,} {scores.unit}s; {text}"
        tiles.append(("scored", f"{100 * scores.coverage:.1f}%", "", what))
    return tiles


def _distribution(scores: Scores, name: str) -> Bars:
    """A bar chart of the share of rows by score."""
    dimension, values = scores.dimensions[name], scores.scores[name]
    values, levels = values[np.isfinite(values)], dimension.levels
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
        names = [f"{first:.{digits}f} to {end:.{digits}f}" for first, end in pairwise(edges)]
    total, about = len(values), "a probability" if is_issue else "a score"
    bars, texts = [], []
    for each, n in zip(names, counts, strict=True):
        text = percent(n / total)
        texts.append(f"{text} have {about} of {each}")
        tip = f"{text} of {scores.unit}s have {about} of {each}: {n:,} of {total:,}"
        bars.append(Bar(each, [BarSegment(n / total, 0)], text=text, tooltip=tip))
    title = f"{name}{' (probability)' if is_issue else ''}"
    description = f"{name}, share of {scores.unit}s: {', '.join(texts)}"
    return Bars(title, bars, max(max(counts) / total, 0.01), description)


def _panel(scores: Scores, timeline: Timeline, name: str) -> Plot:
    """A plot of a dimension over time."""
    share, estimates, periods = scores.is_issue(name), timeline.figures[name], timeline.periods
    factor, text = (100.0, percent) if share else (1.0, number)
    ends = [factor * v for e in estimates for v in (e.low, e.value, e.high) if v is not None]
    low, high = padded(ends or [0.0])
    if share:
        low, high = (0.0, min(100.0, high) if any(ends) else 1.0)
    else:
        low, high = scores.dimensions[name].low, scores.dimensions[name].high
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
            is_few = timeline.counts[i] < _FEW
            dots.append(Dot(i, factor * e.value, OTHER_INDEX if is_few else 0, tip, 2.4, "bin"))
    counted = [(p[5:], n) for p, n in zip(periods, timeline.counts, strict=True) if 0 < n < _FEW]
    few = ", ".join(f"{period} ({n})" for period, n in counted[:_MOST])
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
        gaps=[(f"fewer than {_FEW} {scores.unit}s", OTHER_INDEX, few)] if few else [],
        missing="" if dots else "nothing scored",
    )


Tone = Literal["worse", "better", "note"]
_SIGNIFICANT = 0.05
_MOST_GROUPS = 6  # sentences about groups
_NAMES = {"lang": "Language", "chatbot": "Chatbot"}


def column_name(column: str) -> str:
    """Name of a column in a heading."""
    return _NAMES.get(column, column)


def shown(scores: Scores, name: str, estimate: Estimate | None, signed: bool = False) -> Cell:
    """A figure as a cell: a share of an issue, a mean of anything else."""
    if estimate is None or not scores.is_issue(name):
        return estimate
    return Share(estimate, signed)


def ordered(scores: Scores, figures: ReportFigures) -> list[str]:
    """Graded dimensions, the headline first, then issues, the most frequent first."""
    issues = sorted(scores.issues, key=lambda name: -(figures.lead(name).value or 0.0))
    return [*scores.graded, *issues]


def is_worse(scores: Scores, name: str, difference: Estimate) -> bool | None:
    """Whether a significant difference is for the worse; None if it is not significant."""
    value, p_value = difference.value, difference.p_value
    if not value or p_value is None or p_value >= _SIGNIFICANT:
        return None
    return (value < 0) == (scores.dimensions[name].good == "high")


def _p(estimate: Estimate) -> PValue | None:
    return None if estimate.p_value is None else PValue(estimate.p_value)


def summary_table(scores: Scores, figures: ReportFigures) -> Table:
    """Every dimension with its figure, corrected by human labels if there are some."""
    corrected = bool(figures.corrected)
    widest = max((e.high or e.value or 0 for e in map(figures.lead, scores.issues)), default=0)
    rows: list[Row] = []
    for name in ordered(scores, figures):
        dimension, estimate = scores.dimensions[name], figures.lead(name)
        better = ("higher" if dimension.good == "high" else "lower") + " is better"
        scale = f"{dimension.low:g} to {dimension.high:g}, {better}"
        span = dimension.low, dimension.high
        if scores.is_issue(name):
            scale = "fewer is better" if dimension.good == "low" else "more is better"
            span = 0.0, max(widest, 0.01)
        basis = "people and judge" if figures.is_corrected(name) else "judge alone"
        own: list[Cell] = [basis, shown(scores, name, figures.overall[name])] if corrected else []
        bar, count = IntervalBar(estimate, span), figures.counts[name]
        rows.append((name, shown(scores, name, estimate), bar, *own, scale, count))
    headings = {}
    if scores.graded and scores.issues:
        headings = {0: "Graded: mean", len(scores.graded): f"Issues: share of {scores.unit}s"}
    title = "Corrected by human labels" if corrected else "Every dimension"
    more = ["By", "As judged"] if corrected else []
    columns = ["Dimension", "Figure", "95%", *more, "Scale", "Scored"]
    return Table(title, columns, rows, "", headings)


def group_table(
    scores: Scores, figures: ReportFigures, column: str, groups: Sequence[GroupFigures]
) -> Table:
    """One row for each value of the column: its number of rows, its headline figure, and the
    difference from all other rows."""
    head = scores.headline or next(iter(ordered(scores, figures)), None)
    name = column_name(column)
    title = f"By {name.lower()}"
    if head is None:
        return Table(title, [name, "Rows"], [(g.name, g.rows) for g in groups])
    leads = [group.lead(head) for group in groups]
    span = padded([v for e in leads for v in (e.low, e.value, e.high) if v is not None] or [0.0])
    by_people = head in scores.people
    rows: list[Row] = []
    for group, estimate in zip(groups, leads, strict=True):
        apart, bar = group.differences[head], IntervalBar(estimate, span)
        own = [shown(scores, head, group.figures[head])] if by_people else []
        rows.append((group.name, group.rows, shown(scores, head, estimate), bar,
                     shown(scores, head, apart, signed=True), _p(apart), *own))  # fmt: skip
    columns = [name, "Rows", head, "95%", "From the others", "p"]
    note = (
        "Figures and differences are corrected by human labels. With fewer than 5 labels of a side "
        "there is no difference, and the figure is the judge's."
    )
    if by_people:
        return Table(title, [*columns, "As judged"], rows, note)
    return Table(title, columns, rows)


def change_table(scores: Scores, timeline: Timeline) -> Table:
    """The change of each dimension over time."""
    rows: list[Row] = []
    for name, each in timeline.changes.items():
        since = ""
        if each.start is not None:
            since = f"{timeline.periods[each.start]} ({'found' if each.searched else 'halved'})"
        means = (None if v is None else Estimate(v) for v in (each.before, each.after))
        means_shown = (shown(scores, name, mean) for mean in means)
        difference = each.difference.estimate
        apart = shown(scores, name, difference, signed=True)
        rows.append((name, *means_shown, apart, _p(difference), since))
    columns = ["Dimension", "Before", "From then on", "Change", "p", "Since"]
    return Table("Change over time", columns, rows)


def findings(scores: Scores, figures: ReportFigures) -> list[tuple[Tone, str]]:
    """Sentences on significant changes over time and significantly worse groups (after Holm), then
    notes on missing data."""
    found: list[tuple[Tone, str]] = []
    timeline = figures.timeline
    for name in ordered(scores, figures) if timeline is not None else ():
        assert timeline is not None
        each = timeline.changes[name]
        difference = each.difference.estimate
        worse = is_worse(scores, name, difference)
        if worse is None or each.start is None or difference.p_value is None:
            continue
        since = timeline.periods[each.start]
        when = f"since {since}" if each.searched else f"in the later half (from {since} on)"
        before, after = (
            cell_text(shown(scores, name, Estimate(v))) for v in (each.before, each.after)
        )
        apart = cell_text(shown(scores, name, difference, signed=True))
        tone: Tone = "worse" if worse else "better"
        p_value = f"p {p_value_text(difference.p_value)}"
        p_value += " (as judged)" if figures.corrected else ""
        text = f"{name} is {tone} {when}: {before} before, {after} from then on ({apart})"
        found.append((tone, f"{text}, {p_value}."))
    groups: list[tuple[float, str]] = []
    for column, several in figures.groups.items():
        for group in several:
            for name, difference in group.differences.items():
                figure, gap, p = group.lead(name).value, difference.value, difference.p_value
                is_rest = group.name.endswith(f" {OTHERS}")
                if is_rest or not is_worse(scores, name, difference):
                    continue
                if figure is None or gap is None or p is None:
                    continue
                share, dimension = scores.is_issue(name), scores.dimensions[name]
                what = f"in {percent(figure)}" if share else number(figure)
                far = f"{number(100 * abs(gap), 1)} points" if share else number(abs(gap))
                side = "below" if gap < 0 else "above"
                text = f"{column} {group.name}: {name} {what}, {far} {side} the others"
                size = abs(gap) / (dimension.high - dimension.low)
                size *= 1 + (name == scores.headline)
                groups.append((size, f"{text}, p {p_value_text(p)}."))
    groups.sort(key=lambda each: -each[0])
    found += [("worse", text) for _, text in groups[:_MOST_GROUPS]]
    if more := len(groups[_MOST_GROUPS:]):
        found.append(("worse", f"{more} more differences between groups are in their tables."))
    found.sort(key=lambda each: each[0] != "worse")
    notes = []
    if missing := scores.rows - scores.scored:
        notes = [f"{missing:,} of {scores.rows:,} are not scored in full: {scores.failures()}"]
    if "unknown_language" in scores.frame:
        counts = scores.frame["unknown_language"].value_counts()[:8]
        names = ", ".join(f"{lang} ({n:,})" for lang, n in counts.items())
        notes += [f"The judge does not support these languages: {names}"] if names else []
    notes += scores.notes
    if timeline is not None and len(timeline.periods) == 1:
        notes.append(f"All times are in one {timeline.unit}: nothing to compare over time")
    return found + [("note", f"{note}.") for note in notes]


def sheets(scores: Scores, figures: ReportFigures) -> dict[str, Sheet]:
    """All figures in full precision, by file name."""

    def sheet(heads: str, rows: Iterable[tuple[object, ...]]) -> Sheet:
        """A sheet of rows whose last item is an estimate, which becomes five columns."""
        lines = [(*row[:-1], *astuple(row[-1])) for row in rows]  # type: ignore[call-overload]
        return [*heads.split(), "value", "low", "high", "p_value", "reason"], lines

    summary = (
        (name, scores.dimensions[name].kind, figures.counts[name], corrected, by[name])
        for name in figures.overall
        for corrected, by in ((False, figures.overall), (True, figures.corrected))
        if name in by
    )
    groups = (
        (column, group.name, group.rows, what, name, estimate)
        for column, each in figures.groups.items()
        for group in each
        for what, by in (("figure", group.figures), ("difference", group.differences))
        for name, estimate in by.items()
    )
    made = {
        "summary": sheet("dimension kind scored corrected", summary),
        "groups": sheet("column value rows what dimension", groups),
    }
    if (timeline := figures.timeline) is not None:
        periods = timeline.periods
        times = (
            (period, timeline.counts[i], name, estimates[i])
            for name, estimates in timeline.figures.items()
            for i, period in enumerate(periods)
        )
        made["time"] = sheet(f"{timeline.unit} rows dimension", times)
        changes = (
            (name, None if c.start is None else periods[c.start], c.searched, c.before, c.after,
             c.difference.estimate)
            for name, c in timeline.changes.items()
        )  # fmt: skip
        made["changes"] = sheet("dimension since searched before after", changes)
    return made
