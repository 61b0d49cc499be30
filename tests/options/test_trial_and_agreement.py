"""The options of ``medal trial`` and ``medal agreement``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from medal_judges import Judge

from .files import Files
from .table import medal, row, works

Serve = Callable[..., Any]
SMALL = (
    "dialogues=3",
    "own=1",
    "languages=[en]",
    "checks=[same]",
    "per_check=1",
    "min_turns=2",
)


def judged(out: Path) -> list[str]:
    """The ids of the dialogues that a trial judged."""
    lines = [
        line
        for path in sorted(out.glob("judgements/**/*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    return [json.loads(line)["id"] for line in lines]


@row("trial", "--out", "--data", "--config")
def test_the_dialogues_of_a_trial(files: Files, tmp_path: Path) -> None:
    works("trial", "length", "--out", tmp_path / "mine", "--data", files.chats, *SMALL)
    assert (tmp_path / "mine" / "trial.html").is_file()
    assert [id for id in judged(tmp_path / "mine") if re.match(r"d\d+\b", id)]
    config = tmp_path / "trial.yaml"
    config.write_text(
        "{dialogues: 0, own: 1, languages: [de], checks: [same], per_check: 1}"
    )
    works("trial", "length", "--out", tmp_path / "german", "--config", config)
    assert 0 < len(judged(tmp_path / "german")) < len(judged(tmp_path / "mine"))
    assert not [id for id in judged(tmp_path / "german") if re.match(r"d\d+\b", id)]


@row("trial", "--device", "--dtype")
def test_device_and_dtype(tmp_path: Path) -> None:
    words = ["--out", tmp_path / "out", *SMALL]
    for option, value in (("--device", "cpu"), ("--dtype", "bf16")):
        done = medal("trial", "length", option, value, *words)
        assert done.code == 2 and f"no weights, so {option} changes nothing" in done.err
    # Beside other judges a baseline ignores them.
    done = medal("trial", "length", "boxed", "--device", "cuda:99", *words)
    assert done.code == 2 and "no device 'cuda:99' here" in done.err


@row("trial", "--max-cost")
def test_max_cost(serve: Serve, files: Files, tmp_path: Path) -> None:
    server = serve()
    words = [
        "trial",
        "dstc12_baseline",
        "llm=openai:tester",
        f"llm.base_url={server.url}",
    ]
    words += [f"llm.prices={files.prices}", "--out", tmp_path, *SMALL]
    done = medal(*words, "--max-cost", "0.000001")
    assert done.code == 4 and "before the limit of $1e-06" in done.err


@row("trial", "--save")
def test_save(tmp_path: Path) -> None:
    folder = Judge.from_pretrained("length").save_pretrained(tmp_path / "judge")
    works("trial", folder, "--out", tmp_path / "out", *SMALL)
    assert not (folder / "trial.json").exists()
    works("trial", folder, "--out", tmp_path / "out", "--save", *SMALL)
    assert json.loads((folder / "trial.json").read_text())["judge"]
    done = medal("trial", "length", "--out", tmp_path / "out", "--save", *SMALL)
    assert done.code == 2 and "length is not a folder" in done.err


@row("agreement", "--out", "--dimension", "--interval-for")
def test_agreement(files: Files, tmp_path: Path) -> None:
    both = works("agreement", files.chats).out
    assert "unsafe" in both
    for who in ("these", "others"):
        words = [
            "--dimension",
            "overall",
            "--interval-for",
            who,
            "--out",
            tmp_path / who,
        ]
        done = works("agreement", files.chats, *words)
        assert "overall" in done.out and "unsafe" not in done.out
        assert (tmp_path / who / "agreement.html").is_file()
    pages = [
        (tmp_path / who / "agreement.json").read_text() for who in ("these", "others")
    ]
    assert "fewer than 3" in pages[1] and "fewer than 3" not in pages[0]  # two chatbots
