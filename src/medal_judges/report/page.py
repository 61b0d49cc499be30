"""Page: sections of tables, figures and texts as one HTML file that asks nothing of the network.

templates/page.html arranges the blocks; everything in a block is escaped unless it is Markup.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from medal_judges.report.figure import Bars, Figure, Plot
from medal_judges.report.numbers import (
    checked,
    interval,
    number,
    p_value_text,
    percent,
    percent_interval,
    points,
)
from medal_judges.report.svg import bars_svg, interval_svg, plot_svg
from medal_judges.report.table import IntervalBar, Table

_PACKAGE = "medal_judges.report"
_SVG: dict[type, Callable[..., Markup]] = {
    Plot: plot_svg,
    Bars: bars_svg,
    IntervalBar: interval_svg,
}


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks that unfold by a click on ``summary``."""

    summary: str
    blocks: Sequence[Block]
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Strip:
    """Blocks with a legend of (name, colour index) pairs that tells their categories apart."""

    legend: Sequence[tuple[str, int]]
    legend_name: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Facts:
    """(Name, value) pairs."""

    pairs: Sequence[tuple[str, str]]


# A str is a paragraph; Markup is HTML made by us.
Block = str | Table | Figure | Fold | Strip | Facts


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page with an anchor and a heading; shown where it has blocks.

    ``lead`` stands under the heading, instead of what leads.html has by the anchor. ``link`` is
    its name in the navigation, where that is shorter than the heading.
    """

    anchor: str
    heading: str
    blocks: Sequence[Block]
    lead: str | None = None
    link: str = ""


def render_page(
    title: str,
    subtitle: str,
    sections: Iterable[Section],
    foot: Section | None = None,
    leads: str = "",
    scripts: Sequence[str] = (),
) -> str:
    """The page as text; the same bytes for the same blocks. ``leads`` is the package whose
    templates/leads.html says what stands under the headings; ``scripts`` are further scripts of
    this folder, by name."""
    kept = [section for section in sections if section.blocks]
    last = foot if foot is not None and foot.blocks else None
    script = "".join(map(_asset, ("page.js", *scripts)))
    text = fragment(
        _PACKAGE,
        "page.html",
        title=title,
        subtitle=subtitle,
        leads=vars(_environment(leads).get_template("leads.html").module) if leads else {},
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


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "kind": lambda block: type(block).__name__,
        "checked": checked,
        "number": number,
        "interval": interval,
        "p_value": p_value_text,
        "percent": percent,
        "points": points,
        "percent_interval": percent_interval,
        "svg": lambda drawn: _SVG[type(drawn)](drawn),
    }
    return environment


def _asset(name: str) -> str:
    return (files(_PACKAGE) / name).read_text(encoding="utf-8")
