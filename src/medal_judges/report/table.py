"""Table: one object that makes the HTML of a page, the terminal's table, CSV and JSON.

How each kind of cell is written stands in one place a form: ``plain`` for CSV,
``cell_text`` in console.py for the terminal, ``cell`` in templates/page.html for the page.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal

from markupsafe import Markup

from medal_judges.records.foreign_text import plain_cell
from medal_judges.stats.estimate import Estimate
from medal_judges.storage.files import atomic_write

Pin = Literal["ceiling", "total"]


@dataclass(frozen=True, slots=True)
class PValue:
    """A p-value: small ones keep their size, and none is shown as 0.00."""

    value: float


@dataclass(frozen=True, slots=True)
class Percent:
    """A share from 0 to 1, shown as percent; ``tooltip`` is shown on hover, ``badge`` beside it."""

    value: float
    tooltip: str = ""
    badge: str = ""


@dataclass(frozen=True, slots=True)
class Share:
    """A share, or (``signed``) a difference of shares, shown as percent with its interval."""

    estimate: Estimate
    signed: bool = False


@dataclass(frozen=True, slots=True)
class Figured:
    """An estimate with how the page shows it: ``best`` of its column, ``brief`` with the interval
    as a tooltip, and under it the judge like for like."""

    estimate: Estimate | None
    best: bool = False
    brief: bool = False
    like: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Heat:
    """A coloured cell that prints ``shown``; ``strength`` of the colour runs from 0 to 1, blue for
    positive and orange for negative ones. ``below`` stands with its interval, or why it has none,
    under it. ``value`` is what a file gets."""

    shown: str
    strength: float
    sign: Literal["pos", "neg"] = "pos"
    tooltip: str = ""
    value: float | int | None = None
    below: Estimate | None = None

    @property
    def percent(self) -> int:
        """The strength in percent."""
        return round(100 * min(max(self.strength, 0.0), 1.0))


@dataclass(frozen=True, slots=True)
class IntervalBar:
    """An interval drawn on ``span``, with the human ceiling, and the judge held against what the
    ceiling is held against (``like``). The figure itself stands in a cell beside it."""

    estimate: Estimate
    span: tuple[float, float]
    ceiling: float | None = None
    like: float | None = None


@dataclass(frozen=True, slots=True)
class Light:
    """A verdict like a traffic light, told by colour, by a sign and in words, with what it is of:
    ``shown``, and ``tooltip`` on hover. ``value`` is what a file gets and rows are sorted by."""

    colour: Literal["green", "amber", "red", "none"]
    shown: str
    tooltip: str = ""
    value: float | None = None

    @property
    def sign(self) -> str:
        """A sign that tells the colours apart without colour."""
        return {"green": "●", "amber": "▲", "red": "■", "none": "○"}[self.colour]

    @property
    def words(self) -> str:
        """The colour in a word."""
        return "no verdict" if self.colour == "none" else self.colour


# Text is a str. Markup is HTML made by us: a page takes it as it is, all else strips the tags.
Cell = (
    str
    | int
    | float
    | Estimate
    | PValue
    | Percent
    | Share
    | Figured
    | Heat
    | Light
    | IntervalBar
    | None
)
Row = Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Table:
    """Named columns, rows of typed cells, and a note for under the table.

    A float is shown with 2 decimals, an Estimate with its interval (or its reason), None as a dash.
    ``headings`` start a group of rows, which sort among themselves, at a row's index; ``pinned``
    rows, by index (-1 is the last), stay at the end of their group. A ``heat`` table has coloured
    cells and is not sorted; ``small`` ones stand side by side, ``ceiled`` ones end with a ceiling.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    note: str = ""
    headings: Mapping[int, str] = field(default_factory=dict)
    pinned: Mapping[int, Pin] = field(default_factory=dict)
    style: Literal["sortable", "heat", "heat small", "heat ceiled"] = "sortable"

    def groups(self) -> Iterator[tuple[str, list[tuple[Row, Pin | None]]]]:
        """(Heading, rows with their pins) of each group; one without a heading where none is."""
        starts = sorted({0, *self.headings})
        for start, end in zip(starts, [*starts[1:], len(self.rows)], strict=True):
            yield (
                self.headings.get(start, ""),
                [(self.rows[i], self.pin(i)) for i in range(start, end)],
            )

    def pin(self, row: int) -> Pin | None:
        """How the row at this index is pinned; None where it is sorted with the others."""
        return self.pinned.get(row, self.pinned.get(row - len(self.rows)))

    def column_kinds(self) -> list[Literal["bar", "words", "number"]]:
        """What stands in each column, which says how it is set and whether it can be sorted."""
        columns = [[row[i] for row in self.rows] for i in range(len(self.columns))]
        return [
            "bar"
            if any(isinstance(cell, IntervalBar) for cell in cells)
            else "words"
            if any(isinstance(cell, str) and cell for cell in cells)
            else "number"
            for cells in columns
        ]

    def to_record(self) -> dict[str, Any]:
        """One JSON object; an Estimate and its like are objects of their fields."""
        return {
            "title": self.title,
            "columns": list(self.columns),
            "rows": [
                [asdict(c) if is_dataclass(c) else plain(c) for c in row] for row in self.rows
            ],
            "note": self.note,
        }

    def write_csv(self, path: Path) -> Path:
        """Write columns and rows in full precision; the path."""
        return write_csv(path, self.columns, ([plain(cell) for cell in r] for r in self.rows))


def plain(cell: Cell) -> str | int | float | None:
    """A cell in full precision: of an Estimate the value, then the interval in brackets, or why
    it is undefined."""
    if isinstance(cell, Markup):
        return cell.striptags()
    if isinstance(cell, PValue | Percent | Heat | Light):
        return cell.value
    if isinstance(cell, IntervalBar):
        return None
    if isinstance(cell, Figured | Share):
        return plain(cell.estimate)
    if not isinstance(cell, Estimate):
        return cell
    if cell.value is None:
        return f"undefined: {cell.reason}" if cell.reason else None
    if cell.low is None or cell.high is None:
        return cell.value
    return f"{cell.value!r} [{cell.low!r}, {cell.high!r}]"


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Iterable[object]]) -> Path:
    """Write rows of plain values and return the path; None is an empty cell. A text that a
    spreadsheet would take for a formula gets an apostrophe before it."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    for row in chain((columns,), rows):
        writer.writerow([plain_cell(cell) for cell in row])
    return atomic_write(path, text.getvalue())


def slug(text: str) -> str:
    """``text`` in lower case with everything but letters and digits as single dashes."""
    kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in text.lower())
    return "-".join(part for part in kept.split("-") if part) or "unnamed"


def unique_slugs(texts: Sequence[str]) -> list[str]:
    """One slug per text; a slug that is taken gets a number, so that no file is overwritten."""
    slugs: list[str] = []
    for text in texts:
        base = slug(text)
        numbered = chain([base], (f"{base}-{i}" for i in count(2)))
        slugs.append(next(name for name in numbered if name not in slugs))
    return slugs
