"""The options of ``medal benchmark``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from .files import Files, read, write
from .table import medal, row, works

Serve = Callable[..., Any]


@pytest.fixture
def config(files: Files, tmp_path: Path) -> Path:
    settings = {
        "title": "Two dozen chats",
        "output_dir": str(tmp_path / "out"),
        "judges": [{"name": "length", "path": "length"}],
        "sets": [
            {"name": "mine", "source": str(files.chats), "dimensions": ["overall"]}
        ],
    }
    path = tmp_path / "benchmark.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def results(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return loaded


def judges(folder: Path) -> set[str]:
    return {result["judge"] for result in results(folder)["rows"]}


@row("benchmark", "--config", "--out", "--judge")
def test_config_out_and_judge(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "out #1: words"
    done = works(
        "benchmark", "--config", config, "--out", out, "--judge", "again=repetition"
    )
    assert f"{out}/report.html" in done.out
    assert "Two dozen chats" in (out / "report.html").read_text()
    assert {"length", "again"} <= judges(out)
    assert not (tmp_path / "out").exists()


def test_device_is_for_judges_with_weights(config: Path) -> None:
    works("benchmark", "--config", config, "device=cuda:99")  # length needs none
    done = medal("benchmark", "--config", config, "--judge", "boxed", "device=cuda:99")
    assert done.code == 2 and "no device 'cuda:99' here" in done.err


@row("benchmark", "--retry-failed")
def test_retry_failed(config: Path, tmp_path: Path) -> None:
    works("benchmark", "--config", config)
    predictions = tmp_path / "out" / "predictions" / "length" / "mine.jsonl"
    first, *others = read(predictions)
    lost = {**first, "scores": dict.fromkeys(first["scores"]), "failure": "no answer"}
    write(predictions, [lost, *others])
    assert medal("benchmark", "--config", config).code == 3  # coverage
    works("benchmark", "--config", config, "--retry-failed")
    assert read(predictions)[0]["scores"] == pytest.approx(first["scores"], abs=4e-5)


@row("benchmark", "--no-cache")
def test_no_cache(config: Path, serve: Serve, tmp_path: Path) -> None:
    server = serve()
    words = [
        "benchmark",
        "--config",
        config,
        "--judge",
        "m=dstc12_baseline",
        "min_coverage=0",
    ]
    words += [
        "llm={model: openai:tester, base_url: " + server.url + "}",
        "sets.0.limit=3",
    ]

    def requests(out: str, *options: str) -> int:
        before = len(server.told("requests"))
        works(*words, "--out", tmp_path / out, *options)
        return len(server.told("requests")) - before

    first = requests("first")
    assert first > 0
    assert requests("second") == 0
    assert requests("third", "--no-cache") == first
