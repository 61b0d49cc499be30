"""Langfuse and LangSmith exports in their documented forms: the traces of a session are a chat."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from medal_judges.records.dialogue import Dialogue

from .test_spans import read
from .written import CONTAINERS, in_csv, in_jsonl, save

Row = dict[str, Any]
USER = [{"role": "user", "content": "When does the bus leave?"}]
ASKED = [
    *USER,
    {"role": "assistant", "content": "At nine."},
    {"role": "user", "content": "Why?"},
]
CHAT = ["When does the bus leave?", "At nine.", "Why?", "It always does."]


def trace(
    session: str | None, minute: int, asked: Any, answered: Any, **more: Any
) -> Row:
    """A trace as Langfuse's tables export it."""
    return {
        "id": f"trace-{session}-{minute}",
        "timestamp": f"2026-06-01T10:{minute:02d}:00.123Z",
        "name": "chat",
        "userId": "u1",
        "sessionId": session,
        "release": "2.1",
        "version": None,
        "environment": "production",
        "tags": ["web"],
        "bookmarked": False,
        "public": False,
        "input": asked,
        "output": answered,
        "metadata": {"shop": "de"},
        "comments": [],
    } | more


def observation(
    session: str, minute: int, kind: str, parent: str, said: tuple[Any, Any]
) -> Row:
    """A row of observations_v2/ in blob storage, where input and output are texts."""
    asked, answered = (v if isinstance(v, str) else json.dumps(v) for v in said)
    return {
        "id": f"{kind}-{minute}",
        "trace_id": f"t{minute // 10}",
        "project_id": "p",
        "type": kind,
        "parent_observation_id": parent,
        "start_time": f"2026-06-01 10:{minute:02d}:00.123456",
        "name": kind.lower(),
        "input": asked,
        "output": answered,
        "session_id": session,
        "user_id": "u1",
        "provided_model_name": "gpt-x" if kind == "GENERATION" else "",
    }


def run(thread: str | None, minute: int, asked: Any, answered: Any, **more: Any) -> Row:
    """A run of LangSmith; the column ``session_id`` is the project."""
    id = f"run-{thread}-{minute}"
    metadata = {"thread_id": thread, "ls_model_name": "gpt-x"} if thread else {}
    return {
        "id": id,
        "trace_id": id,
        "session_id": "project",
        "parent_run_id": None,
        "name": "agent",
        "run_type": "chain",
        "start_time": f"2026-06-01T10:{minute:02d}:00.123456",
        "inputs": asked,
        "outputs": answered,
        "extra": {"metadata": metadata},
        "tags": [],
        "error": None,
        "dotted_order": f"20260601T10{minute:02d}00123456Z{id}",
    } | more


def chat_of(dialogue: Dialogue) -> list[str]:
    assert [t.role for t in dialogue.turns] == ["user", "assistant"] * (
        len(dialogue.turns) // 2
    )
    return [t.content for t in dialogue.turns]


@pytest.mark.parametrize("container", ["jsonl", "json", "csv", "parquet"])
@pytest.mark.parametrize("make", [trace, run])
@pytest.mark.parametrize("history", [False, True])
def test_the_traces_of_a_session_are_one_chat_in_order_of_time(
    container: str, make: Any, history: bool, tmp_path: Path
) -> None:
    second = ASKED if history else [{"role": "user", "content": "Why?"}]
    rows = [  # the newest first, and two sessions interleaved
        make("b", 6, {"messages": second}, {"output": "It always does."}),
        make("a", 5, {"messages": second}, {"output": "It always does."}),
        make("b", 2, {"messages": USER}, {"output": "At nine."}),
        make("a", 1, {"messages": USER}, {"output": "At nine."}),
        make(None, 0, {"messages": USER}, {"output": "At ten."}),
    ]
    found, reading = read(save(tmp_path, "export", CONTAINERS[container](rows)))
    form = "Langfuse's traces or observations" if make is trace else "LangSmith's runs"
    assert reading.forms == {form: 3} and not reading.count, reading.messages
    assert chat_of(found["a"]) == chat_of(found["b"]) == CHAT
    assert [len(d.turns) for d in found.values()] == [4, 4, 2]
    meta = found["a"].meta
    assert meta["time"].startswith("2026-06-01T10:01") and "input" not in meta
    assert make is run or (meta["release"], meta["metadata"]) == ("2.1", {"shop": "de"})
    assert make is trace or found["a"].models == {"assistant": "gpt-x"}


def test_texts_in_cells_and_as_fields_are_turns(tmp_path: Path) -> None:
    rows = [
        trace("a", 1, "When does the bus leave?", "At nine."),
        trace(
            "a",
            2,
            {"args": ["Why?"], "kwargs": {}},
            {"answer": "It always does.", "docs": []},
        ),
        trace("b", 1, "[sighs] Hello?", "42"),
    ]
    for data in (in_csv(rows), in_jsonl(rows)):
        found, reading = read(save(tmp_path, "export", data))
        assert chat_of(found["a"]) == CHAT and not reading.count
        assert chat_of(found["b"]) == ["[sighs] Hello?", "42"]


def test_calls_of_tools_are_notes_and_histories_hold_them_once(tmp_path: Path) -> None:
    calls = [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "times", "arguments": "{}"},
        }
    ]
    used = [
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "content": "9:00"},
    ]
    system = {"role": "system", "content": "You help travellers."}
    rows = [
        run(
            "a", 1, {"messages": [system, *USER]}, {"choices": [{"message": ASKED[1]}]}
        ),
        run(
            "a",
            2,
            {"messages": [system, USER[0], *used, *ASKED[1:]]},
            {"output": CHAT[3]},
        ),
    ]
    (found,) = read(save(tmp_path, "export", in_jsonl(rows)))[0].values()
    assert (
        chat_of(found) == CHAT and found.context["system_prompt"] == system["content"]
    )
    notes = [{"turn": 1, "note": "times()"}, {"turn": 1, "note": "-> 9:00"}]
    assert found.context["tools"] == notes


def test_messages_as_langchain_writes_them(tmp_path: Path) -> None:
    def packed(kind: str, content: str) -> Row:
        path = ["langchain", "schema", "messages", f"{kind}Message"]
        kwargs = {"content": content, "type": {"AI": "ai", "Human": "human"}[kind]}
        return {"lc": 1, "type": "constructor", "id": path, "kwargs": kwargs}

    model = (
        [[packed("Human", CHAT[0])]],
        [[{"text": CHAT[1], "message": packed("AI", CHAT[1])}]],
    )
    state = [
        {"type": t, "content": c}
        for t, c in zip(["human", "ai"] * 2, CHAT, strict=True)
    ]
    rows = [
        run("a", 1, {"messages": model[0]}, {"generations": model[1]}, run_type="llm"),
        # A graph with a memory: the input is the new message, the output the whole state.
        run("a", 2, {"messages": state[2:3]}, {"messages": state}),
    ]
    found, _ = read(save(tmp_path, "export", in_jsonl(rows)))
    assert chat_of(found["a"]) == CHAT


def test_the_root_of_a_trace_is_its_turn_else_the_call_of_a_model(
    tmp_path: Path,
) -> None:
    system = {"role": "system", "content": "Be brief."}
    rows = [
        observation("a", 10, "SPAN", "", (CHAT[0], CHAT[1])),
        observation("a", 11, "GENERATION", "SPAN-10", ("Is this about a bus?", "yes")),
        observation("a", 12, "TOOL", "SPAN-10", ({"q": 1}, ["9:00"])),
        observation("a", 20, "SPAN", "", ("", "")),
        observation("a", 21, "GENERATION", "SPAN-20", ([system, *ASKED], CHAT[3])),
    ]
    for order in (rows, rows[::-1]):
        (found,) = read(save(tmp_path, "export", in_jsonl(order)))[0].values()
        assert chat_of(found) == CHAT and found.models == {"assistant": "gpt-x"}
        assert found.context == {"system_prompt": "Be brief."}
    # Runs inside of another state no thread: they are those of its trace.
    child = run(
        None, 2, {"x": 1}, {"y": 2}, parent_run_id="run-a-1", trace_id="run-a-1"
    )
    rows = [child, run("a", 1, {"input": CHAT[0]}, {"output": CHAT[1]})]
    found, reading = read(save(tmp_path, "export", in_jsonl(rows)))
    assert chat_of(found["a"]) == CHAT[:2] and len(found) == 1 and not reading.count


@pytest.mark.parametrize(
    "rows, problem",
    [
        (
            [trace("a", 1, {"question": "a", "query": "b"}, "c")],
            "row 1: input.*a text, messages",
        ),
        ([trace("a", 1, "a", {"intent": "refund"})], "row 1: output.*a text, messages"),
        ([trace("a", 1, None, None)], "a text of the session"),
        (
            [trace("a", 1, "a", "b"), trace("a", 2, "c", "d", timestamp=None)],
            "start time",
        ),
        (
            [run("a", 1, {"messages": [{"role": "x", "content": "y"}]}, {})],
            "user, assistant",
        ),
        (
            [trace("a", 1, "Hi", "Hello"), trace("a", 2, ASKED, "Yes.")],
            "row 2: input.*a history",
        ),
    ],
)
def test_what_is_unclear_is_a_bad_row(
    rows: list[Row], problem: str, tmp_path: Path
) -> None:
    good = (
        trace("z", 9, "a", "b")
        if rows[0]["id"].startswith("trace")
        else run("z", 9, "a", "b")
    )
    found, reading = read(save(tmp_path, "export", in_jsonl([*rows, good])))
    assert [*found] == ["z"] and reading.count == 1
    assert re.search(problem, reading.messages[0]), reading.messages[0]


FIELDS: list[tuple[str, ...]] = [
    (),
    ("release",),
    ("release", "public", "version", "bookmarked"),
]


@pytest.mark.parametrize("missing", FIELDS, ids=range(3))
@pytest.mark.parametrize("container", ["jsonl", "json", "csv", "parquet"])
@pytest.mark.parametrize(
    "asked", [USER, {"messages": USER}, {"messages": USER, "model": "x"}]
)
def test_traces_as_the_interface_of_langfuse_exports_them(
    missing: tuple[str, ...], container: str, asked: Any, tmp_path: Path
) -> None:
    second = {**asked, "messages": ASKED} if isinstance(asked, dict) else ASKED
    rows = [
        trace("a", 2, second, {"role": "assistant", "content": CHAT[3]}),
        trace("a", 1, asked, {"role": "assistant", "content": CHAT[1]}),
        trace(None, 3, asked, {"role": "assistant", "content": CHAT[1]}),
    ]
    rows = [
        {name: value for name, value in row.items() if name not in missing}
        for row in rows
    ]
    found, reading = read(save(tmp_path, "export", CONTAINERS[container](rows)))
    assert not reading.count, reading.messages
    assert chat_of(found["a"]) == CHAT and chat_of(found["trace-None-3"]) == CHAT[:2]
    assert reading.forms == {"Langfuse's traces or observations": 2}


@pytest.mark.parametrize("kind", ["download", "earlier download", "from the API"])
def test_a_trace_that_is_downloaded_as_json(kind: str, tmp_path: Path) -> None:
    observations = [
        {
            "id": id,
            "traceId": "t1",
            "sessionId": "a",
            "parentObservationId": parent,
            "type": type,
            "startTime": f"2026-06-01T10:0{minute}:00.000Z",
            "input": asked,
            "output": answered,
            "model": "gpt-x" if type == "GENERATION" else None,
            "name": id,
        }
        for minute, (id, parent, type, asked, answered) in enumerate(
            [
                (
                    "root",
                    None,
                    "SPAN",
                    {"messages": ASKED},
                    {"role": "assistant", "content": CHAT[3]},
                ),
                ("search", "root", "TOOL", {"q": "bus"}, ["9:00"]),
                (
                    "answer",
                    "root",
                    "GENERATION",
                    ASKED,
                    {"role": "assistant", "content": CHAT[3]},
                ),
            ]
        )
    ]
    scores = [
        {
            "id": "s",
            "name": "helpful",
            "value": 1,
            "comment": "It answers the question.",
        }
    ]
    whole = trace(
        "a", 0, {"messages": ASKED}, {"role": "assistant", "content": CHAT[3]}, id="t1"
    )
    downloads: dict[str, Row] = {
        "download": {"observations": observations, "scores": scores},
        "earlier download": {"trace": whole, "observations": observations},
        "from the API": {**whole, "observations": observations, "scores": scores},
    }
    path = save(
        tmp_path, "trace-t1.json", json.dumps(downloads[kind], indent=2).encode()
    )
    found, reading = read(path)
    assert not reading.count, reading.messages
    assert chat_of(found["a"]) == CHAT and found["a"].models == {"assistant": "gpt-x"}
    # Without a session it is a chat by itself.
    for row in (whole, downloads[kind], *observations):
        row.pop("sessionId", None)
    found, _ = read(
        save(tmp_path, "trace-t1.json", json.dumps(downloads[kind]).encode())
    )
    assert chat_of(found["t1"]) == CHAT
