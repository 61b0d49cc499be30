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


def zipped(**members: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return packed.getvalue()


FILES: dict[str, bytes] = {
    "paper.pdf": b"%PDF-1.4\n",
    "picture.svg": b"<svg/>\n",
    "settings.yaml": b"name: chats\n",
    "chats.db": b"SQLite format 3\x00\x10\x00",
    "pickle.pkl": pickle.dumps(["hi"]),
    "chats.jsonl.xz": lzma.compress(LINE.encode()),
    "packed.gz": gzip.compress(b"%PDF-1.4\n"),
    "lines16.jsonl": LINE.encode("utf-16"),
    "chats.zip": zipped(**{"chats.jsonl": LINE}),
    "cut.gz": gzip.compress(LINE.encode())[:-9],
}


@pytest.fixture(scope="module", autouse=True)
def _judge() -> None:
    """Imports what the judge needs before the forks, so that each of them begins at once."""
    Judge.from_pretrained("length")


@pytest.mark.parametrize("name", FILES)
def test_a_file_without_chats_is_an_error(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    process = start(
        "score", tmp_path / name, "--judge", "length", "--out", tmp_path / "out.jsonl"
    )
    try:
        _, error = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 2 and name in error, error
    assert not (tmp_path / "out.jsonl").exists()
