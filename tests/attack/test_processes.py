"""A run of ``medal score`` that is ended from outside, or has few handles, says no traceback and
loses no row."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ..forked import medal, score_slowly, start

ROWS = 4_000
MEDAL = [sys.executable, "-m", "medal_judges", "score"]


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    turns = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi music"},
    ]
    path = tmp_path / "chats.jsonl"
    rows = (json.dumps({"id": str(n), "turns": turns}) + "\n" for n in range(ROWS))
    path.write_text("".join(rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("kind", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)]
)
def test_a_run_that_is_stopped_is_resumed(kind: int, code: int, chats: Path) -> None:
    out = chats.with_name("scores.jsonl")
    command = ["score", chats, "--judge", "length", "--out", out]
    process = start(*command, first=score_slowly)
    while process.poll() is None and not (out.exists() and out.stat().st_size):
        time.sleep(0.005)
    process.send_signal(kind)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in said and said.count("stopped; run the same") == 1
    kept = out.read_bytes().count(b"\n")
    assert 0 < kept < ROWS
    again = medal(*command)
    assert again.returncode == 0, again.stderr
    ids = [
        json.loads(line)["id"] for line in out.read_text(encoding="utf-8").splitlines()
    ]
    assert ids == [str(n) for n in range(ROWS)]


def test_a_reader_that_leaves_is_no_error(chats: Path) -> None:
    process = subprocess.Popen(
        [*MEDAL, str(chats), "--judge", "length"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert json.loads(process.stdout.readline())["id"] == "0"
    process.stdout.close()
    said = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(timeout=60) in (1, -signal.SIGPIPE)
    assert "Traceback" not in said
    assert "Exception ignored" not in said
