"""The last answer in a column of its own, pairs of question and answer, and lists of messages under
any name: the chat is read whole."""

from __future__ import annotations

import json
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
    "LangChain": {"chat_history": TALK[:2], "input": SAID[2], "output": LAST},
    "a transcript": {
        "history": f"User: {SAID[0]}\nBot: {SAID[1]}\nUser: {SAID[2]}",
        "answer": LAST,
    },
    "Alpaca": {
        "instruction": SAID[2],
        "input": "",
        "output": LAST,
        "history": [[SAID[0], SAID[1]]],
    },
    "pairs of role and text": {
        "chat_history": [["human", SAID[0]], ["ai", SAID[1]]],
        "question": SAID[2],
        "answer": LAST,
    },
    "the last answer twice": {"messages": [*TALK, MESSAGE], "response": LAST},
    "a repeated history": {
        "history": [*TALK, MESSAGE],
        "input": SAID[2],
        "output": LAST,
    },
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


def test_a_column_map_names_the_answer_or_the_question(tmp_path: Path) -> None:
    rows = [{"talk": TALK[:2], "Frage": SAID[2], "Antwort": LAST, "messages": []}]
    path = save(tmp_path, "x.jsonl", in_jsonl(rows))
    columns = {"messages": "talk", "prompt": "Frage", "response": "Antwort"}
    assert read(path, columns=columns)[0] == [WHOLE]
    rows = [{"history": TALK[:2], "Frage": SAID[2], "Antwort": LAST}]
    path = save(tmp_path, "x.jsonl", in_jsonl(rows))
    assert read(path, columns={"prompt": "Frage", "response": "Antwort"})[0] == [WHOLE]
    path = save(tmp_path, "x.jsonl", in_jsonl([{"messages": TALK, "Antwort": LAST}]))
    assert read(path, columns={"response": "Antwort"})[0] == [WHOLE]


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


# -- the page --------------------------------------------------------------------------------------


def test_a_list_of_pairs_is_one_chat_and_a_list_of_chats_is_several(
    tmp_path: Path,
) -> None:
    pairs = [
        {"question": "Hi", "answer": "Hello"},
        {"question": "Bye", "answer": "Soon"},
    ]
    path = save(tmp_path, "x.json", json.dumps({"data": pairs}).encode())
    assert read(path)[0] == [["Hi", "Hello"], ["Bye", "Soon"]]
    path = save(tmp_path, "x.json", json.dumps({"history": pairs}).encode())
    assert read(path)[0] == [["Hi", "Hello", "Bye", "Soon"]]
