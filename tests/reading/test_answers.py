"""The last answer in a column of its own, pairs of question and answer, and lists of messages under
any name: the chat is read whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medal_judges.reading.dialogues import ReadingReport, read_dialogues

from .written import CONTAINERS, in_jsonl, save

Row = dict[str, Any]
SAID = ("When does the library open?", "At ten on weekdays.", "And on Sundays?")
LAST = "It is closed on Sundays."
WHOLE = [*SAID, LAST]
TALK = [
    {"role": role, "content": text}
    for role, text in zip(("user", "assistant", "user"), SAID, strict=True)
]
MESSAGE = {"role": "assistant", "content": LAST}


def read(path: Path, **options: Any) -> tuple[list[list[str]], ReadingReport]:
    """The turns of each chat, whose speakers take turns."""
    report = ReadingReport()
    chats = []
    for dialogue in read_dialogues(path, reading=report, **options):
        roles = [turn.role for turn in dialogue.turns]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"] * (
            len(roles) % 2
        )
        chats.append([turn.content for turn in dialogue.turns])
    return chats, report


# Name of the columns beside the messages before the last answer -> the row's fields.
LAST_ANSWERS: dict[str, Row] = {
    **{
        f"{name} beside {history}": {history: TALK, name: LAST}
        for name in ("response", "answer", "output")
        for history in ("messages", "history")
    },
    "TRL": {"messages": TALK, "completion": [MESSAGE]},
    "the last answer twice": {"messages": [*TALK, MESSAGE], "response": LAST},
    "reasoning": {"messages": TALK, "response": f"<think>no</think>{LAST}"},
}


@pytest.mark.parametrize("form", LAST_ANSWERS)
def test_the_chat_is_read_whole(form: str, tmp_path: Path) -> None:
    fields = list((LAST_ANSWERS[form] | {"id": "a"}).items())
    for container in ("jsonl", "csv"):
        for row in (dict(fields), dict(fields[::-1])):
            chats, report = read(save(tmp_path, "chats", CONTAINERS[container]([row])))
            assert chats == [WHOLE] and not report.count and not report.notes, report


@pytest.mark.parametrize(
    "fields",
    [
        {"response": "Something else, which is no part of it."},
        {"output": {"score": 3, "why": "The answer is right and friendly."}},
        {"prompt": "You are a judge of chats. Rate the answer."},
    ],
)
def test_what_does_not_continue_the_chat_is_named(fields: Row, tmp_path: Path) -> None:
    row = {"id": "a", "messages": [*TALK, MESSAGE]} | fields
    path = save(tmp_path, "x.jsonl", in_jsonl([row]))
    chats, report = read(path)
    (name,) = fields
    assert chats == [WHOLE] and [*report.notes] == [f"not read: {name} in {path}"]


def test_a_column_map_names_the_answer(tmp_path: Path) -> None:
    path = save(tmp_path, "x.jsonl", in_jsonl([{"messages": TALK, "Antwort": LAST}]))
    assert read(path, columns={"response": "Antwort"})[0] == [WHOLE]


@pytest.mark.parametrize("history", [[[SAID[0], SAID[1]]], TALK[:2]], ids=range(2))
def test_a_history_before_a_question_is_named(history: Any, tmp_path: Path) -> None:
    row = {"id": "a", "old": history, "prompt": SAID[2], "response": LAST}
    path = save(tmp_path, "x.jsonl", in_jsonl([row]))
    chats, report = read(path)
    assert chats == [[SAID[2], LAST]] and [*report.notes] == [
        f"not read: old in {path}"
    ]


def test_an_instruction_and_its_input_are_one_question(tmp_path: Path) -> None:
    rows = [
        {"instruction": "Translate.", "input": "Guten Tag", "output": "Good day"},
        {"instruction": "Say hello.", "input": "", "output": "Hello!"},
    ]
    for name in ("jsonl", "csv"):
        chats, _ = read(save(tmp_path, "x", CONTAINERS[name](rows)))
        assert chats == [
            ["Translate.\nGuten Tag", "Good day"],
            ["Say hello.", "Hello!"],
        ]


# -- a list of messages under any name -------------------------------------------------------------


@pytest.mark.parametrize("key", ["role", "from", "speaker", "kind"])
@pytest.mark.parametrize("container", ["jsonl", "json", "csv"])
def test_a_mapped_list_is_one_chat(key: str, container: str, tmp_path: Path) -> None:
    said = [
        {key: {"user": "human", "assistant": "ai"}[m["role"]], "content": m["content"]}
        for m in [*TALK, MESSAGE]
    ]
    columns = {"messages": "talk"} | ({"role": "kind"} if key == "kind" else {})
    rows = [{"id": "a", "talk": said}, {"talk": said}]
    for row in rows[: 1 if container == "csv" else 2]:
        path = save(tmp_path, "x", CONTAINERS[container]([row] * 2))
        chats, report = read(path, columns=columns)
        assert chats == [WHOLE, WHOLE] and not report.count
