"""The folder of a run: whose it is, who holds it, and what is taken away."""

from __future__ import annotations

import errno
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from medal_judges.data_prep.generation.journal import Event, Journal
from medal_judges.data_prep.generation.outputs import Outputs, room_in
from medal_judges.errors import DataError, MedalError

RECORD: dict[str, Any] = {"settings": {"seed": 0}, "agents": {}, "languages": [], "contexts": []}
HOLD = """
import sys
from pathlib import Path
from medal_judges.data_prep.generation.outputs import Outputs
record = {"settings": {"seed": 0}, "agents": {}, "languages": [], "contexts": []}
held = Outputs(Path(sys.argv[1]), record)
print("held", flush=True)
sys.stdin.read()
"""


def test_one_process_at_a_time_and_a_killed_one_lets_go(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        for overwrite in (False, True):
            with pytest.raises(MedalError, match=r"another run is at work(.|\n)*out=DIR"):
                Outputs(tmp_path, RECORD, overwrite=overwrite)
        other.kill()
        other.wait()
    Outputs(tmp_path, RECORD).close()
    Outputs(tmp_path, RECORD).close()


def test_a_refused_folder_is_not_held(tmp_path: Path) -> None:
    Outputs(tmp_path, RECORD).close()
    other = {**RECORD, "settings": {"seed": 1}}
    for _ in range(2):
        with pytest.raises(MedalError, match="seed: 0 there, 1 now") as refused:
            Outputs(tmp_path, other)
        assert refused.value  # kept alive: the folder is let go of all the same


@pytest.mark.parametrize("text", ['{"command": "medal train"}', "[]", "", '{"settings": {'])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_record_of_something_else_is_left_alone(
    tmp_path: Path, text: str, overwrite: bool
) -> None:
    files = {"run.json": text, "dialogues.jsonl": "mine\n", "summary.json": "mine"}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(MedalError, match=r"run.json is no record of medal generate(.|\n)*out=DIR"):
        Outputs(tmp_path, RECORD, overwrite=overwrite)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == files


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_without_a_record_is_left_alone(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "dialogues.jsonl").write_text("mine\n")
    with pytest.raises(MedalError, match=r"dialogues.jsonl is there, but no run.json"):
        Outputs(tmp_path, RECORD, overwrite=overwrite)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["mine\n"]


def test_overwrite_takes_the_runs_own_files_and_no_other(tmp_path: Path) -> None:
    Outputs(tmp_path, RECORD).close()
    for name in ("journal.jsonl", "dialogues.jsonl", "notes.txt", "run2.json"):
        (tmp_path / name).write_text("x")
    other = {**RECORD, "settings": {"seed": 1}}
    Outputs(tmp_path, other, overwrite=True).close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes.txt", "run.json", "run2.json"]
    assert json.loads((tmp_path / "run.json").read_text()) == other


def test_a_file_in_the_folders_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(MedalError, match=r"out cannot be written to(.|\n)*out=DIR"):
        Outputs(tmp_path / "out", RECORD)
    if Path("/proc/self/task").is_dir():  # there, and not even root may write to it
        with pytest.raises(MedalError, match=r"task cannot be written to(.|\n)*out=DIR"):
            Outputs(Path("/proc/self/task"), RECORD)


@pytest.mark.parametrize("usage", ["[1]", '"money"', "3", "null"])
def test_an_event_whose_usage_cannot_be_counted_is_named(tmp_path: Path, usage: str) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(f'{{"id": "a", "stage": "say", "answer": "x", "usage": {usage}}}\n')
    with pytest.raises(DataError, match=r"journal.jsonl:1: not a line of a generation's"):
        list(Journal(path).earlier())


def test_nothing_is_written_behind_half_a_line(tmp_path: Path) -> None:
    """A file that may not grow takes a part of a line, as a disk that is nearly full does."""
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append(Event("a", "say", "x" * 20))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    room = journal.path.stat().st_size + 30
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        no_room = pytest.raises(MedalError, match=r"no room to write in .*(.|\n)*same command")
        with no_room, room_in(tmp_path):
            journal.append(Event("b", "say", "x" * 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert journal.path.stat().st_size == room  # half of it stands there
    with pytest.raises(OSError) as again:  # another thread's answer, with room again
        journal.append(Event("c", "say", "short"))
    assert again.value.errno == errno.EFBIG
    journal.close()
    later = Journal(journal.path)
    assert [event.id for event in later.earlier()] == ["a"]
    later.append(Event("b", "say", "x" * 20))
    assert [event.id for event in later.earlier()] == ["a", "b"]
