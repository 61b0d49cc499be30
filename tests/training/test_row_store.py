"""Large training files: mapped from the cache, made once, and the same run as from memory."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medal_judges.config import build_config
from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.errors import LeakError
from medal_judges.records.dimension import load_rubric
from medal_judges.training.config import DataEntry, TrainConfig
from medal_judges.training.rows import store
from medal_judges.training.rows.examples import Columns, StoredExamples, TrainingExample
from medal_judges.training.rows.rows import load_rows
from medal_judges.training.run import train_judge

from .test_resume import write_rows


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Every training file counts as large; the cache is the test's own."""
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "LARGE", 1)
    return monkeypatch


def config_of(folder: Path, model: dict[str, Any], name: str = "judge", **more: Any) -> TrainConfig:
    if not (folder / "train.jsonl").exists():
        write_rows(folder / "train.jsonl", 40, "train", seed=1)
        write_rows(folder / "validation.jsonl", 20, "validation", seed=2)
    entry = {"source": str(folder / "train.jsonl"), "weight": 2.0}
    settings = {
        "name": "tiny",
        "output_dir": str(folder / name),
        "rubric": "medal",
        "model": model,
        "train": [entry],
        "validation": [{"source": str(folder / "validation.jsonl")}],
        "optim": {"epochs": 1, "batch_size": 8, "lr": 0.003, "body_lr": 0.001},
        "threads": 1,
    }
    return build_config(TrainConfig, settings | more, where="test")


def same(a: Sequence[TrainingExample], b: Sequence[TrainingExample]) -> None:
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert (x.dialogue, x.source, x.weight, x.group) == (
            y.dialogue,
            y.source,
            y.weight,
            y.group,
        )
        assert x.human == y.human and x.targets.keys() == y.targets.keys()
        for name in x.targets:
            assert np.array_equal(x.targets[name], y.targets[name])


@pytest.mark.parametrize("rescale", [None, "standardise"])
def test_a_store_holds_the_examples_that_memory_does(
    tmp_path: Path, stored: pytest.MonkeyPatch, rescale: str | None
) -> None:
    entries = [{"source": str(tmp_path / "train.jsonl"), "rescale": rescale, "weight": 3}]
    heads = {"heads": {"overall": {"kind": "ordinal"}}}
    config = config_of(tmp_path, {"family": "encoder", "base": "none"} | heads, train=entries)
    dimensions = load_rubric("medal")
    found = load_rows(config, dimensions)
    stored.setattr(store, "LARGE", 10**9)
    wanted = load_rows(config, dimensions)
    assert isinstance(found.train, StoredExamples) and isinstance(wanted.train, list)
    same(found.train, wanted.train)
    assert found.facts == wanted.facts
    a, b = Columns.of(found.train), Columns.of(wanted.train)
    assert a.weights.tolist() == b.weights.tolist() == [3.0] * 40
    assert a.sources.tolist() == b.sources.tolist()
    assert a.targets.keys() == b.targets.keys() == {"overall", "repetitive"}
    for name, column in a.targets.items():
        assert column.tolist() == pytest.approx(b.targets[name].tolist(), nan_ok=True)


MODELS = [
    {"family": "encoder", "shape": "flat", "max_tokens": 64, "width": 16},
    {"family": "encoder", "shape": "flat", "max_tokens": 64, "net": "linear", "features": []},
    {"family": "encoder", "max_tokens": 32, "width": 16},
    {"family": "lora", "rank": 4, "max_tokens": 500},
]


@pytest.mark.parametrize("model", MODELS, ids=["flat", "flat-plain", "hierarchical", "lora"])
def test_a_run_from_a_store_is_the_run_from_memory(
    model: dict[str, Any],
    tmp_path: Path,
    stored: pytest.MonkeyPatch,
    tiny_bert: Path,
    tiny_llama: Path,
) -> None:
    base = tiny_llama if model["family"] == "lora" else tiny_bert
    model = model | {"base": str(base)}
    stored.setattr("medal_judges.training.run.check_in_fresh_process", lambda *_: None)
    first = train_judge(config_of(tmp_path, model, "stored"))
    made = {p: p.stat().st_mtime_ns for p in (tmp_path / "cache").rglob("*") if p.is_file()}
    sequences = model["family"] == "lora" or model.get("shape") == "flat"
    assert len([p for p in made if p.suffix == ".jsonl"]) == (2 if sequences else 1)
    # A second run builds nothing, and its judge is the same.
    stored.setattr(store, "_write", _never)
    again = train_judge(config_of(tmp_path, model, "again"))
    stored.setattr(store, "LARGE", 10**9)
    memory = train_judge(config_of(tmp_path, model, "memory"))
    scores = [json.loads((f / "golden.json").read_text())["scores"] for f in (first, again, memory)]
    assert scores[0] == scores[1] == scores[2]


def _never(*arguments: Any) -> None:
    raise AssertionError("made again")


def test_other_content_or_settings_are_another_store(
    tmp_path: Path, stored: pytest.MonkeyPatch
) -> None:
    config = config_of(tmp_path, {"family": "encoder", "base": "none"})
    dimensions = load_rubric("medal")
    first = load_rows(config, dimensions).train
    with (tmp_path / "train.jsonl").open("a", encoding="utf-8") as stream:
        row = json.loads((tmp_path / "train.jsonl").read_text().splitlines()[0])
        stream.write(json.dumps(row | {"id": "one more"}) + "\n")
    second = load_rows(config, dimensions).train
    assert len(second) == len(first) + 1
    fewer = [{"source": str(tmp_path / "train.jsonl"), "max_turns": 4}]
    third = load_rows(
        config.model_copy(update={"train": (type(config.train[0])(**fewer[0]),)}), dimensions
    )
    assert 0 < len(third.train) < len(second)
    kept = [r.id for r in load_spec(str(tmp_path / "train.jsonl")) if len(r.dialogue.turns) <= 4]
    assert [e.dialogue.id for e in third.train] == kept


def test_a_leak_in_a_store_is_found_every_time(tmp_path: Path, stored: pytest.MonkeyPatch) -> None:
    config = config_of(tmp_path, {"family": "encoder", "base": "none"})
    rows = (tmp_path / "train.jsonl").read_text().splitlines()[:3]
    (tmp_path / "leak.jsonl").write_text("\n".join(rows).replace("train-", "other-") + "\n")
    entry = DataEntry(source=str(tmp_path / "leak.jsonl"))
    leaking = config.model_copy(update={"test": (entry,)})
    for _ in range(2):
        with pytest.raises(LeakError):
            load_rows(leaking, load_rubric("medal"))
    load_rows(config, load_rubric("medal"))
