"""Heat: a table whose cells carry a colour as strong as their figure, and the figure itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from medal_judges.report.markup import escape, title, undefined


def heat_table(
    name: str, corner: str, columns: Sequence[str], rows: Sequence[str], kind: str = ""
) -> str:
    """The table in its own scrolling container. ``rows`` are ready cells; the rest is text."""
    heads = "".join(f'<th scope="col" dir="auto">{escape(column)}</th>' for column in columns)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">'
        f'<table class="heat{f" {kind}" if kind else ""}">{title(name)}<thead><tr>'
        f'<th scope="col">{escape(corner)}</th>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>\n"
    )


def heat_cell(
    shown: str, strength: float, sign: Literal["pos", "neg"], tooltip: str = "", kind: str = ""
) -> str:
    """A cell that prints ``shown``; ``strength`` from 0 to 1 goes to the sheet as a variable, which
    knows the two hues."""
    percent = round(100 * min(max(strength, 0.0), 1.0))
    said = f' title="{escape(tooltip)}"' if tooltip else ""
    return f'<td class="{sign} {kind}" style="--s:{percent}%"{said}>{shown}</td>'


def empty_cell(reason: str | None, kind: str = "") -> str:
    """A dash that says why there is no figure."""
    return f'<td class="none {kind}">{undefined(reason)}</td>'
