"""Compressed files that are none, cut or corrupt, lines and sheets that would fill the memory, and
disks without room: a message, never a traceback."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.errors import DataError
from medal_judges.reading.dialogues import read_dialogues
from medal_judges.reading.messages import read_messages
from medal_judges.reading.report import ReadingReport
from medal_judges.storage import jsonl
from medal_judges.storage.judgements import holds_judgements

LINE = {
    "id": "d",
    "dialogue": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
}
TEXT = "".join(json.dumps(LINE | {"id": f"d{n}"}) + "\n" for n in range(2000)).encode()
WHOLE = gzip.compress(TEXT)


def flipped(place: int) -> bytes:
    data = bytearray(WHOLE)
    data[place] ^= 0xFF
    return bytes(data)


DAMAGED = {
    "cut": (WHOLE[: len(WHOLE) // 2], "the compressed file is cut short"),
    "checksum": (flipped(-6), "cannot read on: CRC check failed"),
    "behind": (
        WHOLE + b"and more",
        "in.jsonl.gz:2001: cannot read on: other bytes stand behind the end",
    ),
    "method": (flipped(2), "cannot read on: Unknown compression method"),
}


@pytest.mark.parametrize("kind", DAMAGED)
@pytest.mark.parametrize("out", ["-", "out.jsonl"])
@pytest.mark.parametrize("skip", [[], ["--strict"]])
def test_a_damaged_gzip_is_told(
    tmp_path: Path, kind: str, out: str, skip: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content, problem = DAMAGED[kind]
    (tmp_path / "in.jsonl.gz").write_bytes(content)
    asked = ["score", "in.jsonl.gz", "--judge", "length", "--out", out, *skip]
    done = CliRunner().invoke(app, asked)
    assert isinstance(done.exception, DataError), (done.output, done.exception)
    assert problem in str(done.exception) and "Aborted" not in done.output


def test_a_flipped_bit_is_told_too(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl.gz"
    for place in range(20, len(WHOLE), len(WHOLE) // 25):
        path.write_bytes(flipped(place))
        with pytest.raises(DataError):
            list(read_dialogues(path))


@pytest.mark.parametrize("name", ["scenes.jsonl.gz", "scenes.csv.gz"])
def test_damaged_scenes_are_told(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(WHOLE[:400])
    asked = ["data", "seeds", "--scenes", str(tmp_path / name), "--out", str(tmp_path / "o.jsonl")]
    done = CliRunner().invoke(app, asked)
    assert isinstance(done.exception, DataError), done.exception


def test_a_line_without_end_is_not_held_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "LONGEST_LINE", 1000)
    path = tmp_path / "in.jsonl.gz"
    good = json.dumps(LINE) + "\n"
    edge = json.dumps(LINE | {"id": "edge"})
    edge = edge + " " * (1000 - len(edge)) + "\n"
    path.write_bytes(gzip.compress((good + "x" * 50_000 + "\n" + edge).encode()))
    with pytest.raises(DataError, match=r"gz:2: .*at most 1,000 characters"):
        list(read_dialogues(path))
    reading = ReadingReport()
    assert [d.id for d in read_dialogues(path, reading=reading)] == ["d", "edge"]
    assert reading.count == 1


@pytest.mark.parametrize("packed", [False, True])
def test_nesting_where_json_stands_in_json(tmp_path: Path, packed: bool) -> None:
    deep = "[" * 100_000
    said = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": deep}}]},
        {"role": "assistant", "content": "hello"},
    ]
    assert read_messages(said).turns[-1].content == "hello"
    path = tmp_path / ("a.jsonl.gz" if packed else "a.jsonl")
    path.write_bytes(gzip.compress(deep.encode()) if packed else deep.encode())
    assert holds_judgements(path) is False
    path.write_bytes(WHOLE[:400])
    assert holds_judgements(path) is False


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
from medal_judges.cli import main
sys.argv = ["medal", *sys.argv[1:]]
main()
"""


def limited(*arguments: object) -> Any:
    """``medal`` where no file may grow beyond 20 kB: the kernel's refusal, as on a full disk."""
    return subprocess.run(
        [sys.executable, "-c", LIMITED, *map(str, arguments)], capture_output=True, text=True
    )


def test_a_disk_without_room_is_told_and_the_run_resumes(tmp_path: Path) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(TEXT)
    asked = ("score", source, "--judge", "length", "--out", out)
    done = limited(*asked)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert "no space left to write" in done.stderr and "make space" in done.stderr
    done = CliRunner().invoke(app, list(map(str, asked)))
    assert done.exit_code == 0 and len(out.read_text().splitlines()) == 2000
    for command in (
        ("data", "plant", source, "--out", tmp_path / "planted.jsonl"),
        ("data", "seeds", "--n", 200, "--out", tmp_path / "seeds.jsonl"),
    ):
        done = limited(*command)
        assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
        assert "no space left to write" in done.stderr
        assert not list(tmp_path.glob(".partial*"))
