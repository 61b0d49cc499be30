"""Page: sections of tables, figures and texts as one HTML file that asks nothing of the network.

templates/page.html arranges the blocks; everything in a block is escaped unless it is Markup.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from medal_judges.report.figure import Bars, Figure
from medal_judges.report.numbers import DASH, checked, interval, number, p_value_text
from medal_judges.report.svg import bars_svg, interval_svg, plot_svg, tag
from medal_judges.report.table import (
    Cell,
    Figured,
    Heat,
    IntervalBar,
    Percent,
    PValue,
    Table,
)
from medal_judges.stats.results import Estimate

_PACKAGE = "medal_judges.report"


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks that unfold by a click on ``summary``."""

    summary: str
    blocks: Sequence[Block]
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Strip:
    """Blocks of which a legend tells the categories apart."""

    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Legend:
    """The (name, colour index) pairs of several figures."""

    entries: Sequence[tuple[str, int]]
    name: str


@dataclass(frozen=True, slots=True)
class Facts:
    """(Name, value) pairs."""

    pairs: Sequence[tuple[str, str]]


# A str is a paragraph; Markup is HTML made by us.
Block = str | Table | Figure | Fold | Strip | Legend | Facts


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page with an anchor and a heading; shown where it has blocks.

    ``link`` is its name in the navigation, where that is shorter than the heading.
    """

    anchor: str
    heading: str
    blocks: Sequence[Block]
    lead: str = ""
    link: str = ""


def render_page(
    title: str, subtitle: str, sections: Iterable[Section], foot: Section | None = None
) -> str:
    """The page as text; the same bytes for the same blocks."""
    kept = [section for section in sections if section.blocks]
    last = foot if foot is not None and foot.blocks else None
    script = _asset("page.js")
    text = fragment(
        _PACKAGE,
        "page.html",
        title=title,
        subtitle=subtitle,
        sections=kept,
        foot=last,
        style=Markup(_asset("style.css")),
        script=Markup(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    # Half surrogate pairs (legal in JSON, not in UTF-8) and NUL become the replacement sign.
    clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return clean.replace("\x00", "\ufffd")


def fragment(package: str, template: str, **values: object) -> Markup:
    """HTML of a template in the ``templates`` folder of a package."""
    return Markup(_environment(package).get_template(template).render(**values))


def facts_section(pairs: Iterable[tuple[str, str]]) -> Section:
    """How a page was made, as (name, value) pairs; not shown where there are none."""
    listed = list(pairs)
    return Section("facts", "How it was made", [Facts(listed)] if listed else [])


def counted(counts: Iterable[tuple[int, str]]) -> str:
    """``2 judges · 1 set``: numbers with their names in the plural where they need it."""
    return " · ".join(f"{n:,} {name}{'' if n == 1 else 's'}" for n, name in counts)


def folded(tables: Sequence[Table], in_sight: int) -> list[Block]:
    """The first tables, then the others each in a fold."""
    folds = [Fold(table.title, [table]) for table in tables[in_sight:]]
    return [*tables[:in_sight], *folds]


def undefined(reason: str | None) -> Markup:
    """A dash whose tooltip, and text for screen readers, says why there is no number."""
    text = '<abbr class="undef" title="{0}">{1}<span class="hidden"> {0}</span></abbr>'
    return Markup(text).format(reason or "undefined", DASH)


def estimate_html(estimate: Estimate | None, *, brief: bool = False) -> Markup:
    """The value and its interval (``brief``: as tooltip), or a dash with the reason."""
    known = checked(estimate)
    if known.value is None:
        return undefined(known.reason)
    span = interval(known)
    p_value = "" if known.p_value is None else f"p {p_value_text(known.p_value)}"
    title = " ".join(part for part in (span if brief else known.reason or "", p_value) if part)
    hover = {"title": title} if title else {}
    value = tag("span", number(known.value), class_="value", **hover)
    return value if brief or not span else value + " " + tag("span", span, class_="ci")


def cell_html(cell: Cell, *, first: bool = False) -> Markup:
    """A table cell with what it is sorted by; the first text of a row is its head."""
    if isinstance(cell, str):
        if first:
            return tag("th", cell, scope="row", dir="auto")
        return tag("td", cell, class_="words", dir="auto") if cell else Markup("<td></td>")
    if isinstance(cell, Estimate):
        return cell_html(Figured(cell))
    if isinstance(cell, Figured):
        value = checked(cell.estimate).value
        below = ""
        if cell.like is not None:
            below = Markup('<br><span class="ci">○ {}</span>').format(
                estimate_html(cell.like, brief=True)
            )
        body = estimate_html(cell.estimate, brief=cell.brief) + below
        key = "" if value is None else repr(value)
        return tag("td", body, class_="num best" if cell.best else "num", data_sort=key)
    if isinstance(cell, Heat):
        percent = round(100 * min(max(cell.strength, 0.0), 1.0))
        hover = {"title": cell.tooltip} if cell.tooltip else {}
        return tag("td", cell.shown, class_=cell.sign, style=f"--s:{percent}%", **hover)
    if isinstance(cell, IntervalBar):
        return tag("td", interval_svg(cell), class_="barcell")
    if isinstance(cell, Percent):
        badge = Markup(' <span class="badge">{}</span>').format(cell.badge) if cell.badge else ""
        hover = {"title": cell.tooltip} if cell.tooltip else {}
        body = Markup("{}%{}").format(number(100 * cell.value, 1), badge)
        return tag("td", body, class_="num", data_sort=repr(cell.value), **hover)
    if isinstance(cell, PValue):
        return tag("td", p_value_text(cell.value), class_="num", data_sort=repr(cell.value))
    if cell is None:
        return tag("td", undefined(None), class_="num", data_sort="")
    shown = f"{cell:,}" if isinstance(cell, int) else number(cell)
    return tag("td", shown, class_="num", data_sort=repr(cell))


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cell": cell_html, "estimate": estimate_html, "number": number}
    environment.filters |= {"svg": lambda p: bars_svg(p) if isinstance(p, Bars) else plot_svg(p)}
    environment.filters |= {"kind": lambda block: type(block).__name__}
    return environment


def _asset(name: str) -> str:
    return (files(_PACKAGE) / name).read_text(encoding="utf-8")
