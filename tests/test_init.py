"""``medal init``: the project it writes is whole, and its commands run as they are written."""

from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.config import load_config
from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.eval.benchmark.config import BenchmarkConfig
from medal_judges.records.dimension import load_rubric
from medal_judges.training.config import TrainConfig


def test_what_is_written_belongs_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["init", "new/mine"]).exit_code == 0
    monkeypatch.chdir(tmp_path / "new" / "mine")
    train = load_config(TrainConfig, "train.yaml")
    benchmark = load_config(BenchmarkConfig, "benchmark.yaml")
    names = {dimension.name for dimension in load_rubric(train.rubric)}
    rows = load_spec("labelled.jsonl")
    assert all(row.labels.keys() == names for row in rows)
    assert Counter(row.split for row in rows) == {"train": 10, "test": 10}
    assert set(benchmark.sets[0].dimensions) == names
    assert benchmark.judges[0].path == train.output_dir
    texts = [" ".join(turn.content for turn in row.dialogue.turns) for row in rows]
    assert len(set(texts)) == len(rows)
    commands = [line.strip() for line in Path("Makefile").read_text("utf-8").splitlines()]
    readme = Path("README.md").read_text(encoding="utf-8")
    for command in (line for line in commands if line.startswith("$(MEDAL)")):
        told = command.replace("$(MEDAL)", "medal").removesuffix(" --overwrite")
        assert told in readme, told


def test_nothing_that_is_there_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "train.yaml").write_text("mine")
    for taken in (tmp_path / "file", tmp_path / "full"):
        done = CliRunner().invoke(app, ["init", str(taken)])
        assert "already exists" in str(done.exception)
    assert (tmp_path / "file").read_text() == "mine"
    assert [each.name for each in (tmp_path / "full").iterdir()] == ["train.yaml"]
    (tmp_path / "empty").mkdir()
    assert CliRunner().invoke(app, ["init", str(tmp_path / "empty")]).exit_code == 0
    assert (tmp_path / "empty" / "train.yaml").is_file()
