"""The folder of a run: whose it is, who holds it, and what is taken away."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from medal_judges.data_prep.generation.run import RunFolder
from medal_judges.errors import MedalError

RECORD: dict[str, object] = {
    "version": "1",
    "settings": {"seed": 0},
    "agents": {},
    "contexts": {},
}
HOLD = """
import sys
from pathlib import Path
from medal_judges.data_prep.generation.run import RunFolder
record = {"version": "1", "settings": {"seed": 0}, "agents": {}, "contexts": {}}
held = RunFolder(Path(sys.argv[1]), record)
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
                RunFolder(tmp_path, RECORD, overwrite=overwrite)
        other.kill()
        other.wait()
    RunFolder(tmp_path, RECORD).close()
    RunFolder(tmp_path, RECORD).close()


def test_overwrite_takes_the_runs_own_files_and_no_other(tmp_path: Path) -> None:
    RunFolder(tmp_path, RECORD).close()
    for name in ("journal.jsonl", "dialogues.jsonl", "notes.txt", "run2.json"):
        (tmp_path / name).write_text("x")
    other: dict[str, object] = {**RECORD, "settings": {"seed": 1}}
    RunFolder(tmp_path, other, overwrite=True).close()
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "notes.txt",
        "run.json",
        "run2.json",
    ]
    assert json.loads((tmp_path / "run.json").read_text()) == other


def test_a_model_in_a_folder_is_its_content(tmp_path: Path) -> None:
    """Other weights in the folder of an agent are another run, at any path."""
    from medal_judges.data_prep.jobs import answer_settings
    from medal_judges.models.llm.settings import llm_config

    weights = tmp_path / "model" / "model.safetensors"
    weights.parent.mkdir()
    weights.write_bytes(b"first")
    llm = llm_config({"model": str(weights.parent), "device": "cpu"})
    first = answer_settings(llm, {"device"})
    assert str(tmp_path) not in str(first) and "device" not in first
    weights.write_bytes(b"other")
    assert answer_settings(llm, {"device"}) != first
