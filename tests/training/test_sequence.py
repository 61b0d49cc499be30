"""A plain sequence classifier: trained, saved, loaded and scored."""

import json
from pathlib import Path

import yaml

from medal_judges.config import load_config
from medal_judges.models.base.golden import check_golden
from medal_judges.training.config import TrainConfig
from medal_judges.training.run import train_judge

from ..conftest import WORDS
from ..talks import write_rated

RUBRIC = [{"name": "overall", "kind": "ordinal", "low": 1, "high": 5}]


def write_rows(path: Path, count: int) -> str:
    rows = []
    for number in range(count):
        words = WORDS[:6] if number % 2 else WORDS[6:]
        texts = f"{WORDS[number % 12]} {path.stem}", " ".join(words[number % 3 :])
        rows.append((texts, {"overall": 5 if number % 2 else 1}))
    return write_rated(path, rows)


def test_trained_saved_and_loaded(tiny_bert: Path, tmp_path: Path) -> None:
    (tmp_path / "rubric.yaml").write_text(yaml.safe_dump({"dimensions": RUBRIC}))
    settings = {
        "name": "plain",
        "output_dir": str(tmp_path / "judge"),
        "rubric": str(tmp_path / "rubric.yaml"),
        "model": {
            "family": "turns",
            "base": str(tiny_bert),
            "net": "sequence",
            "shape": "flat",
            "pooling": "cls",
            "features": [],
            "max_tokens": 64,
            "heads": {"overall": {"kind": "regression"}},
        },
        "train": [{"source": write_rows(tmp_path / "train.jsonl", 24)}],
        "validation": [{"source": write_rows(tmp_path / "validation.jsonl", 20)}],
        "optim": {"epochs": 3, "batch_size": 8, "lr": 0.003, "body_lr": 0.001},
        "threads": 1,
    }
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(settings))
    folder = train_judge(load_config(TrainConfig, str(path), []))
    (figure,) = json.loads((folder / "agreement.json").read_text())
    assert figure["value"] > 0.5 and figure["low"] <= figure["value"] <= figure["high"]
    assert check_golden(folder) <= 1e-5
