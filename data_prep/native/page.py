"""The page of ``medal data compare-native``: bars of win, tie and loss (MEDAL, Figure 8)."""

from __future__ import annotations

from collections.abc import Sequence

from medal_judges.data_prep.native.rates import ALL, Rates
from medal_judges.report.markup import (
    Column,
    Group,
    escape,
    estimate_cell,
    number_cell,
    row_head,
    section,
    sortable,
)
from medal_judges.report.provenance import fact_section
from medal_judges.report.shell import whole_page

_WIDTH, _ROW, _LEFT = 720, 30, 64
_COLOURS = {"win": "var(--pos)", "tie": "var(--line)", "loss": "var(--neg)"}
_NAMES = {"win": "native better", "tie": "tie", "loss": "translated better"}
_NARROWEST = 0.06  # share of a bar in which its number still fits
_LEAD = (
    "Share of the pairs in which a judge prefers the dialogue that was written in the language to "
    "the one translated from English, on the same seed context. Each pair is shown in both orders: "
    "a side wins where it is chosen both times, and all else is a tie."
)
_NOTE = (
    "Shares of the scored pairs, with 95% intervals: Wilson's where each context has one pair; "
    "where several pairs share one (languages, chatbots), by a jackknife that leaves out contexts, "
    "and for a share of 0 or 1 Wilson's with one trial a context. Win − loss and First shown have "
    "the jackknife's throughout. Order decided: the judge changed its answer when the order "
    "changed. First shown: share of its answers for the dialogue shown first; 0.5 is no bias."
)


def page(found: Sequence[Rates], facts: Sequence[tuple[str, str]]) -> str:
    """The whole page as text."""
    criteria = list(dict.fromkeys(one.criterion for one in found))
    anchors = [(f"criterion-{i}", name.capitalize()) for i, name in enumerate(criteria)]
    body = "".join(
        _section(anchor, name, [one for one in found if one.criterion == criterion])
        for (anchor, name), criterion in zip(anchors, criteria, strict=True)
    )
    body += fact_section(facts)
    langs = {one.lang for one in found} - {ALL}
    said = f"{len(criteria)} criteria · {len(langs)} languages"
    return whole_page(
        "Native against translated", said, [*anchors, ("facts", "How it was made")], body
    )


def _section(anchor: str, name: str, found: Sequence[Rates]) -> str:
    body = _legend() + _bars(name, found) + _table(name, found)
    reasons = [
        f"{escape(one.lang)}: {count} unscored, {escape(reason)}"
        for one in found
        if one.lang != ALL or len(found) == 1
        for reason, count in one.unscored.most_common()
    ]
    listed = "".join(f"<li>{line}</li>" for line in reasons)
    body += f"<ul>{listed}</ul>" if listed else ""
    return section(anchor, name, body + f'<p class="note">{_NOTE}</p>', _LEAD)


def _legend() -> str:
    items = "".join(
        f'<li><i class="swatch" style="background:{_COLOURS[key]}" aria-hidden="true"></i>'
        f"{name}</li>"
        for key, name in _NAMES.items()
    )
    return f'<ul class="legend" aria-label="Outcomes">{items}</ul>'


def _bars(name: str, found: Sequence[Rates]) -> str:
    """One stacked bar a language; the numbers stand in the table as well."""
    height = _ROW * len(found) + 4
    bars = "".join(_bar(i, one) for i, one in enumerate(found))
    return (
        f'<svg class="panel" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="{escape(name)}: win, tie and loss by language, numbers in the table">'
        f"{bars}</svg>"
    )


def _bar(i: int, one: Rates) -> str:
    y, middle, room = 2 + i * _ROW, 2 + i * _ROW + _ROW / 2, _WIDTH - _LEFT
    parts = [
        f'<text x="{_LEFT - 8}" y="{middle + 3.5}" text-anchor="end">{escape(one.lang)}</text>'
    ]
    at = float(_LEFT)
    for key, colour in _COLOURS.items():
        share = one.figures[key].value
        if not share:
            continue
        width = share * room
        parts.append(
            f'<rect x="{at:.1f}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 6}" '
            f'style="fill:{colour}"><title>{escape(one.lang)}: {_NAMES[key]} {share:.1%}'
            "</title></rect>"
        )
        if share >= _NARROWEST:
            parts.append(
                f'<text x="{at + width / 2:.1f}" y="{middle + 3.5}" text-anchor="middle" '
                f'style="fill:var(--ink)">{100 * share:.0f}%</text>'
            )
        at += width
    return f"<g>{''.join(parts)}</g>"


def _table(name: str, found: Sequence[Rates]) -> str:
    columns: list[Column | str] = [Column("Language", "words"), "Pairs", "Scored", "Contexts"]
    columns += ["Win", "Tie", "Loss", "Win − loss", "Order decided", "First shown"]
    rows = [_row(one) for one in found if one.lang != ALL]
    total = [_row(one) for one in found if one.lang == ALL]
    group = Group(rows, pinned=total, pinned_kind="total")
    return sortable(f"{name}: native against translated", columns, [group])


def _row(one: Rates) -> str:
    counts = "".join(number_cell(n) for n in (one.pairs, one.scored, one.contexts))
    names = ("win", "tie", "loss", "net", "inconsistent", "first_shown")
    figures = "".join(estimate_cell(one.figures[name]) for name in names)
    return row_head(one.lang) + counts + figures
