"""Outputs that name a pipe, a device, an open stream, a folder or a file of another kind: an error,
and what was there stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medal_judges.errors import ConfigError

from ..conftest import medal
from ..test_outputs import dialogues, scored


@pytest.mark.parametrize(
    "words",
    [
        ("report", "a/scores.jsonl", "--chats", "a/in.jsonl", "--out", "b"),
        ("compare", "x=a/scores.jsonl", "y=a/scores.jsonl", "--out", "b"),
        ("agreement", "a/in.jsonl", "--out", "b"),
        ("score", "a/in.jsonl", "--judge", "length", "--out", "b/.jsonl"),
    ],
    ids=lambda words: words[0],
)
def test_only_a_list_of_bad_rows_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    scored(tmp_path / "a")
    monkeypatch.chdir(tmp_path)
    Path("b").mkdir()
    name = "skipped.jsonl"
    if words[0] == "score":
        name = ".skipped.jsonl"
    content = dialogues(tmp_path / "b", name).read_bytes()
    done = medal(*words)
    assert isinstance(done.exception, ConfigError), done.output
    assert "is no list of bad rows" in done.exception.message
    assert Path("b", name).read_bytes() == content
    line = {"file": "a", "line": 1, "problem": "b"}
    Path("b", name).write_text(json.dumps(line) + "\n")
    done = medal(*words)
    assert done.exit_code == 0, (done.output, done.exception)
    assert not Path("b", name).exists()
