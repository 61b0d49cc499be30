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
    """A table cell with a p-value. A p-value below 0.001 is shown as < 0.001."""

    value: float


@dataclass(frozen=True, slots=True)
class Share:
    """A table cell with a share (a proportion), shown in percent with its interval.

    Attributes:
        estimate: The share on [0, 1] with its interval, or a difference of two shares on [-1, 1].
        signed: Whether it is a difference of two shares, shown in percentage points.
    """

    estimate: Estimate
    signed: bool = False


@dataclass(frozen=True, slots=True)
class Brief:
    """A table cell with an estimate, shown without its interval. On the page, the
    interval is in a tooltip."""

    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Light:
    """A table cell with a verdict, shown as a traffic light.

    Attributes:
        colour: ``green`` for a good verdict, ``red`` for a bad one, ``none`` for no verdict.
        text: Text beside the light.
        tooltip: Text that appears under the mouse.
        value: Number for CSV files and for sorting.
    """

    colour: Literal["green", "red", "none"]
    text: str
    tooltip: str = ""
    value: float | None = None

    @property
    def symbol(self) -> str:
        return {"green": "●", "red": "■", "none": "○"}[self.colour]


Cell = str | int | float | Estimate | PValue | Share | Brief | Light | None
Row = Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of results for the page, the terminal, CSV and JSON.

    Attributes:
        title: Text above the table.
        columns: Names of the columns.
        rows: Cells of each row, in the order of ``columns``. None is shown as a dash.
        note: Text below the table.
        headings: Row index -> heading above this row, such as ``{0: "German", 3: "English"}``. Rows
            below each heading are sorted separately.
        last: Kind of the last row if it stays last when a reader sorts the table: ``ceiling``
            (agreement among people) or ``total``. None if the last row is like all others.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    note: str = ""
    headings: Mapping[int, str] = field(default_factory=dict)
    last: Literal["ceiling", "total"] | None = None

    def groups(self) -> Iterator[tuple[str, Sequence[Row]]]:
        """Yields (heading, rows below it) for each heading of the table. A table without headings
        yields all its rows once, with an empty heading."""
        starts = sorted({0, *self.headings})
        for start, end in zip(starts, [*starts[1:], len(self.rows)], strict=True):
            yield self.headings.get(start, ""), self.rows[start:end]

    def column_kinds(self) -> list[Literal["words", "number"]]:
        """Returns the kind of each column, which decides how it is aligned. A column is ``words``
        if any cell has text, otherwise ``number``."""
        kinds: list[Literal["words", "number"]] = []
        for i in range(len(self.columns)):
            is_text = any(isinstance(row[i], str) and row[i] for row in self.rows)
            kinds.append("words" if is_text else "number")
        return kinds

    def to_record(self) -> dict[str, Any]:
        """Returns the table as a JSON object with ``title``, ``columns``, ``rows`` and ``note``. A
        cell such as PValue becomes an object of its fields."""
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
    """Returns ``cell`` as a value for CSV, with all decimals.

    An Estimate becomes ``value [low, high]``. Without an interval it becomes its value. Without a
    value it becomes ``undefined: REASON``. Share and Brief are written like the Estimate that they
    hold. PValue and Light become their number. Plain values stay unchanged.
    """
    cell = getattr(cell, "estimate", cell)
    if not isinstance(cell, Estimate):
        return getattr(cell, "value", cell)
    if cell.value is None:
        return f"undefined: {cell.reason}" if cell.reason else None
    if cell.low is None or cell.high is None:
        return cell.value
    return f"{cell.value!r} [{cell.low!r}, {cell.high!r}]"


def sort_key(cell: object) -> object:
    """Returns the value by which the page sorts ``cell``: its number, or its text
    if it has no number."""
    cell = getattr(cell, "estimate", cell)
    value = getattr(cell, "value", cell)
    return "" if value is None else value


def write_csv(
    path: Path, columns: Sequence[str], rows: Iterable[Iterable[object]]
) -> Path:
    """Writes a CSV file and returns its ``path``. Cells that a spreadsheet would run as
    formulas are escaped.

    Args:
        path: File to write.
        columns: Names of the columns.
        rows: Cells of each row: plain values, or types of cells such as Share. None becomes an
            empty cell.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    for row in chain((columns,), rows):
        writer.writerow([safe_cell(csv_value(cell)) for cell in row])
    return atomic_write(path, text.getvalue())


def slug(text: str) -> str:
    """Returns ``text`` as a file name of a-z, 0-9 and dashes, such as ``mean-score`` for ``Mean
    (score)``. A text without such characters becomes ``unnamed``."""
    return "-".join(re.findall("[a-z0-9]+", text.lower())) or "unnamed"


def unique_slugs(texts: Sequence[str]) -> list[str]:
    """Returns a distinct file name of a-z, 0-9 and dashes for each of ``texts``, such as ``mean``
    and ``mean-2`` for two equal texts."""
    slugs: list[str] = []
    for base in map(slug, texts):
        names = chain([base], (f"{base}-{i}" for i in count(2)))
        slugs.append(next(name for name in names if name not in slugs))
    return slugs


def p_value_cell(value: float | None) -> PValue | None:
    """Returns the p-value ``value`` as a table cell. None stays None."""
    return None if value is None else PValue(value)


DASH = "–"


def number_text(value: float, digits: int = 2) -> str:
    """Returns ``value`` as text with ``digits`` decimals and a typographic minus sign. A value that
    rounds to zero has no sign."""
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", "−")


def percent_text(share: float) -> str:
    """Returns ``share`` (0 to 1) as text, such as ``12.3%``. Below 1% it has two decimals."""
    return f"{_percent_number(share)}%"


def points_text(difference: float) -> str:
    """Returns the ``difference`` of two shares (-1 to 1) as text in percentage points,
    such as ``+4.8 pts``."""
    return f"{'+' if difference > 0 else ''}{_percent_number(difference)} pts"


def _percent_number(share: float) -> str:
    return number_text(100 * share, 2 if 0 < abs(share) < 0.00995 else 1)


def in_percent(share: Estimate) -> Estimate:
    """Returns a copy of ``share`` (0 to 1), with its value and interval multiplied by 100. The copy
    keeps the reason but has no p-value."""
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
    """Returns the interval of ``estimate`` as ``[low, high]``, or an empty string if it has none.

    Args:
        text: Function that formats each of the two numbers. By default it writes two decimals.
    """
    if estimate.low is None or estimate.high is None:
        return ""
    return f"[{text(estimate.low)}, {text(estimate.high)}]"


def estimate_text(cell: Cell) -> str:
    """Returns a cell as text, such as ``0.52 [0.41, 0.63]``. A cell without a
    value becomes its reason.

    Args:
        cell: An estimate or a share.
    """
    text, span, hint = cell_parts(cell)
    if text == DASH:
        return hint
    return f"{text} {span}".rstrip()


def cell_parts(cell: object) -> tuple[str, str, str]:
    """Returns the texts of a cell for the page and the terminal.

    Args:
        cell: A plain value, or a type of cell such as Share.

    Returns:
        Three strings: the value, the interval and the tooltip. The value is a dash if ``cell`` is
            None. The interval and the tooltip may be empty.
    """
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
        return f"{cell.symbol} {cell.text}", "", cell.tooltip
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
