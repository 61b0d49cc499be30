"""Page: one HTML file with prose, tables and figures that needs no network. Its tables are also
written as CSV and LaTeX, its figures as PNG, PDF and SVG.

templates/page.html lays out the blocks and escapes everything except Markup.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import typer
from markupsafe import Markup

from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Contributions, Unit
from medal_judges.report.console import Printout, cell_text
from medal_judges.report.drawing import environment
from medal_judges.report.figure import Figure
from medal_judges.report.figure_files import write_figures
from medal_judges.report.table import Figured, Table, number, write_csv
from medal_judges.storage.files import atomic_write, write_json

_PACKAGE = "medal_judges.report"
# Commands of LaTeX, and signs that pdflatex has under a name only. A light's colour is also a word.
_SIGNS = str.maketrans(
    {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {
        "ρ": r"$\rho$",
        "τ": r"$\tau$",
        "α": r"$\alpha$",
        "κ": r"$\kappa$",
        "±": r"$\pm$",
    }
    | {"−": "$-$", "<": "$<$", ">": "$>$", "○": r"$\circ$", "●": "", "▲": "", "■": ""}
)
_TURNS = 6  # of a chat; the rest is folded
LONGEST = 20_000  # characters of a chat on a page; the rest is counted
Turns = Sequence[tuple[str, str]]  # (role, text)


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks below ``summary``, hidden until a reader clicks on it."""

    summary: str
    blocks: Sequence[Block]
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Strip:
    """Blocks with one legend of (name, colour index) pairs."""

    legend: Sequence[tuple[str, int]]
    legend_name: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Choice:
    """Named groups of blocks, of which a reader selects one. Without JavaScript all are shown."""

    label: str
    options: Mapping[str, Sequence[Block]]


# A str is a paragraph; Markup is our own HTML; a list has facts as (name, value) pairs.
Block = str | Table | Figure | Fold | Strip | Choice | list[tuple[str, str]]
# A table that is only a CSV file: its columns and rows.
Sheet = tuple[Sequence[str], Iterable[Iterable[object]]]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page with an anchor and a heading. The page leaves out sections without blocks.

    ``lead`` is the text below the heading; if it is None, the page's leads.html has it under the
    name of the anchor. ``link`` is a shorter name for the navigation.
    """

    anchor: str
    heading: str
    blocks: Sequence[Block]
    lead: str | None = None
    link: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """What a command shows of its values: in the terminal (``printout``), and as NAME.html with
    tables, figures and NAME.json beside it. The same values give the same bytes.

    ``leads`` is the package whose templates/leads.html has the text below the headings. ``scripts``
    are names of further scripts of this folder. ``tables``: also tables/KEY.csv, and KEY.tex for a
    Table. ``figures``: also figures/KEY.png, .pdf and .svg. ``record``: what NAME.json holds; None
    for no such file.
    """

    name: str
    title: str
    subtitle: str
    sections: Iterable[Section]
    foot: Section | None = None
    leads: str = ""
    scripts: Sequence[str] = ()
    tables: Mapping[str, Table | Sheet] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    record: object = None
    printout: Printout | None = None

    def write(self, folder: Path) -> Path:
        """Writes the page and the files beside it; returns the page's path. Without matplotlib, the
        figure files are skipped with a warning."""
        path = atomic_write(folder / f"{self.name}.html", self._html())
        if self.record is not None:
            write_json(path.with_suffix(".json"), self.record)
        for name, table in self.tables.items():
            file = folder / "tables" / f"{name}.csv"
            if isinstance(table, Table):
                write_csv(file, table.columns, table.rows)
                atomic_write(file.with_suffix(".tex"), _latex(table))
            else:
                write_csv(file, *table)
        write_figures(self.figures, folder / "figures")
        return path

    def _html(self) -> str:
        script = "".join(map(_asset, ("page.js", *self.scripts)))
        digest = hashlib.sha256(script.encode()).digest()
        leads: dict[str, object] = {}
        if self.leads:
            leads = vars(environment(self.leads).get_template("leads.html").module)
        text = fragment(
            _PACKAGE,
            "page.html",
            page=self,
            leads=leads,
            style=Markup(_asset("style.css")),
            script=Markup(script),
            digest=base64.b64encode(digest).decode(),
        )
        # Half surrogate pairs (legal in JSON, not in UTF-8) and NUL become the replacement sign.
        clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return clean.replace("\x00", "\ufffd")


def publish(page: Page, folder: Path | None) -> None:
    """Prints the page's tables and, if there is a folder, writes the page there and prints its
    path. The page is written first: a closed pipe loses nothing."""
    path = None
    if folder is not None:
        path = page.write(folder)
    if page.printout is not None:
        page.printout.show()
    if path is not None:
        typer.echo(path)


def write_page(
    path: Path, title: str, subtitle: str, sections: Iterable[Section], **files: Any
) -> Path:
    """Writes a Page with these fields to ``path``; returns the path."""
    return Page(path.stem, title, subtitle, sections, **files).write(path.parent)


def _latex(table: Table) -> str:
    """Returns the table as LaTeX, without its bars; the best figures are bold."""

    def text(cell: object) -> Markup:
        with_minus = re.sub(r"(?<!\w)-(?=[\d.])", "−", cell_text(cell))
        latex = with_minus.translate(_SIGNS).strip()
        if isinstance(cell, Figured) and cell.best:
            value, bracket, ends = latex.partition(" [")
            latex = rf"\textbf{{{value}}}{bracket}{ends}"
        if latex.startswith(("[", "*")):  # an argument of the line's end before it
            latex = f"{{}}{latex}"
        return Markup(latex)

    kinds = table.column_kinds()
    columns = [i for i, kind in enumerate(kinds) if kind != "bar"]
    return fragment(
        _PACKAGE, "table.tex", table=table, text=text, kinds=kinds, shown=columns
    )


def fragment(package: str, template: str, **values: object) -> Markup:
    """HTML of a template in the ``templates`` folder of a package."""
    return Markup(environment(package).get_template(template).render(**values))


def chat_block(turns: Turns, contributions: Sequence[float] = ()) -> Markup:
    """Returns a chat, coloured by the contributions of its turns. Of a long chat, all but the first
    turns are folded."""
    moves: Sequence[float | None] = contributions or [None] * len(turns)
    largest = max((abs(move) for move in contributions), default=0.0) or 1.0
    rows = []
    for i, (turn, move) in enumerate(zip(turns, moves, strict=True)):
        rows.append((i, turn, move, round(100 * abs(move or 0.0) / largest)))
    in_sight = _TURNS if len(turns) > _TURNS + 2 else len(turns)
    return fragment(_PACKAGE, "chat.html", turns=rows, in_sight=in_sight)


def shortened(dialogue: Dialogue, limit: int = LONGEST) -> tuple[Turns, int]:
    """Returns the turns of a dialogue, cut to about ``limit`` characters in all, an equal share for
    each turn, and the number of characters cut."""
    share = max(limit // len(dialogue.turns), 1)
    if sum(len(turn.content) for turn in dialogue.turns) <= limit:
        share = limit
    cut = 0
    short: list[tuple[str, str]] = []
    for turn in dialogue.turns:
        text = turn.content
        excess = len(text) - share
        if excess > 0:
            cut += excess
            text = f"{text[:share]} … ({excess:,} more)"
        short.append((turn.role, text))
    return short, cut


def facts_section(facts: Iterable[tuple[str, str]]) -> Section:
    """Returns the section on how the page was made, from (name, value) pairs."""
    pairs = list(facts)
    return Section("facts", "How it was made", [pairs] if pairs else [])


def counted(counts: Iterable[tuple[int, str]]) -> str:
    """Returns counts with their names, in the plural if needed: ``2 judges · 1 set``."""
    texts = []
    for n, name in counts:
        plural = "" if n == 1 else "s"
        texts.append(f"{n:,} {name}{plural}")
    return " · ".join(texts)


def folded(tables: Sequence[Table], in_sight: int) -> list[Block]:
    """The first ``in_sight`` tables as they are, and each of the others in a fold."""
    folds = [Fold(table.title, [table]) for table in tables[in_sight:]]
    return [*tables[:in_sight], *folds]


def _asset(name: str) -> str:
    return (files(_PACKAGE) / name).read_text(encoding="utf-8")


_UNITS: dict[Unit, str] = {
    "score": "units of the raw score",
    "uncalibrated score": "units of the score before calibration",
    "logit": "logits of the score's place on its scale",
    "uncalibrated logit": "logits of the score's place on its scale, before calibration",
    "mean logit": "mean logits over the steps of the scale",
    "logit per level": "logits per level of the scale",
}


def account_of(contributions: Contributions, score: float) -> str:
    """Says how contributions add up to the ``score`` that a page shows, as the page rounds
    numbers."""
    start, end = round(contributions.baseline, 2), round(contributions.value, 2)
    sign = "−" if end < start else "+"
    moved = f"{sign} {number(abs(end - start))}"
    account = f"Baseline {number(start)} {moved} by its turns = {number(end)}"
    return f"{account}, in {_UNITS[contributions.unit]}; as a score {number(score)}"


TURN_KEY = Markup(
    '<p class="turnkey"><span class="pos" style="--s:90%">raised the score above the baseline'
    '</span><span style="--s:0%">as an average turn</span>'
    '<span class="neg" style="--s:90%">lowered it below the baseline</span></p>'
)
