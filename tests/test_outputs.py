"""Outputs: never the file that is read, and never two runs at once."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from medal_judges.errors import ConfigError, MedalError
from medal_judges.storage.files import output_lock

from .conftest import medal

LINE = {
    "id": "a",
    "lang": "en",
    "dialogue": [
        {"role": "user", "content": "What do you like?"},
        {"role": "assistant", "content": "I like tea a lot."},
    ],
    "labels": {"overall": [3]},
    "scales": {"overall": [1, 5]},
}


def dialogues(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text(
        "".join(json.dumps(LINE | {"id": f"d{n}"}) + "\n" for n in range(5))
    )
    return path


@pytest.mark.parametrize("link", ["name", "soft", "hard", "dots"])
def test_no_command_writes_onto_what_it_reads(tmp_path: Path, link: str) -> None:
    source = dialogues(tmp_path, "in.jsonl")
    other = tmp_path / "other.jsonl"
    if link == "soft":
        other.symlink_to(source)
    elif link == "hard":
        os.link(source, other)
    elif link == "dots":
        (tmp_path / "x").mkdir()
        other = tmp_path / "x" / ".." / "in.jsonl"
    else:
        other = source
    before = source.read_bytes()
    for command in (
        ("score", source, "--judge", "length", "--out", other, "--overwrite"),
        ("data", "plant", source, "--out", other),
        ("data", "plant", f"{source}:test", "--out", other),
        ("data", "translate", source, "--to", "de", "--out", other),
        ("data", "seeds", "--scenes", source, "--out", other),
    ):
        done = medal(*command)
        assert isinstance(done.exception, ConfigError), (
            command,
            done.output,
            done.exception,
        )
        assert "is the input" in str(done.exception)
        assert source.read_bytes() == before


def scored(folder: Path) -> tuple[Path, Path]:
    """Chats, one of which is no chat, and their scores."""
    folder.mkdir()
    chats = dialogues(folder, "in.jsonl")
    scores = folder / "scores.jsonl"
    assert medal("score", chats, "--judge", "length", "--out", scores).exit_code == 0
    return chats, scores


@pytest.mark.parametrize(
    "words",
    [
        ("report", "SCORES", "--chats", "skipped.jsonl", "--out", "."),
        ("report", "SCORES", "--out", "SCORES"),
        ("compare", "a=SCORES", "b=CHATS", "--junit", "CHATS", "--fail-if-worse", "1"),
        ("agreement", "CHATS", "--out", "CHATS"),
        ("annotate", "export", "CHATS", "--rubric", "rubric.yaml", "--out", "CHATS"),
        ("align", "length", "--labels", "CHATS", "--out", "CHATS"),
        ("trial", "length", "--data", "CHATS", "--out", "CHATS"),
        ("benchmark", "--config", "config.yaml", "--out", "config.yaml"),
    ],
    ids=lambda words: " ".join(words),
)
def test_no_output_of_any_command_replaces_or_removes_an_input(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chats, scores = scored(tmp_path / "a")
    monkeypatch.chdir(tmp_path / "a")
    for name in ("skipped.jsonl", "left_out.jsonl"):
        dialogues(tmp_path / "a", name)
    Path("rubric.yaml").write_text("overall: {low: 1, high: 5}")
    Path("config.yaml").write_text(
        f"data: {{mine: {chats.name}}}\njudges: {{length: length}}\n"
    )
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    names = {"SCORES": scores.name, "CHATS": chats.name}
    for short, name in names.items():
        words = tuple(word.replace(short, name) for word in words)
    done = medal(*words)
    assert done.exit_code == 2 or isinstance(done.exception, ConfigError), done.output
    assert "is the input" in f"{done.exception}", (
        done.output,
        done.exception,
    )
    for path, content in before.items():
        assert path.read_bytes() == content, path


HOLD = """
import sys
from medal_judges.storage.files import output_lock
with output_lock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_second_run_on_one_output_is_refused_and_a_killed_one_lets_go(
    tmp_path: Path,
) -> None:
    source, out = dialogues(tmp_path, "in.jsonl"), tmp_path / "out.jsonl"
    link = tmp_path / "link.jsonl"
    link.symlink_to(out)
    asked = ("score", source, "--judge", "length", "--out")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        for name in (out, link):
            done = medal(*asked, name)
            assert isinstance(done.exception, MedalError)
            assert f"another run is writing to {name}" in str(done.exception)
        skipped = tmp_path / "out.skipped.jsonl"  # of the other run
        skipped.touch()
        for more in (
            ("--workers", "2"),
            ("--judge", "no such judge"),
        ):
            # without ray, and with no such judge: the lock is first
            done = medal(*asked, out, *more)
            assert (
                "another run is writing to" in str(done.exception) and skipped.exists()
            )
        skipped.unlink()
        assert not out.exists()
        assert medal(*asked, tmp_path / "another.jsonl").exit_code == 0
        other.kill()
        other.wait()
    assert medal(*asked, out).exit_code == 0
    names = {"in.jsonl", "out.jsonl", "link.jsonl", "another.jsonl"}
    assert {path.name for path in tmp_path.iterdir()} == names  # no lock is left beside


COMMANDS = (
    "agreement IN --out OUT",
    "annotate export IN --annotator a --out OUT",
    "score IN --judge length --out OUT/scores.jsonl",
    "label IN --judge length --users skip --replace-labels --out OUT",
    "train --config baseline_length train=[{source:IN}] output_dir=OUT",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_writes_where_another_run_does(command: str, tmp_path: Path) -> None:
    source, out = dialogues(tmp_path, "in.jsonl"), tmp_path / "out"
    words = command.replace("source:IN", "source: IN").replace("IN", str(source))
    filled = re.split(r" (?![^{]*\})", words.replace("OUT", str(out)))
    named = [Path(a) for a in filled if a.startswith(str(out))]
    target = named[0] if named else out
    is_folder = target.suffix != ".jsonl" and "train" not in command
    with output_lock(target, folder=is_folder):
        done = medal(*filled)
        assert isinstance(done.exception, MedalError), (done.output, done.exception)
        assert f"another run is writing to {target}" in str(done.exception)
    # no lock, no folder
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.jsonl"]
