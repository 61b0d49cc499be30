"""Dimensions that the judgements of tests state."""

from collections.abc import Iterable, Sequence
from typing import Any

from medal_judges.records.dimension import Dimension

OVERALL = Dimension("overall", "continuous", 1, 5)
UNSAFE = Dimension("unsafe", "binary", 0, 1, good="low")
REPETITIVE = Dimension("repetitive", "binary", 0, 1, good="low")
FUN = Dimension("fun", "continuous", 1, 5)
SCALES = (OVERALL, UNSAFE)


def stating(
    rows: Sequence[dict[str, Any]], dimensions: Iterable[Dimension] = (*SCALES, FUN)
) -> list[dict[str, Any]]:
    """The lines of a file of judgements, whose first states the dimensions that it scores."""
    (first, *rest), stated = rows, []
    for dimension in dimensions:
        if dimension.name in first["scores"]:
            stated.append(dimension.to_record())
    return [first | {"dimensions": stated}, *rest]
