"""Tables of a report, for the page, the terminal and CSV, and what stands out in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple
from typing import Literal

from medal_judges.eval.report.figures import OTHERS, GroupFigures, ReportFigures, Timeline
from medal_judges.eval.report.scores import Scores
from medal_judges.report.console import cell_text
from medal_judges.report.figure import padded
from medal_judges.report.page import Sheet
from medal_judges.report.table import (
    Cell,
    IntervalBar,
    PValue,
    Row,
    Share,
    Table,
    number,
    p_value_text,
    percent,
)
from medal_judges.stats.estimate import Estimate

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
    """Whether a difference is for the worse; None if it is not significant."""
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
        elif name in scores.assumed:
            scale = "not known"
        basis = "people and judge" if figures.is_corrected(name) else "judge alone"
        own: list[Cell] = [basis, shown(scores, name, figures.overall[name])] if corrected else []
        bar, count = IntervalBar(estimate, span), figures.counts[name]
        rows.append((name, shown(scores, name, estimate), bar, *own, scale, count))
    headings = {}
    if scores.graded and scores.issues:
        headings = {0: "Graded: mean", len(scores.graded): f"Issues: share of {scores.unit}s"}
    note = "" if not scores.assumed else (
        f"No rubric knows the scale of {', '.join(scores.assumed)}; --rubric FILE states it."
    )  # fmt: skip
    title = "Corrected by human labels" if corrected else "Every dimension"
    more = ["By", "As judged"] if corrected else []
    columns = ["Dimension", "Figure", "95%", *more, "Scale", "Scored"]
    return Table(title, columns, rows, note, headings)


def group_table(
    scores: Scores, figures: ReportFigures, column: str, groups: Sequence[GroupFigures]
) -> Table:
    """A row a value of the column: its rows, the headline and its difference from all others."""
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
    columns = [name, "Rows", head, "95%", "From the others", "p (Holm)"]
    note = (
        "Figures and differences are corrected by human labels. With fewer than 5 labels of a side "
        "there is no difference, and the figure is the judge's."
    )
    if by_people:
        return Table(title, [*columns, "As judged"], rows, note)
    return Table(title, columns, rows)


def change_table(scores: Scores, timeline: Timeline) -> Table:
    """What changed over time, a row a dimension."""
    rows: list[Row] = []
    for name, each in timeline.changes.items():
        since = ""
        if each.start is not None:
            since = f"{timeline.periods[each.start]} ({'found' if each.searched else 'halved'})"
        means = (None if v is None else Estimate(v) for v in (each.before, each.after))
        means_shown = (shown(scores, name, mean) for mean in means)
        apart = shown(scores, name, each.difference, signed=True)
        rows.append((name, *means_shown, apart, _p(each.difference), since, _p(each.slope)))
    columns = ["Dimension", "Before", "From then on", "Change", "p (Holm)", "Since", "p of a trend"]
    return Table("Change over time", columns, rows)


def findings(scores: Scores, figures: ReportFigures) -> list[tuple[Tone, str]]:
    """Changes over time and groups that are worse, only significant ones (after Holm), then notes
    on what is missing."""
    found: list[tuple[Tone, str]] = []
    timeline = figures.timeline
    for name in ordered(scores, figures) if timeline is not None else ():
        assert timeline is not None
        each = timeline.changes[name]
        worse = is_worse(scores, name, each.difference)
        if worse is None or each.start is None or each.difference.p_value is None:
            continue
        since = timeline.periods[each.start]
        when = f"since {since}" if each.searched else f"in the later half (from {since} on)"
        before, after = (
            cell_text(shown(scores, name, Estimate(v))) for v in (each.before, each.after)
        )
        apart = cell_text(shown(scores, name, each.difference, signed=True))
        tone: Tone = "worse" if worse else "better"
        p_value = f"p {p_value_text(each.difference.p_value)}"
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
        """Rows that end with an estimate, which becomes five columns."""
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
             what, estimate)
            for name, c in timeline.changes.items()
            for what, estimate in (("difference", c.difference), ("slope a day", c.slope))
        )  # fmt: skip
        made["changes"] = sheet("dimension since searched before after what", changes)
    return made
