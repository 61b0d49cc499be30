"""Page: one HTML file with prose, tables and figures that needs no network. Its tables are also
written as CSV, its figures as PNG, PDF and SVG.

templates/page.html lays out the blocks and escapes everything except Markup.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path

import typer
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from medal_judges.records.dialogue import Dialogue
from medal_judges.report.console import Printout
from medal_judges.report.figure import Figure, render_bytes, write_figures
from medal_judges.report.table import (
    Table,
    cell_parts,
    number_text,
    sort_key,
    write_csv,
)
from medal_judges.storage.files import atomic_write, write_json

_PACKAGE = "medal_judges.report"
_TURNS = 6  # of a chat; the rest is folded
LONGEST = 20_000  # characters of a chat on a page; the rest is counted
Turns = Sequence[tuple[str, str]]  # (role, text)


@dataclass(frozen=True, slots=True)
class Fold:
    """A collapsible part of a page: a reader clicks on ``summary`` to show or hide the rest.

    Attributes:
        summary: Text that is always shown.
        blocks: Paragraphs, tables and figures to hide.
        is_open: Whether the blocks are shown at first.
    """

    summary: str
    blocks: Sequence[Block]
    is_open: bool = False


# A str is a paragraph; Markup is our own HTML; a list has facts as (name, value) pairs.
Block = str | Table | Figure | Fold | list[tuple[str, str]]
# A table that is only a CSV file: its columns and rows.
Sheet = tuple[Sequence[str], Iterable[Iterable[object]]]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page with a heading. The page leaves out sections without blocks.

    Attributes:
        anchor: Name of the section in links, such as ``labels``.
        heading: Text above the section.
        blocks: Paragraphs, tables and figures of the section.
        lead: Text below the heading. If None, it is read from the page's templates/leads.html,
            where it is stored under ``anchor``.
        link: Shorter heading for the navigation. Empty to show ``heading`` there.
    """

    anchor: str
    heading: str
    blocks: Sequence[Block]
    lead: str | None = None
    link: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """The results of a command as an HTML page, with tables, figures and JSON in files beside it.

    Attributes:
        name: Name of the HTML file, without ``.html``.
        title: Title at the top of the page.
        subtitle: Text below the title.
        sections: Sections of the page.
        leads: Python package whose templates/leads.html has the texts below the headings. Empty for
            none.
        tables: File name -> table. ``{"scores": table}`` is written to tables/scores.csv.
        figures: File name -> figure. ``{"scores": figure}`` is written to figures/scores.png, .pdf
            and .svg.
        record: Content of the JSON file, which has the name of the page. None for no JSON file.
        printout: What the command prints in the terminal. None for nothing.
    """

    name: str
    title: str
    subtitle: str
    sections: Iterable[Section]
    leads: str = ""
    tables: Mapping[str, Table | Sheet] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    record: object = None
    printout: Printout | None = None

    def write(self, folder: Path) -> Path:
        """Writes the page, and the files beside it, to ``folder``. Returns the path of the page."""
        drawings = write_figures(self.figures, folder / "figures")
        path = atomic_write(folder / f"{self.name}.html", self._to_html(drawings))
        if self.record is not None:
            write_json(path.with_suffix(".json"), self.record)
        for name, table in self.tables.items():
            file = folder / "tables" / f"{name}.csv"
            if isinstance(table, Table):
                table = table.columns, table.rows
            write_csv(file, *table)
        return path

    def _to_html(self, drawings: Mapping[int, bytes]) -> str:
        script = _read_asset("page.js")
        digest = hashlib.sha256(script.encode()).digest()
        leads: dict[str, object] = {}
        if self.leads:
            leads = vars(
                _template_environment(self.leads).get_template("leads.html").module
            )

        def image(figure: Figure) -> str:
            drawing = drawings.get(id(figure)) or render_bytes(figure)["svg"]
            return f"data:image/svg+xml;base64,{base64.b64encode(drawing).decode()}"

        text = render_template(
            _PACKAGE,
            "page.html",
            page=self,
            leads=leads,
            image=image,
            style=Markup(_read_asset("style.css")),
            script=Markup(script),
            digest=base64.b64encode(digest).decode(),
        )
        # Half surrogate pairs (legal in JSON, not in UTF-8) and NUL become the replacement sign.
        clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return clean.replace("\x00", "\ufffd")


def print_and_write(page: Page, folder: Path | None) -> None:
    """Writes ``page`` to ``folder``, then prints its ``printout`` and the path of the page. If
    ``folder`` is None, it only prints the ``printout``."""
    path = None
    if folder is not None:
        path = page.write(folder)
    if page.printout is not None:
        page.printout.show()
    if path is not None:
        typer.echo(path)


def render_template(package: str, template: str, **values: object) -> Markup:
    """Returns HTML from a jinja template. Values are escaped unless they are ``Markup``.

    Args:
        package: Python package with the folder ``templates``.
        template: File name of the template, such as ``page.html``.
        values: Variables of the template.
    """
    return Markup(
        _template_environment(package).get_template(template).render(**values)
    )


@cache
def _template_environment(package: str) -> Environment:
    """Returns the jinja environment for the templates of ``package``. Values are escaped for HTML
    unless they are ``Markup``."""
    templates = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "number": number_text,
        "parts": cell_parts,
        "key": sort_key,
        "kind": lambda value: type(value).__name__,
    }
    return templates


def chat_html(turns: Turns, contributions: Sequence[float] = ()) -> Markup:
    """Returns the HTML of a chat.

    Args:
        turns: (role, text) of each turn.
        contributions: One number for each turn: by how much it raised (above 0) or lowered (below
            0) the judge's score. It is shown as a colour. Empty for no colours.
    """
    moves: Sequence[float | None] = contributions or [None] * len(turns)
    largest = max((abs(move) for move in contributions), default=0.0) or 1.0
    rows = []
    for i, (turn, move) in enumerate(zip(turns, moves, strict=True)):
        rows.append((i, turn, move, round(100 * abs(move or 0.0) / largest)))
    in_sight = _TURNS if len(turns) > _TURNS + 2 else len(turns)
    return render_template(_PACKAGE, "chat.html", turns=rows, in_sight=in_sight)


def shortened_turns(dialogue: Dialogue, limit: int = LONGEST) -> Turns:
    """Returns (role, text) of each turn of ``dialogue``. If the dialogue is long,
    its long turns are cut.

    Args:
        limit: Maximum number of characters of the dialogue (20,000 by default). In a longer one,
            each turn is cut at ``limit`` divided by the number of turns. A cut turn says how many
            characters are missing.
    """
    share = max(limit // len(dialogue.turns), 1)
    if sum(len(turn.content) for turn in dialogue.turns) <= limit:
        share = limit
    short: list[tuple[str, str]] = []
    for turn in dialogue.turns:
        text = turn.content
        excess = len(text) - share
        if excess > 0:
            text = f"{text[:share]} … ({excess:,} more)"
        short.append((turn.role, text))
    return short


def facts_section(facts: Iterable[tuple[str, str]]) -> Section:
    """Returns the section "How it was made" of a page, with a list of ``facts``, which are
    (name, value) pairs."""
    pairs = list(facts)
    return Section("facts", "How it was made", [pairs] if pairs else [])


def count_text(counts: Iterable[tuple[int, str]]) -> str:
    """Returns counts with their nouns as one text, such as ``2 judges · 1 set``.

    Args:
        counts: (number, noun in the singular) pairs. The plural gets an s.
    """
    texts = []
    for n, name in counts:
        plural = "" if n == 1 else "s"
        texts.append(f"{n:,} {name}{plural}")
    return " · ".join(texts)


def _read_asset(name: str) -> str:
    return (files(_PACKAGE) / name).read_text(encoding="utf-8")


TURN_KEY = Markup(
    '<p class="turnkey"><span class="pos" style="--s:90%">raised the score above the baseline'
    '</span><span style="--s:0%">as an average turn</span>'
    '<span class="neg" style="--s:90%">lowered it below the baseline</span></p>'
)
