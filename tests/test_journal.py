"""The journal: what was written whole is kept, what a kill left of a line is not."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from medal_judges import MedalError
from medal_judges.storage.files import atomic_path, atomic_write
from medal_judges.storage.jsonl import Journal
from medal_judges.storage.runs import hash_or_name


def ids(journal: Journal) -> list[Any]:
    return list(journal.read_records(lambda record: record["id"]))  # type: ignore[index]


def test_what_a_kill_left_of_a_line_is_dropped_at_every_byte(tmp_path: Path) -> None:
    whole = Journal(tmp_path / "journal.jsonl")
    assert ids(whole) == []
    whole.append({"id": f"d{n}", "text": "é" * n} for n in range(3))
    whole.append([{"id": "d3"}], sync=False)
    whole.sync()
    assert ids(whole) == ["d0", "d1", "d2", "d3"]
    data = whole.path.read_bytes()
    for size in range(len(data)):
        cut = Journal(tmp_path / "cut.jsonl")
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


def test_a_run_is_known_by_the_content_of_its_files(tmp_path: Path) -> None:
    rubric, copy = tmp_path / "rubric.yaml", tmp_path / "copy.yaml"
    rubric.write_text("a")
    copy.write_text("a")
    path = tmp_path / "journal.jsonl"
    Journal(path, {"rubric": hash_or_name(rubric)}).append([{"id": "d0"}])
    Journal(path, {"rubric": hash_or_name(copy)}).require_same_run()
    Journal(path, {"rubric": hash_or_name(copy)}).append([{"id": "d1"}])
    rubric.write_text("b")
    before = path.read_bytes()
    for run in ({"rubric": hash_or_name(rubric)}, {}, None):
        with pytest.raises(MedalError):
            Journal(path, run).require_same_run()
    assert path.read_bytes() == before and before.count(b"run") == 1
    assert (
        hash_or_name(tmp_path) != hash_or_name(copy)
        and hash_or_name("org/base") == "org/base"
    )
