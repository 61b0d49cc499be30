"""Rows that medal curate selected: what a benchmark says of them, and that they correct nothing."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from medal_judges.errors import ConfigError
from medal_judges.eval.scores.labels import match_labels
from medal_judges.reading.dialogues import read_labelled
from medal_judges.records.labelled import LabelledDialogue
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


def test_labels_of_selected_rows_correct_nothing(folder: Path) -> None:
    curated(folder / "set.jsonl", [1.0] * 24)
    rows = list(read_labelled(folder / "set.jsonl"))
    frame = pd.DataFrame({"id": [row.id for row in rows]})
    with pytest.raises(ConfigError, match="no random sample"):
        match_labels(frame, np.arange(len(rows)), rows, "set.jsonl")


def test_a_benchmark_says_that_its_figures_are_of_the_selection(folder: Path) -> None:
    curated(folder / "set.jsonl", [2.0] * 20 + [None] * 4)
    done = medal()
    assert done.exit_code == 0, done.exception
    said = " ".join(done.stdout.split())
    assert "set little: 20 of 24 rows were selected by medal curate" in said
