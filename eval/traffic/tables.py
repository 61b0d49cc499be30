"""Tables of a body of scored chats, the same for page, terminal and CSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from medal_judges.eval.traffic.conversations import Conversation, reasons_of, snippet
from medal_judges.eval.traffic.figures import GroupFigures, Timeline, TrafficFigures
from medal_judges.eval.traffic.selection import Selection, told_unusual
from medal_judges.eval.traffic.times import moment_text
from medal_judges.eval.traffic.traffic import Traffic
from medal_judges.report.figure import padded
from medal_judges.report.numbers import number, p_value_text, percent, points
from medal_judges.report.table import Cell, Heat, IntervalBar, PValue, Row, Share, Table, write_csv
from medal_judges.stats.change import Change
from medal_judges.stats.estimate import Estimate

SIGNIFICANT = 0.05
NAMES = {"lang": "Language", "chatbot": "Chatbot"}
_ESTIMATE = ("value", "low", "high", "p_value", "reason")


def column_name(column: str) -> str:
    """A column as it stands in a heading."""
    return NAMES.get(column, column)


def is_share(traffic: Traffic, name: str) -> bool:
    return traffic.dimensions[name].kind == "binary"


def shown(traffic: Traffic, name: str, estimate: Estimate | None) -> Cell:
    """A figure as a cell: a share of an issue, a mean of anything else."""
    if estimate is None:
        return None
    return Share(estimate) if is_share(traffic, name) else estimate


def ordered(traffic: Traffic, figures: TrafficFigures) -> list[str]:
    """Graded dimensions, the headline first, then issues, the most frequent first."""

    def share(name: str) -> float:
        return -(figures.lead(name).value or 0.0)

    return [*traffic.graded, *sorted(traffic.issues, key=share)]


def summary_table(traffic: Traffic, figures: TrafficFigures) -> Table:
    """Every dimension with its figure; corrected by people's labels where there are some."""
    corrected = bool(figures.corrected)
    names = ordered(traffic, figures)
    widest = max(
        (e.high or e.value or 0 for n in traffic.issues if (e := figures.lead(n))), default=0
    )
    rows: list[Row] = []
    headings: dict[int, str] = {}
    for name in names:
        dimension, estimate = traffic.dimensions[name], figures.lead(name)
        if is_share(traffic, name) and traffic.graded and len(rows) == len(traffic.graded):
            headings[len(rows)] = "Issues: share of " + traffic.unit + "s"
        span = (
            (0.0, max(widest, 0.01)) if is_share(traffic, name) else (dimension.low, dimension.high)
        )
        told: list[Cell] = [name, shown(traffic, name, estimate), IntervalBar(estimate, span)]
        if corrected:
            basis = "people and judge" if figures.is_corrected(name) else "judge alone"
            told += [basis, shown(traffic, name, figures.overall[name])]
        told.append(_scale_text(traffic, name))
        told.append(figures.counts[name])
        rows.append(told)
    more = ["By", "As judged"] if corrected else []
    title = "Corrected by people's labels" if corrected else "Every dimension"
    note = "" if not traffic.assumed else (
        f"No rubric knows {', '.join(traffic.assumed)}: taken as graded, higher being better; "
        "--rubric FILE states the scale."
    )  # fmt: skip
    if headings and names and not headings.get(0):
        headings[0] = "Graded: mean"
    columns = ["Dimension", "Figure", "95%", *more, "Scale", "Scored"]
    return Table(title, columns, rows, note, headings)


def _scale_text(traffic: Traffic, name: str) -> str:
    dimension = traffic.dimensions[name]
    if is_share(traffic, name):
        return "fewer is better" if dimension.good == "low" else "more is better"
    if name in traffic.assumed:
        return "not known"
    end = "higher" if dimension.good == "high" else "lower"
    return f"{dimension.low:g} to {dimension.high:g}, {end} is better"


def is_worse(traffic: Traffic, name: str, difference: Estimate) -> bool | None:
    """Whether a difference is one for the worse, or better; None where it is not significant."""
    value, p_value = difference.value, difference.p_value
    if not value or p_value is None or p_value >= SIGNIFICANT:
        return None
    return (value < 0) == (traffic.dimensions[name].good == "high")


def group_table(
    traffic: Traffic, figures: TrafficFigures, column: str, groups: Sequence[GroupFigures]
) -> Table:
    """A row a value of the column: its rows, the headline with its difference from all others."""
    head = traffic.headline or next(iter(ordered(traffic, figures)), None)
    title = f"By {column_name(column).lower()}"
    if head is None:
        return Table(title, [column_name(column), "Rows"], [(g.name, g.rows) for g in groups])
    wide = _span([group.lead(head) for group in groups])
    rows: list[Row] = []
    by_people = head in traffic.people
    for group in groups:
        difference = group.differences[head]
        apart: Cell = Share(difference, signed=True) if is_share(traffic, head) else difference
        p_value = None if difference.p_value is None else PValue(difference.p_value)
        estimate = group.lead(head)
        rows.append((group.name, group.rows, shown(traffic, head, estimate),
                     IntervalBar(estimate, wide), apart, p_value))  # fmt: skip
        if by_people:
            rows[-1] = (*rows[-1], shown(traffic, head, group.figures[head]))
    columns = [column_name(column), "Rows", head, "95%", "From the others", "p (Holm)"]
    if not by_people:
        return Table(title, columns, rows)
    note = (
        "Figures and differences are corrected by people's labels; where they labelled fewer than "
        "5 of a side there is no difference, and the figure is the judge's."
    )
    return Table(title, [*columns, "As judged"], rows, note)


def _span(estimates: Sequence[Estimate]) -> tuple[float, float]:
    """The range of the intervals, so that groups can be told apart by eye."""
    ends = [v for e in estimates for v in (e.low, e.value, e.high) if v is not None]
    return padded(ends or [0.0])


def group_map(
    traffic: Traffic, figures: TrafficFigures, column: str, groups: Sequence[GroupFigures]
) -> Table:
    """All dimensions by group; coloured where a group differs from all others."""
    names = ordered(traffic, figures)
    rows: list[Row] = [
        (group.name, *(_heat(traffic, name, group) for name in names)) for group in groups
    ]
    title = f"All dimensions by {column_name(column).lower()}"
    return Table(title, [column_name(column), *names], rows, style="heat")


def _heat(traffic: Traffic, name: str, group: GroupFigures) -> Heat:
    estimate, difference = group.lead(name), group.differences[name]
    if estimate.value is None:
        return Heat("–", 0, tooltip=estimate.reason or "")
    text = percent(estimate.value) if is_share(traffic, name) else number(estimate.value)
    worse = is_worse(traffic, name, difference)
    tooltip = estimate.reason or ""
    if difference.value is not None and difference.p_value is not None:
        apart = points(difference.value) if is_share(traffic, name) else number(difference.value)
        tooltip = f"{apart} from the others, p {p_value_text(difference.p_value)} (Holm)"
    strength = 0.0
    if worse is not None and difference.value is not None:
        dimension = traffic.dimensions[name]
        span = dimension.high - dimension.low
        strength = min(1.0, 0.25 + 3 * abs(difference.value) / span)
    return Heat(text, strength, "neg" if worse else "pos", tooltip, estimate.value)


def change_table(traffic: Traffic, timeline: Timeline) -> Table:
    """What changed over time, a row a dimension."""
    rows: list[Row] = []
    for name, each in timeline.changes.items():
        start = None if each.start is None else timeline.periods[each.start]
        means = (None if v is None else Estimate(v) for v in (each.before, each.after))
        rows.append((
            name,
            *(shown(traffic, name, mean) for mean in means),
            Share(each.difference, signed=True) if is_share(traffic, name) else each.difference,
            _p(each.difference),
            f"{start} ({'found' if each.searched else 'halved'})" if start else "",
            _p(each.slope),
        ))  # fmt: skip
    columns = ["Dimension", "Before", "From then on", "Change", "p (Holm)", "Since", "p of a trend"]
    return Table("Change over time", columns, rows)


def _p(estimate: Estimate) -> PValue | None:
    return None if estimate.p_value is None else PValue(estimate.p_value)


def write_tables(
    traffic: Traffic,
    figures: TrafficFigures,
    selection: Selection,
    found: Mapping[int, Conversation],
    folder: Path,
) -> list[Path]:
    """The figures as CSV in full precision; paths in the order written."""
    estimate = ("dimension", *_ESTIMATE)
    written = [
        write_csv(
            folder / "summary.csv", ("dimension", "kind", "scored", "corrected", *_ESTIMATE),
            _summary_lines(traffic, figures),
        ),
        write_csv(
            folder / "groups.csv", ("column", "value", "rows", "what", *estimate),
            (
                (column, group.name, group.rows, what, name, *_plain(e))
                for column, groups in figures.groups.items()
                for group in groups
                for what, each in (("figure", group.figures), ("difference", group.differences))
                for name, e in each.items()
            ),
        ),
    ]  # fmt: skip
    if (timeline := figures.timeline) is not None:
        lines = (
            (period, timeline.counts[i], name, *_plain(estimates[i]))
            for name, estimates in timeline.figures.items()
            for i, period in enumerate(timeline.periods)
        )
        written.append(write_csv(folder / "time.csv", (timeline.unit, "rows", *estimate), lines))
        changes = ("dimension", "since", "searched", "before", "after", "what", *_ESTIMATE)
        written.append(write_csv(folder / "changes.csv", changes, _change_lines(timeline)))
    head = ("id", "turn", "why", "unusual_in", "time", *traffic.columns, *traffic.scores,
            "uncertainty", "unusual", "reasons", "begins")  # fmt: skip
    told = _conversation_lines(traffic, selection, found)
    return [*written, write_csv(folder / "conversations.csv", head, told)]


def _plain(estimate: Estimate) -> tuple[object, ...]:
    return tuple(getattr(estimate, name) for name in _ESTIMATE)


def _summary_lines(traffic: Traffic, figures: TrafficFigures) -> Iterator[tuple[object, ...]]:
    for name, estimate in figures.overall.items():
        about = (name, traffic.dimensions[name].kind, figures.counts[name])
        yield (*about, False, *_plain(estimate))
        if name in figures.corrected:
            yield (*about, True, *_plain(figures.corrected[name]))


def _change_lines(timeline: Timeline) -> Iterator[tuple[object, ...]]:
    for name, each in timeline.changes.items():
        since = None if each.start is None else timeline.periods[each.start]
        about = (name, since, each.searched, each.before, each.after)
        yield (*about, "difference", *_plain(each.difference))
        yield (*about, "slope a day", *_plain(each.slope))


def _conversation_lines(
    traffic: Traffic, selection: Selection, found: Mapping[int, Conversation]
) -> Iterator[tuple[object, ...]]:
    reasons = dict(selection.first)
    for row in map(int, selection.rows):
        judgement = found[row].judgement
        values = (column.names[c] if (c := column.codes[row]) >= 0 else None
                  for column in traffic.columns.values())  # fmt: skip
        scores = (float(s[row]) if np.isfinite(s[row]) else None for s in traffic.scores.values())
        numbers = (traffic.uncertainty[row], selection.unusual[row])
        yield (
            judgement.id,
            judgement.turn,
            reasons.get(row),
            told_unusual(selection, traffic, row) if row in reasons else None,
            None if traffic.times is None else moment_text(traffic.times[row]),
            *values,
            *scores,
            *(float(n) if np.isfinite(n) else None for n in numbers),
            " | ".join(f"{name}: {text}" if name else text for name, text in reasons_of(judgement)),
            snippet(found[row].turns),
        )


def step_text(traffic: Traffic, name: str, each: Change) -> str:
    """``3.90 before, 3.40 from then on (−0.50 [−0.61, −0.39])``."""
    from medal_judges.report.console import cell_text

    before, after = (shown(traffic, name, Estimate(v)) for v in (each.before, each.after))
    apart = Share(each.difference, signed=True) if is_share(traffic, name) else each.difference
    return f"{cell_text(before)} before, {cell_text(after)} from then on ({cell_text(apart)})"
