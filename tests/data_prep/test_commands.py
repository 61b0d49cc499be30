"""``medal data``: what it prints, what it refuses, and that it starts at once."""

import gzip
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from medal_judges.cli.data import app
from medal_judges.data_prep.sources.registry import load_rows
from medal_judges.errors import MedalError
from medal_judges.reading.dialogues import read_labelled

HEAVY = (
    "torch",
    "transformers",
    "scipy",
    "sklearn",
    "datasets",
    "numpy",
    "pandas",
    "matplotlib",
)


def medal(*words: str) -> Result:
    return CliRunner().invoke(
        app, words, env={"COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"}
    )


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without data and without a network."""
    monkeypatch.delenv("MEDAL_JUDGES_DATA", raising=False)
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    talk = [
        {"role": "user", "content": "Hi [bold]you[/bold]"},
        {"role": "assistant", "content": ""},
    ]
    rows = [
        {"id": "one", "lang": "en", "dialogue": talk, "labels": {"overall": [3, None]}},
        {"id": "two", "lang": "de", "dialogue": talk[:1], "split": "test"},
        {"id": "one", "dialogue": talk},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n{broken\n")
    return path


@pytest.mark.skipif(
    find_spec("chitchat_dataset") is None, reason="chitchat-dataset not installed"
)
def test_show_a_package() -> None:
    result = medal("show", "chitchat:test", "--n", "1")
    assert result.exit_code == 0
    assert "licence: MIT" in result.output and "Both sides are people." in result.output
    assert "(split: count): {'test'" in result.output and "\n  user: " in result.output


def test_show_names_the_files_that_are_here_and_those_that_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "https://" in medal("show", "fed:dialogue").output  # where to get it
    talk = [{"role": "assistant", "content": "x"}]
    (tmp_path / "fed_dialogue.jsonl.gz").write_bytes(
        gzip.compress(json.dumps({"id": "mine", "dialogue": talk}).encode())
    )
    monkeypatch.setenv("MEDAL_JUDGES_DATA", str(tmp_path))
    output = medal("show", "fed:dialogue").output
    assert str(tmp_path / "fed_dialogue.jsonl.gz") in output
    assert "not on this machine" in output and "mine und" in output


def test_show_names_the_bad_line_or_lists_what_it_left_out(file: Path) -> None:
    refused = medal("show", str(file), "--strict")
    assert isinstance(refused.exception, MedalError)
    assert f"{file}:4: field '(line)'" in str(refused.exception)
    result = medal("show", str(file))
    assert result.exit_code == 0
    assert "1 bad rows left out" in result.output and "1 ids numbered" in result.output
    assert f"{file}:4: field '(line)': got " in result.output


def test_the_command_imports_nothing_heavy() -> None:
    code = f"import sys, medal_judges.cli; print(set({HEAVY!r}) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "set()"


def test_a_source_is_written_to_a_file(tmp_path: Path) -> None:
    out = tmp_path / "chats.jsonl.gz"
    limits = ["--min-turns", "6", "--max-turns", "10", "--n", "3"]
    done = medal("write", "chitchat:test", "--out", str(out), *limits)
    assert done.exit_code == 0, done.exception
    assert "3 dialogues written" in done.output
    kept = [
        row for row in load_rows("chitchat:test") if 6 <= len(row.dialogue.turns) <= 10
    ]
    assert list(read_labelled(out)) == kept[:3]
