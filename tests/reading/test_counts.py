"""Counts in are counts out: what a file holds is read, or listed with its reason."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medal_judges.errors import DataError
from medal_judges.reading.dialogues import ReadingReport, read_dialogues

from .written import CONTAINERS, ROWS, chats, in_csv, in_jsonl, save, turn_rows

CHATS = [chat | {"id": f"c{n}"} for n, chat in enumerate(chats(20))]
LINES = [ROWS["openai"](chat) for chat in CHATS]
LISTS = [line["messages"] for line in LINES]
PAIRS: list[dict[str, Any]] = [
    {"id": f"p{n}", "prompt": f"q{n}", "response": "a"} for n in range(20)
]


def book(*sheets: list[dict[str, Any]]) -> bytes:
    made, out = openpyxl.Workbook(), io.BytesIO()
    made.remove(made.worksheets[0])
    for rows in sheets:
        sheet = made.create_sheet()
        for row in [list(rows[0]), *(list(row.values()) for row in rows)]:
            sheet.append(row)
    made.save(out)
    return out.getvalue()


TRANSCRIPTS = [f"User: q{n}\nBot: Milk:\n---\nbread\nNote: {n}" for n in range(20)]
TURNS = [row for chat in CHATS for row in turn_rows(chat, chat["id"])]
# Name -> content, dialogues read, rows listed.
CASES: dict[str, tuple[bytes, int, int]] = {
    **{f"c.{kind}": (write(LINES), 20, 0) for kind, write in CONTAINERS.items()},
    **{f"turns.{kind}": (write(TURNS), 20, 0) for kind, write in CONTAINERS.items()},
    "lists of messages.json": (json.dumps(LISTS).encode(), 20, 0),
    "lists of messages.jsonl": (in_jsonl(LISTS), 20, 0),
    "a list in an object.json": (json.dumps({"data": LINES}).encode(), 0, 1),
    "turns, then lines.jsonl": (in_jsonl([*TURNS, *LINES]), 40, 0),
    "two sheets.xlsx": (book(PAIRS[:9], PAIRS[9:]), 9, 1),
    "another sheet.xlsx": (book(PAIRS, [{"note": "n"}] * 9), 20, 1),
    "transcripts.txt": ("\n---\n".join(TRANSCRIPTS).encode(), 20, 0),
    "headed.txt": ("\n=== C ===\n# C\n".join(["", *TRANSCRIPTS]).encode(), 20, 0),
    "keys twice.jsonl": (
        in_jsonl(LINES).replace(b'"lang"', b'"messages": [], "lang"'),
        0,
        20,
    ),
    "keys twice.csv": (in_csv(LINES).replace(b"[{", b'[{""role"": ""user"",'), 0, 20),
    "a quote.csv": (in_csv(PAIRS).replace(b"q4", b'"q4'), 4, 1),
}


@pytest.mark.parametrize("name", CASES)
def test_all_is_read_or_listed(name: str, tmp_path: Path) -> None:
    data, read, listed = CASES[name]
    report = ReadingReport()
    found = list(read_dialogues(save(tmp_path, name, data), reading=report))
    assert (len(found), report.count) == (read, listed), report.messages
    assert all(", expected " in message for message in report.messages)


def test_the_last_row_of_a_sheet_is_read(tmp_path: Path) -> None:
    made = openpyxl.load_workbook(save(tmp_path, "far.xlsx", book(PAIRS)))
    for column, value in enumerate(PAIRS[0].values(), 1):
        made.worksheets[0].cell(1 << 20, column, value)
    made.save(tmp_path / "far.xlsx")
    assert [d.id for d in read_dialogues(tmp_path / "far.xlsx")][-2:] == ["p19", "p0#2"]


TWICE = pa.table([["a"], ["b"], ["c"]], names=["prompt", "response", "prompt"])
FORMULA = [{"id": "f", "prompt": "q", "response": '=CONCAT("a", "b")'}]


def test_files_that_would_lose_something_are_refused(tmp_path: Path) -> None:
    pq.write_table(TWICE, tmp_path / "twice")
    utf16 = in_csv(PAIRS).decode("utf-8-sig").encode("utf-16-le")
    for path, problem in (
        (tmp_path / "twice", "'prompt' twice"),
        (
            save(tmp_path, "formula", book(PAIRS, FORMULA)),
            "a formula",
        ),
        (
            save(tmp_path, "lines", in_jsonl(LINES).decode().encode("utf-16-le")),
            "UTF-16",
        ),
        (save(tmp_path, "t.csv", utf16), "UTF-16"),
    ):
        with pytest.raises(DataError, match=problem):
            list(read_dialogues(path, reading=ReadingReport()))
