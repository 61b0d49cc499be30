"""Markup: the few HTML pieces every section is built of. Everything from data is escaped here."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from medal_judges.report.numbers import DASH, checked, interval, number, p_value_text
from medal_judges.stats.results import Estimate


def escape(value: object) -> str:
    """Text safe in HTML content and in quoted attributes; half surrogate pairs become U+FFFD."""
    text = str(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return html.escape(text.replace("\x00", "\ufffd"), quote=True)


def section(anchor: str, heading: str, body: str, lead: str = "") -> str:
    """A section of the page; an empty body gives no section at all."""
    if not body:
        return ""
    opening = f'<p class="lead">{lead}</p>' if lead else ""
    return (
        f'<section id="{escape(anchor)}" aria-labelledby="{escape(anchor)}-h">'
        f'<h2 id="{escape(anchor)}-h">{escape(heading)}</h2>{opening}{body}</section>\n'
    )


def details(summary: str, body: str, *, is_open: bool = False) -> str:
    """A fold. ``summary`` is text and gets escaped, ``body`` is HTML."""
    opened = " open" if is_open else ""
    return f"<details{opened}><summary>{escape(summary)}</summary>{body}</details>"


def undefined(reason: str | None) -> str:
    """A dash whose tooltip, and text for screen readers, says why there is no number."""
    why = escape(reason or "undefined")
    return f'<abbr class="undef" title="{why}">{DASH}<span class="hidden"> {why}</span></abbr>'


def figure_text(estimate: Estimate | None, *, brief: bool = False) -> str:
    """The value and its interval (``brief``: as tooltip), or a dash with the reason."""
    found = checked(estimate)
    if found.value is None:
        return undefined(found.reason)
    span = interval(found)
    p_value = "" if found.p_value is None else f"p {p_value_text(found.p_value)}"
    title = " ".join(part for part in (span if brief else found.reason or "", p_value) if part)
    said = f' title="{escape(title)}"' if title else ""
    beside = f' <span class="ci">{span}</span>' if span and not brief else ""
    return f'<span class="value"{said}>{number(found.value)}</span>{beside}'


def estimate_cell(
    estimate: Estimate | None, *, best: bool = False, brief: bool = False, below: str = ""
) -> str:
    """A table cell of a figure, sorted by its value; ``brief`` keeps the interval as tooltip,
    ``below`` is HTML under it."""
    found = checked(estimate)
    key = "" if found.value is None else repr(found.value)
    mark = " best" if best else ""
    return f'<td class="num{mark}" data-sort="{key}">{figure_text(found, brief=brief)}{below}</td>'


def number_cell(value: float | int | None, reason: str = "undefined") -> str:
    """A table cell of a bare number; whole numbers keep no decimals."""
    if value is None:
        return f'<td class="num" data-sort="">{undefined(reason)}</td>'
    shown = f"{value:,}" if isinstance(value, int) else number(value)
    return f'<td class="num" data-sort="{value!r}">{shown}</td>'


def text_cell(value: object) -> str:
    """A cell of words; they may wrap."""
    return f'<td class="words" dir="auto">{escape(value)}</td>'


def html_cell(body: str, kind: str = "", sort: str | None = None) -> str:
    """A cell of HTML made by us (a bar, a badge), sorted by ``sort`` where that is given."""
    css = f' class="{kind}"' if kind else ""
    key = "" if sort is None else f' data-sort="{escape(sort)}"'
    return f"<td{css}{key}>{body}</td>"


def row_head(value: object, extra: str = "", kind: str = "") -> str:
    """The first cell of a row; ``extra`` is HTML set after the escaped ``value``."""
    css = f' class="{kind}"' if kind else ""
    return f'<th scope="row"{css} dir="auto">{escape(value)}{extra}</th>'


@dataclass(frozen=True, slots=True)
class Column:
    """Head of a column: ``number``, ``words`` (set from the start) or ``bar`` (never sorted)."""

    name: str
    kind: Literal["number", "words", "bar"] = "number"


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that sort among themselves, under an optional heading.

    ``pinned`` stay last; ``pinned_kind`` says what they are (human ceiling, or total).
    """

    rows: Sequence[str]
    heading: str = ""
    pinned: Sequence[str] = ()
    pinned_kind: Literal["ceiling", "total"] = "ceiling"


def sortable(caption: str, columns: Sequence[Column | str], groups: Sequence[Group]) -> str:
    """A table in its own scrolling container. Rows are ready cells; columns and caption text.

    The script makes the heads into sort buttons; without it the table is an ordinary one.
    """
    heads = "".join(_head(c if isinstance(c, Column) else Column(c)) for c in columns)
    bodies = "".join(_body(group, len(columns)) for group in groups)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f'<table class="sortable">{title(caption)}'
        f"<thead><tr>{heads}</tr></thead>{bodies}</table></div>\n"
    )


def title(caption: str) -> str:
    """A caption that stays in sight while its table scrolls sideways."""
    return f"<caption><span>{escape(caption)}</span></caption>"


def _head(column: Column) -> str:
    fixed = " data-nosort" if column.kind == "bar" else ""
    return f'<th scope="col" class="{column.kind}"{fixed}>{escape(column.name)}</th>'


def _body(group: Group, width: int) -> str:
    heading = ""
    if group.heading:
        heading = (
            f'<tr class="group" data-pin="first"><th scope="rowgroup" colspan="{width}">'
            f"<span>{escape(group.heading)}</span></th></tr>"
        )
    rows = "".join(f"<tr>{row}</tr>" for row in group.rows)
    pinned = "".join(
        f'<tr class="{group.pinned_kind}" data-pin="last">{row}</tr>' for row in group.pinned
    )
    return f"<tbody>{heading}{rows}{pinned}</tbody>"


def panel_grid(name: str, panels: Sequence[str]) -> str:
    """Small panels in rows of equal length, at most four across; a strip on a phone."""
    across = -(-len(panels) // -(-len(panels) // 4)) if panels else 1
    return (
        f'<div class="panels" style="--across:{across}" tabindex="0" role="region" '
        f'aria-label="{escape(name)}">{"".join(panels)}</div>'
    )


def legend(entries: Sequence[tuple[int, str]], name: str) -> str:
    """Colour swatches with names: (colour index, text)."""
    items = "".join(
        f'<li data-c="{index}"><i class="swatch c{index}" aria-hidden="true"></i>'
        f"<bdi>{escape(text)}</bdi></li>"
        for index, text in entries
    )
    return f'<ul class="legend" aria-label="{escape(name)}">{items}</ul>'
