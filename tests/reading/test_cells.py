"""Numbers, flags and dates in cells and JSON fields are text, as from CSV; words that stand for a
missing rating are missing ratings."""

from __future__ import annotations

import csv
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medal_judges.reading.dialogues import ReadingReport, read_dialogues, read_labelled
from medal_judges.records.dialogue import Dialogue

from .written import in_csv, in_jsonl, save

# A typed cell, and the text that CSV has for it.
TYPED: tuple[tuple[Any, str], ...] = (
    (2, "2"),
    (-7.5, "-7.5"),
    (3.0, "3"),
    (0, "0"),
    (True, "true"),
    (date(2026, 3, 4), "2026-03-04"),
    (datetime(2026, 3, 4, 9, 30), "2026-03-04T09:30:00"),
    (time(14, 5), "14:05:00"),
)
HEADER = ("conversation_id", "who", "text", "model", "source")


def sheet(path: Path, rows: list[list[Any]]) -> Path:
    book = openpyxl.Workbook()
    assert book.active is not None
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def table(path: Path, rows: list[list[str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows(rows)
    return path


def dialogues(path: Path, **options: Any) -> list[Dialogue]:
    reading = ReadingReport()
    found = list(read_dialogues(path, reading=reading, **options))
    assert not reading.count, reading.messages
    return found


def test_typed_cells_of_a_workbook_are_the_texts_of_csv(tmp_path: Path) -> None:
    roles = {"columns": {"role": "who", "content": "text", "id": "conversation_id"}}
    roles["columns"]["roles"] = {"1": "user", "2": "assistant"}
    typed: list[list[Any]] = [list(HEADER)]
    plain: list[list[str]] = [list(HEADER)]
    for number, (cell, text) in enumerate(TYPED):
        typed += [[number, 1, cell, 4, 5], [number, 2, f"Is it {text}?", 4, 5]]
        plain += [
            [str(number), "1", text, "4", "5"],
            [str(number), "2", f"Is it {text}?", "4", "5"],
        ]
    found = dialogues(sheet(tmp_path / "typed.xlsx", typed), **roles)
    assert found == dialogues(table(tmp_path / "plain.csv", plain), **roles)
    assert [dialogue.turns[0].content for dialogue in found] == [
        text for _, text in TYPED
    ]
    assert (found[3].id, found[3].chatbot, found[3].source) == ("3", "4", "5")


def test_typed_columns_of_parquet_are_the_texts_of_csv(tmp_path: Path) -> None:
    # An integer column with an empty cell becomes one of floats.
    answers = {
        "float64": ([4.0, None, 2.5], ["4", "", "2.5"]),
        "bool": ([True, None, False], ["true", "", "false"]),
        "date32": (
            [date(2026, 3, 4), None, date(2026, 3, 5)],
            ["2026-03-04", "", "2026-03-05"],
        ),
    }
    for kind, (typed, plain) in answers.items():
        ids = [7.0, 8.0, None]
        columns = {"id": ids, "prompt": ["Hi"] * 3, "answer": pa.array(typed, kind)}
        pq.write_table(pa.table(columns), tmp_path / "typed.parquet")
        rows = [["id", "prompt", "answer"]]
        rows += [
            [id, "Hi", answer] for id, answer in zip(["7", "8", ""], plain, strict=True)
        ]
        found = dialogues(tmp_path / "typed.parquet")
        assert found == dialogues(table(tmp_path / "plain.csv", rows))
        assert [d.turns[-1].content for d in found] == plain


def test_numbers_and_flags_in_fields_of_json_are_text(tmp_path: Path) -> None:
    said = [("user", 2), ("assistant", True), ("user", 2.0), ("assistant", 0.5)]
    messages = [{"role": role, "content": content} for role, content in said]
    parts = [{"role": r, "content": [{"type": "text", "text": c}]} for r, c in said]
    items = [{"role": role, "content": [content]} for role, content in said]
    sharegpt = [{"from": role, "value": content} for role, content in said]
    rows = [{"messages": messages}, {"messages": parts}, {"messages": items}]
    rows += [
        {"id": "s", "conversations": sharegpt},
        {"id": "line", "dialogue": messages},
    ]
    for row in rows:
        (dialogue,) = dialogues(save(tmp_path, "chat.jsonl", in_jsonl([row])))
        assert [turn.content for turn in dialogue.turns] == ["2", "true", "2", "0.5"]


# -- missing ratings -------------------------------------------------------------------------------

WORDS = (
    "NA",
    "-",
    "None",
    "n/a",
    "null",
)
RATED = ("label", {"r1": "overall:1..5", "r2": "overall:1..5"})


def rated(missing: str | None, columns: int = 2) -> list[dict[str, Any]]:
    """Rows of which every second one has no second rating."""
    rows = []
    for number in range(2 * len(WORDS)):
        row: dict[str, Any] = {
            "id": f"x{number}",
            "prompt": f"Why {number}?",
            "response": "So.",
        }
        second = 1 + number % 5
        if number % 2:
            row |= {"r1": 3, "r2": WORDS[number // 2] if missing is None else missing}
        else:
            row |= {"r1": 1 + number % 4, "r2": second}
        rows.append(row)
    return rows


@pytest.mark.parametrize("write", [in_csv, in_jsonl])
def test_words_for_a_missing_rating_are_as_an_empty_cell(
    write: Any, tmp_path: Path
) -> None:
    options: Any = {"columns": {"labels": RATED[1]}}
    words, empty = ReadingReport(), ReadingReport()
    found = list(
        read_labelled(save(tmp_path, "a", write(rated(None))), reading=words, **options)
    )
    wanted = list(
        read_labelled(save(tmp_path, "b", write(rated(""))), reading=empty, **options)
    )
    assert found == wanted and len(found) == len(rated("")) and not words.count


def test_a_missing_rating_keeps_the_place_of_its_annotator(tmp_path: Path) -> None:
    """Else the second annotator's rating would stand in the first one's place."""
    rows = [
        {
            "id": "a",
            "prompt": "Hi",
            "response": "Yo",
            "r1": "NA",
            "r2": 4,
            "by": "ann;bob",
        }
    ]
    rows.append(rows[0] | {"id": "b", "r1": "", "r2": ""})
    path = save(tmp_path, "rated.csv", in_csv(rows))
    options: Any = {"columns": {"labels": RATED[1], "annotator": "by"}}
    first, second = read_labelled(path, **options)
    assert first.labels == {"overall": (None, 4.0)} and second.labels == {}
    assert first.extra["annotators"] == ["ann", "bob"]
