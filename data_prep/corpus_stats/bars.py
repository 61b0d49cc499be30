"""Bars: share of issues by language (MEDAL, Figure 9), levels of overall (Figure 10), as SVG."""

from __future__ import annotations

from collections.abc import Sequence

from medal_judges.data_prep.corpus_stats.findings import OVERALL, Distribution, Findings
from medal_judges.data_prep.corpus_stats.labels import Dimension
from medal_judges.data_prep.corpus_stats.tables import distribution_table
from medal_judges.report.further_tables import table_html
from medal_judges.report.markup import details, escape, panel_grid, section
from medal_judges.report.numbers import DASH, number
from medal_judges.stats.results import Estimate

_WIDTH, _ROW, _LEFT, _RIGHT = 240, 19, 42, 40
_WIDE, _WIDE_ROW, _WIDE_LEFT = 720, 26, 64


def issue_bars(findings: Findings) -> str:
    """The section of one small panel an issue; empty where there are no issues."""
    panels = [_panel(findings, d) for d in findings.issues]
    lead = (
        "Percent of the dialogues of a language in which the issue is present, with 95% "
        "intervals. Every panel has its own axis."
    )
    body = panel_grid("Share of issues by language", panels) if panels else ""
    return section("bars", "Issues by language", body, lead)


def _panel(findings: Findings, dimension: Dimension) -> str:
    lines = [(str(p.lang), findings.figure(p, dimension).estimate) for p in findings.langs]
    name = escape(findings.label(dimension))
    return f"<figure><figcaption><b>{name}</b></figcaption>{bar_svg(lines, name)}</figure>"


def bar_svg(lines: Sequence[tuple[str, Estimate]], description: str) -> str:
    """One bar a line; ``description`` is escaped already."""
    ends = [v for _, e in lines for v in (e.value, e.high) if v is not None]
    top = max(ends, default=0.0) or 1.0
    height = _ROW * len(lines) + 4
    rows = "".join(_bar(i, name, e, top) for i, (name, e) in enumerate(lines))
    return (
        f'<svg class="panel" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="{description}, % by language">{rows}</svg>'
    )


def _bar(i: int, name: str, e: Estimate, top: float) -> str:
    y, middle = 2 + i * _ROW, 2 + i * _ROW + _ROW / 2
    room = _WIDTH - _LEFT - _RIGHT
    parts = [f'<text x="{_LEFT - 6}" y="{middle + 3.2}" text-anchor="end">{escape(name)}</text>']
    end = float(_LEFT)
    if e.value is None:
        parts.append(f"<title>{escape(name)}: {escape(e.reason)}</title>")
    else:
        width = room * e.value / top
        end += width
        parts.append(
            f'<rect class="share" x="{_LEFT}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 6}"/>'
        )
        if e.low is not None and e.high is not None:
            low, high = (_LEFT + room * v / top for v in (e.low, e.high))
            end = high
            parts.append(
                f'<line class="whisker" x1="{low:.1f}" y1="{middle}" x2="{high:.1f}" '
                f'y2="{middle}"/>'
            )
    shown = DASH if e.value is None else number(100 * e.value, 1)
    parts.append(f'<text x="{end + 5:.1f}" y="{middle + 3.2}">{shown}</text>')
    return f"<g>{''.join(parts)}</g>"


def distributions(findings: Findings) -> str:
    """The section of stacked bars, overall in sight and further dimensions in a fold."""
    drawn = {d: _stacked(findings, d) for d in findings.graded}
    main = [d for d in drawn if d.name == OVERALL] or list(drawn)
    body = "".join(drawn[d] for d in main)
    rest = [drawn[d] for d in drawn if d not in main and drawn[d]]
    if rest:
        body += details(f"{len(rest)} more dimensions", "".join(rest))
    lead = (
        "Percent of the rows at each level, by language: orange the lower half of the scale, blue "
        "the upper half. The table under each figure has the numbers."
    )
    return section("distribution", "Distribution of answers", body, lead)


def _stacked(findings: Findings, dimension: Dimension) -> str:
    parts = findings.langs
    found = [(str(p.lang), findings.distribution(p, dimension)) for p in parts]
    lines = [(name, d) for name, d in found if isinstance(d, Distribution)]
    label = findings.label(dimension)
    if not lines:
        reason = str(found[0][1]) if found else "no rows"
        return f'<p class="note">{escape(label)}: {DASH} {escape(reason)}.</p>'
    table = details("The numbers", table_html(distribution_table(findings, dimension, parts), 1))
    svg = stacked_svg(lines, escape(label))
    key = _key(lines[0][1].levels)
    return f"<h3>{escape(label)}</h3>{key}<figure>{svg}</figure>{table}"


def tone(i: int, count: int) -> tuple[str, int]:
    """Class and strength in percent of level ``i`` of ``count``: orange, pale, blue."""
    at = 2 * i / (count - 1) - 1 if count > 1 else 1.0
    return ("neg" if at < 0 else "pos"), round(100 * abs(at))


def _key(levels: Sequence[int]) -> str:
    tones = [tone(i, len(levels)) for i in range(len(levels))]
    items = "".join(
        f'<span class="{kind}" style="--s:{strength}%">{level}</span>'
        for level, (kind, strength) in zip(levels, tones, strict=True)
    )
    return f'<p class="levels">{items}</p>'


def stacked_svg(lines: Sequence[tuple[str, Distribution]], description: str) -> str:
    """One bar of full width a line; ``description`` is escaped already."""
    height = _WIDE_ROW * len(lines) + 4
    rows = "".join(_stack(i, name, found) for i, (name, found) in enumerate(lines))
    return (
        f'<svg class="stack" viewBox="0 0 {_WIDE} {height}" role="img" '
        f'aria-label="{description}: share of each level by language">{rows}</svg>'
    )


def _stack(i: int, name: str, found: Distribution) -> str:
    y, room = 2 + i * _WIDE_ROW, _WIDE - _WIDE_LEFT - 4
    middle = y + _WIDE_ROW / 2 + 4
    parts = [f'<text x="{_WIDE_LEFT - 8}" y="{middle}" text-anchor="end">{escape(name)}</text>']
    if not found.n:
        parts.append(f'<text x="{_WIDE_LEFT}" y="{middle}">{DASH} no label</text>')
    x = float(_WIDE_LEFT)
    cells = zip(found.levels, found.counts, found.shares, strict=True)
    for j, (level, count, part) in enumerate(cells):
        if not count:
            continue
        width, share = room * part, number(100 * part, 1)
        kind, strength = tone(j, len(found.levels))
        parts.append(
            f'<rect class="bin {kind}" style="--s:{strength}%" x="{x:.1f}" y="{y + 3}" '
            f'width="{width:.1f}" height="{_WIDE_ROW - 6}"><title>{escape(name)}, {level}: '
            f"{share}% ({count} of {found.n})</title></rect>"
        )
        if width > 34:
            parts.append(f'<text class="on" x="{x + width / 2:.1f}" y="{middle}">{share}</text>')
        x += width
    return "".join(parts)
