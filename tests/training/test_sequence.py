"""A plain sequence classifier: trained, saved, loaded and scored."""

import json
from pathlib import Path

import yaml

from medal_judges.config import load_config
from medal_judges.models.base.golden import check_golden
from medal_judges.training.config import TrainConfig
from medal_judges.training.run import train_judge

from ..conftest import WORDS

RUBRIC = [{"name": "overall", "kind": "ordinal", "low": 1, "high": 5}]


def write_rows(path: Path, count: int) -> str:
    lines = []
    for number in range(count):
        said = WORDS[:6] if number % 2 else WORDS[6:]
        turns = [
            {"role": "user", "content": f"{WORDS[number % 12]} {path.stem}"},
            {"role": "assistant", "content": " ".join(said[number % 3 :])},
        ]
        labels = {"labels": {"overall": [5 if number % 2 else 1]}, "scales": {"overall": [1, 5]}}
        row = {"id": f"{path.stem}{number}", "lang": "en", "dialogue": turns, "level": "dialogue"}
        lines.append(json.dumps(row | labels))
    path.write_text("\n".join(lines))
    return str(path)


def test_trained_saved_and_loaded(tiny_bert: Path, tmp_path: Path) -> None:
    (tmp_path / "rubric.yaml").write_text(yaml.safe_dump({"dimensions": RUBRIC}))
    settings = {
        "name": "plain",
        "output_dir": str(tmp_path / "judge"),
        "rubric": str(tmp_path / "rubric.yaml"),
        "model": {
            "family": "encoder",
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
