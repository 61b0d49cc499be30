"""Charts: chatbots by languages (MEDAL, Figure 2), issues (Figure 9) and levels (Figure 10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from medal_judges.data_prep.corpus_stats.findings import Distribution, Findings
from medal_judges.data_prep.corpus_stats.survey import ALL, ScaledDimension, Subset
from medal_judges.report.figure import Bar, Bars, BarSegment, Figure, Tone
from medal_judges.report.numbers import DASH, number
from medal_judges.report.table import Cell, Heat, Table
from medal_judges.stats.results import Estimate


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
