"""Tables and charts of the statistics (MEDAL, Table 2, Figures 2, 9 and 10), ends and tries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from medal_judges.data_prep.corpus_stats.findings import Distribution, Findings, LabelFigure
from medal_judges.data_prep.corpus_stats.survey import ALL, ScaledDimension, Side, Subset
from medal_judges.report.figure import Bar, Bars, BarSegment, Figure, Tone
from medal_judges.report.numbers import DASH, number
from medal_judges.report.table import Cell, Heat, Row, Table
from medal_judges.stats.estimate import Estimate

_SIDES: tuple[Side, ...] = ("user", "assistant")


def _by_subset(
    title: str,
    columns: Sequence[str],
    subsets: Sequence[Subset],
    cells: Callable[[Subset], Row],
    note: str = "",
) -> Table:
    rows = [(subset.label, *cells(subset)) for subset in (*subsets, ALL)]
    return Table(title, tuple(columns), rows, note, pinned={-1: "total"})


def text_table(findings: Findings, head: str, subsets: Sequence[Subset]) -> Table:
    """Dialogues, turns, length of a turn by unit, MTLD."""
    units = findings.survey.units

    def cells(subset: Subset) -> Row:
        lengths = (findings.length(subset, unit) for unit in units)
        mtld = (findings.mtld(subset), findings.survey.together(subset))
        return (findings.count(subset), findings.turns(subset), *lengths, *mtld)

    columns = (head, "Dialogues", "Turns", *(f"{unit.capitalize()} a turn" for unit in units),
               "MTLD", "MTLD, run together")  # fmt: skip
    title = f"Dialogues and texts by {head.lower()}"
    return _by_subset(title, columns, subsets, cells, tokens_note(findings))


def side_table(findings: Findings, head: str, subsets: Sequence[Subset]) -> Table:
    """The same for the turns of users and assistants apart."""
    units = findings.survey.units

    def cells(subset: Subset) -> Row:
        turns = (findings.turns(subset, side) for side in _SIDES)
        lengths = (findings.length(subset, unit, side) for unit in units for side in _SIDES)
        return (*turns, *lengths, *(findings.mtld(subset, side) for side in _SIDES))

    figures = ("Turns", *(unit.capitalize() for unit in units), "MTLD")
    columns = (head, *(f"{figure}, {side}" for figure in figures for side in _SIDES))
    title = f"Users and assistants apart, by {head.lower()}"
    return _by_subset(title, columns, subsets, cells, tokens_note(findings))


def tokens_note(findings: Findings) -> str:
    """What MTLD was counted over, by language; stands under every table that has it."""
    by_tool: dict[str, list[str]] = {}
    for lang, tool in sorted(findings.survey.lemmatisers.items()):
        by_tool.setdefault(tool.name, []).append(lang)
    tools = "; ".join(f"{', '.join(langs)}: {name}" for name, langs in by_tool.items())
    return f"MTLD over: {tools}." if tools else ""


def share_table(
    findings: Findings,
    what: str,
    head: str,
    subsets: Sequence[Subset],
    dimensions: Sequence[ScaledDimension],
) -> Table:
    """Percent of the rows at 1 with 95% intervals."""

    def cells(subset: Subset) -> Row:
        shares = (percent(findings.figure(subset, d)) for d in dimensions)
        return (findings.count(subset), *shares)

    columns = (head, "Rows", *(f"{findings.label(d)}, %" for d in dimensions))
    note = interval_note(findings, dimensions)
    return _by_subset(f"{what} by {head.lower()}", columns, subsets, cells, note)


def mean_table(
    findings: Findings, head: str, subsets: Sequence[Subset], dimensions: Sequence[ScaledDimension]
) -> Table:
    """Means on the raw scales with 95% intervals."""

    def cells(subset: Subset) -> Row:
        means = (findings.figure(subset, d).estimate for d in dimensions)
        return (findings.count(subset), *means)

    columns = (head, "Rows", *(findings.label(d) for d in dimensions))
    note = interval_note(findings, dimensions)
    return _by_subset(f"Mean answers by {head.lower()}", columns, subsets, cells, note)


def percent(figure: LabelFigure) -> Estimate:
    """A share of 0 to 1 as percent."""
    e = figure.estimate
    if e.value is None or e.low is None or e.high is None:
        return Estimate(None if e.value is None else 100 * e.value, reason=e.reason)
    return Estimate(100 * e.value, 100 * e.low, 100 * e.high)


def interval_note(findings: Findings, dimensions: Sequence[ScaledDimension]) -> str:
    """How the intervals of a table were made, by the methods that occur in it."""
    methods = {findings.figure(subset, d).method for subset in findings.subsets for d in dimensions}
    descriptions = {
        "Wilson": "Wilson's where every row is a conversation of its own",
        "jackknife of groups": "a jackknife that leaves out whole conversation groups",
        "Wilson over groups": "Wilson's over groups where a share is 0 or 100%",
    }
    used = [text for method, text in descriptions.items() if method in methods]
    several = findings.survey.repeated
    mean = f" {several} rows have several answers: their mean, 1 from 0.5 on." if several else ""
    return (f"95% intervals: {'; '.join(used)}." if used else "No intervals.") + mean


def distribution_table(
    findings: Findings, dimension: ScaledDimension, subsets: Sequence[Subset]
) -> Table:
    """Percent of the rows at each level; without rows where there are no levels."""
    title = f"Distribution of {findings.label(dimension)}"
    whole = findings.distribution(ALL, dimension)
    if isinstance(whole, str):
        return Table(title, ("Language", "Rows"), (), whole)

    def cells(subset: Subset) -> Row:
        levels = findings.distribution(subset, dimension)
        assert not isinstance(levels, str)  # the scale is the same in every subset
        none = Estimate(None, reason="no label")
        return (levels.n, *(100 * share if levels.n else none for share in levels.shares))

    columns = ("Language", "Rows", *(f"{level}, %" for level in whole.levels))
    note = "Means of several answers are at the nearest level, halves up."
    return _by_subset(title, columns, subsets, cells, note)


def ending_table(findings: Findings, head: str, subsets: Sequence[Subset]) -> Table | None:
    """Percent of the dialogues by how they ended; None where no row says."""
    whole = findings.endings(ALL)
    kinds = sorted(whole, key=lambda kind: -whole[kind][0])
    none = Estimate(None, reason="no row says")

    def cells(subset: Subset) -> Row:
        ended = findings.endings(subset)
        shares = (100 * ended.get(kind, (0, 0.0))[1] if ended else none for kind in kinds)
        return (sum(n for n, _ in ended.values()), *shares)

    columns = (head, "Rows", *(f"{kind}, %" for kind in kinds))
    title = f"How dialogues ended by {head.lower()}"
    return _by_subset(title, columns, subsets, cells) if kinds else None


def tries_table(findings: Findings, head: str, subsets: Sequence[Subset]) -> Table | None:
    """Tries per user turn, first turns apart; None where no row has them."""

    def cells(subset: Subset) -> Row:
        first, later = findings.tries(subset, "first"), findings.tries(subset, "later")
        row: list[Cell] = []
        for tries in (first, later):
            once = tries.at_once
            row += [tries.turns, tries.mean, once if once.value is None else 100 * once.value]
        return (*row, max(first.most, later.most))

    columns = (head, "First turns", "Tries", "At once, %", "Later turns", "Tries, later",
               "At once, later, %", "Most")  # fmt: skip
    note = (
        "Turns that were accepted in the end. A first turn that several chatbots share counts once "
        "for each of their dialogues."
    )
    title = f"Tries per user turn by {head.lower()}"
    known = findings.tries(ALL, "first").turns
    return _by_subset(title, columns, subsets, cells, note) if known else None


def heat_figure(findings: Findings, dimensions: Sequence[ScaledDimension]) -> Figure:
    """A heat map a dimension, chatbots by languages with sums where there are several: the deepest
    orange is the highest share of any issue; other shares run to 1, means over their scale."""
    top = highest_share(findings)
    title = f"{findings.name}: chatbots by languages"
    return Figure(title, [_heat_map(findings, dimension, top) for dimension in dimensions])


def highest_share(findings: Findings) -> float:
    """The largest share of any issue in any cell of the maps, from 0 to 1."""
    shares = (
        findings.figure(subset, d).estimate.value
        for subset in (*findings.pairs, *findings.chatbots)
        for d in findings.issues
    )
    return max((value for value in shares if value is not None), default=0.0)


def _heat_map(findings: Findings, dimension: ScaledDimension, top: float) -> Table:
    issue, share = dimension in findings.issues, findings.survey.is_share(dimension)
    factor, digits = (100, 1) if share else (1, 2)
    low, high = (0.0, top if issue else 1.0) if share else _span(findings, dimension)
    sign: Literal["pos", "neg"] = "neg" if issue else "pos"

    def cell(subset: Subset) -> Cell:
        figure = findings.figure(subset, dimension)
        e = figure.estimate
        if e.value is None:
            return e
        about = f"{figure.n} row{'' if figure.n == 1 else 's'}"
        if e.low is not None and e.high is not None:
            ends = (number(factor * end, digits) for end in (e.low, e.high))
            about = f"[{', '.join(ends)}], {about}"
        strength = (e.value - low) / (high - low) if high > low else 0.0
        return Heat(number(factor * e.value, digits), strength, sign, about, e.value)

    langs, bots = findings.langs, findings.chatbots
    columns = [*langs, ALL] if len(langs) > 1 else langs
    lines = [*bots, ALL] if len(bots) > 1 else bots
    unit = ", mean" if not share else ", %" if issue else ", % at 1"
    return Table(
        f"{findings.label(dimension)}{unit}",
        ("Chatbot", *(column.label for column in columns)),
        [(line.label, *(cell(Subset(c.lang, line.chatbot)) for c in columns)) for line in lines],
        style="heat small",
    )


def _span(findings: Findings, dimension: ScaledDimension) -> tuple[float, float]:
    """The scale; without one the colours run over the means shown."""
    if dimension.scale is not None:
        return dimension.scale
    means = [findings.figure(subset, dimension).estimate.value for subset in findings.pairs]
    known = [value for value in means if value is not None] or [0.0]
    return min(known), max(known)


def issue_figure(findings: Findings) -> Figure | None:
    """Percent of the rows with each issue by language, with intervals; None without issues."""
    panels = [_issue_bars(findings, d) for d in findings.issues]
    return Figure(f"{findings.name}: issues by language, %", panels) if panels else None


def _issue_bars(findings: Findings, dimension: ScaledDimension) -> Bars:
    name = findings.label(dimension)
    shares = [(str(p.lang), findings.figure(p, dimension).estimate) for p in findings.langs]
    ends = [v for _, e in shares for v in (e.value, e.high) if v is not None]
    bars = [_issue_bar(lang, estimate) for lang, estimate in shares]
    return Bars(name, bars, 100 * max(ends, default=0.0) or 1.0, f"{name}, % by language")


def _issue_bar(lang: str, e: Estimate) -> Bar:
    if e.value is None:
        return Bar(lang, (), text=DASH, tooltip=f"{lang}: {e.reason}")
    interval = None if e.low is None or e.high is None else (100 * e.low, 100 * e.high)
    return Bar(lang, [BarSegment(100 * e.value, 1)], interval, number(100 * e.value, 1))


def level_figure(findings: Findings, dimension: ScaledDimension) -> Figure | str:
    """Percent of the rows at each level of a dimension by language, the lower half of the scale
    orange, the upper blue; or why there are no levels."""
    levels = [(str(p.lang), findings.distribution(p, dimension)) for p in findings.langs]
    known = [(lang, d) for lang, d in levels if isinstance(d, Distribution)]
    if not known:
        return str(levels[0][1]) if levels else "no rows"
    name, scale = findings.label(dimension), known[0][1].levels
    tones = [_tone(i, len(scale)) for i in range(len(scale))]
    bars = [_level_bar(lang, distribution, tones) for lang, distribution in known]
    description = f"{name}: share of each level by language"
    return Figure(
        f"{findings.name}: {name}, %",
        [Bars("", bars, 100.0, description, wide=True)],
        heading=name,
        legend=[(str(level), tone) for level, tone in zip(scale, tones, strict=True)],
    )


def _tone(i: int, count: int) -> Tone:
    """Colour of level ``i`` of ``count``: orange, pale, blue."""
    at = 2 * i / (count - 1) - 1 if count > 1 else 1.0
    return ("neg" if at < 0 else "pos"), round(100 * abs(at))


def _level_bar(lang: str, levels: Distribution, tones: Sequence[Tone]) -> Bar:
    subsets = zip(levels.levels, levels.counts, levels.shares, tones, strict=True)
    segments = [
        BarSegment(
            100 * share,
            tone,
            number(100 * share, 1),
            f"{lang}, {level}: {number(100 * share, 1)}% ({count} of {levels.n})",
        )
        for level, count, share, tone in subsets
        if count
    ]
    return Bar(lang, segments, text="" if levels.n else f"{DASH} no label")
