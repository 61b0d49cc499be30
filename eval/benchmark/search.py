"""A search over the options of a judge: the best combination for each dimension, and how much each
option matters."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from medal_judges.eval.benchmark.config import BenchmarkConfig
from medal_judges.eval.metaeval.metaeval import ResultRow
from medal_judges.report.table import Row, Table

SEARCH = "Search over a grid of options"
_COLUMNS = ("Set", "Dimension", "Highest ρ of", "ρ", "Highest absolute ρ of", "its ρ")
_NOTE = (
    "The combinations with the highest ρ and the highest absolute ρ (ORALIS, Table 3). They are "
    "chosen on these rows, so that their ρ is too high: measure it on other rows.\n\nStandard "
    "deviation (n - 1) of ρ over the values of an option, all other options being equal, averaged "
    "over these and over the dimensions: "
)


def search_table(config: BenchmarkConfig, rows: Sequence[ResultRow]) -> Table:
    """Returns a row for each set and graded dimension; no rows if no judge has a grid. The note has
    the deviations. Combinations without ρ are left out."""
    points = {judge.name: judge.grid for judge in config.judges if judge.grid}
    grid = pd.DataFrame.from_dict(points, orient="index")
    records = []
    for row in rows:
        if row.judge in points and row.kind != "binary" and not row.under_floor:
            rho = row.metrics["spearman"].value
            records.append((row.set_name, row.dimension, row.judge, rho))
    names = ["set", "dimension", "judge", "rho"]
    figures = pd.DataFrame(records, columns=names).dropna().join(grid, on="judge")
    lines: list[Row] = []
    for about, group in figures.groupby(names[:2], sort=False):
        cells = [*about]
        for order in (None, abs):
            best = group.sort_values("rho", key=order).iloc[-1]
            cells += [best["judge"], best["rho"]]
        lines.append(cells)
    deviations = []
    for option in grid:
        equal = figures.groupby([*names[:2], *grid.columns.drop(option)], dropna=False)
        deviations.append(f"{option} {equal['rho'].std().mean():.2f}")
    return Table(SEARCH, _COLUMNS, lines, _NOTE + ", ".join(deviations))
