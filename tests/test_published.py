"""The published figures: well-formed, no row twice, every source named."""

from typing import Any

from medal_judges.config import read_yaml

PUBLISHED = read_yaml("published")
FIGURES: list[dict[str, Any]] = PUBLISHED["figures"]


def test_every_row_says_what_it_is() -> None:
    needed = {"judge", "model", "set", "level", "dimension", "spearman", "pearson", "source"}
    for row in FIGURES:
        assert needed <= set(row) <= needed | {"variant", "not_significant", "note"}, row
        assert row["level"] in ("dialogue", "turn")
        assert row["source"].split(",")[0] in PUBLISHED["papers"]
        assert set(row.get("not_significant", ())) <= {"spearman", "pearson"}


def test_figures_are_correlations() -> None:
    for row in FIGURES:
        values = [row[k] for k in ("spearman", "pearson") if row[k] is not None]
        assert values and all(-1 <= v <= 1 for v in values), row


def test_no_row_twice() -> None:
    keys = [
        tuple(row.get(k) for k in ("judge", "variant", "model", "set", "level", "dimension"))
        for row in FIGURES
    ]
    assert len(keys) == len(set(keys))
