"""The folder of a run: whose it is, who holds it, and what is taken away."""

import errno
import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from medal_judges.data_prep.generation.run import Outputs
from medal_judges.data_prep.jobs import Answer
from medal_judges.errors import MedalError
from medal_judges.records.validation import parse

RECORD: dict[str, object] = {
    "version": "1",
    "settings": {"seed": 0},
    "agents": {},
    "contexts": {},
}
HOLD = """
import sys
from pathlib import Path
from medal_judges.data_prep.generation.run import Outputs
record = {"version": "1", "settings": {"seed": 0}, "agents": {}, "contexts": {}}
held = Outputs(Path(sys.argv[1]), record)
print("held", flush=True)
sys.stdin.read()
"""


def test_one_process_at_a_time_and_a_killed_one_lets_go(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        for overwrite in (False, True):
            with pytest.raises(MedalError, match=r"another run is writing to"):
                Outputs(tmp_path, RECORD, overwrite=overwrite)
        other.kill()
        other.wait()
    Outputs(tmp_path, RECORD).close()
    Outputs(tmp_path, RECORD).close()


def test_a_refused_folder_is_not_held(tmp_path: Path) -> None:
    Outputs(tmp_path, RECORD).close()
    for _ in range(2):
        with pytest.raises(
            MedalError, match="settings: seed: there 0, now 1"
        ) as refused:
            Outputs(tmp_path, {**RECORD, "settings": {"seed": 1}})
        assert refused.value  # kept alive: the folder is released all the same


@pytest.mark.parametrize(
    "text", ['{"command": "medal train"}', "[]", "", '{"settings": {']
)
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_record_of_something_else_is_left_alone(
    tmp_path: Path, text: str, overwrite: bool
):
    files = {"run.json": text, "dialogues.jsonl": "mine\n", "summary.json": "mine"}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(MedalError, match="--out DIR"):
        Outputs(tmp_path, RECORD, overwrite=overwrite)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == files


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_without_a_record_is_left_alone(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "dialogues.jsonl").write_text("mine\n")
    with pytest.raises(MedalError, match="--out DIR"):
        Outputs(tmp_path, RECORD, overwrite=overwrite)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["mine\n"]


def test_overwrite_takes_the_runs_own_files_and_no_other(tmp_path: Path) -> None:
    Outputs(tmp_path, RECORD).close()
    for name in ("journal.jsonl", "dialogues.jsonl", "notes.txt", "run2.json"):
        (tmp_path / name).write_text("x")
    other: dict[str, object] = {**RECORD, "settings": {"seed": 1}}
    Outputs(tmp_path, other, overwrite=True).close()
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "notes.txt",
        "run.json",
        "run2.json",
    ]
    assert json.loads((tmp_path / "run.json").read_text()) == other


def test_a_file_in_the_folders_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(FileExistsError) as refused:
        Outputs(tmp_path / "out", RECORD)
    assert refused.value.filename == str(tmp_path / "out")
    if Path("/proc/self/task").is_dir():  # there, and not even root may write to it
        with pytest.raises(OSError) as unwritable:
            Outputs(Path("/proc/self/task"), RECORD)
        assert "/task" in str(unwritable.value.filename)


def test_a_line_that_finds_no_room_leaves_nothing(tmp_path: Path) -> None:
    """A file that may not grow takes a part of a line, as a disk that is nearly full does."""
    outputs = Outputs(tmp_path, RECORD)
    journal = outputs.journal
    journal.append([Answer("a", "say", "x" * 20)])
    whole = journal.path.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (whole + 30, hard))
    try:
        with pytest.raises(OSError) as full:
            journal.append([Answer("b", "say", "x" * 20)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert full.value.errno == errno.EFBIG
    assert journal.path.stat().st_size == whole
    # another thread's answer, with room again
    journal.append([Answer("c", "say", "short")])
    assert [
        event.id for event in outputs.journal.records(lambda line: parse(Answer, line))
    ] == [
        "a",
        "c",
    ]


def test_a_model_in_a_folder_is_its_content(tmp_path: Path) -> None:
    """Other weights in the folder of an agent are another run, at any path."""
    from medal_judges.data_prep.jobs import settings_content
    from medal_judges.models.llm.settings import llm_config

    weights = tmp_path / "model" / "model.safetensors"
    weights.parent.mkdir()
    weights.write_bytes(b"first")
    llm = llm_config({"model": str(weights.parent), "device": "cpu"})
    first = settings_content(llm, {"device"})
    assert str(tmp_path) not in str(first) and "device" not in first
    weights.write_bytes(b"other")
    assert settings_content(llm, {"device"}) != first
