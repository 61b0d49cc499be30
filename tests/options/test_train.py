"""The options of ``medal train``, ``push`` and ``doctor``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from .files import Files
from .table import medal, row, works


@pytest.fixture
def config(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A judge by the length of answers, fitted at once."""
    monkeypatch.setattr(
        "medal_judges.training.run.check_in_fresh_process", lambda *given: None
    )
    settings = {
        "name": "words",
        "output_dir": str(tmp_path / "default"),
        "rubric": "medal",
        "model": {
            "family": "linear",
            "vectors": False,
            "features": ["assistant.log_words"],
        },
        "train": [{"source": str(files.chats)}],
        "validation": [{"source": str(files.others)}],
    }
    path = tmp_path / "train.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


@pytest.fixture
def config_of_steps(config: Path, tiny_bert: Path) -> Path:
    """An encoder of two layers, trained for two steps."""
    settings = yaml.safe_load(config.read_text())
    settings["model"] = {"family": "encoder", "base": str(tiny_bert), "max_tokens": 64}
    settings["args"] = {"max_steps": 2, "eval_strategy": "steps", "eval_steps": 1}
    path = config.with_name("steps.yaml")
    path.write_text(yaml.safe_dump(settings))
    return path


@row("train", "--config", "--out")
def test_config_and_out(config: Path, tmp_path: Path) -> None:
    works("train", "--config", config)
    out = tmp_path / "mine: #1"
    done = works("train", "--config", config, "--out", out)
    assert f"judge saved and checked in a fresh process: {out}" in done.out
    for folder in (tmp_path / "default", out):
        assert json.loads((folder / "train_config.json").read_text())["name"] == "words"


@row("train", "--overwrite")
def test_overwrite(config_of_steps: Path, tmp_path: Path) -> None:
    words = ["train", "--config", config_of_steps, "--out", tmp_path / "out"]
    works(*words)
    checkpoints = tmp_path / "out" / "checkpoints"
    if not list(checkpoints.glob("checkpoint-*")):
        pytest.fail(f"no checkpoint in {checkpoints}")
    done = medal(*words, "seed=5")
    assert done.code == 2 and "--overwrite to delete it" in done.err
    works(*words, "seed=5", "--overwrite")
