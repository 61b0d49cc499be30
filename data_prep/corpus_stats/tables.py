"""Tables of the statistics: Table 2 of MEDAL, issues, levels, ends and tries."""

from __future__ import annotations

from collections.abc import Sequence

from medal_judges.data_prep.corpus_stats.findings import Distribution, Findings, part_name
from medal_judges.data_prep.corpus_stats.labels import Dimension
from medal_judges.data_prep.corpus_stats.part import ALL, Part
from medal_judges.data_prep.corpus_stats.shares import Figure
from medal_judges.data_prep.corpus_stats.texts import Side
from medal_judges.stats.results import Cell, Estimate, Table

_SIDES: tuple[Side, ...] = ("user", "assistant")


def text_table(findings: Findings, head: str, parts: Sequence[Part]) -> Table:
    """Dialogues, turns, length of a turn by unit, MTLD; the whole set in the last row."""
    survey, units = findings.survey, findings.survey.units
    rows: list[tuple[Cell, ...]] = []
    for part in (*parts, ALL):
        counts = survey.text(part)
        lengths = [counts.mean_length(unit) for unit in units]
        mtld = (counts.mean_mtld(), survey.together(part))
        rows.append((part_name(part), counts.dialogues, counts.mean_turns(), *lengths, *mtld))
    heads = (head, "Dialogues", "Turns", *(f"{unit.capitalize()} a turn" for unit in units))
    title = f"Dialogues and texts by {head.lower()}"
    return Table(title, (*heads, "MTLD", "MTLD, run together"), rows, tokens_note(findings))


def side_table(findings: Findings, head: str, parts: Sequence[Part]) -> Table:
    """The same for the turns of users and assistants apart."""
    survey, units = findings.survey, findings.survey.units
    rows: list[tuple[Cell, ...]] = []
    for part in (*parts, ALL):
        counts = survey.text(part)
        turns = [counts.mean_turns(side) for side in _SIDES]
        lengths = [counts.mean_length(unit, side) for unit in units for side in _SIDES]
        rows.append((part_name(part), *turns, *lengths, *(counts.mean_mtld(s) for s in _SIDES)))
    figures = ("Turns", *(unit.capitalize() for unit in units), "MTLD")
    heads = (f"{figure}, {side}" for figure in figures for side in _SIDES)
    title = f"Users and assistants apart, by {head.lower()}"
    return Table(title, (head, *heads), rows, tokens_note(findings))


def tokens_note(findings: Findings) -> str:
    """What MTLD was counted over, by language; stands under every table that has it."""
    by_tool: dict[str, list[str]] = {}
    for lang, tool in sorted(findings.survey.lemmatisers.items()):
        by_tool.setdefault(tool.name, []).append(lang)
    said = "; ".join(f"{', '.join(langs)}: {name}" for name, langs in by_tool.items())
    return f"MTLD over: {said}." if said else ""


def share_table(
    findings: Findings, what: str, head: str, parts: Sequence[Part], dimensions: Sequence[Dimension]
) -> Table:
    """Percent of the rows at 1 with 95% intervals, the whole set in the last row."""
    rows: list[tuple[Cell, ...]] = [
        (
            part_name(part),
            _rows(findings, part),
            *(percent(findings.figure(part, d)) for d in dimensions),
        )
        for part in (*parts, ALL)
    ]
    columns = (head, "Rows", *(f"{findings.label(d)}, %" for d in dimensions))
    return Table(f"{what} by {head.lower()}", columns, rows, interval_note(findings, dimensions))


def mean_table(
    findings: Findings, head: str, parts: Sequence[Part], dimensions: Sequence[Dimension]
) -> Table:
    """Means on the raw scales with 95% intervals, the whole set in the last row."""
    rows: list[tuple[Cell, ...]] = [
        (
            part_name(part),
            _rows(findings, part),
            *(findings.figure(part, d).estimate for d in dimensions),
        )
        for part in (*parts, ALL)
    ]
    columns = (head, "Rows", *(findings.label(d) for d in dimensions))
    note = interval_note(findings, dimensions)
    return Table(f"Mean answers by {head.lower()}", columns, rows, note)


def _rows(findings: Findings, part: Part) -> int:
    return findings.survey.text(part).dialogues


def percent(figure: Figure) -> Estimate:
    """A share of 0 to 1 as percent."""
    e = figure.estimate
    if e.value is None or e.low is None or e.high is None:
        return Estimate(None if e.value is None else 100 * e.value, reason=e.reason)
    return Estimate(100 * e.value, 100 * e.low, 100 * e.high)


def interval_note(findings: Findings, dimensions: Sequence[Dimension]) -> str:
    """How the intervals of a table were made, by the methods that occur in it."""
    found = {findings.figure(part, d).method for part in findings.parts for d in dimensions}
    said = {
        "Wilson": "Wilson's where every row is a conversation of its own",
        "jackknife of groups": "a jackknife that leaves out whole conversation groups",
        "Wilson over groups": "Wilson's over groups where a share is 0 or 100%",
    }
    used = [text for method, text in said.items() if method in found]
    several = findings.survey.labels.repeated
    mean = f" {several} rows have several answers: their mean, 1 from 0.5 on." if several else ""
    return (f"95% intervals: {'; '.join(used)}." if used else "No intervals.") + mean


def distribution_table(findings: Findings, dimension: Dimension, parts: Sequence[Part]) -> Table:
    """Percent of the rows at each level."""
    columns: tuple[str, ...] = ("Language", "Rows")
    rows: list[tuple[Cell, ...]] = []
    for part in (*parts, ALL):
        found = findings.distribution(part, dimension)
        if isinstance(found, str):
            return Table(f"Distribution of {findings.label(dimension)}", columns, (), found)
        columns = ("Language", "Rows", *(f"{level}, %" for level in found.levels))
        rows.append((part_name(part), found.n, *_level_shares(found)))
    note = "Means of several answers are at the nearest level, halves up."
    return Table(f"Distribution of {findings.label(dimension)}", columns, rows, note)


def _level_shares(found: Distribution) -> list[Cell]:
    if not found.n:
        return [Estimate(None, reason="no label") for _ in found.counts]
    return [100 * share for share in found.shares]


def ending_table(findings: Findings, head: str, parts: Sequence[Part]) -> Table | None:
    """Percent of the dialogues by how they ended; None where no row says."""
    whole = findings.survey.course(ALL)
    kinds = [kind for kind, _ in whole.ended.most_common()]
    if not kinds:
        return None
    rows: list[tuple[Cell, ...]] = []
    for part in (*parts, ALL):
        course = findings.survey.course(part)
        n, weights = course.ended.total(), course.ended_weights
        shares: list[Cell] = [
            100 * weights[k] / weights.total() if n else Estimate(None, reason="no row says")
            for k in kinds
        ]
        rows.append((part_name(part), n, *shares))
    columns = (head, "Rows", *(f"{kind}, %" for kind in kinds))
    return Table(f"How dialogues ended by {head.lower()}", columns, rows)


def tries_table(findings: Findings, head: str, parts: Sequence[Part]) -> Table | None:
    """Tries per user turn, first turns apart; None where no row has them."""
    whole = findings.survey.course(ALL)
    if not whole.first.turns:
        return None
    columns = (head, "First turns", "Tries", "At once, %", "Later turns", "Tries, later",
               "At once, later, %", "Most")  # fmt: skip
    rows = []
    for part in (*parts, ALL):
        course = findings.survey.course(part)
        cells: list[Cell] = []
        for tries in (course.first, course.later):
            at_once = tries.share_at_once
            shown = at_once if at_once.value is None else Estimate(100 * at_once.value)
            cells += [tries.turns, tries.mean, shown]
        rows.append((part_name(part), *cells, max(course.first.most, course.later.most)))
    note = (
        "Turns that were accepted in the end. A first turn that several chatbots share counts once "
        "for each of their dialogues."
    )
    return Table(f"Tries per user turn by {head.lower()}", columns, rows, note)
