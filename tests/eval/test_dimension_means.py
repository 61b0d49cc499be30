"""Means over dimensions: ORALIS's own Table 5, and what has no figure."""

from __future__ import annotations

import pytest

from medal_judges.eval.metaeval.comparison import dimension_means_table
from medal_judges.eval.metaeval.metaeval import ResultRow
from medal_judges.stats.estimate import Estimate

# Table 5 of ORALIS, the columns LM prompting, regression, classification, hybrid and baseline.
PUBLISHED = {
    0.15: (-0.08, 0.01, -0.22, 0.05, 0.13, 0.08, 0.11, -0.15, 0.37, 0.31),
    0.14: (-0.17, 0.13, -0.02, 0.22, 0.12, -0.28, -0.0, 0.2, 0.08, -0.17),
    0.17: (0.06, -0.11, -0.1, 0.1, 0.07, 0.23, 0.39, -0.02, 0.23, 0.38),
}


def row(judge: str, dimension: str, value: float | None, **more: object) -> ResultRow:
    fields = {"kind": "ordinal", "n": 10, "scored": 10} | more
    metrics = {"spearman": Estimate(value)}
    return ResultRow(judge, "judge:x", "s", "dialogue", dimension, metrics=metrics, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(("published", "values"), PUBLISHED.items())
def test_the_published_averages(published: float, values: tuple[float, ...]) -> None:
    table = dimension_means_table([row("a", f"d{i}", v) for i, v in enumerate(values)])
    assert table.rows[0][2] == pytest.approx(published, abs=0.0051)


def test_the_table_leaves_out_single_dimensions_and_issues() -> None:
    rows = [row("a", "x", 0.4), row("a", "y", -0.2), row("b", "x", 0.4), row("a", "z", None)]
    rows += [row("c", "x", 0.5), row("c", "y", 0.1, kind="binary")]
    table = dimension_means_table(rows)
    assert [r[:2] for r in table.rows] == [("s", "a")]
    assert table.rows[0][2:] == pytest.approx((0.3, 0.2, 0.1, "2 of 3"))


def test_a_figure_under_the_coverage_floor_counts_as_none() -> None:
    rows = [row("a", "x", 0.4), row("a", "y", 0.9, scored=1)]
    assert dimension_means_table(rows).rows[0][2:] == (0.4, 0.4, 0.4, "1 of 2")
