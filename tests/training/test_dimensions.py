"""The dimensions that a run learns, and what a judge says that it has learnt from."""

import json
from pathlib import Path

import pytest

from medal_judges.config import build_config
from medal_judges.errors import ConfigError
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import load_rubric
from medal_judges.training.config import TrainConfig
from medal_judges.training.rows import RunRows, TrainingExample
from medal_judges.training.run import facts_of_start_judge, learnable_dimensions


def test_only_takes_known_dimensions() -> None:
    targets = {"overall": 0.5, "unsafe": 1.0}
    rows = RunRows([TrainingExample(Dialogue("1", ()), "a", targets)], [], [])
    rubric = load_rubric("medal")
    settings = {
        "name": "x",
        "output_dir": "x",
        "rubric": "medal",
        "model": {"family": "encoder", "base": "x"},
        "train": [{"source": "x.jsonl"}],
    }
    config = build_config(TrainConfig, settings, where="test")

    def learnt(*only: str) -> set[str]:
        changed = config.model_copy(update={"only": only or None})
        return {d.name for d in learnable_dimensions(changed, rubric, rows)}

    assert learnt("overall") == {"overall"}
    assert learnt() == {"overall", "unsafe"}
    with pytest.raises(ConfigError, match="no dimension fun"):
        learnt("overall", "fun")
    with pytest.raises(ConfigError, match="no training row has a label of other"):
        learnt("other")  # before minutes of reading the chats


def test_a_judge_names_what_every_start_before_it_learnt_from(tmp_path: Path) -> None:
    entries = [{"part": part, "source": part} for part in ("train", "start", "test")]
    (tmp_path / "data.json").write_text(json.dumps(entries))
    sources = [entry["source"] for entry in facts_of_start_judge(tmp_path)]
    assert sources == ["train", "start"]
