"""Exports of help desks and chat tools, and logs of calls, as their public documents show them."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .test_authors import read

# -- help desks and chat tools ---------------------------------------------------------------------


def part(number: int, body: str | None, author: str, kind: str = "comment") -> Any:
    return {
        "type": "conversation_part",
        "id": str(number),
        "part_type": kind,
        "body": body,
        "created_at": 1734537460 + number,
        "author": {"type": author, "id": f"{author}1", "name": "Bot", "email": "x@y.z"},
        "attachments": [],
        "redacted": False,
    }


INTERCOM = {
    "type": "conversation",
    "id": "1895",
    "created_at": 1734537460,
    "title": "Late parcel",
    "source": {
        "type": "conversation",
        "delivered_as": "customer_initiated",
        "subject": "",
        "body": "<p>Where is my parcel &amp; invoice?</p>",
        "author": {"type": "user", "id": "user1", "name": "Admin", "email": "a@b.c"},
    },
    "contacts": {"type": "contact.list", "contacts": [{"type": "contact", "id": "u"}]},
    "conversation_parts": {
        "type": "conversation_part.list",
        "conversation_parts": [
            part(1, "<p>Let me see.<br>It is in Bonn.</p>", "bot"),
            part(2, None, "bot", "assignment"),
            part(3, "<p>Our best customer</p>", "admin", "note"),
            part(4, "Is 3 < 4?", "lead"),
            part(5, "<p>Yes.</p>", "admin", "close"),
        ],
        "total_count": 5,
    },
}
IN_INTERCOM = [
    "? Where is my parcel & invoice?",
    "Let me see.\nIt is in Bonn.",
    "? Is 3 < 4?",
    "Yes.",
]


def test_conversations_of_intercom() -> None:
    said, report = read([INTERCOM])
    assert said == {"1895": IN_INTERCOM} and not report.notes
    listed = {"type": "conversation.list", "pages": {}, "conversations": [INTERCOM] * 2}
    assert read([listed])[0] == {"1895": IN_INTERCOM, "1895#2": IN_INTERCOM}
    unanswered = {**INTERCOM, "conversation_parts": {"conversation_parts": []}}
    assert read([unanswered])[0] == {"1895": IN_INTERCOM[:1]}


def test_nested_cells_of_a_table_are_read_as_json_is(tmp_path: Path) -> None:
    file = tmp_path / "chats.csv"
    for row, texts in ((INTERCOM, IN_INTERCOM), (TICKET, IN_ZENDESK), (CALLS[0], HI)):
        cells = {}
        for name, value in row.items():
            cells[name] = value if isinstance(value, str) else json.dumps(value)
        text = io.StringIO()
        writer = csv.DictWriter(text, list(cells))
        writer.writeheader()
        writer.writerow(cells)
        file.write_text(text.getvalue(), encoding="utf-8")
        assert list(read(file)[0].values()) == [texts]


def comment(author: int, body: str, public: bool = True) -> Any:
    html = f"<p>{body}</p>"
    texts = {"body": body, "plain_body": body, "html_body": html}
    return {"type": "Comment", "author_id": author, "public": public} | texts


TICKET = {
    "id": 35436,
    "subject": "Help",
    "description": "My printer is on fire, what now?",
    "requester_id": 20978392,
    "assignee_id": 235323,
    "comments": [
        comment(20978392, "My printer is on fire, what now?"),
        comment(235323, "Use sand."),
        comment(235323, "Third fire of this customer.", public=False),
        comment(9, "And call 112."),
    ],
}
IN_ZENDESK = ["? My printer is on fire, what now?", "Use sand.\nAnd call 112."]


def test_tickets_of_zendesk() -> None:
    said, report = read([TICKET])
    assert said == {"35436": IN_ZENDESK} and not report.notes
    # The user's own roles come first.
    roles = ("20978392=user", "9=user", "*=assistant")
    turned = [*IN_ZENDESK[:1], "Use sand.", "? And call 112."]
    assert read([TICKET], *roles)[0] == {"35436": turned}
    # Comments alone do not say who asked.
    comments = {"comments": TICKET["comments"], "count": 4}
    said, report = read([comments])
    (problem,) = report.messages
    assert not said and "--role 20978392=user" in problem
    assert "--role '*=user' is for everyone else" in problem
    assert [*read([comments], "20978392=user", "*=assistant")[0].values()] == [
        IN_ZENDESK
    ]
    # A comment of a rater is no ticket.
    rated = {"prompt": "Hi", "response": "Hello", "comments": "[good] I like it"}
    assert [*read([rated])[0].values()] == [["? Hi", "Hello"]]


def test_threads_of_slack(tmp_path: Path) -> None:
    first = "1512085950.000216"
    rows = [
        {"user": "U012AB3CD", "text": "How do I reset &lt;it&gt;?", "thread_ts": first},
        {"subtype": "channel_join", "user": "U9", "text": "<@U9> has joined"},
        {
            "subtype": "bot_message",
            "bot_id": "B1",
            "text": "Press.",
            "thread_ts": first,
        },
        {"user": "U5", "text": "Is anybody there?"},
        {"user": "U012AB3CD", "text": "Thanks", "thread_ts": first},
    ]
    for number, row in enumerate(rows):
        row |= {"type": "message", "ts": f"151208595{number}.000216", "blocks": []}
    rows[0]["ts"] = first
    file = tmp_path / "2017-11-30.json"
    file.write_text(json.dumps(rows))
    said, report = read(file, "*=user")
    assert said == {
        first: ["? How do I reset <it>?", "Press.", "? Thanks"],
        "1512085953.000216": ["? Is anybody there?"],
    }
    assert report.folded["notices left out"] == 1 and not report.notes
    said, report = read(file)
    assert not said and "--role U012AB3CD=user" in report.messages[0]


# -- logs of calls ---------------------------------------------------------------------------------


def history(*texts: str) -> list[Any]:
    roles = ("user", "assistant")
    messages = [{"role": "system", "content": "Be kind."}]
    for number, text in enumerate(texts):
        messages.append({"role": roles[number % 2], "content": text})
    return messages


def call(id: str, *texts: str) -> Any:
    """A logged call: the last text is the first of two choices."""
    choices = []
    for number, text in enumerate((texts[-1], "Another choice.")):
        message = {"role": "assistant", "content": text, "refusal": None}
        choices.append({"index": number, "message": message, "finish_reason": "stop"})
    request = {"model": "gpt-4.1", "temperature": 0, "messages": history(*texts[:-1])}
    response = {"id": f"chatcmpl-{id}", "object": "chat.completion", "choices": choices}
    return {"id": id, "request": request, "response": response}


# Two conversations that begin alike, interleaved, and a third one.
CALLS = [
    call("r1", "Hi", "Hello"),
    call("r2", "Hi", "Hello"),
    call("r3", "Hi", "Hello", "When is the bus?", "At 9."),
    call("r4", "Is it raining?", "No."),
    call("r5", "Hi", "Hello", "When is the train?", "At 10."),
    call("r6", "Hi", "Hello", "When is the bus?", "At 9.", "Thanks", "Bye"),
]
HI = ["? Hi", "Hello"]
BUS = [*HI, "? When is the bus?", "At 9.", "? Thanks", "Bye"]
TRAIN = [*HI, "? When is the train?", "At 10."]
CHATS = {"r1": BUS, "r2": TRAIN, "r4": ["? Is it raining?", "No."]}


def as_logged(row: Any) -> Any:
    return row


def as_messages(row: Any) -> Any:
    messages, choices = row["request"]["messages"], row["response"]["choices"]
    return {"id": row["id"], "messages": messages, "choices": choices}


def in_cells(row: Any) -> Any:
    """Other spellings, JSON as text."""
    request, response = json.dumps(row["request"]), json.dumps(row["response"])
    return {"id": row["id"], "requestBody": request, "Response Body": response}


def with_headers(row: Any) -> Any:
    request = {"method": "POST", "body": row["request"]}
    return row | {
        "request": request,
        "response": {"status": 200, "body": row["response"]},
    }


def in_chunks(row: Any) -> Any:
    chunks = []
    for choice in row["response"]["choices"]:
        for letter in choice["message"]["content"]:
            delta = {"content": letter}
            chunks.append({"choices": [{"index": choice["index"], "delta": delta}]})
    chunks.append({"choices": [], "usage": {"total_tokens": 9}})
    return row | {"response": chunks}


def as_events(row: Any) -> Any:
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in in_chunks(row)["response"]]
    return row | {"response": "".join([*lines, "data: [DONE]\n\n"])}


@pytest.mark.parametrize(
    "form", [as_logged, as_messages, in_cells, with_headers, in_chunks, as_events]
)
def test_calls_of_one_conversation_are_one_chat(form: Callable[[Any], Any]) -> None:
    rows = list(map(form, CALLS))
    said, report = read(rows)
    assert said == CHATS and not report.messages
    assert report.folded["calls that a later call holds"] == 3
    # Of a call that comes before the one that it continues, nothing is lost.
    turned, _ = read(rows[::-1])
    assert all(texts in turned.values() for texts in CHATS.values())


def test_calls_in_any_file(tmp_path: Path) -> None:
    lines = "".join(f"{json.dumps(row)}\n" for row in CALLS)
    (tmp_path / "log.jsonl").write_text(lines)
    (tmp_path / "log.json").write_text(json.dumps(CALLS, indent=1))
    (tmp_path / "log.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    for name in ("log.jsonl", "log.json", "log.jsonl.gz"):
        assert read(tmp_path / name)[0] == CHATS


def test_a_named_conversation_holds_its_own_calls() -> None:
    sessions = ["s2", "s1", "s1", "s1", "s2", "s1"]
    rows = []
    for row, session in zip(CALLS, sessions, strict=True):
        rows.append(row | {"session_id": session})
    said, _ = read(rows)
    assert said == {"s2": TRAIN, "s1": BUS, "s1#2": ["? Is it raining?", "No."]}
    nested = [row | {"tags": {"talk": row.pop("session_id")}} for row in rows]
    assert read(nested, column=("id=tags.talk",))[0] == said


def test_tool_calls_between_are_one_chat() -> None:
    ask = {
        "id": "1",
        "type": "function",
        "function": {"name": "find", "arguments": "{}"},
    }
    calls = {"role": "assistant", "content": None, "tool_calls": [ask]}
    result = {"role": "tool", "tool_call_id": "1", "content": "9:00"}
    messages = history("When is the bus?")
    rows = []
    for answer in (calls, calls, {"role": "assistant", "content": "At 9."}):
        response = {"choices": [{"index": 0, "message": answer}]}
        rows.append({"request": {"messages": [*messages]}, "response": response})
        messages += [answer, result]
    said, report = read(rows)
    assert [*said.values()] == [["? When is the bus?", "At 9."]]
    assert report.folded["tool calls"] == 2


def test_a_failed_call_has_no_answer_and_other_servers_are_read() -> None:
    failed = CALLS[0] | {"response": {"error": {"message": "rate limit"}}}
    assert read([failed])[0] == {"r1": ["? Hi"]}
    assert read([failed, CALLS[2]])[0] == {"r1": BUS[:4]}
    anthropic = {
        "request": {"system": "Be kind.", "messages": history("Hi")[1:]},
        "response": {
            "role": "assistant",
            "content": [{"type": "text", "text": "Hello"}],
        },
    }
    assert [*read([anthropic])[0].values()] == [HI]
    text = {"type": "output_text", "text": "Hello"}
    message = {"type": "message", "role": "assistant", "content": [text]}
    responses = {
        "request": {"instructions": "Be kind.", "input": "Hi"},
        "response": {"output": [message]},
    }
    assert [*read([responses])[0].values()] == [HI]


def test_paths_that_the_user_names_are_read_as_before() -> None:
    said, _ = read([CALLS[2]], column=("messages=request.messages",))
    assert said == {"r3": BUS[:4]}
    # Each call is a chat then, whatever the others hold.
    assert len(read(CALLS, column=("messages=request.messages",))[0]) == len(CALLS)
