"""Exports of help desks and chat tools, and logs of calls, as their public documents show them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

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
    "Let me see. It is in Bonn.",
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
    for row, texts in ((INTERCOM, IN_INTERCOM), (TICKET, IN_ZENDESK)):
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


# -- logged calls ----------------------------------------------------------------------------------

CALL = {
    "id": "r1",
    "request": {
        "model": "gpt-4.1",
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "When is the bus?"},
        ],
    },
    "response": {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "At 9."}},
            {"index": 1, "message": {"role": "assistant", "content": "At ten."}},
        ],
    },
}
IN_CALL = ["? When is the bus?", "At 9."]


def test_a_logged_call_holds_its_answer() -> None:
    said, report = read([CALL])
    assert said == {"r1": IN_CALL} and not report.notes
    cells = dict(CALL)
    for name in ("request", "response"):
        cells[name] = json.dumps(CALL[name])
    assert read([cells])[0] == {"r1": IN_CALL}
    # Paths that the user names are read as before.
    assert read([CALL], column=("messages=request.messages",))[0] == {"r1": IN_CALL}
    unanswered = CALL | {"response": None}
    assert read([unanswered])[0] == {"r1": IN_CALL[:1]}
    # What is no answer is never taken for one.
    chunk = {"choices": [{"index": 0, "delta": {"content": "At"}}]}
    for response in ({"error": {"message": "rate limit"}}, [chunk, chunk]):
        said, report = read([CALL | {"response": response}])
        assert not said and report.count == 1
