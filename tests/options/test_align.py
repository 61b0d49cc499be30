"""The options of ``medal align``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medal_judges.eval.align import proof

from .files import RECORDS, Files, write
from .table import medal, row, works

Serve = Callable[..., Any]
COUNT = 20  # the fewest labels


@pytest.fixture(autouse=True)
def _few_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small grid in 3 folds: these tests are about options, not about what is learnt."""
    monkeypatch.setattr(proof, "FOLDS", 3)
    monkeypatch.setattr(proof, "_ALPHAS", (30.0,))
    monkeypatch.setattr(proof, "_SIZES", (0.0,))


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ratings that longer answers have, of the chats."""
    rows = []
    for number, record in enumerate(RECORDS[:COUNT]):
        overall = {
            "labels": {"overall": [5 - number % 5]},
            "scales": {"overall": [1, 5]},
        }
        rows.append({**record, **overall})
    return write(tmp_path_factory.mktemp("labels") / "labels.jsonl", rows)


@row("align", "--labels", "--out", "--json", "--keep-anyway")
def test_a_judge_is_aligned(labels: Path, tmp_path: Path) -> None:
    words = ["align", "repetition", "--labels", labels, "--out", tmp_path]
    proof = json.loads(works(*words, "--json", "--keep-anyway").out)
    assert proof["dimensions"]["overall"]["rows"] == COUNT
    assert proof == json.loads((tmp_path / "align.json").read_text())
    assert (tmp_path / "judge.json").is_file()


@row("align", "--device")
def test_device(labels: Path, tmp_path: Path) -> None:
    words = [
        "align",
        "length",
        "--labels",
        labels,
        "--out",
        tmp_path,
        "--device",
        "cpu",
    ]
    done = medal(*words)
    assert done.code == 2 and "no weights, so --device changes nothing" in done.err


@row("align", "--max-cost")
def test_max_cost(serve: Serve, labels: Path, files: Files, tmp_path: Path) -> None:
    server = serve()
    words = ["align", "medal", "llm=openai:tester", f"llm.base_url={server.url}"]
    words += [f"llm.prices={files.prices}", "--labels", labels, "--out", tmp_path]
    done = medal(*words, "--max-cost", "0.000001")
    assert done.code == 4 and "before the limit of $1e-06" in done.err
