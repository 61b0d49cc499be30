"""Files that hold no chats: `medal score` names the problem and ends with 2, never a hang."""

from __future__ import annotations

import gzip
import io
import lzma
import pickle
import zipfile
from pathlib import Path

import pytest

from medal_judges.models.base.judge import Judge

from ..forked import start

LINE = '{"messages": [{"role": "user", "content": "hi"}]}\n'
UNKNOWN = "not a known kind of chat file"


def zipped(**members: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return packed.getvalue()


FILES: dict[str, tuple[bytes, str]] = {
    "paper.pdf": (b"%PDF-1.4\n", UNKNOWN),
    "picture.svg": (b"<svg/>\n", UNKNOWN),
    "settings.yaml": (b"name: chats\n", UNKNOWN),
    "chats.db": (b"SQLite format 3\x00\x10\x00", UNKNOWN),
    "pickle.pkl": (pickle.dumps(["hi"]), "not UTF-8"),
    "chats.jsonl.xz": (lzma.compress(LINE.encode()), "not UTF-8"),
    "packed.gz": (gzip.compress(b"%PDF-1.4\n"), UNKNOWN),
    "lines16.jsonl": (LINE.encode("utf-16"), "not "),
    "chats.zip": (zipped(**{"chats.jsonl": LINE}), "is not a workbook"),
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
