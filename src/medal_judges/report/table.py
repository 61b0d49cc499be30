"""Table: one object for the page, the terminal, CSV and JSON.

Cells are written by ``csv_value`` for CSV, and by ``cell_parts`` for the terminal and the page.
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

from medal_judges.errors import safe_cell
from medal_judges.stats.intervals import Estimate
from medal_judges.storage.files import atomic_write


@dataclass(frozen=True, slots=True)
class PValue:
    """A p-value; a small one is shown as < 0.001."""

    value: float


@dataclass(frozen=True, slots=True)
class Share:
    """A share, or (``signed``) a difference of shares, shown in percent with its interval."""

    estimate: Estimate
    signed: bool = False


@dataclass(frozen=True, slots=True)
class Brief:
    """An estimate whose interval is a tooltip on the page."""

    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Light:
    """A traffic light: colour and sign show the verdict, ``text`` says it. Files have
    ``value``, which also sorts the rows."""

    colour: Literal["green", "red", "none"]
    text: str
    tooltip: str = ""
    value: float | None = None

    @property
    def sign(self) -> str:
        return {"green": "●", "red": "■", "none": "○"}[self.colour]


Cell = str | int | float | Estimate | PValue | Share | Brief | Light | None
Row = Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Table:
    """Named columns, rows of typed cells, and a note below the table.

    A float is shown with 2 decimals, an Estimate with its interval (or its reason), None as a dash.
    ``headings`` start a group of rows at a row's index; groups are sorted separately. ``last`` says
    what the last row is, which then stays there; None if it is sorted like the others.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    note: str = ""
    headings: Mapping[int, str] = field(default_factory=dict)
    last: Literal["ceiling", "total"] | None = None

    def groups(self) -> Iterator[tuple[str, Sequence[Row]]]:
        """Yields (heading, rows); a table without headings is one group."""
        starts = sorted({0, *self.headings})
        for start, end in zip(starts, [*starts[1:], len(self.rows)], strict=True):
            yield self.headings.get(start, ""), self.rows[start:end]

    def column_kinds(self) -> list[Literal["words", "number"]]:
        """Returns the kind of each column, which decides its alignment and sorting."""
        kinds: list[Literal["words", "number"]] = []
        for i in range(len(self.columns)):
            is_text = any(isinstance(row[i], str) and row[i] for row in self.rows)
            kinds.append("words" if is_text else "number")
        return kinds

    def to_record(self) -> dict[str, Any]:
        """Returns one JSON object. An Estimate or another typed cell becomes an object of its
        fields."""
        rows = [
            [asdict(c) if is_dataclass(c) else csv_value(c) for c in row]
            for row in self.rows
        ]
        return {
            "title": self.title,
            "columns": [*self.columns],
            "rows": rows,
            "note": self.note,
        }


def csv_value(cell: object) -> object:
    """Returns a cell for CSV, in full precision. An Estimate is its value and its interval in
    brackets, or the reason why it is undefined."""
    cell = getattr(cell, "estimate", cell)
    if not isinstance(cell, Estimate):
        return getattr(cell, "value", cell)
    if cell.value is None:
        return f"undefined: {cell.reason}" if cell.reason else None
    if cell.low is None or cell.high is None:
        return cell.value
    return f"{cell.value!r} [{cell.low!r}, {cell.high!r}]"


def sort_key(cell: object) -> object:
    """Returns what ``cell`` is sorted by on the page: its number, or its text if it has none. It is
    an empty text for an estimate without a value."""
    cell = getattr(cell, "estimate", cell)
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
        writer.writerow([safe_cell(csv_value(cell)) for cell in row])
    return atomic_write(path, text.getvalue())


def slug(text: str) -> str:
    """Returns ``text`` in lower case, with single dashes for all but letters and digits."""
    return "-".join(re.findall("[a-z0-9]+", text.lower())) or "unnamed"


def unique_slugs(texts: Sequence[str]) -> list[str]:
    """Returns one slug per text; repeated slugs get a number, so that no file overwrites
    another."""
    slugs: list[str] = []
    for base in map(slug, texts):
        names = chain([base], (f"{base}-{i}" for i in count(2)))
        slugs.append(next(name for name in names if name not in slugs))
    return slugs


def p_cell(value: float | None) -> PValue | None:
    """Returns a p-value as a cell, None without one."""
    return None if value is None else PValue(value)


DASH = "–"


def number(value: float, digits: int = 2) -> str:
    """Returns ``value`` with ``digits`` decimals and a typographic minus sign; never minus zero."""
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", "−")


def percent(share: float) -> str:
    """Returns ``12.3%``, with two decimals below 1%."""
    return f"{_hundredths(share)}%"


def points(difference: float) -> str:
    """Returns a difference of shares in percentage points, such as ``+4.8 pts``."""
    return f"{'+' if difference > 0 else ''}{_hundredths(difference)} pts"


def _hundredths(share: float) -> str:
    return number(100 * share, 2 if 0 < abs(share) < 0.00995 else 1)


def in_percent(share: Estimate) -> Estimate:
    """Returns a share (0 to 1) in percent, with its interval and reason."""
    # None stays None, and 0 stays 0.
    return Estimate(
        share.value and 100 * share.value,
        share.low and 100 * share.low,
        share.high and 100 * share.high,
        reason=share.reason,
    )


def p_value_text(value: float) -> str:
    """Returns a p-value as text, such as ``0.034``, ``0.62`` or ``< 0.001``."""
    return "< 0.001" if value < 0.001 else number(value, 3 if value < 0.1 else 2)


def interval(estimate: Estimate, text: Callable[[float], str] = number) -> str:
    """Returns ``[low, high]``, or an empty text without an interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"[{text(estimate.low)}, {text(estimate.high)}]"


def estimate_words(cell: Cell) -> str:
    """Returns an estimate or a share, ``cell``, with its interval; its reason without a value."""
    text, span, hint = cell_parts(cell)
    if text == DASH:
        return hint
    return f"{text} {span}".rstrip()


def cell_parts(cell: object) -> tuple[str, str, str]:
    """Returns the text of a cell, its interval, and what a tooltip says."""
    if isinstance(cell, Brief):
        text, span, hint = cell_parts(cell.estimate)
        return text, "", span or hint
    if isinstance(cell, Estimate):
        return _estimate_parts(cell, number, interval(cell))
    if isinstance(cell, Share):
        text_of = points if cell.signed else percent
        return _estimate_parts(
            cell.estimate, text_of, interval(cell.estimate, _hundredths)
        )
    if isinstance(cell, Light):
        return f"{cell.sign} {cell.text}", "", cell.tooltip
    text = str(cell)
    if cell is None:
        text = DASH
    elif isinstance(cell, PValue):
        text = p_value_text(cell.value)
    elif isinstance(cell, float):
        text = number(cell)
    return text, "", ""


def _estimate_parts(
    estimate: Estimate, text: Callable[[float], str], span: str
) -> tuple[str, str, str]:
    if estimate.value is None or not math.isfinite(estimate.value):
        return DASH, "", estimate.reason or "undefined"
    hint = estimate.reason or ""
    if estimate.p_value is not None:
        hint = f"{hint} p {p_value_text(estimate.p_value)}".strip()
    return text(estimate.value), span, hint
