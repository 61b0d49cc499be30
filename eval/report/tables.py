"""Tables and findings of a report: every dimension, each group, the changes over time, and the
sentences on what stands out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from medal_judges.eval.report.figures import (
    OTHERS,
    GroupFigures,
    ReportFigures,
    Timeline,
)
from medal_judges.eval.scores.scores import Scores
from medal_judges.report.console import cell_text
from medal_judges.report.figure import padded
from medal_judges.report.page import Sheet
from medal_judges.report.table import (
    Cell,
    IntervalBar,
    Row,
    Share,
    Table,
    ends_of,
    number,
    p_cell,
    p_value_text,
    percent,
)
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import LEVEL

Tone = Literal["worse", "better", "note"]
_FIELDS = ("value", "low", "high", "p_value", "reason")  # of an estimate in a CSV file
_MOST_GROUPS = 6  # sentences about groups
_NAMES = {"lang": "Language", "chatbot": "Chatbot"}
_BY_PEOPLE = (
    "Figures and differences are corrected by human labels. With fewer than 5 labels of a side "
    "there is no difference, and the figure is the judge's."
)


def column_name(column: str) -> str:
    """Returns the name of a column in a heading."""
    return _NAMES.get(column, column)


def ordered(scores: Scores, figures: ReportFigures) -> list[str]:
    """Returns graded dimensions, the headline first, then their bad scores, then issues, the most
    frequent first."""
    issues = sorted(scores.issues, key=lambda name: -(figures.lead(name).value or 0.0))
    return [*scores.graded, *scores.bad, *issues]


def _cell(
    scores: Scores, name: str, estimate: Estimate | None, signed: bool = False
) -> Cell:
    """Returns a figure as a cell: a share of an issue, a mean of anything else."""
    if estimate is None or not scores.is_issue(name):
        return estimate
    return Share(estimate, signed)


def _is_worse(scores: Scores, name: str, difference: Estimate) -> bool | None:
    """Says whether a significant difference is for the worse; None if it is not significant."""
    value, p_value = difference.value, difference.p_value
    if not value or p_value is None or p_value >= LEVEL:
        return None
    return (value < 0) == (scores.dimensions[name].good == "high")


def summary_table(scores: Scores, figures: ReportFigures) -> Table:
    """Returns a row for every dimension, corrected by human labels if there are some."""
    is_corrected = bool(figures.corrected)
    shares = [*scores.bad, *scores.issues]
    largest_share = max([0.01, *ends_of(map(figures.lead, shares))])
    rows: list[Row] = []
    for name in ordered(scores, figures):
        dimension, estimate = scores.dimensions[name], figures.lead(name)
        if scores.is_issue(name):
            better = {"low": "fewer", "high": "more"}[dimension.good]
            scale = f"{better} is better"
            span = 0.0, largest_share
        else:
            better = {"low": "lower", "high": "higher"}[dimension.good]
            scale = f"{dimension.low:g} to {dimension.high:g}, {better} is better"
            span = dimension.low, dimension.high
        bar = IntervalBar(estimate, span)
        cells: list[Cell] = [name, _cell(scores, name, estimate), bar]
        if is_corrected:
            basis = "people and judge" if figures.is_corrected(name) else "judge alone"
            cells += [basis, _cell(scores, name, figures.overall[name])]
        rows.append([*cells, scale, figures.counts[name]])
    headings = {}
    if scores.graded and shares:
        headings[0] = "Graded: mean"
        headings[len(scores.graded)] = f"Share of {scores.unit}s"
    title = "Corrected by human labels" if is_corrected else "Every dimension"
    basis_columns = ["By", "As judged"] * is_corrected
    columns = ["Dimension", "Figure", "95%", *basis_columns, "Scale", "Scored"]
    return Table(title, columns, rows, "", headings)


def group_table(
    scores: Scores, figures: ReportFigures, column: str, groups: Sequence[GroupFigures]
) -> Table:
    """Returns one row for each value of the column: its number of rows, its headline figure, and
    the difference from all other rows."""
    title, name = f"By {column_name(column).lower()}", column_name(column)
    dimensions = ordered(scores, figures)
    if not dimensions:
        return Table(
            title, [name, "Rows"], [(group.name, group.rows) for group in groups]
        )
    headline = dimensions[0]
    span = padded(ends_of(group.lead(headline) for group in groups) or [0.0])
    by_people = headline in scores.people
    rows: list[Row] = []
    for group in groups:
        estimate, difference = group.lead(headline), group.differences[headline]
        cells: list[Cell] = [
            group.name,
            group.rows,
            _cell(scores, headline, estimate),
            IntervalBar(estimate, span),
            _cell(scores, headline, difference, signed=True),
            p_cell(difference),
        ]
        if by_people:
            cells.append(_cell(scores, headline, group.overall[headline]))
        rows.append(cells)
    columns = [name, "Rows", headline, "95%", "From the others", "p"]
    note = ""
    if by_people:
        columns.append("As judged")
        note = _BY_PEOPLE
    return Table(title, columns, rows, note)


def change_table(scores: Scores, timeline: Timeline) -> Table:
    """Returns the change of each dimension over time."""
    rows: list[Row] = []
    for name, change in timeline.changes.items():
        since = ""
        if change.start is not None:
            how = "found" if change.searched else "halved"
            since = f"{timeline.periods[change.start]} ({how})"
        cells: list[Cell] = [name]
        for mean in (change.before, change.after):
            cells.append(None if mean is None else _cell(scores, name, Estimate(mean)))
        difference = change.difference.estimate
        cells.append(_cell(scores, name, difference, signed=True))
        rows.append([*cells, p_cell(difference), since])
    columns = ["Dimension", "Before", "From then on", "Change", "p", "Since"]
    return Table("Change over time", columns, rows)


def findings(scores: Scores, figures: ReportFigures) -> list[tuple[Tone, str]]:
    """Returns sentences on significant changes over time and significantly worse groups (after
    Holm), the worse ones first, then notes on missing data."""
    changes = list(_changes(scores, figures))
    sentences = [sentence for sentence in changes if sentence[0] == "worse"]
    groups = sorted(_worse_groups(scores, figures), key=lambda group: -group[0])
    sentences += [("worse", text) for _, text in groups[:_MOST_GROUPS]]
    if further := len(groups[_MOST_GROUPS:]):
        sentences.append(
            ("worse", f"{further} more differences between groups are in their tables.")
        )
    sentences += [sentence for sentence in changes if sentence[0] == "better"]
    return sentences + [("note", f"{note}.") for note in _gaps(scores, figures)]


def _changes(scores: Scores, figures: ReportFigures) -> Iterator[tuple[Tone, str]]:
    timeline = figures.timeline
    if timeline is None:
        return
    for name in ordered(scores, figures):
        change = timeline.changes[name]
        difference = change.difference.estimate
        is_worse = _is_worse(scores, name, difference)
        if is_worse is None or change.start is None or difference.p_value is None:
            continue
        since = timeline.periods[change.start]
        when = f"in the later half (from {since} on)"
        if change.searched:
            when = f"since {since}"
        before = cell_text(_cell(scores, name, Estimate(change.before)))
        after = cell_text(_cell(scores, name, Estimate(change.after)))
        gap = cell_text(_cell(scores, name, difference, signed=True))
        p_value = f"p {p_value_text(difference.p_value)}"
        if figures.corrected:
            p_value += " (as judged)"
        tone: Tone = "worse" if is_worse else "better"
        means = f"{before} before, {after} from then on ({gap})"
        yield tone, f"{name} is {tone} {when}: {means}, {p_value}."


def _worse_groups(
    scores: Scores, figures: ReportFigures
) -> Iterator[tuple[float, str]]:
    """Yields how much worse a group is, as a share of the scale (twice that for the headline), and
    a sentence."""
    for column, groups in figures.groups.items():
        for group in groups:
            if group.name.endswith(f" {OTHERS}"):
                continue
            for name, difference in group.differences.items():
                figure, gap = group.lead(name).value, difference.value
                p_value = difference.p_value
                if figure is None or gap is None or p_value is None:
                    continue
                if not _is_worse(scores, name, difference):
                    continue
                text, distance = number(figure), number(abs(gap))
                if scores.is_issue(name):
                    text = f"in {percent(figure)}"
                    distance = f"{number(100 * abs(gap), 1)} points"
                side = "below" if gap < 0 else "above"
                dimension = scores.dimensions[name]
                size = abs(gap) / (dimension.high - dimension.low)
                if name == scores.headline:
                    size *= 2
                sentence = f"{column} {group.name}: {name} {text}, {distance} {side} the others"
                yield size, f"{sentence}, p {p_value_text(p_value)}."


def _gaps(scores: Scores, figures: ReportFigures) -> Iterator[str]:
    """Yields notes on missing data and on the default threshold."""
    if missing := scores.rows - scores.scored:
        yield f"{missing:,} of {scores.rows:,} are not scored in full: {scores.failures()}"
    if "unknown_language" in scores.frame:
        counts = scores.frame["unknown_language"].value_counts()[:8]
        if len(counts):
            names = ", ".join(f"{lang} ({n:,})" for lang, n in counts.items())
            yield f"The judge does not support these languages: {names}"
    yield from scores.notes
    if figures.timeline is not None and len(figures.timeline.periods) == 1:
        yield f"All times are in one {figures.timeline.unit}: nothing to compare over time"


def sheets(scores: Scores, figures: ReportFigures) -> dict[str, Sheet]:
    """Returns all figures in full precision, by file name."""
    summary: list[Row] = []
    for name, estimate in figures.overall.items():
        cells: Row = (name, scores.dimensions[name].kind, figures.counts[name])
        summary.append([*cells, False, *_fields(estimate)])
        if name in figures.corrected:
            summary.append([*cells, True, *_fields(figures.corrected[name])])
    groups: list[Row] = []
    for column, members in figures.groups.items():
        for group in members:
            quantities = {"figure": group.overall, "difference": group.differences}
            for quantity, estimates in quantities.items():
                for name, estimate in estimates.items():
                    about = (column, group.name, group.rows, quantity, name)
                    groups.append([*about, *_fields(estimate)])
    contents = {
        "summary": _sheet("dimension kind scored corrected", summary),
        "groups": _sheet("column value rows what dimension", groups),
    }
    if figures.timeline is not None:
        contents |= _timeline_sheets(figures.timeline)
    return contents


def _timeline_sheets(timeline: Timeline) -> dict[str, Sheet]:
    times: list[Row] = []
    changes: list[Row] = []
    for name, estimates in timeline.figures.items():
        for period, count, estimate in zip(
            timeline.periods, timeline.counts, estimates, strict=True
        ):
            times.append([period, count, name, *_fields(estimate)])
        change = timeline.changes[name]
        since = None if change.start is None else timeline.periods[change.start]
        cells: Row = (name, since, change.searched, change.before, change.after)
        changes.append([*cells, *_fields(change.difference.estimate)])
    return {
        "time": _sheet(f"{timeline.unit} rows dimension", times),
        "changes": _sheet("dimension since searched before after", changes),
    }


def _sheet(columns: str, rows: Sequence[Row]) -> Sheet:
    return [*columns.split(), *_FIELDS], rows


def _fields(estimate: Estimate) -> list[Cell]:
    return [getattr(estimate, name) for name in _FIELDS]
