"""Every command that writes, ended, on a full disk, or where something is in the way: a message, no
traceback, what was there stays, and the same command then works."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from ..forked import medal
from .every_command import COMMANDS, Files, sampled

Run = Callable[..., CompletedProcess[str]]  # the command with ``out`` at a path
CODES = {signal.SIGINT: 130, signal.SIGTERM: -signal.SIGTERM}


@contextmanager
def disk(place: Path, kilobytes: int) -> Iterator[Path]:
    """A disk of its own with so much room."""
    place.mkdir()
    made = [
        "mount",
        "-t",
        "tmpfs",
        "-o",
        f"size={max(kilobytes, 4)}k",
        "tmpfs",
        str(place),
    ]
    if subprocess.run(made, capture_output=True).returncode:
        pytest.skip("a small disk can be mounted by root alone")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def in_order(run: Run, folder: Path) -> None:
    assert run(folder / "out").returncode == 0
    assert list(folder.glob("out*"))


def full_disk(run: Run, folder: Path, kilobytes: int) -> None:
    with disk(folder / "disk", kilobytes) as place:
        if not kilobytes:
            (place / "full").write_bytes(b"x" * 4096)
        done = run(place / "out")
        if not kilobytes or done.returncode:
            assert done.returncode == 2, done
            assert "no space left to write" in done.stderr, done.stderr
            assert not list(place.rglob(".partial*"))
            (place / "full").unlink(missing_ok=True)
            subprocess.run(["mount", "-o", "remount,size=64m", str(place)], check=True)
            assert run(place / "out").returncode == 0
            assert not list(place.rglob(".partial*"))


def read_only(run: Run, folder: Path) -> None:
    with disk(folder / "disk", 64) as place:
        (place / "there.txt").write_text("x")
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        done = run(place / "out")
        assert done.returncode == 2 and "Read-only file system" in done.stderr, done
        assert [each.name for each in place.iterdir()] == ["there.txt"]


def in_the_way(run: Run, folder: Path, there: str) -> None:
    out = folder / "out"
    other = folder / "other.txt"
    other.write_text("mine")
    for path in (out, *(out.with_name(f"out{e}") for e in (".jsonl", ".csv", ".yaml"))):
        if there == "a folder":
            path.mkdir()
            (path / "mine.txt").write_text("mine")
        elif there == "a file":
            path.write_text("mine")
        else:
            path.symlink_to(other)
    assert run(out).returncode in (0, 2)
    if there == "a folder":
        assert (out / "mine.txt").read_text() == "mine"


def ended(run: Run, folder: Path, kind: signal.Signals) -> None:
    for after in (0.02, 0.1, 0.3, 1.0):
        done = run(folder / "out", end=(kind, after))
        assert done.returncode in (CODES[kind], 0), (after, done)
        if done.returncode == 0:  # it was faster
            break
    assert run(folder / "out").returncode == 0 or not done.returncode
    left = [
        p.name for p in folder.rglob("*") if p.name.startswith((".partial", ".again"))
    ]
    assert kind is signal.SIGTERM or not left, left  # nobody cleans up after a SIGTERM


ATTACKS: dict[str, Callable[[Run, Path], None]] = {
    "in order": in_order,
    "no room": lambda run, folder: full_disk(run, folder, 0),
    "12 kB of room": lambda run, folder: full_disk(run, folder, 12),
    "a read-only disk": read_only,
    "a folder": lambda run, folder: in_the_way(run, folder, "a folder"),
    "a link to a file": lambda run, folder: in_the_way(run, folder, "a link to a file"),
    "SIGINT": lambda run, folder: ended(run, folder, signal.SIGINT),
    "SIGTERM": lambda run, folder: ended(run, folder, signal.SIGTERM),
}
CASES = [
    pytest.param(
        command,
        attack,
        marks=() if sampled(40, command, attack) else pytest.mark.nightly,
    )
    for command in COMMANDS
    for attack in ATTACKS
]


@pytest.mark.parametrize(("command", "attack"), CASES)
def test_every_command_under_every_attack(
    command: str, attack: str, files: Files, tmp_path: Path
) -> None:
    def run(out: Path, *, may_crash: bool = False, **how: Any) -> CompletedProcess[str]:
        done = medal(*files.arguments(command, files.chats, out), **how)
        assert may_crash or "Traceback" not in done.stderr, done.stderr[-3000:]
        return done

    ATTACKS[attack](run, tmp_path)
