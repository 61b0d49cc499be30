"""Rows that medal curate selected: weights of human labels, and what a benchmark says of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from medal_judges.errors import ConfigError, RecordError
from medal_judges.reading.dialogues import read_labelled
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.stats.weights import curation_weights
from medal_judges.storage.jsonl import write_records

from .benchmark_case import medal


def curated(path: Path, weights: list[object]) -> list[LabelledDialogue]:
    rows = [
        row
        if weight is None
        else replace(row, extra={**row.extra, "curation": {"weight": weight}})
        for row, weight in zip(read_labelled(path), weights, strict=True)
    ]
    write_records(path, rows)
    return rows


def test_all_rows_have_a_weight_or_none(folder: Path) -> None:
    rows = curated(folder / "set.jsonl", [1.0 + (i % 3) for i in range(24)])
    assert curation_weights(rows, "labels") == [1.0 + (i % 3) for i in range(24)]
    assert curation_weights([replace(row, extra={}) for row in rows], "labels") is None
    some = [replace(row, extra={}) if i > 19 else row for i, row in enumerate(rows)]
    for order in (some, some[::-1]):
        with pytest.raises(ConfigError, match="labels: 4 of 24 rows"):
            curation_weights(order, "labels")
    with pytest.raises(RecordError, match="a number above 0"):
        curation_weights(
            [replace(rows[0], extra={"curation": {"weight": 0}})], "labels"
        )


def test_a_benchmark_says_that_its_figures_are_of_the_selection(folder: Path) -> None:
    curated(folder / "set.jsonl", [2.0] * 20 + [None] * 4)
    done = medal()
    assert done.exit_code == 0, done.exception
    said = " ".join(done.stdout.split())
    assert "set little: 20 of 24 rows were selected by medal curate" in said
