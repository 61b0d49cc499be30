"""Files that hold no chats: `medal score` names the problem and ends with 2, never a hang."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import tarfile
import zipfile
from pathlib import Path

import pytest

from medal_judges.models.base.judge import Judge

from ..forked import medal, start

LINE = '{"messages": [{"role": "user", "content": "hi"}]}\n'
TABLE = "prompt,response\nhi,hello\n"
UTF_16 = "not UTF-8 text (UTF-16?)"
UNKNOWN = "not a known kind of chat file"


def zipped(**members: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return packed.getvalue()


def tarred() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("chats.jsonl"))
    return packed.getvalue()


FILES: dict[str, tuple[bytes, str]] = {
    "paper.pdf": (b"%PDF-1.4\n", UNKNOWN),
    "page.jsonl.pdf": (
        b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<<>>\nendobj\n",
        UNKNOWN,
    ),
    "picture.png": (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", UNKNOWN),
    "picture.jpg": (b"\xff\xd8\xff\xe0\x00\x10JFIF\x00", UNKNOWN),
    "picture.gif": (b"GIF89a\x01\x00\x01\x00", UNKNOWN),
    "picture.svg": (b"<svg/>\n", UNKNOWN),
    "page.html": (b"<!doctype html>\n<p>hi</p>\n", UNKNOWN),
    "settings.yaml": (b"name: chats\n", UNKNOWN),
    "program": (b"\x7fELF\x02\x01\x01\x00", UNKNOWN),
    "chats.db": (b"SQLite format 3\x00\x10\x00", UNKNOWN),
    "pickle.pkl": (pickle.dumps(["hi"]), UNKNOWN),
    "array.npy": (b"\x93NUMPY\x01\x00v\x00{'descr': '<f8'}\n", UNKNOWN),
    "chats.tar": (tarred(), UNKNOWN),
    "chats.jsonl.bz2": (bz2.compress(LINE.encode()), UNKNOWN),
    "chats.jsonl.xz": (lzma.compress(LINE.encode()), UNKNOWN),
    "chats.7z": (b"7z\xbc\xaf\x27\x1c\x00\x04", UNKNOWN),
    "packed.gz": (gzip.compress(b"%PDF-1.4\n"), UNKNOWN),
    "table16.csv": (TABLE.encode("utf-16"), UTF_16),
    "lines16.jsonl": (LINE.encode("utf-16"), UTF_16),
    "lines16be.jsonl": (LINE.encode("utf-16-be"), UNKNOWN),
    "lines16le.jsonl": (LINE.encode("utf-16-le"), UTF_16),
    "lines32.jsonl": (LINE.encode("utf-32"), UTF_16),
    "nothing.zip": (zipped(), UNKNOWN),
    "chats.zip": (zipped(**{"chats.jsonl": LINE}), "is not a workbook"),
    "zeros.bin": (bytes(5000), UNKNOWN),
    "cut.gz": (gzip.compress(LINE.encode())[:-9], "cannot read on"),
}


@pytest.fixture(scope="module", autouse=True)
def _judge() -> None:
    """Imports what the judge needs before the forks, so that each of them begins at once."""
    Judge.from_pretrained("length")


@pytest.mark.parametrize("name", FILES)
def test_a_file_without_chats_is_an_error(name: str, tmp_path: Path) -> None:
    content, problem = FILES[name]
    (tmp_path / name).write_bytes(content)
    process = start(
        "score", tmp_path / name, "--judge", "length", "--out", tmp_path / "out.jsonl"
    )
    try:
        _, error = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 2 and problem in error, error
    assert not (tmp_path / "out.jsonl").exists()


def test_a_packed_file_of_nothing_is_a_file_without_dialogues(tmp_path: Path) -> None:
    (tmp_path / "nothing.gz").write_bytes(gzip.compress(b""))
    done = medal(
        "score", tmp_path / "nothing.gz", "--judge", "length", "--out", tmp_path / "out"
    )
    assert done.returncode == 3 and "no dialogue was read" in done.stderr
