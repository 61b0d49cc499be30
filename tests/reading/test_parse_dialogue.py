"""The dialogue of one record is the same through every door: the public function, a file, a judge,
``medal serve`` and the integrations."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from medal_judges import RecordError, parse_dialogue, read_dialogues
from medal_judges.inference.serving.app import parse_rows
from medal_judges.integrations.chats import as_dialogue
from medal_judges.models.base.judge import as_dialogues

MESSAGES = [
    {"role": "user", "content": "Hi!"},
    {"role": "assistant", "content": "Hello!"},
]
RECORDS: dict[str, dict[str, Any]] = {
    "messages": {"id": "a", "messages": MESSAGES, "lang": "German"},
    "without an id": {"messages": MESSAGES},
    "line": {"id": "a", "dialogue": MESSAGES, "models": {"assistant": "x"}},
    "line without an id": {"dialogue": MESSAGES},
    "prompt and response": {"id": 7, "prompt": "Hi!", "response": "Hello!"},
    "transcript": {"id": "a", "transcript": "User: Hi!\nAssistant: Hello!"},
    "ShareGPT": {
        "id": "a",
        "conversations": [
            {"from": "human", "value": "Hi!"},
            {"from": "gpt", "value": "Hello!"},
        ],
    },
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_every_door_returns_the_same_dialogue(
    record: dict[str, Any], tmp_path: Path
) -> None:
    dialogue = parse_dialogue(record)
    assert [(turn.role, turn.content) for turn in dialogue.turns] == [
        ("user", "Hi!"),
        ("assistant", "Hello!"),
    ]
    assert dialogue.id == str(record["id"]) if "id" in record else len(dialogue.id) > 8
    (tmp_path / "chats.jsonl").write_text(json.dumps(record) + "\n")
    assert list(read_dialogues(tmp_path / "chats.jsonl")) == [dialogue]
    assert list(as_dialogues([record])) == [dialogue]
    assert as_dialogue(record) == dialogue
    assert parse_rows([record], 2, Counter()) == [dialogue]


def test_messages_alone_are_a_record() -> None:
    assert parse_dialogue(MESSAGES) == parse_dialogue({"messages": MESSAGES})


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ({"messages": MESSAGES, "dialogue": MESSAGES}, "messages"),
        ({"data": [{"messages": MESSAGES}] * 2}, "(row)"),
        ({"messages": "hello"}, "(row)"),
        ({"messages": [{"role": "usher", "content": "x"}]}, "messages[0].role"),
        ({"id": "a", "dialogue": [*MESSAGES, {"role": "user"}]}, "dialogue[2].content"),
    ],
)
def test_a_wrong_record_is_refused_by_its_field(record: object, field: str) -> None:
    with pytest.raises(RecordError) as caught:
        parse_dialogue(record)
    assert caught.value.field == field
