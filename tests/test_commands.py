"""Each command is typed once, as a user types it, and writes what it says."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from medal_judges.cli import COMMANDS

from .conftest import medal

# A command line -> a file that it writes, or words that it prints.
TYPED = {
    "judges": "boxed",
    "configs list": "rubrics",
    "configs show rubrics/medal": "dimensions:",
    "configs copy train/quickstart": "quickstart.yaml",
    "init mine": "mine/README.md",
    "data list": "chitchat",
    "data show chats.jsonl": "12 rows",
    "data write chats.jsonl --n 5 --out some.jsonl": "some.jsonl",
    "data plant chats.jsonl --per-issue 1 --out planted.jsonl": "planted.jsonl",
    "data stats chats.jsonl --out stats": "stats/stats.html",
    "data seeds --n 2 --lang en --out seeds.jsonl": "seeds.jsonl",
    "score chats.jsonl --judge length": '"scores"',
    "score chats.jsonl --judge repetition --keep version --out a.parquet": "a.parquet",
    "score chats.jsonl --judge length --level turn --dimension overall --out b.csv": "b.csv",
    "score chats.jsonl --judge length --out scores.jsonl": "scores.jsonl",
    "report scores.jsonl --chats chats.jsonl --out report": "report/report.html",
    "compare x=scores.jsonl y=scores.jsonl --out compared": "compared/compare.html",
    "agreement chats.jsonl --out agreement": "agreement/agreement.html",
    "benchmark --config bench.yaml": "bench/report.html",
    "annotate export chats.jsonl --annotator ann --out package": "package/project.json",
}
ELSEWHERE = {  # tested with a server, a model or a training run of their own
    *("serve", "train", "align", "doctor", "push", "trial", "label", "curate"),
    "generate",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("commands")
    rows = []
    for number in range(12):
        turns = [
            {"role": "user", "content": "Do you like music?"},
            {"role": "assistant", "content": "I like the river. " * (1 + number % 5)},
            {"role": "user", "content": "Why?"},
            {"role": "assistant", "content": f"It is {number} miles long."},
        ]
        row = {"id": f"chat-{number}", "lang": "en", "dialogue": turns}
        row["meta"] = {"version": number % 2}
        row["labels"] = {"overall": [1 + number % 5, 1 + number % 4]}
        rows.append(json.dumps(row | {"scales": {"overall": [1, 5]}}) + "\n")
    (folder / "chats.jsonl").write_text("".join(rows))
    (folder / "bench.yaml").write_text(
        "output_dir: bench\njudges: [{name: length, path: length}]\n"
        "sets: [{name: chats, source: chats.jsonl, dimensions: [overall]}]\n"
    )
    return folder


@pytest.mark.parametrize("line", TYPED)
def test_a_command_writes_what_it_says(
    line: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    done = medal(*shlex.split(line))
    assert done.exit_code == 0, (done.output, done.exception)
    expected = TYPED[line]
    is_there = os.path.exists(expected) and os.path.getsize(expected)
    assert is_there or expected in done.output


def test_every_command_is_typed_somewhere() -> None:
    assert {line.split()[0] for line in TYPED} | ELSEWHERE == set(COMMANDS)
