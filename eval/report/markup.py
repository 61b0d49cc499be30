"""Markup: the few HTML pieces every section is built of. Everything from data is escaped here."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from medal_judges.eval.report.numbers import DASH, checked, interval, number
from medal_judges.eval.results import Estimate


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


def figure_text(estimate: Estimate | None) -> str:
    """The value and its interval, or a dash with the reason."""
    found = checked(estimate)
    if found.value is None:
        return undefined(found.reason)
    title = "" if found.p_value is None else f' title="p = {found.p_value:.2g}"'
    span = interval(found)
    beside = f' <span class="ci">{span}</span>' if span else ""
    return f'<span class="value"{title}>{number(found.value)}</span>{beside}'


def estimate_cell(estimate: Estimate | None, *, best: bool = False) -> str:
    """A table cell of a figure, sorted by its value."""
    found = checked(estimate)
    key = "" if found.value is None else repr(found.value)
    mark = " best" if best else ""
    return f'<td class="num{mark}" data-sort="{key}">{figure_text(found)}</td>'


def number_cell(value: float | int | None, reason: str = "undefined") -> str:
    """A table cell of a bare number; whole numbers keep no decimals."""
    if value is None:
        return f'<td class="num" data-sort="">{undefined(reason)}</td>'
    shown = f"{value:,}" if isinstance(value, int) else number(value)
    return f'<td class="num" data-sort="{value!r}">{shown}</td>'


def text_cell(value: object) -> str:
    return f'<td dir="auto">{escape(value)}</td>'


def html_cell(body: str, kind: str = "") -> str:
    """A cell of HTML made by us (a bar, a badge)."""
    return f'<td class="{kind}">{body}</td>' if kind else f"<td>{body}</td>"


def row_head(value: object, extra: str = "", kind: str = "") -> str:
    """The first cell of a row; ``extra`` is HTML set after the escaped ``value``."""
    css = f' class="{kind}"' if kind else ""
    return f'<th scope="row"{css} dir="auto">{escape(value)}{extra}</th>'


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that sort among themselves, under an optional heading; ``pinned`` stay last."""

    rows: Sequence[str]
    heading: str = ""
    pinned: Sequence[str] = ()


def sortable(caption: str, columns: Sequence[str], groups: Sequence[Group]) -> str:
    """A table in its own scrolling container. Rows are ready cells; columns and caption text.

    The script makes the heads into sort buttons; without it the table is an ordinary one.
    A column whose name starts with ``~`` cannot be sorted (bars).
    """
    heads = "".join(
        f'<th scope="col"{" data-nosort" if c.startswith("~") else ""}>{escape(c.lstrip("~"))}</th>'
        for c in columns
    )
    bodies = "".join(_body(group, len(columns)) for group in groups)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f'<table class="sortable"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{heads}</tr></thead>{bodies}</table></div>\n"
    )


def _body(group: Group, width: int) -> str:
    heading = ""
    if group.heading:
        heading = (
            f'<tr class="group" data-pin="first"><th scope="rowgroup" colspan="{width}">'
            f"<span>{escape(group.heading)}</span></th></tr>"
        )
    rows = "".join(f"<tr>{row}</tr>" for row in group.rows)
    pinned = "".join(f'<tr class="pin" data-pin="last">{row}</tr>' for row in group.pinned)
    return f"<tbody>{heading}{rows}{pinned}</tbody>"


def legend(entries: Sequence[tuple[int, str]], name: str) -> str:
    """Colour swatches with names: (colour index, text)."""
    items = "".join(
        f'<li data-c="{index}"><i class="swatch c{index}" aria-hidden="true"></i>'
        f"<bdi>{escape(text)}</bdi></li>"
        for index, text in entries
    )
    return f'<ul class="legend" aria-label="{escape(name)}">{items}</ul>'
