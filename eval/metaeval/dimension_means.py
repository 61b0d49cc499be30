"""One judge's agreement over all dimensions of a set: DSTC-12's ranking figure and its kin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medal_judges.eval.metaeval.results import ResultRow
from medal_judges.report.table import Cell, Table

TITLE = "Means over dimensions"
_NOTE = (
    "Spearman of each graded dimension, averaged. DSTC-12 ranks by the mean absolute correlation, "
    "which rewards a judge that has a dimension the wrong way round; in the mean positive one a "
    "negative correlation counts 0, in the last mean it counts as it is. Dimensions without a "
    "figure are left out and counted."
)


@dataclass(frozen=True, slots=True)
class DimensionMeans:
    """Means over ``defined`` of ``total`` dimensions; None where none of them has a figure."""

    absolute: float | None
    positive: float | None
    signed: float | None
    defined: int
    total: int


def dimension_means(correlations: Sequence[float | None]) -> DimensionMeans:
    """Means of one judge's correlations, a dimension each (ORALIS, section 3.1: metrics)."""
    known = [value for value in correlations if value is not None]
    if not known:
        return DimensionMeans(None, None, None, 0, len(correlations))
    count = len(known)
    return DimensionMeans(
        absolute=sum(map(abs, known)) / count,
        positive=sum(max(value, 0.0) for value in known) / count,
        signed=sum(known) / count,
        defined=count,
        total=len(correlations),
    )


def dimension_means_table(rows: Sequence[ResultRow]) -> Table:
    """A row for each judge and set with several graded dimensions; no rows where there is none."""
    values_of: dict[tuple[str, str], list[float | None]] = {}
    for row in rows:
        if row.kind != "binary":
            figure = None if row.under_floor else row.metrics["spearman"].value
            values_of.setdefault((row.set_name, row.judge), []).append(figure)
    cells: list[tuple[Cell, ...]] = []
    for (name, judge), values in values_of.items():
        if len(values) > 1:
            means = dimension_means(values)
            shown = f"{means.defined} of {means.total}"
            cells.append((name, judge, means.absolute, means.positive, means.signed, shown))
    columns = ("Set", "Judge", "Mean absolute ρ", "Mean positive ρ", "Mean ρ", "Dimensions")
    return Table(TITLE, columns, cells, _NOTE)
