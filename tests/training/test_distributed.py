"""Two real processes train one judge together."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from medal_judges.models.golden import check_golden

from .test_resume import write_rows


@pytest.mark.slow
def test_two_processes_train_and_one_saves(tmp_path: Path, tiny_bert: Path) -> None:
    write_rows(tmp_path / "train.jsonl", 80, "train", seed=1)
    write_rows(tmp_path / "validation.jsonl", 30, "validation", seed=2)
    settings = {
        "name": "pair",
        "output_dir": str(tmp_path / "judge"),
        "rubric": "medal",
        "model": {"family": "encoder", "base": str(tiny_bert), "max_tokens": 64, "width": 16},
        "train": [{"source": str(tmp_path / "train.jsonl")}],
        "validation": [{"source": str(tmp_path / "validation.jsonl")}],
        "optim": {"epochs": 4, "batch_size": 4, "lr": 0.003, "body_lr": 0.001},
        "stop": {"metric": "auc/repetitive"},
        "threads": 1,
    }
    config = tmp_path / "pair.yaml"
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    launcher = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu"]
    options = [
        "--num_processes",
        "2",
        "--num_machines",
        "1",
        "--mixed_precision",
        "no",
        "--dynamo_backend",
        "no",
    ]
    done = subprocess.run(
        [*launcher, *options, "-m", "medal_judges.training", "--config", str(config)],
        env=os.environ | {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert check_golden(tmp_path / "judge") <= 1e-5
    saved = json.loads((tmp_path / "judge" / "config.json").read_text())
    # 80 rows in batches of 4 are 20 batches; two processes share them: 10 steps an epoch
    assert saved["facts"]["processes"] == 2
    assert saved["facts"]["steps"] == 40
    assert json.loads((tmp_path / "judge" / "validation.json").read_text())["auc/repetitive"] > 0.9
