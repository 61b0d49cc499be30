"""Findings: what the figures show, in sentences, the worst first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from medal_judges.eval.traffic.figures import OTHERS, TrafficFigures
from medal_judges.eval.traffic.tables import is_share, is_worse, ordered, step_text
from medal_judges.eval.traffic.traffic import Traffic
from medal_judges.report.numbers import number, p_value_text, percent, points
from medal_judges.stats.estimate import Estimate

_MOST = 6  # sentences about groups


@dataclass(frozen=True, slots=True)
class TrafficFinding:
    """A sentence, and whether it is about something worse, better, or to be known."""

    text: str
    tone: Literal["worse", "better", "note"]


def findings(traffic: Traffic, figures: TrafficFigures) -> list[TrafficFinding]:
    """Changes over time, groups that differ, what is missing. Only what is significant after Holm
    is told of groups and time; nothing of that kind is said to be the same."""
    found = [*_changes(traffic, figures), *_groups(traffic, figures)]
    found.sort(key=lambda each: each.tone != "worse")
    return [*found, *_notes(traffic, figures)]


def _changes(traffic: Traffic, figures: TrafficFigures) -> Iterator[TrafficFinding]:
    timeline = figures.timeline
    if timeline is None:
        return
    judged = " (as judged)" if figures.corrected else ""
    for name in ordered(traffic, figures):
        each = timeline.changes[name]
        worse = is_worse(traffic, name, each.difference)
        if worse is not None and each.start is not None and each.difference.p_value is not None:
            word = "worse" if worse else "better"
            since = timeline.periods[each.start]
            when = f"since {since}" if each.searched else f"in the later half (from {since} on)"
            told = f"{name} is {word} {when}: {step_text(traffic, name, each)}"
            told += f", p {p_value_text(each.difference.p_value)}{judged}."
            yield TrafficFinding(told, word)  # type: ignore[arg-type]
            continue
        worse = is_worse(traffic, name, each.slope)
        if worse is not None and each.slope.value is not None and each.slope.p_value is not None:
            word = "worse" if worse else "better"
            month = 30 * each.slope.value
            shown = points(month) if is_share(traffic, name) else number(month)
            p_value = p_value_text(each.slope.p_value)
            told = f"{name} gets {word} over time: {shown} in 30 days, p {p_value}{judged}."
            yield TrafficFinding(told, word)  # type: ignore[arg-type]


def _groups(traffic: Traffic, figures: TrafficFigures) -> Iterator[TrafficFinding]:
    apart: list[tuple[float, TrafficFinding]] = []
    for column, groups in figures.groups.items():
        for group in groups:
            if group.name.endswith(f" {OTHERS}"):
                continue
            for name, difference in group.differences.items():
                worse = is_worse(traffic, name, difference)
                if worse and difference.value is not None and difference.p_value is not None:
                    dimension = traffic.dimensions[name]
                    size = abs(difference.value) / (dimension.high - dimension.low)
                    text = _group_text(traffic, column, group.name, name,
                                       group.lead(name), difference)  # fmt: skip
                    apart.append(
                        (size * (1 + (name == traffic.headline)), TrafficFinding(text, "worse"))
                    )
    apart.sort(key=lambda each: -each[0])
    yield from (finding for _, finding in apart[:_MOST])
    if len(apart) > _MOST:
        text = f"{len(apart) - _MOST} more differences between groups stand in their tables."
        yield TrafficFinding(text, "worse")


def _group_text(
    traffic: Traffic, column: str, group: str, name: str, figure: Estimate, difference: Estimate
) -> str:
    assert figure.value is not None and difference.value is not None
    assert difference.p_value is not None
    share = is_share(traffic, name)
    value = percent(figure.value) if share else number(figure.value)
    apart = abs(difference.value)
    size = f"{number(100 * apart, 1)} points" if share else number(apart)
    side = "below" if difference.value < 0 else "above"
    what = f"{name} in {value}" if share else f"{name} {value}"
    p_value = p_value_text(difference.p_value)
    return f"{column} {group}: {what}, {size} {side} the others, p {p_value}."


def _notes(traffic: Traffic, figures: TrafficFigures) -> Iterator[TrafficFinding]:
    missing = traffic.rows - traffic.scored
    if missing:
        most = "; ".join(f"{n:,} × {reason}" for reason, n in traffic.failures.most_common(3))
        yield TrafficFinding(
            f"{missing:,} of {traffic.rows:,} are not scored in full: {most}.", "note"
        )
    if traffic.unknown_languages:
        most_common = traffic.unknown_languages.most_common(8)
        names = ", ".join(f"{lang} ({n:,})" for lang, n in most_common)
        yield TrafficFinding(f"The judge was not made for these languages: {names}.", "note")
    yield from (TrafficFinding(f"{note}.", "note") for note in traffic.notes)
    timeline = figures.timeline
    if timeline is not None and len(timeline.periods) == 1:
        yield TrafficFinding(
            f"All times lie in one {timeline.unit}: nothing to compare over time.", "note"
        )
