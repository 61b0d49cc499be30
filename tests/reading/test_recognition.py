"""What a file is taken for, what it is not, and what may be wrong with it."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from medal_judges.errors import ConfigError, DataError, MedalError
from medal_judges.reading.dialogues import ReadingReport, ReadOptions, read_dialogues

from .written import CONTAINERS, PACKED, in_jsonl, save

CHAT = {
    "id": "a",
    "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
    ],
}
LINE = json.dumps(CHAT)


def read(path: Path | str, **how: Any) -> tuple[list[str], ReadingReport]:
    reading = ReadingReport()
    return [d.id for d in read_dialogues(path, reading=reading, **how)], reading


@pytest.mark.parametrize(
    "name, content, ids",
    [
        ("pretty", json.dumps(CHAT, indent=2), ["a"]),
        ("one line.json", json.dumps([CHAT, CHAT]), ["a", "a#2"]),
        ("blank lines", f"\n\n  \n{LINE}\n\n", ["a"]),
        ("carriage returns", f"{LINE}\r\n{LINE}\r\n", ["a", "a#2"]),
        ("byte-order mark", f"\ufeff{LINE}", ["a"]),
        ("lines in the wrong name.csv", f"{LINE}\n", ["a"]),
        ("no chat at all.jsonl", '{"a": 1}\n[1, 2]\nnull\n3\n"x"\n', []),
    ],
)
def test_what_a_text_is(
    name: str, content: str, ids: list[str] | None, tmp_path: Path
) -> None:
    found, reading = read(save(tmp_path, name, content.encode()))
    if ids is None:
        return
    assert found == ids
    if name == "first line broken.jsonl":
        assert reading.count == 1, reading.messages
    if name == "no chat at all.jsonl":
        assert reading.count == 5 and not reading.read


def test_a_format_overrides_the_content(tmp_path: Path) -> None:
    path = save(tmp_path, "x", b"one column\n" + LINE.encode() + b"\n")
    with pytest.raises(DataError, match=r"--format(.|\n)*jsonl"):
        read(path)
    assert read(path, format="jsonl")[0] == ["a"]
    with pytest.raises(ConfigError, match="no format"):
        ReadOptions(format="csv+turns")
    with pytest.raises(ConfigError, match="Did you mean 'parquet'"):
        read(path, format="parket")


@pytest.mark.parametrize(
    "content, problem",
    [
        (b"\x00\x01\x02binary", "not a known kind of chat file"),
        (b"PAR1 and no more", "cannot be read any further"),
        (b"PK\x03\x04 and no more", "is not a workbook"),
        (b"id,id,prompt\n1,2,3\n", "'id' twice"),
    ],
)
def test_what_cannot_be_read_is_a_message(
    content: bytes, problem: str, tmp_path: Path
) -> None:
    for reading in (None, ReadingReport()):
        with pytest.raises(DataError, match=problem):
            list(read_dialogues(save(tmp_path, "x", content), reading=reading))


def test_rows_of_a_table(tmp_path: Path) -> None:
    text = (
        "id,prompt,response\n"
        'a,hi,"two\r\nlines, and ""quotes"""\n'
        "b,too,many,cells\n"
        "c,few\n"
        "\n"
        'f,"x"y,z\n'
        "e,hi,ok\n"
        "g,hi,caf\xe9\n"
    )
    path = save(tmp_path, "t.csv", text.encode("latin-1"))
    reading = ReadingReport()
    found = list(read_dialogues(path, reading=reading))
    assert [d.id for d in found] == ["a", "e"]
    assert found[0].turns[1].content == 'two\r\nlines, and "quotes"'
    lines = [message.split(": ")[0].rpartition(":")[2] for message in reading.messages]
    assert lines == ["4", "5", "7", "9"]


def test_times_put_turns_in_order_and_ids_of_tables_are_whole(tmp_path: Path) -> None:
    rows = [
        {
            "conversation_id": 1.0,
            "role": "assistant",
            "text": "b",
            "created_at": "2026-01-02",
        },
        {"conversation_id": 2.0, "role": "user", "text": "c", "created_at": "noon"},
        {
            "conversation_id": 1.0,
            "role": "user",
            "text": "a",
            "created_at": "2026-01-01",
        },
        {
            "conversation_id": 2.0,
            "role": "bot",
            "text": "d",
            "created_at": "2026-01-01",
        },
    ]
    for name in ("csv", "parquet", "xlsx", "jsonl"):
        found = list(read_dialogues(save(tmp_path, name, CONTAINERS[name](rows))))
        ids = [d.id for d in found]
        assert ids == (["1.0", "2.0"] if name == "csv" else ["1", "2"])
        assert [[t.content for t in d.turns] for d in found] == [["a", "b"], ["c", "d"]]


def test_ids_of_turns_are_not_taken_for_conversations(tmp_path: Path) -> None:
    rows = [
        {"id": n, "role": ("user", "bot")[n % 2], "text": "a", "talk": 1}
        for n in range(4)
    ]
    for name in ("csv", "jsonl"):
        path = save(tmp_path, name, CONTAINERS[name](rows))
        with pytest.raises(DataError, match=r"--column content=NAME"):
            list(read_dialogues(path))
        assert read(path, columns={"id": "talk"})[0] == ["1"]
        assert len(read(path, columns={"id": "id"})[0]) == 4


@pytest.mark.parametrize("packed", PACKED)
def test_a_packed_file_that_breaks_off(packed: str, tmp_path: Path) -> None:
    rows = [CHAT | {"id": str(n), "x": str(n * 7919 % 10_007) * 9} for n in range(4000)]
    data = PACKED[packed](in_jsonl(rows))
    path = save(tmp_path, f"x.{packed}", data[: len(data) // 2])
    with pytest.raises(DataError, match="cannot be read any further"):
        read(path)


# -- anything at all -------------------------------------------------------------------------------

FIELDS = (
    "id messages conversations dialogue turns role from content value text prompt response "
    "models lang labels scales meta conversation_id input output type parts time split level"
)
NAMES = st.sampled_from(FIELDS.split())
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4)
    ),
    max_leaves=12,
)
ANY = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def tried(path: Path | str) -> None:
    """Reading ends with dialogues and counts, or with a MedalError; never with anything else."""
    reading = ReadingReport()
    try:
        found = list(read_dialogues(path, reading=reading))
    except MedalError as error:
        assert str(error)
        return
    assert len(found) == reading.read and len({d.id for d in found}) == len(found)
    for dialogue in found:
        assert dialogue.turns and json.dumps(dialogue.to_record())
    reading.show(always=True)


@ANY
@given(st.lists(st.dictionaries(NAMES, VALUES, max_size=6) | VALUES, max_size=4))
def test_any_json_is_read_or_refused(tmp_path: Path, rows: list[Any]) -> None:
    tried(
        save(tmp_path, "x.jsonl", "".join(json.dumps(r) + "\n" for r in rows).encode())
    )
    tried(save(tmp_path, "x.json", json.dumps(rows).encode()))


@cache
def sound(name: str) -> bytes:
    """Made once: a workbook holds the time it was made at."""
    rows = [CHAT | {"id": str(n), "n": n} for n in range(4)]
    return (
        gzip.compress(in_jsonl(rows), mtime=0)
        if name == "packed"
        else CONTAINERS[name](rows)
    )


@ANY
@given(st.data())
def test_a_file_with_changed_bytes_is_read_or_refused(
    tmp_path: Path, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from([*CONTAINERS, "packed"]))
    whole = bytearray(sound(name))
    for place in data.draw(
        st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=6)
    ):
        whole[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    tried(
        save(tmp_path, "x", bytes(whole if data.draw(st.booleans()) else whole[:cut]))
    )


@ANY
@given(st.lists(st.text('"\n,;x\r\\ \t', max_size=12), max_size=12))
def test_any_table_is_read_with_every_row_counted(
    tmp_path: Path, cells: list[str]
) -> None:
    text = "id,prompt,response\n" + "\n".join(cells)
    tried(save(tmp_path, "x.csv", text.encode()))
