"""Nothing that a user or a chatbot wrote is lost, and what is no text is no reason to leave a chat
out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medal_judges.errors import ConfigError, DataError, RecordError
from medal_judges.reading.dialogues import (
    ReadingReport,
    read_dialogues,
    read_labelled,
)

from .written import CONTAINERS, in_csv, in_jsonl, in_xlsx, save

CHAT = (
    "User: Are you open?\nAssistant: Yes.\nUser: A cake?\n{}Assistant: No.\nUser: Sad."
)
SAID = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
INVISIBLE = (
    *("\u200e", "\u200f", "\u200b", "\u2060", "\u2066", "\u202a", "\u00ad"),
    *("\ufeff", "\ufe0f", "\u061c", "\u00a0", "\u3000", " \u200e ", "\U000e0020"),
    *("\x7f", "\x01", "\x1b", "\u17b4", "\uffa0", "\U0001d173", "\U00013430"),
)


@pytest.mark.parametrize("mark", INVISIBLE, ids=ascii)
def test_an_invisible_mark_before_a_speaker(mark: str, tmp_path: Path) -> None:
    text = CHAT.format(mark)
    (tmp_path / "chat.txt").write_text(text, encoding="utf-8")
    sources: list[Any] = [tmp_path / "chat.txt", [{"transcript": mark + text}]]
    for write in [in_csv, in_xlsx][: 2 - (mark < " ")]:  # no control is in a workbook
        rows = [{"id": "a", "transcript": text}]
        sources.append(save(tmp_path, write.__name__, write(rows)))
    for source in sources:
        (dialogue,) = read_dialogues(source)
        assert [turn.content for turn in dialogue.turns] == [
            *("Are you open?", "Yes.", "A cake?", "No.", "Sad."),
        ]


@pytest.mark.parametrize("field", ["id", "role", "content", "lang"])
@pytest.mark.parametrize("container", ["csv", "jsonl", "parquet"])
def test_a_column_that_no_row_has(field: str, container: str, tmp_path: Path) -> None:
    path = save(tmp_path, "x", CONTAINERS[container]([{"id": "a", "messages": SAID}]))
    with pytest.raises(ConfigError, match="no column 'absent'"):
        list(read_dialogues(path, columns={field: "absent"}, reading=ReadingReport()))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("name", ["x.jsonl", "x.json", "x.csv"])
def test_what_is_not_a_number_is_null(number: str, name: str, tmp_path: Path) -> None:
    row = {"id": "a", "messages": SAID, "cost": "N", "labels": {"overall": ["N", 3]}}
    line = json.dumps(row).replace('"N"', number)
    if name == "x.json":
        line = f"[{line}]"
    if name == "x.csv":
        cell = json.dumps({"overall": ["N", 3]}).replace('"N"', number)
        cells = {"messages": json.dumps(SAID), "labels": cell}
        line = in_csv([{"id": "a", "cost": number} | cells]).decode()
    path = save(tmp_path, name, line.encode())
    (labelled,) = read_labelled(path)
    assert labelled.labels == {"overall": (None, 3)}


@pytest.mark.parametrize("column", ["messages", "conversation", "talk"])
def test_a_list_as_python_prints_it(column: str, tmp_path: Path) -> None:
    for write in (in_csv, in_xlsx, in_jsonl):
        path = save(tmp_path, "x", write([{"id": "a", column: repr(SAID)}]))
        with pytest.raises(DataError, match=r"json\.dumps"):
            list(read_dialogues(path, columns={"messages": column}))
    with pytest.raises(RecordError, match=r"json\.dumps"):
        list(read_dialogues([{"prompt": repr(SAID[:1]), "response": "Hello"}]))


@pytest.mark.parametrize("state", ["discarded", "draft"])
def test_a_response_of_argilla_that_was_not_submitted(state: str) -> None:
    row = {"id": "a", "chat": SAID, "helpful.responses.status": ["submitted", state]}
    row["helpful.responses"] = [2, 4]
    (labelled,) = read_labelled([row], label=("helpful.responses=helpful:1..5",))
    assert labelled.labels == {"helpful": (2, None)}


def test_an_empty_answer_is_a_turn() -> None:
    empty = {"role": "assistant", "content": ""}
    asked = {"role": "user", "content": "Hi"}
    rows: list[dict[str, Any]] = [
        {"messages": [asked, empty]},
        {"messages": [asked, {"role": "assistant", "content": None}]},
        {"messages": [asked, {"role": "assistant", "content": []}]},
        {"messages": [asked, {"role": "assistant", "content": "<think>no</think>"}]},
        {"prompt": "Hi", "response": ""},
        {"prompt": "Hi", "response": None},
        {"dialogue": [asked, empty], "id": "a"},
        {"transcript": "User: Hi\nBot:"},
    ]
    for row in rows:
        (dialogue,) = read_dialogues([row])
        assert [turn.content for turn in dialogue.turns] == ["Hi", ""], row
    turns = [{"chat_id": "c", **asked}, {"chat_id": "c", **empty}]
    (dialogue,) = read_dialogues(turns)
    assert [turn.content for turn in dialogue.turns] == ["Hi", ""]
    call = {"role": "assistant", "content": "", "tool_calls": [{"function": {}}]}
    (dialogue,) = read_dialogues([{"messages": [asked, call]}])
    assert len(dialogue.turns) == 1  # a call says nothing
