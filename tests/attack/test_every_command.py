"""Commands that write: on files in order they work (so that no attack on them is an attack on
nothing); on a full disk, and where they may not write, they say so, keep what was there, and the
same command then works."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from medal_judges.cli import app

from .every_command import COMMANDS, Files
from .forked import medal

# Kilobytes of a disk: none, so that nothing can be begun; enough for a beginning.
SIZES = (0, 12, 60)


@contextmanager
def disk(place: Path, kilobytes: int) -> Iterator[Path]:
    """A disk of its own with so much room."""
    place.mkdir()
    made = ["mount", "-t", "tmpfs", "-o", f"size={max(kilobytes, 4)}k", "tmpfs", str(place)]
    if subprocess.run(made, capture_output=True).returncode:
        pytest.skip("a small disk can be mounted by root alone")
    try:
        if not kilobytes:
            (place / "full").write_bytes(b"x" * 4096)
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_on_files_in_order_it_works(command: str, files: Files, tmp_path: Path) -> None:
    words = files.arguments(command, files.chats, tmp_path / "out")
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, (done.output, done.exception)
    assert list(tmp_path.glob("out*"))


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("size", SIZES)
def test_a_full_disk_is_told_and_the_command_works_when_there_is_room(
    command: str, size: int, files: Files, tmp_path: Path
) -> None:
    with disk(tmp_path / "disk", size) as place:
        words = files.arguments(command, files.chats, place / "out")
        done = medal(words, tmp_path / "said")
        if not size or done.returncode:
            assert done.returncode == 2, (done.returncode, done.stderr[-1500:])
            assert "Traceback" not in done.stderr, done.stderr[-3000:]
            assert "no space left to write" in done.stderr, done.stderr
            assert not list(place.rglob(".partial*"))
            (place / "full").unlink(missing_ok=True)
            subprocess.run(["mount", "-o", "remount,size=64m", str(place)], check=True)
            done = medal(words, tmp_path / "said")
            assert done.returncode == 0, done.stderr[-3000:]
            assert not list(place.rglob(".partial*"))


@contextmanager
def read_only(place: Path) -> Iterator[Path]:
    """A folder on a disk that takes no writing."""
    with disk(place, 64) as made:
        (made / "there.txt").write_text("x")
        subprocess.run(["mount", "-o", "remount,ro", str(made)], check=True)
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_disk_that_takes_no_writing_is_told(command: str, files: Files, tmp_path: Path) -> None:
    with read_only(tmp_path / "disk") as place:
        done = medal(files.arguments(command, files.chats, place / "out"), tmp_path / "said")
        assert done.returncode == 2, (done.returncode, done.stderr[-1500:])
        assert "Traceback" not in done.stderr, done.stderr[-3000:]
        assert "Read-only file system" in done.stderr, done.stderr
        assert [each.name for each in place.iterdir()] == ["there.txt"]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("there", ["a folder", "a file", "a link to nothing", "a link to a file"])
def test_another_thing_of_that_name_is_no_traceback(
    command: str, there: str, files: Files, tmp_path: Path
) -> None:
    words = files.arguments(command, files.chats, tmp_path / "out")
    out = Path(next(w for w in words if w.startswith(str(tmp_path / "out"))))
    other = tmp_path / "other.txt"
    other.write_text("kept")
    if there == "a folder":
        out.mkdir()
        (out / "mine.txt").write_text("kept")
    elif there == "a file":
        out.write_text("mine")
    else:
        out.symlink_to(tmp_path / "nowhere" if there == "a link to nothing" else other)
    done = medal(words, tmp_path / "said")
    assert "Traceback" not in done.stderr, done.stderr[-3000:]
    assert done.returncode in (0, 2), done.stderr[-1500:]
    if there == "a folder":
        assert (out / "mine.txt").read_text() == "kept"
