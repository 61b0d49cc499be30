"""The commands with judges that have weights: a trained judge's folder, and a benchmark of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.records.dimension import load_rubric

from ..linear_judges import random_judge

DIALOGUES = [
    {
        "id": f"chat-{i}",
        "lang": "en",
        "dialogue": [
            {"role": "user", "content": "Do you like music?"},
            {"role": "assistant", "content": f"I like the river {i}."},
        ],
        "labels": {"overall": [1 + i % 5]},
        "scales": {"overall": [1, 5]},
    }
    for i in range(12)
]


@pytest.fixture
def place(tiny_bert: Path, tmp_path: Path) -> Path:
    """A folder with chats.jsonl and a saved linear judge with random heads."""
    judge = random_judge(tiny_bert, load_rubric("overall"))
    judge.save_pretrained(tmp_path / "judge")
    lines = "".join(json.dumps(row) + "\n" for row in DIALOGUES)
    (tmp_path / "chats.jsonl").write_text(lines, encoding="utf-8")
    return tmp_path


def test_an_encoders_folder_is_benchmarked(place: Path) -> None:
    (place / "bench.yaml").write_text(
        f"output_dir: {place / 'out'}\n"
        f"judges: [{{name: encoder, path: {place / 'judge'}}}]\n"
        f"sets: [{{name: chats, source: {place / 'chats.jsonl'}, dimensions: [overall]}}]\n"
    )
    done = CliRunner().invoke(
        app,
        ["benchmark", "--config", str(place / "bench.yaml")],
        catch_exceptions=False,
    )
    assert done.exit_code == 0, done.output
    (row,) = json.loads((place / "out/results.json").read_text("utf-8"))["rows"]
    assert (row["n"], row["scored"]) == (12, 12)
    assert row["metrics"]["spearman"]["value"] is not None
