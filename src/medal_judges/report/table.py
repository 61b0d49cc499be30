"""Table: one object for the page, the terminal, CSV and JSON.

Cells are written by ``plain`` for CSV, and by ``cell_parts`` for the terminal and the page.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal

from markupsafe import Markup

from medal_judges.errors import plain_cell
from medal_judges.stats.estimate import Estimate
from medal_judges.storage.files import atomic_write

Pin = Literal["ceiling", "total"]


@dataclass(frozen=True, slots=True)
class PValue:
    """A p-value; a small one is shown as < 0.001."""

    value: float


@dataclass(frozen=True, slots=True)
class Percent:
    """A share from 0 to 1, shown in percent, with a tooltip and a badge beside it."""

    value: float
    tooltip: str = ""
    badge: str = ""

    @property
    def text(self) -> str:
        return percent(self.value)


@dataclass(frozen=True, slots=True)
class Share:
    """A share, or (``signed``) a difference of shares, shown in percent with its interval."""

    estimate: Estimate
    signed: bool = False


@dataclass(frozen=True, slots=True)
class Figured:
    """An estimate with its style on the page: ``best`` is bold, ``brief`` shows the interval as a
    tooltip, ``bare`` the interval alone."""

    estimate: Estimate | None
    best: bool = False
    brief: bool = False
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Heat:
    """A coloured cell with the text ``text``. ``pos`` is blue, ``neg`` orange; ``strength`` is
    from 0 to 1. Files have ``value``."""

    text: str
    strength: float
    sign: Literal["pos", "neg"] = "pos"
    tooltip: str = ""
    value: float | int | None = None

    @property
    def percent(self) -> int:
        return round(100 * min(max(self.strength, 0.0), 1.0))


@dataclass(frozen=True, slots=True)
class IntervalBar:
    """An interval drawn on the axis ``span``, with the human ceiling and the judge's like-for-like
    figure (``like``). The next cell has the number."""

    estimate: Estimate
    span: tuple[float, float]
    ceiling: float | None = None
    like: float | None = None


@dataclass(frozen=True, slots=True)
class Light:
    """A traffic light: colour and sign show the verdict, ``text`` says it. Files have
    ``value``, which also sorts the rows."""

    colour: Literal["green", "amber", "red", "none"]
    text: str
    tooltip: str = ""
    value: float | None = None

    @property
    def sign(self) -> str:
        return {"green": "●", "amber": "▲", "red": "■", "none": "○"}[self.colour]


# A str is text. Markup is our own HTML: only the page keeps its tags.
Number = int | float | Estimate | PValue | Percent | Share | Figured
Cell = str | Number | Heat | Light | IntervalBar | None
Row = Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Table:
    """Named columns, rows of typed cells, and a note below the table.

    A float is shown with 2 decimals, an Estimate with its interval (or its reason), None as a dash.
    ``headings`` start a group of rows at a row's index; groups are sorted separately. ``pinned``
    rows, by index (-1 is the last), stay at the end of their group. A ``heat`` table has coloured
    cells and cannot be sorted; ``small`` ones stand side by side.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    note: str = ""
    headings: Mapping[int, str] = field(default_factory=dict)
    pinned: Mapping[int, Pin] = field(default_factory=dict)
    style: Literal["sortable", "heat", "heat small"] = "sortable"

    def groups(self) -> Iterator[tuple[str, list[tuple[Row, Pin | None]]]]:
        """Yields (heading, rows with their pins); a table without headings is one group."""
        starts = sorted({0, *self.headings})
        for start, end in zip(starts, [*starts[1:], len(self.rows)], strict=True):
            rows = [(self.rows[i], self.pin(i)) for i in range(start, end)]
            yield self.headings.get(start, ""), rows

    def pin(self, row: int) -> Pin | None:
        """How the row at this index is pinned; None if it is sorted."""
        return self.pinned.get(row, self.pinned.get(row - len(self.rows)))

    def column_kinds(self) -> list[Literal["bar", "words", "number"]]:
        """The kind of each column, which decides its alignment and sorting."""
        kinds: list[Literal["bar", "words", "number"]] = []
        for i in range(len(self.columns)):
            cells = [row[i] for row in self.rows]
            is_bar = any(isinstance(cell, IntervalBar) for cell in cells)
            is_text = any(isinstance(cell, str) and cell for cell in cells)
            kinds.append("bar" if is_bar else "words" if is_text else "number")
        return kinds

    def to_record(self) -> dict[str, Any]:
        """One JSON object. An Estimate or another typed cell becomes an object of its fields."""
        rows = [
            [asdict(c) if is_dataclass(c) else plain(c) for c in row]
            for row in self.rows
        ]
        return {
            "title": self.title,
            "columns": [*self.columns],
            "rows": rows,
            "note": self.note,
        }


def plain(cell: object) -> object:
    """A cell for CSV, in full precision. An Estimate is its value and its interval in brackets, or
    the reason why it is undefined."""
    if isinstance(cell, Figured | Share):
        cell = cell.estimate
    if isinstance(cell, Markup):
        return cell.striptags()
    if not isinstance(cell, Estimate):
        return None if isinstance(cell, IntervalBar) else getattr(cell, "value", cell)
    if cell.value is None:
        return f"undefined: {cell.reason}" if cell.reason else None
    if cell.low is None or cell.high is None:
        return cell.value
    return f"{cell.value!r} [{cell.low!r}, {cell.high!r}]"


def sort_key(cell: object) -> object:
    """Returns the number that a cell is sorted by on the page; an empty text without one."""
    while isinstance(cell, Figured | Share):
        cell = cell.estimate
    value = getattr(cell, "value", cell)
    return "" if value is None else value


def write_csv(
    path: Path, columns: Sequence[str], rows: Iterable[Iterable[object]]
) -> Path:
    """Writes rows of cells or plain values; returns the path. None is an empty cell. A text that a
    spreadsheet would read as a formula gets a leading apostrophe."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    for row in chain((columns,), rows):
        writer.writerow([plain_cell(plain(cell)) for cell in row])
    return atomic_write(path, text.getvalue())


def slug(text: str) -> str:
    """``text`` in lower case, with single dashes for all but letters and digits."""
    return "-".join(re.findall("[a-z0-9]+", text.lower())) or "unnamed"


def unique_slugs(texts: Sequence[str]) -> list[str]:
    """One slug per text; repeated slugs get a number, so that no file overwrites another."""
    slugs: list[str] = []
    for base in map(slug, texts):
        names = chain([base], (f"{base}-{i}" for i in count(2)))
        slugs.append(next(name for name in names if name not in slugs))
    return slugs


def p_cell(estimate: Estimate) -> PValue | None:
    """The p-value of an estimate as a cell."""
    if estimate.p_value is None:
        return None
    return PValue(estimate.p_value)


def ends_of(estimates: Iterable[Estimate]) -> list[float]:
    """All values and ends of intervals that there are."""
    ends: list[float | None] = []
    for estimate in estimates:
        ends += [estimate.low, estimate.value, estimate.high]
    return [end for end in ends if end is not None]


DASH = "–"


def number(value: float, digits: int = 2) -> str:
    """``value`` with ``digits`` decimals and a typographic minus sign; never minus zero."""
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", "−")


def percent(share: float) -> str:
    """``12.3%``, with two decimals below 1%."""
    return f"{_hundredths(share)}%"


def points(difference: float) -> str:
    """A difference of shares in percentage points, such as ``+4.8 pts``."""
    return f"{'+' if difference > 0 else ''}{_hundredths(difference)} pts"


def _hundredths(share: float) -> str:
    return number(100 * share, 2 if 0 < abs(share) < 0.00995 else 1)


def p_value_text(value: float) -> str:
    """A p-value as text, such as ``0.034``, ``0.62`` or ``< 0.001``."""
    return "< 0.001" if value < 0.001 else number(value, 3 if value < 0.1 else 2)


def interval(estimate: Estimate, text: Callable[[float], str] = number) -> str:
    """``[low, high]``, or an empty text without an interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"[{text(estimate.low)}, {text(estimate.high)}]"


def percent_interval(estimate: Estimate) -> str:
    """``[low, high]`` in percent, or an empty text without an interval."""
    return interval(estimate, _hundredths)


def cell_parts(cell: object) -> tuple[str, str, str]:
    """Returns the text of a cell, its interval, and what a tooltip says."""
    if isinstance(cell, Figured):
        text, span, hint = cell_parts(cell.estimate or Estimate(None))
        if cell.bare:
            return span or DASH, "", hint
        if cell.brief:
            return text, "", span or hint
        return text, span, hint
    if isinstance(cell, Estimate):
        return _estimate_parts(cell, number, interval(cell))
    if isinstance(cell, Share):
        text_of = points if cell.signed else percent
        span = interval(cell.estimate, _hundredths)
        return _estimate_parts(cell.estimate, text_of, span)
    if isinstance(cell, Light):
        return f"{cell.sign} {cell.text}", "", cell.tooltip
    if isinstance(cell, Percent | Heat):
        return cell.text, "", cell.tooltip
    return _plain_text(cell), "", ""


def _plain_text(cell: object) -> str:
    """Returns a cell without interval and tooltip as text."""
    if cell is None or isinstance(cell, IntervalBar):
        return DASH
    if isinstance(cell, PValue):
        return p_value_text(cell.value)
    if isinstance(cell, float):
        return number(cell)
    if isinstance(cell, Markup):
        cell = cell.striptags()
    return str(cell)


def _estimate_parts(
    estimate: Estimate, text: Callable[[float], str], span: str
) -> tuple[str, str, str]:
    if estimate.value is None or not math.isfinite(estimate.value):
        return DASH, "", estimate.reason or "undefined"
    hint = estimate.reason or ""
    if estimate.p_value is not None:
        hint = f"{hint} p {p_value_text(estimate.p_value)}".strip()
    return text(estimate.value), span, hint
