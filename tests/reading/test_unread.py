"""A field with text that no reader uses is listed, once a file; metadata is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medal_judges.reading.dialogues import ReadingReport, read_dialogues, read_labelled

from .written import CONTAINERS, ROWS, Row, chats, in_csv, in_jsonl, save, turn_rows

SAID = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
LOST = "We open at nine, and close at five."


def notes_of(path: Path, **options: Any) -> list[str]:
    reading = ReadingReport()
    list(read_dialogues(path, reading=reading, **options))
    assert reading.read and not reading.count, reading.messages
    return [note for note in reading.notes if note.startswith("not read")]


def in_every_form(fields: Row) -> dict[str, list[Row]]:
    """Sixty chats in each form, with ``fields`` beside the turns."""
    forms: dict[str, list[Row]] = {
        "messages": [{"id": f"c{n}", "messages": SAID} | fields for n in range(60)],
        "prompts": [
            {"id": f"c{n}", "prompt": "Hi", "response": "So."} | fields
            for n in range(60)
        ],
        "line": [
            {"id": f"c{n}", "lang": "en", "dialogue": SAID} | fields for n in range(60)
        ],
        "transcript": [
            {"id": f"c{n}", "transcript": "User: Hi\nBot: Hello"} | fields
            for n in range(60)
        ],
    }
    turns = [
        {"chat_id": f"c{n}", **message} | fields for n in range(60) for message in SAID
    ]
    return forms | {"turns": turns}


@pytest.mark.parametrize("form", in_every_form({}))
@pytest.mark.parametrize("container", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize(
    "value", [LOST, [["Hi", LOST]], {"choice": {"body": LOST}}], ids=range(3)
)
def test_a_field_that_no_reader_uses_is_listed(
    form: str, container: str, value: Any, tmp_path: Path
) -> None:
    rows = in_every_form({"extra_turns": value})[form]
    path = save(tmp_path, f"log.{container}", CONTAINERS[container](rows))
    assert notes_of(path) == [f"not read: extra_turns in {path}"]
    labelled = ReadingReport()
    list(read_labelled(path, reading=labelled))
    assert [*labelled.notes] == [f"not read: extra_turns in {path}"]


def test_a_column_that_differs_between_turns_is_listed(tmp_path: Path) -> None:
    rows = [
        {
            "chat_id": f"c{n}",
            **message,
            "translation": f"{LOST} ({n} {message['role']})",
            "n": n,
        }
        for n in range(3)
        for message in SAID
    ]
    path = save(tmp_path, "log.csv", in_csv(rows))
    assert notes_of(path) == [f"not read: translation in {path}"]


METADATA: Row = {
    "thread_hash": "0f8fad5b-d9cb-469f-a165-70867728950e",
    "link": "https://example.org/support/chats/0f8fad5b",
    "started": "2026-06-01T10:00:00.123456+00:00",
    "ended": "2026-06-01 10:00:00.123456 UTC",
    "userAgent": "Mozilla/5.0 (X11; Linux x86_64)",
    "topic": "opening hours",
    "header": {"user-agent": "Mozilla/5.0 (Windows NT 10.0; Win64; x64)"},
    "state": "North Rhine-Westphalia",
    "usage": {"tokens": 3},
}


@pytest.mark.parametrize("form", in_every_form({}))
@pytest.mark.parametrize("container", ["jsonl", "csv"])
def test_metadata_is_not_listed(form: str, container: str, tmp_path: Path) -> None:
    rows = in_every_form(METADATA)[form]
    assert (
        notes_of(save(tmp_path, f"log.{container}", CONTAINERS[container](rows))) == []
    )


def test_no_form_of_the_usual_exports_is_listed(tmp_path: Path) -> None:
    for name, form in ROWS.items():
        rows = [form(chat) for chat in chats()]
        assert notes_of(save(tmp_path, f"{name}.jsonl", in_jsonl(rows))) == [], name
    rows = [row for n, chat in enumerate(chats()) for row in turn_rows(chat, str(n))]
    assert notes_of(save(tmp_path, "turns.csv", in_csv(rows))) == []


@pytest.mark.parametrize("depth", [100, 600, 900])
def test_a_field_that_is_nested_deep_does_not_stop_the_reader(
    depth: int, tmp_path: Path
) -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        nested = opening * depth + json.dumps(LOST) + closing * depth
        row = json.dumps({"id": "c", "messages": SAID})[:-1] + f', "nested": {nested}}}'
        reading = ReadingReport()
        list(read_dialogues(save(tmp_path, "log.jsonl", row.encode()), reading=reading))
        assert reading.read + reading.count == 1
