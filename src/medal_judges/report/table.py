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
    """A p-value. One below 0.001 is shown as < 0.001."""

    value: float


@dataclass(frozen=True, slots=True)
class Share:
    """A share, shown in percent with its interval. If ``signed``, it is a difference of two shares,
    shown in percentage points."""

    estimate: Estimate
    signed: bool = False


@dataclass(frozen=True, slots=True)
class Brief:
    """An estimate that is shown without its interval. On the page, a tooltip has the interval."""

    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Light:
    """A traffic light that shows a verdict.

    Attributes:
        colour: Colour of the light. ``none`` is neither good nor bad.
        text: Text beside the light.
        tooltip: Text under the mouse.
        value: Number for CSV files and for sorting.
    """

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
    """A table of results for the page, the terminal, CSV and JSON.

    Attributes:
        columns: Names of the columns.
        rows: Cells of each row. None is shown as a dash.
        note: Text below the table.
        headings: Maps a row's index to the heading above it. Groups are sorted separately.
        last: Kind of a last row that sorting does not move, None for an ordinary row.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    note: str = ""
    headings: Mapping[int, str] = field(default_factory=dict)
    last: Literal["ceiling", "total"] | None = None

    def groups(self) -> Iterator[tuple[str, Sequence[Row]]]:
        """Yields the heading and the rows of each group. A table without headings is one group."""
        starts = sorted({0, *self.headings})
        for start, end in zip(starts, [*starts[1:], len(self.rows)], strict=True):
            yield self.headings.get(start, ""), self.rows[start:end]

    def column_kinds(self) -> list[Literal["words", "number"]]:
        """Returns for each column whether it holds words or numbers, by which it is aligned."""
        kinds: list[Literal["words", "number"]] = []
        for i in range(len(self.columns)):
            is_text = any(isinstance(row[i], str) and row[i] for row in self.rows)
            kinds.append("words" if is_text else "number")
        return kinds

    def to_record(self) -> dict[str, Any]:
        """Returns the table as a JSON object. A typed cell becomes an object of its fields."""
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
    """Returns ``cell`` as a value for CSV, in full precision. An Estimate becomes ``value [low,
    high]``, its value alone, or the reason why it has none."""
    cell = getattr(cell, "estimate", cell)
    if not isinstance(cell, Estimate):
        return getattr(cell, "value", cell)
    if cell.value is None:
        return f"undefined: {cell.reason}" if cell.reason else None
    if cell.low is None or cell.high is None:
        return cell.value
    return f"{cell.value!r} [{cell.low!r}, {cell.high!r}]"


def sort_key(cell: object) -> object:
    """Returns the number by which ``cell`` is sorted on the page, or its text without a number."""
    cell = getattr(cell, "estimate", cell)
    value = getattr(cell, "value", cell)
    return "" if value is None else value


def write_csv(
    path: Path, columns: Sequence[str], rows: Iterable[Iterable[object]]
) -> Path:
    """Writes a CSV file, safe to open as a spreadsheet, and returns its ``path``.

    Args:
        columns: Names of the columns.
        rows: Typed cells or plain values. None becomes an empty cell.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    for row in chain((columns,), rows):
        writer.writerow([safe_cell(csv_value(cell)) for cell in row])
    return atomic_write(path, text.getvalue())


def slug(text: str) -> str:
    """Returns ``text`` in lower case, with a dash between words. Only a-z and 0-9 are kept."""
    return "-".join(re.findall("[a-z0-9]+", text.lower())) or "unnamed"


def unique_slugs(texts: Sequence[str]) -> list[str]:
    """Returns a distinct file name of a-z, 0-9 and dashes for each of ``texts``."""
    slugs: list[str] = []
    for base in map(slug, texts):
        names = chain([base], (f"{base}-{i}" for i in count(2)))
        slugs.append(next(name for name in names if name not in slugs))
    return slugs


def p_value_cell(value: float | None) -> PValue | None:
    """Returns a p-value as a cell, and None for None."""
    return None if value is None else PValue(value)


DASH = "–"


def number_text(value: float, digits: int = 2) -> str:
    """Returns ``value`` as text with ``digits`` decimals and a typographic minus sign. Zero has no
    sign."""
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", "−")


def percent_text(share: float) -> str:
    """Returns ``share`` (0 to 1) as text, such as ``12.3%``. Below 1% it has two decimals."""
    return f"{_percent_number(share)}%"


def points_text(difference: float) -> str:
    """Returns ``difference``, of two shares, as text in percentage points, such as ``+4.8 pts``."""
    return f"{'+' if difference > 0 else ''}{_percent_number(difference)} pts"


def _percent_number(share: float) -> str:
    return number_text(100 * share, 2 if 0 < abs(share) < 0.00995 else 1)


def in_percent(share: Estimate) -> Estimate:
    """Returns ``share`` (0 to 1) in percent, with its interval and reason."""
    # None stays None, and 0 stays 0.
    return Estimate(
        share.value and 100 * share.value,
        share.low and 100 * share.low,
        share.high and 100 * share.high,
        reason=share.reason,
    )


def p_value_text(value: float) -> str:
    """Returns a p-value as text, such as ``0.034``, ``0.62`` or ``< 0.001``."""
    return "< 0.001" if value < 0.001 else number_text(value, 3 if value < 0.1 else 2)


def interval_text(
    estimate: Estimate, text: Callable[[float], str] = number_text
) -> str:
    """Returns the interval of ``estimate`` as ``[low, high]``, or an empty text without one.

    Args:
        text: Function that writes a number as text.
    """
    if estimate.low is None or estimate.high is None:
        return ""
    return f"[{text(estimate.low)}, {text(estimate.high)}]"


def estimate_text(cell: Cell) -> str:
    """Returns ``cell``, an estimate or a share, as text with its interval, or the reason without a
    value."""
    text, span, hint = cell_parts(cell)
    if text == DASH:
        return hint
    return f"{text} {span}".rstrip()


def cell_parts(cell: object) -> tuple[str, str, str]:
    """Returns the value, the interval and the tooltip of ``cell`` as three texts. The last two may
    be empty."""
    if isinstance(cell, Brief):
        text, span, hint = cell_parts(cell.estimate)
        return text, "", span or hint
    if isinstance(cell, Estimate):
        return _estimate_parts(cell, number_text, interval_text(cell))
    if isinstance(cell, Share):
        text_of = points_text if cell.signed else percent_text
        return _estimate_parts(
            cell.estimate, text_of, interval_text(cell.estimate, _percent_number)
        )
    if isinstance(cell, Light):
        return f"{cell.sign} {cell.text}", "", cell.tooltip
    text = str(cell)
    if cell is None:
        text = DASH
    elif isinstance(cell, PValue):
        text = p_value_text(cell.value)
    elif isinstance(cell, float):
        text = number_text(cell)
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
