"""A run of ``medal score`` that is ended from outside, or has few handles, says no traceback and
loses no row."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .every_command import COMMANDS, Files
from .forked import medal

ROWS = 12_000  # about a second of scoring
FEW = 32  # file handles
MEDAL = [sys.executable, "-m", "medal_judges", "score"]


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    turns = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi music"}]
    path = tmp_path / "chats.jsonl"
    rows = (json.dumps({"id": str(n), "turns": turns}) + "\n" for n in range(ROWS))
    path.write_text("".join(rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("kind", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)]
)
def test_a_run_that_is_stopped_is_resumed(kind: int, code: int, chats: Path) -> None:
    out = chats.with_name("scores.jsonl")
    command = [*MEDAL, str(chats), "--judge", "length", "--out", str(out)]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # A suite in the background of a shell has SIGINT ignored, and hands that on.
        preexec_fn=lambda: signal.signal(kind, signal.SIG_DFL),
    )
    while process.poll() is None and not (out.exists() and out.stat().st_size):
        time.sleep(0.005)
    process.send_signal(kind)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in said
    kept = out.read_bytes().count(b"\n")
    assert 0 < kept < ROWS
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    ids = [json.loads(line)["id"] for line in out.read_text(encoding="utf-8").splitlines()]
    assert ids == [str(n) for n in range(ROWS)]


def test_a_reader_that_leaves_is_no_error(chats: Path) -> None:
    process = subprocess.Popen(
        [*MEDAL, str(chats), "--judge", "length"], stderr=subprocess.PIPE, stdout=subprocess.PIPE
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


def ended(files: Files, command: str, tmp_path: Path, kind: signal.Signals) -> None:
    """End ``command`` at several moments, then let it run: it works, and leaves nothing beside."""
    words = files.arguments(command, files.chats, tmp_path / "out")
    codes = {signal.SIGINT: 130, signal.SIGTERM: -signal.SIGTERM}
    for after in (0.02, 0.1, 0.3, 1.0):
        done = medal(words, tmp_path / "said", end=(kind, after))
        assert done.returncode in (codes[kind], 0), (after, done)
        assert "Traceback" not in done.stderr, done.stderr[-3000:]
        if done.returncode == 0:  # it was faster
            break
    if done.returncode:
        done = medal(words, tmp_path / "said")
        assert done.returncode == 0, done.stderr[-3000:]
    left = [p.name for p in tmp_path.rglob("*") if p.name.startswith((".partial", ".again"))]
    assert kind is signal.SIGTERM or not left, left  # nobody cleans up after a SIGTERM


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_every_command_is_ended_and_run_again(
    command: str, kind: signal.Signals, files: Files, tmp_path: Path
) -> None:
    ended(files, command, tmp_path, kind)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_few_handles(command: str, files: Files, tmp_path: Path) -> None:
    words = files.arguments(command, files.chats, tmp_path / "out")
    opened = max(map(int, os.listdir("/proc/self/fd"))) + 1  # pytest's own, which a fork inherits

    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (opened + FEW, opened + FEW))

    done = medal(words, tmp_path / "said", first=few)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("more", [1, 16, 64])
def test_every_command_is_told_that_memory_is_at_its_end(
    command: str, more: int, files: Files, tmp_path: Path
) -> None:
    words = files.arguments(command, files.chats, tmp_path / "out")

    def little() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + (more << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    done = medal(words, tmp_path / "said", first=little)
    if "SystemError: error return without exception set" in done.stderr:
        return  # CPython's own: an allocation failed in the interpreter, which did not say so
    assert "Traceback" not in done.stderr, done.stderr[-3000:]
    if done.returncode:
        assert done.returncode == 2 and "no more memory" in done.stderr, done
        done = medal(words, tmp_path / "said")
        assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_whose_reader_leaves(command: str, files: Files, tmp_path: Path) -> None:
    words = files.arguments(command, files.chats, tmp_path / "out")

    def left() -> None:
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, 1)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115

    done = medal(words, tmp_path / "said", first=left)
    assert done.returncode in (0, 1, -signal.SIGPIPE), done
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr, done.stderr


@pytest.mark.slow
def test_32_file_handles_are_enough(chats: Path) -> None:
    done = subprocess.run(
        [*MEDAL, str(chats), "--judge", "length", "--out", str(chats.with_name("scores.jsonl"))],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, FEW)),
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [200, 300, 500, 700, 900])
def test_an_address_space_limit_is_a_message(chats: Path, megabytes: int) -> None:
    small = megabytes << 20  # libraries do not fit, then threads, then weights
    done = subprocess.run(
        [*MEDAL, str(chats), "--judge", "boxed", "--out", str(chats.with_name("scores.jsonl"))],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (small, small)),
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "no more memory" in done.stderr
