"""The scripts of examples/convert: an export in, lines of messages out, which are read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from medal_judges import read_dialogues
from medal_judges.config import shipped_names, shipped_path

USER, ANSWER = (
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello"},
)
TALK = [
    USER,
    ANSWER,
    {"role": "user", "content": "Open?"},
    {"role": "assistant", "content": "Yes."},
]


def node(number: int, **facts: Any) -> dict[str, Any]:
    """A message of a tree, below the one before it."""
    return {
        "id": f"m{number}",
        "parentId": f"m{number - 1}" if number else None,
    } | facts


def chatgpt() -> Any:
    mapping: dict[str, Any] = {"m-1": {"parent": None, "message": None}}
    for number, message in enumerate(TALK):
        said = {
            "author": {"role": message["role"]},
            "content": {"parts": [message["content"]]},
        }
        mapping[f"m{number}"] = {"parent": f"m{number - 1}", "message": said}
    lost = {"author": {"role": "assistant"}, "content": {"parts": ["another branch"]}}
    mapping["other"] = {"parent": "m0", "message": lost}
    return [{"conversation_id": "a", "mapping": mapping, "current_node": "m3"}]


def oasst() -> Any:
    tree: dict[str, Any] = {}
    for message in reversed(TALK):
        role = "prompter" if message["role"] == "user" else "assistant"
        worse = [{"role": "assistant", "text": "worse", "rank": 1, "replies": []}]
        replies = [*worse, tree] if tree else []
        tree = {"role": role, "text": message["content"], "rank": 0, "replies": replies}
    return {"message_tree_id": "a", "prompt": tree}


def span(turns: int) -> dict[str, Any]:
    said = [
        {"role": m["role"], "parts": [{"type": "text", "content": m["content"]}]}
        for m in TALK
    ]
    return {
        "gen_ai.conversation.id": "a",
        "gen_ai.input.messages": json.dumps(said[: turns - 1]),
        "gen_ai.output.messages": json.dumps(said[turns - 1 : turns]),
    }


def otlp() -> Any:
    facts = [{"key": k, "value": {"stringValue": v}} for k, v in span(4).items()]
    return {"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": facts}]}]}]}


def zendesk() -> Any:
    comments: list[Any] = [
        {"author_id": 1 + n % 2, "body": f"<p>{m['content']}</p>", "public": True}
        for n, m in enumerate(TALK)
    ]
    note = {"author_id": 2, "body": "a note", "public": False}
    return {"id": "a", "requester_id": 1, "comments": [*comments, note]}


def intercom() -> Any:
    parts: list[Any] = [
        {
            "author": {"type": ("user", "admin")[n % 2]},
            "body": m["content"],
            "part_type": "comment",
        }
        for n, m in enumerate(TALK)
    ]
    note = {"author": {"type": "admin"}, "body": "a note", "part_type": "note"}
    further = {"conversation_parts": [*parts[1:], note]}
    return {"id": "a", "source": parts[0], "conversation_parts": further}


def trace(first: int) -> dict[str, Any]:
    ends = {
        "input": TALK[first]["content"],
        "output": {"answer": TALK[first + 1]["content"]},
    }
    return {
        "id": f"t{first}",
        "sessionId": "a",
        "timestamp": f"2026-01-0{first + 1}",
    } | ends


def run(first: int) -> dict[str, Any]:
    answer = {
        "generations": [
            [
                {
                    "message": {
                        "kwargs": {"type": "ai", "content": TALK[first + 1]["content"]}
                    }
                }
            ]
        ]
    }
    facts = {
        "trace_id": f"t{first}",
        "start_time": f"2026-01-0{first + 1}",
        "extra": {"metadata": {"thread_id": "a"}},
    }
    return facts | {"inputs": {"messages": TALK[: first + 1]}, "outputs": answer}


def call(turns: int) -> dict[str, Any]:
    choices = [{"message": TALK[turns - 1]}]
    return {
        "request": {"messages": TALK[: turns - 1]},
        "response": {"body": {"choices": choices}},
    }


def slack() -> Any:
    notice = {
        "type": "message",
        "subtype": "channel_join",
        "ts": "0.5",
        "text": "joined",
    }
    said: list[Any] = [notice]
    for n, message in enumerate(TALK):
        who = {"bot_id": "B"} if message["role"] == "assistant" else {"user": "U"}
        said.append(
            {
                "type": "message",
                "ts": f"{n}",
                "thread_ts": "0",
                "text": message["content"],
            }
            | who
        )
    return said[::-1]


CLAUDE = [
    {"sender": "human" if m["role"] == "user" else "assistant", "text": m["content"]}
    for m in TALK
]
# Name -> the export: a JSON value, or a list of lines.
EXPORTS: dict[str, tuple[Any, bool]] = {
    "calls": ([call(2), call(4)], True),
    "chatgpt": (chatgpt(), False),
    "claude": ([{"uuid": "a", "chat_messages": CLAUDE}], False),
    "intercom": ([intercom()], True),
    "langfuse": ([trace(2), trace(0)], True),
    "langsmith": ([run(0), run(2)], True),
    "oasst": ([oasst()], True),
    "opentelemetry": ([{"traceId": "t", "attributes": span(2)}, otlp()], True),
    "openwebui": (
        [{"id": "a", "chat": {"history": {
            "currentId": "m3", "messages": {f"m{n}": node(n, **m) for n, m in enumerate(TALK)}
        }}}],
        False,
    ),
    "slack": (slack(), False),
    "zendesk": ([zendesk()], True),
}  # fmt: skip


@pytest.mark.parametrize("name", shipped_names("convert"))
def test_an_export_is_read(name: str, tmp_path: Path) -> None:
    export, is_lines = EXPORTS[name]
    text = "\n".join(map(json.dumps, export)) if is_lines else json.dumps(export)
    (tmp_path / "export").write_text(text, encoding="utf-8")
    script = shipped_path(f"convert/{name}")
    assert len(script.read_text(encoding="utf-8").splitlines()) <= 40
    words = [sys.executable, "-I", str(script), str(tmp_path / "export")]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    (tmp_path / "chats.jsonl").write_text(lines, encoding="utf-8")
    (dialogue,) = read_dialogues(tmp_path / "chats.jsonl")
    assert [turn.content for turn in dialogue.turns] == [m["content"] for m in TALK]
