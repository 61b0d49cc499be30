"""The journal: what was written whole is kept, what a kill left of a line is not."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from medal_judges.storage.files import atomic_path, atomic_write
from medal_judges.storage.jsonl import Journal

NAMES = ["journal.jsonl", "journal.jsonl.gz"]


def ids(journal: Journal) -> list[Any]:
    return list(journal.records(lambda record: record["id"]))  # type: ignore[index]


@pytest.mark.parametrize("name", NAMES)
def test_what_a_kill_left_of_a_line_is_dropped_at_every_byte(
    tmp_path: Path, name: str
) -> None:
    whole = Journal(tmp_path / name)
    assert ids(whole) == []
    whole.append({"id": f"d{n}", "text": "é" * n} for n in range(3))
    whole.append([{"id": "d3"}], sync=False)
    whole.sync()
    assert ids(whole) == ["d0", "d1", "d2", "d3"]
    data = whole.path.read_bytes()
    for size in range(len(data)):
        cut = Journal(tmp_path / f"cut-{name}")
        cut.path.write_bytes(data[:size])
        kept = ids(cut)
        assert kept == ["d0", "d1", "d2", "d3"][: len(kept)]
        cut.append([{"id": "new"}])
        assert ids(cut) == [*kept, "new"]


def test_a_write_that_fails_leaves_no_part_of_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append([{"id": "a"}])

    def full(_: int) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        journal.append([{"id": "b"}])
    monkeypatch.undo()
    assert journal.path.read_text() == '{"id": "a"}\n'


def test_a_target_changes_whole_or_not_at_all(tmp_path: Path) -> None:
    target = atomic_write(tmp_path / "new" / "a.jsonl.gz", gzip.compress(b"old"))
    with pytest.raises(ValueError, match="x"), atomic_path(target) as partial:
        partial.write_bytes(b"half")
        raise ValueError("x")
    assert gzip.decompress(target.read_bytes()) == b"old"
    folder = tmp_path / "judge"
    for text in ("first", "second"):
        with atomic_path(folder) as partial:
            partial.mkdir()
            (partial / f"{text}.txt").write_text(text)
    assert [path.name for path in folder.iterdir()] == ["second.txt"]
    assert {path.name for path in tmp_path.rglob("*")} == {
        "new",
        "a.jsonl.gz",
        "judge",
        "second.txt",
    }
