"""Heat maps: chatbots by languages, one for each issue and for overall (MEDAL, Figure 2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from medal_judges.data_prep.corpus_stats.findings import OVERALL, Findings, part_name
from medal_judges.data_prep.corpus_stats.labels import Dimension
from medal_judges.data_prep.corpus_stats.part import Part
from medal_judges.data_prep.corpus_stats.shares import Figure
from medal_judges.report.heat import empty_cell, heat_cell, heat_table
from medal_judges.report.markup import details, escape, section
from medal_judges.report.numbers import number

_NARROW = 8  # columns up to which two maps stand side by side
_LEAD = (
    "Percent of the dialogues in which the issue is present, chatbots by languages, and the mean "
    "of overall. Orange is worse, blue is better: the deepest orange is {top}% in every map of an "
    "issue, and overall runs over its scale. The number is printed, and a cell's 95% interval and "
    "number of rows show on hover."
)
_LEAD_OTHERS = (
    "Chatbots by languages. The deepest colour is the top of the scale; a cell's 95% interval and "
    "number of rows show on hover."
)


def heatmaps(findings: Findings) -> str:
    """The section; empty where no chatbot is named or nothing is labelled."""
    if not findings.chatbots:
        return ""
    top = highest_share(findings)
    issues = [issue_map(findings, d, top) for d in findings.issues]
    overall = [graded_map(findings, d) for d in findings.graded if d.name == OVERALL]
    others = [share_map(findings, d) for d in findings.other_shares]
    others += [graded_map(findings, d) for d in findings.graded if d.name != OVERALL]
    wide = len(grid(findings)[0]) > _NARROW
    body = _maps(issues + overall, wide)
    if others:
        fold = f"{len(others)} {'more ' if body else ''}dimensions"
        body += details(fold, _maps(others, wide), is_open=not body)
    lead = _LEAD.format(top=number(100 * top, 1)) if issues else _LEAD_OTHERS
    return section("heatmaps", "Chatbots by languages", body, lead)


def _maps(maps: Sequence[str], wide: bool) -> str:
    """Maps side by side where there is room for two."""
    kind = "maps wide" if wide else "maps"
    return f'<div class="{kind}">{"".join(maps)}</div>' if maps else ""


def highest_share(findings: Findings) -> float:
    """The largest share of any issue in any cell of the maps, from 0 to 1."""
    shown = (
        findings.figure(part, d).estimate.value
        for part in (*findings.pairs, *findings.chatbots)
        for d in findings.issues
    )
    return max((value for value in shown if value is not None), default=0.0)


def grid(findings: Findings) -> tuple[list[str], list[tuple[str, list[Part]]]]:
    """Heads of the columns, and (head, parts) of the rows, with sums where there are several."""
    langs: list[Part] = findings.langs
    bots = findings.chatbots
    columns = [*langs, Part()] if len(langs) > 1 else langs
    lines = [*bots, Part()] if len(bots) > 1 else bots
    heads = [part_name(column) for column in columns]
    return heads, [
        (part_name(line), [Part(column.lang, line.chatbot) for column in columns]) for line in lines
    ]


def issue_map(findings: Findings, dimension: Dimension, top: float) -> str:
    """Percent with the issue, in orange up to ``top``."""
    return _map(findings, dimension, lambda f: _share(f, top, "neg"), ", %")


def share_map(findings: Findings, dimension: Dimension) -> str:
    """Percent of rows at 1 of a dimension of which we do not know which end is good."""
    return _map(findings, dimension, lambda f: _share(f, 1.0, "pos"), ", % at 1")


def graded_map(findings: Findings, dimension: Dimension) -> str:
    """Means, in blue from the lowest to the highest answer of the scale."""
    low, high = dimension.scale or _span(findings, dimension)
    return _map(findings, dimension, lambda f: _mean(f, low, high), ", mean")


def _span(findings: Findings, dimension: Dimension) -> tuple[float, float]:
    """Without a scale, the colours run over the means shown."""
    found = [findings.figure(part, dimension).estimate.value for part in findings.pairs]
    known = [value for value in found if value is not None] or [0.0]
    return min(known), max(known)


def _map(findings: Findings, dimension: Dimension, cell: Callable[[Figure], str], unit: str) -> str:
    heads, lines = grid(findings)
    rows = [
        f'<th scope="row" dir="auto">{escape(name)}</th>'
        + "".join(cell(findings.figure(part, dimension)) for part in parts)
        for name, parts in lines
    ]
    return heat_table(f"{findings.label(dimension)}{unit}", "Chatbot", heads, rows, "small")


def _share(figure: Figure, top: float, sign: Literal["pos", "neg"]) -> str:
    e = figure.estimate
    if e.value is None:
        return empty_cell(e.reason)
    strength = e.value / top if top else 0.0
    return heat_cell(number(100 * e.value, 1), strength, sign, _about(figure, 100, 1))


def _mean(figure: Figure, low: float, high: float) -> str:
    e = figure.estimate
    if e.value is None:
        return empty_cell(e.reason)
    strength = (e.value - low) / (high - low) if high > low else 0.0
    return heat_cell(number(e.value), strength, "pos", _about(figure, 1, 2))


def _about(figure: Figure, factor: float, digits: int) -> str:
    e = figure.estimate
    rows = f"{figure.n} row{'' if figure.n == 1 else 's'}"
    if e.low is None or e.high is None:
        return rows
    return f"[{number(factor * e.low, digits)}, {number(factor * e.high, digits)}], {rows}"
