"""Files of records: what loads, what is refused with file, line and field, what a write leaves."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from medal_judges.errors import DataError, RecordError
from medal_judges.reading.dialogues import ReadingReport, read_dialogues
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.judgement import Judgement
from medal_judges.storage.jsonl import json_line, write_records
from medal_judges.storage.judgements import read_judgements


def line(id: object = "a", **fields: Any) -> str:
    turns = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi there"},
    ]
    return json.dumps(
        {"id": id, "lang": "en", "dialogue": turns} | fields, ensure_ascii=False
    )


def write(path: Path, *lines: str, end: str = "\n") -> Path:
    path.write_bytes("".join(text + end for text in lines).encode("utf-8"))
    return path


def talk(*contents: str, first: str = "user") -> list[dict[str, str]]:
    roles = ("user", "assistant") if first == "user" else ("assistant", "user")
    return [{"role": roles[i % 2], "content": c} for i, c in enumerate(contents)]


ODD: dict[str, dict[str, Any]] = {
    "unknown language": {"lang": "tlh"},
    "empty turns": {"dialogue": talk("", " ", "")},
    "right to left": {"dialogue": talk("مرحبا، كيف حالك؟", "\u202bשלום\u202c")},
    "separators inside": {"dialogue": talk("a\u2028b\u0085c\x0bd", "e\r\nf\rg")},
    "nulls": {"source": None, "models": None, "context": None, "meta": None},
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_real_logs_load_and_come_back_the_same(
    name: str, ending: str, tmp_path: Path
) -> None:
    source = write(tmp_path / "in.jsonl", line(**ODD[name]))
    (found,) = read_dialogues(source)
    copy = tmp_path / f"out.jsonl{ending}"
    assert write_records(copy, [found]) == 1
    assert list(read_dialogues(copy)) == [found]
    wanted = ODD[name].get("dialogue")
    if wanted is not None:
        assert [t.content for t in found.turns] == [t["content"] for t in wanted]


HUGE = "9" * 5000
DEEP = "[" * 100_000 + "]" * 100_000
# broken line -> the field that its message names first
BROKEN = {
    "{broken": "(line)",
    line(id=True): "'id'",
    line(dialogue=["Hi"]): "'dialogue[0]'",
    line(
        dialogue=[*talk("a"), {"role": "system", "content": "b"}]
    ): "'dialogue[1].role'",
    line(lang=5): "'lang'",
    line(meta={"n": "N"}).replace('"N"', HUGE): "(line)",
    line(meta={"n": "N"}).replace('"N"', DEEP): "nested too deep",
    line(meta={"k": ["X"]}).replace("X", r"\uDFff"): "'meta.k[0]'",
}


@pytest.mark.parametrize("broken", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_line_is_named_or_skipped(broken: str, tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", line("first"), "", broken, line("last"))
    with pytest.raises(DataError) as caught:
        list(read_dialogues(path))
    assert caught.value.line == 3
    assert caught.value.message.startswith(f"{path}:3: ")
    assert BROKEN[broken] in caught.value.message
    assert len(caught.value.message) < 300 + len(str(path))
    caught.value.message.encode("utf-8")  # can be printed

    reading = ReadingReport()
    assert [d.id for d in read_dialogues(path, reading=reading)] == ["first", "last"]
    assert reading.count == 1
    assert reading.messages == [caught.value.message]


def test_one_judgement_for_an_id_and_turn(tmp_path: Path) -> None:
    first, second = (
        Judgement("a", "j", {"overall": 3.0}),
        Judgement("a", "j", {}, turn=1),
    )
    path = tmp_path / "out.jsonl"
    write_records(path, [first, second])
    assert list(read_judgements(path)) == [first, second]
    write_records(path, [first, second, second])
    with pytest.raises(DataError, match=":3: field 'id'"):
        list(read_judgements(path))


def breaking_off() -> Iterator[Dialogue]:
    yield Dialogue("a", (Turn("user", "x"),))
    raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "new" / name
    write_records(path, [Dialogue("old", (Turn("user", "x"),))])
    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        write_records(path, breaking_off())
    with pytest.raises(RecordError, match="finite"):
        write_records(path, [{"id": "a", "score": float("nan")}])
    assert [p.name for p in path.parent.iterdir()] == [name]
    assert path.read_bytes() == before


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"])
def test_what_could_not_be_read_is_not_written(value: object) -> None:
    with pytest.raises(RecordError, match="'z'"):
        json_line({"id": "z", "meta": {"v": value}})
