"""Comparison: the best judge of each set against the others, on the rows that both scored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from medal_judges.eval.correlation import correlations
from medal_judges.eval.intervals import choose_clusters
from medal_judges.eval.results import Cell, Estimate, Point, ResultRow, Table
from medal_judges.eval.significance import correlation_difference, williams
from medal_judges.signature import Signature, require_comparable

_COLUMNS = ("Set", "Dimension", "Better", "Other", "Difference in ρ", "p", "Williams p", "n")
_NOTE = (
    "Spearman of the judge with the highest figure minus that of each other one, on the rows that "
    "both scored. p is made as the intervals are: whole chatbots (or conversations) are left out; "
    "Williams' test takes rows as independent. No correction for the number of comparisons; a p "
    "above 0.05 does not show that two judges are equal."
)


def comparison_table(rows: Sequence[ResultRow]) -> Table:
    """One line for each judge but the best of each set and graded dimension.

    Raises MedalError for rows whose signatures differ in data or dimension.
    """
    return Table("Differences between judges", _COLUMNS, list(_lines(rows)), _NOTE)


def _lines(rows: Sequence[ResultRow]) -> Iterator[tuple[Cell, ...]]:
    groups: dict[tuple[str, str, str], list[ResultRow]] = {}
    for row in rows:
        if row.kind != "binary" and not row.under_floor and _rho(row) is not None:
            groups.setdefault((row.set_name, row.level, row.dimension), []).append(row)
    for (name, _, dimension), found in groups.items():
        require_comparable([Signature.parse(row.signature) for row in found])
        best = max(found, key=lambda row: _rho(row) or 0.0)
        for other in found:
            if other is not best:
                yield (name, dimension, best.judge, other.judge, *_pair(best, other))


def _rho(row: ResultRow) -> float | None:
    estimate = row.metrics.get("spearman")
    return None if estimate is None else estimate.value


def _pair(best: ResultRow, other: ResultRow) -> tuple[Estimate, Cell, Cell, int]:
    theirs = {(p.id, p.turn): p.score for p in other.points}
    shared: list[Point] = [p for p in best.points if (p.id, p.turn) in theirs]
    human = np.array([p.human for p in shared])
    first = np.array([p.score for p in shared])
    second = np.array([theirs[p.id, p.turn] for p in shared])
    clusters = choose_clusters([p.chatbot for p in shared], [p.group for p in shared])
    found = correlation_difference(human, first, second, clusters)
    rho = [
        correlations(a, b)["spearman"].value
        for a, b in ((human, first), (human, second), (first, second))
    ]
    if any(value is None for value in rho):
        return found, found.p_value, None, len(shared)
    test = williams(rho[0] or 0.0, rho[1] or 0.0, rho[2] or 0.0, len(shared))
    return found, found.p_value, test.p_value, len(shared)
