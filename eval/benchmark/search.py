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
    "chosen on these rows, so that their ρ is too high: measure it on other rows.\n\nSD over an "
    "option: the standard deviation (n - 1) of ρ over its values, all other options being equal, "
    "averaged over these. Combinations without ρ are left out."
)


def search_table(config: BenchmarkConfig, rows: Sequence[ResultRow]) -> Table:
    """Returns a row for each set and graded dimension, and one with their mean deviations; no rows
    if no judge has a grid."""
    points: dict[str, dict[str, str]] = {}
    for judge in config.judges:
        point = {option: str(judge.options[option]) for option in judge.grid}
        if point:
            points[judge.name] = point
    grid = pd.DataFrame.from_dict(points, orient="index")
    records = []
    for row in rows:
        if row.judge in points and row.kind != "binary" and not row.under_floor:
            rho = row.metrics["spearman"].value
            records.append((row.set_name, row.dimension, row.judge, rho))
    figures = pd.DataFrame(records, columns=["set", "dimension", "judge", "rho"])
    figures = figures.dropna().join(grid, on="judge")
    lines: list[Row] = []
    for names, group in figures.groupby(["set", "dimension"], sort=False):
        cells = [*names]
        for order in (None, abs):
            best = group.sort_values("rho", key=order).iloc[-1]
            cells += [best["judge"], best["rho"]]
        for option in grid:
            equal = group.groupby([*grid.columns.drop(option)], dropna=False)
            cells.append(equal["rho"].std().mean())
        lines.append(cells)
    if lines:
        means = pd.DataFrame(lines).iloc[:, len(_COLUMNS) :].mean()
        lines.append(["", "mean", "", None, "", None, *means])
    heads = [f"SD over {option}" for option in grid]
    return Table(SEARCH, [*_COLUMNS, *heads], lines, _NOTE)
