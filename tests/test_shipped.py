"""Short names of shipped judges and configs, and what never goes to the Hub."""

import json
import re
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from medal_judges import Judge
from medal_judges.config import load_config
from medal_judges.data_prep.generation.protocol import GenerateConfig
from medal_judges.data_prep.sources.registry import load_rows
from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.eval.benchmark.config import BenchmarkConfig
from medal_judges.records.dimension import load_rubric
from medal_judges.training.config import TrainConfig

from .conftest import medal

LINE = {"id": "a", "dialogue": [{"role": "user", "content": "x"}]}
LINE["dialogue"] = [*LINE["dialogue"], {"role": "assistant", "content": "so so so"}]  # type: ignore


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every attempt to reach a host fails the test; the Hub is not told to be offline."""

    def refuse(*arguments: object, **options: object) -> Any:
        raise AssertionError(f"asked the network: {arguments}")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)


NAMES = ["repetition", "configs/judges/repetition.yaml"]


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_judge_by_any_of_its_names(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: None
) -> None:
    monkeypatch.chdir(tmp_path)  # not a clone of the repository
    done = medal("score", "-", "--judge", name, stdin=json.dumps(LINE))
    assert done.exit_code == 0, done.exception
    assert json.loads(done.stdout.splitlines()[0])["judge"].startswith(
        "judge:repetition"
    )


@pytest.mark.parametrize(
    "name",
    [
        "contast",
        "runs/judge",
        "./contrast",
        "here/judge",
        "~/judge",
        "a\\b",
        "mine.yaml",
    ],
)
def test_a_path_or_a_single_word_never_goes_to_the_hub(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: None
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    with pytest.raises(JudgeLoadError, match=re.escape(repr(Path(name).name)[1:-1])):
        Judge.from_pretrained(name)


@pytest.mark.parametrize(
    ("kind", "folder", "name"),
    [
        (TrainConfig, "train", "baseline_ridge"),
        (BenchmarkConfig, "benchmark", "human"),
        (GenerateConfig, "generate", "quickstart"),
    ],
)
def test_configs_by_short_and_long_names(kind: Any, folder: str, name: str) -> None:
    names = [name, f"{name}.yaml", f"{folder}/{name}", f"configs/{folder}/{name}.yaml"]
    loaded = [load_config(kind, each, folder=folder) for each in names]
    assert all(one == loaded[0] for one in loaded)
    with pytest.raises(ConfigError, match=f"Did you mean '{name}'"):
        load_config(kind, f"{name}x", folder=folder)


def test_what_is_written_belongs_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert medal("init", "new/mine").exit_code == 0
    monkeypatch.chdir(tmp_path / "new" / "mine")
    train = load_config(TrainConfig, "train.yaml")
    benchmark = load_config(BenchmarkConfig, "benchmark.yaml")
    names = {dimension.name for dimension in load_rubric(train.rubric)}
    rows = load_rows("labelled.jsonl")
    assert all(row.labels.keys() == names for row in rows)
    assert Counter(row.split for row in rows) == {"train": 10, "test": 10}
    assert set(benchmark.sets[0].dimensions) == names
    assert benchmark.judges[0].path == train.output_dir
    texts = [" ".join(turn.content for turn in row.dialogue.turns) for row in rows]
    assert len(set(texts)) == len(rows)
    commands = [
        line.strip() for line in Path("Makefile").read_text("utf-8").splitlines()
    ]
    readme = Path("README.md").read_text(encoding="utf-8")
    for command in (line for line in commands if line.startswith("$(MEDAL)")):
        told = command.replace("$(MEDAL)", "medal").removesuffix(" --overwrite")
        assert told in readme, told
