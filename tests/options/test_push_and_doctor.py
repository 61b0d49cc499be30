"""The options of ``medal push`` and ``medal doctor``."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml

from medal_judges import Judge

from ..hub_stub import Hub
from .files import Files
from .table import TYPED, medal, row, works

ID = "org/judge"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Judge.from_pretrained("length").save_pretrained(tmp_path / "judge")


def with_hub(hub: Hub, home: Path, *words: object) -> CompletedProcess[str]:
    """``medal`` whose Hub is ``hub``: the client reads its address once, so in another process."""
    typed = [str(word) for word in words]
    TYPED.append(typed)
    done = hub.medal(home, *typed)
    assert done.returncode == 0, done.stderr
    return done


@row("push", "--public", "--revision", "--message", "--results", "--no-trial")
@row("doctor", "--revision")
def test_a_judge_on_the_hub(
    hub: Hub, folder: Path, files: Files, tmp_path: Path
) -> None:
    settings = {
        "output_dir": str(tmp_path / "benchmark"),
        "judges": [{"name": "mine", "path": str(folder)}],
        "sets": [
            {"name": "two dozen", "source": str(files.chats), "dimensions": ["overall"]}
        ],
    }
    (tmp_path / "benchmark.yaml").write_text(yaml.safe_dump(settings))
    works("benchmark", "--config", tmp_path / "benchmark.yaml")
    words = [
        "push",
        folder,
        ID,
        "--public",
        "--revision",
        "v1.0",
        "--message",
        "the first",
    ]
    words += ["--results", tmp_path / "benchmark" / "results.json", "--no-trial"]
    with_hub(hub, tmp_path / "home", *words)
    repo = hub.repos[ID]
    assert not repo.private
    assert repo.tags == {"v1.0": repo.branches["main"]}
    assert "the first" in repo.messages[0]
    assert "two dozen" in repo.files["README.md"].decode()
    checked = with_hub(hub, tmp_path / "home", "doctor", ID, "--revision", "v1.0")
    assert "the judge gives its golden scores" in checked.stdout


@row("push", "--dry-run", "--base")
def test_dry_run_and_base(folder: Path) -> None:
    done = medal("push", folder, ID, "--dry-run")
    assert done.code == 2 and "--no-trial" in done.err
    done = works("push", folder, ID, "--dry-run", "--no-trial")
    assert "nothing is uploaded" in done.out and "judge.json" in done.out
    done = medal("push", folder, ID, "--dry-run", "--no-trial", "--base", "org/base")
    assert done.code == 2 and "needs no base model" in done.err


@row("doctor", "--device", "--write")
def test_doctor(folder: Path) -> None:
    (folder / "golden.json").unlink()
    assert medal("doctor", folder).code == 2
    done = works("doctor", folder, "--write")
    assert "the judge gives its golden scores" in done.out
    assert json.loads((folder / "golden.json").read_text())["scores"]
    done = medal("doctor", folder, "--write")
    assert done.code == 2 and "--write is for judges without one" in done.err
    done = medal("doctor", "boxed", "--device", "cuda:99")
    assert done.code == 2 and "no device 'cuda:99' here" in done.err
