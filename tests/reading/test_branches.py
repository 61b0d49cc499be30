"""Exported trees of chats: the current branch is read, and two answers are never merged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medal_judges.reading.dialogues import ReadingReport, read_dialogues
from medal_judges.records.dialogue import Dialogue

from .written import CONTAINERS, in_jsonl, save

Row = dict[str, Any]
ASKED, WRONG, RIGHT = "When do you open?", "We open at ten.", "We open at nine."
AGAIN, EDITED, LAST = "And on Sunday?", "And on Monday?", "We are closed."
OTHERS = "messages of other branches left out"


def read(path: Path, **options: Any) -> tuple[Dialogue, ReadingReport]:
    reading = ReadingReport()
    (dialogue,) = read_dialogues(path, reading=reading, **options)
    assert not reading.count, reading.messages
    return dialogue, reading


def said(dialogue: Dialogue) -> list[str]:
    roles = ["user", "assistant"] * len(dialogue.turns)
    assert [turn.role for turn in dialogue.turns] == roles[: len(dialogue.turns)]
    return [turn.content for turn in dialogue.turns]


# -- ChatGPT ---------------------------------------------------------------------------------------


HIDDEN = {"is_visually_hidden_from_conversation": True}


def gpt_message(role: str, *parts: Any, kind: str = "text", **more: Any) -> Row:
    text = {"code": "text", "execution_output": "text", "thoughts": "thoughts"}.get(
        kind
    )
    content = {text: "".join(parts)} if text else {"parts": list(parts)}
    return {
        "id": "m",
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": 1.7e9,
        "content": {"content_type": kind, **content},
        "status": "finished_successfully",
        "weight": 1.0,
        "metadata": {"model_slug": "gpt-4o"},
        "recipient": "all",
    } | more


def chatgpt(current: str | None = "a2") -> Row:
    """A chat whose first question has two answers, the first one with a question of its own."""
    nodes: dict[str, tuple[str | None, Row | None]] = {
        "root": (None, None),
        "sys": ("root", gpt_message("system", "")),
        "about": (
            "sys",
            gpt_message("user", kind="user_editable_context", metadata=HIDDEN),
        ),
        "hidden": (
            "about",
            gpt_message("system", "Be brief.", metadata=HIDDEN),
        ),
        "q1": ("hidden", gpt_message("user", ASKED)),
        "a1": ("q1", gpt_message("assistant", WRONG)),
        "q2": ("a1", gpt_message("user", EDITED)),
        "think": ("q1", gpt_message("assistant", kind="thoughts")),
        "call": (
            "think",
            gpt_message("assistant", "hours()", kind="code", recipient="browser"),
        ),
        "result": ("call", gpt_message("tool", "9:00", kind="execution_output")),
        "a2": ("result", gpt_message("assistant", RIGHT)),
    }
    children = {
        id: [child for child, (p, _) in nodes.items() if p == id] for id in nodes
    }
    mapping = {
        id: {"id": id, "message": message, "parent": parent, "children": children[id]}
        for id, (parent, message) in nodes.items()
    }
    return {
        "title": "Opening hours",
        "create_time": 1.7e9,
        "update_time": 1.7e9,
        "mapping": mapping,
        "moderation_results": [],
        "current_node": current,
        "conversation_id": "c1",
        "default_model_slug": "gpt-4o",
        "is_archived": False,
    }


@pytest.mark.parametrize("container", ["jsonl", "json"])
def test_the_current_branch_of_chatgpt_is_read(container: str, tmp_path: Path) -> None:
    path = save(tmp_path, "conversations.json", CONTAINERS[container]([chatgpt()]))
    dialogue, reading = read(path)
    assert said(dialogue) == [ASKED, RIGHT]
    assert (dialogue.id, dialogue.chatbot) == ("c1", "gpt-4o")
    notes = [note["note"] for note in dialogue.context["tools"]]
    assert notes == ["browser(hours())", "-> 9:00"]
    assert (
        reading.folded[OTHERS] == 2 and reading.folded["hidden messages left out"] == 2
    )
    assert reading.folded["thoughts left out"] == 1 and not reading.notes
    assert dialogue.meta["title"] == "Opening hours" and "mapping" not in dialogue.meta
    # Another current message, and none: then the newest answer.
    path = save(tmp_path, "other.jsonl", in_jsonl([chatgpt("q2")]))
    assert said(read(path)[0]) == [ASKED, WRONG, EDITED]
    path = save(tmp_path, "none.jsonl", in_jsonl([chatgpt(None)]))
    assert said(read(path)[0]) == [ASKED, RIGHT]


def test_images_and_speech_of_chatgpt_are_parts(tmp_path: Path) -> None:
    chat = chatgpt()
    image = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}
    speech = {
        "content_type": "audio_transcription",
        "text": "What is this?",
        "direction": "in",
    }
    sound = {"content_type": "audio_asset_pointer", "asset_pointer": "sediment://x"}
    asked = gpt_message("user", image, speech, sound, kind="multimodal_text")
    chat["mapping"]["q1"]["message"] = asked
    dialogue, _ = read(save(tmp_path, "chats.jsonl", in_jsonl([chat])))
    assert said(dialogue) == ["[image]\nWhat is this?\n[audio]", RIGHT]


def test_a_tree_that_is_broken_is_a_bad_row(tmp_path: Path) -> None:
    circle, odd = chatgpt(), chatgpt()
    circle["mapping"]["q1"]["parent"] = "a2"
    odd["mapping"]["a1"]["message"]["content"]["content_type"] = "hologram"
    odd["mapping"]["a2"] = None
    rows = [chatgpt("gone"), chatgpt() | {"mapping": {}}, odd, circle, chatgpt()]
    reading = ReadingReport()
    found = list(
        read_dialogues(save(tmp_path, "c.jsonl", in_jsonl(rows)), reading=reading)
    )
    assert [said(dialogue) for dialogue in found] == [[ASKED, RIGHT]] * 2
    assert reading.count == 3 and "field 'current message'" in reading.messages[0]


# -- Open WebUI ------------------------------------------------------------------------------------


def open_webui(current: str = "a2") -> Row:
    """A question to two models side by side, and a second question after the second answer."""

    def message(
        id: str, parent: str | None, role: str, content: str, **more: Any
    ) -> Row:
        return {"id": id, "parentId": parent, "role": role, "content": content} | more

    listed = [
        message("q1", None, "user", ASKED, models=["llama3", "qwen3"]),
        message("a1", "q1", "assistant", WRONG, model="llama3", modelIdx=0),
        message("a2", "q1", "assistant", RIGHT, model="qwen3", modelIdx=1),
        message("q2", "a2", "user", AGAIN),
        message("a3", "q2", "assistant", LAST, model="qwen3"),
    ]
    history = {"messages": {m["id"]: m for m in listed}, "currentId": current}
    chat = {
        "id": "",
        "title": "Hours",
        "models": ["llama3", "qwen3"],
        "history": history,
        "messages": [listed[0], listed[2]],
        "tags": [],
        "timestamp": 1.7e12,
    }
    return {
        "id": "w1",
        "user_id": "u",
        "title": "Hours",
        "chat": chat,
        "archived": False,
    }


@pytest.mark.parametrize("container", ["jsonl", "json"])
def test_the_current_branch_of_open_webui_is_read(
    container: str, tmp_path: Path
) -> None:
    path = save(tmp_path, "export.json", CONTAINERS[container]([open_webui("a3")]))
    dialogue, reading = read(path)
    assert said(dialogue) == [ASKED, RIGHT, AGAIN, LAST]
    assert (dialogue.id, dialogue.chatbot, reading.folded[OTHERS]) == ("w1", "qwen3", 1)
    path = save(tmp_path, "other.jsonl", in_jsonl([open_webui("a1")]))
    assert said(read(path)[0]) == [ASKED, WRONG]


def test_folded_parts_of_open_webui_are_thoughts(tmp_path: Path) -> None:
    row = open_webui()
    answer = row["chat"]["history"]["messages"]["a2"]
    summary = (
        "<summary>Thought for 2 seconds</summary>\n> They ask for an hour.\n</details>"
    )
    answer["content"] = f'<details type="reasoning" done="true">\n{summary}\n{RIGHT}'
    dialogue, reading = read(save(tmp_path, "export.jsonl", in_jsonl([row])))
    assert said(dialogue) == [ASKED, RIGHT] and reading.folded["thoughts left out"] == 1


# -- OASST -----------------------------------------------------------------------------------------


def oasst(
    id: str, parent: str | None, role: str, text: str, rank: int | None = None
) -> Row:
    return {
        "message_id": id,
        "parent_id": parent,
        "user_id": "u",
        "created_date": "2023-02-05",
        "text": text,
        "role": role,
        "lang": "en",
        "review_count": 3,
        "deleted": False,
        "rank": rank,
        "synthetic": False,
        "model_name": None,
        "message_tree_id": "q1",
        "tree_state": "ready",
    }


NODES = [
    oasst("q1", None, "prompter", ASKED),
    oasst("a1", "q1", "assistant", WRONG, 1),
    oasst("q3", "a1", "prompter", EDITED),
    oasst("a2", "q1", "assistant", RIGHT, 0),
    oasst("q2", "a2", "prompter", AGAIN),
    oasst("a3", "q2", "assistant", LAST, 0),
    oasst("a4", "q2", "assistant", WRONG, 2),
]


@pytest.mark.parametrize("container", ["jsonl", "csv", "parquet", "xlsx"])
def test_the_best_ranked_branch_of_oasst_messages_is_read(
    container: str, tmp_path: Path
) -> None:
    path = save(tmp_path, f"messages.{container}", CONTAINERS[container](NODES))
    dialogue, reading = read(path)
    assert said(dialogue) == [ASKED, RIGHT, AGAIN, LAST]
    assert (dialogue.id, dialogue.lang, reading.folded[OTHERS]) == ("q1", "en", 3)


def test_the_best_ranked_branch_of_an_oasst_tree_is_read(tmp_path: Path) -> None:
    def node(message: Row) -> Row:
        replies = [
            node(other)
            for other in NODES
            if other["parent_id"] == message["message_id"]
        ]
        return message | {
            "message_tree_id": None,
            "tree_state": None,
            "replies": replies,
        }

    row = {
        "message_tree_id": "q1",
        "tree_state": "ready_for_export",
        "prompt": node(NODES[0]),
    }
    dialogue, reading = read(save(tmp_path, "trees.jsonl", in_jsonl([row])))
    assert said(dialogue) == [ASKED, RIGHT, AGAIN, LAST]
    assert (dialogue.id, dialogue.lang, reading.folded[OTHERS]) == ("q1", "en", 3)


# -- lists whose messages name the one before ------------------------------------------------------

START = "00000000-0000-4000-8000-000000000000"


def claude(id: str, parent: str, sender: str, text: str) -> Row:
    return {
        "uuid": id,
        "text": text,
        "content": [{"type": "text", "text": text}],
        "sender": sender,
        "parent_message_uuid": parent,
        "attachments": [],
    }


def test_siblings_in_a_list_of_messages_are_not_merged(tmp_path: Path) -> None:
    listed = [
        claude("q0", START, "human", EDITED),
        claude("q1", START, "human", ASKED),
        claude("a1", "q1", "assistant", WRONG),
        claude("a2", "q1", "assistant", RIGHT),
    ]
    row = {
        "uuid": "c1",
        "name": "Hours",
        "created_at": "2026-06-01",
        "chat_messages": listed,
    }
    dialogue, reading = read(
        save(tmp_path, "conversations.json", json.dumps([row]).encode())
    )
    assert said(dialogue) == [ASKED, RIGHT]
    assert (dialogue.id, reading.folded[OTHERS]) == ("c1", 2)


def test_links_that_are_no_texts_do_not_stop_the_reader(tmp_path: Path) -> None:
    odd: list[Any] = [{"$oid": "a"}, ["a"], 7, True, None]
    trees = [chatgpt() | {"current_node": link} for link in odd[:4]]
    lists = []
    for link in odd:
        answers = [
            {"id": link, "parent_id": link, "role": "assistant", "content": RIGHT}
        ] * 2
        question = {"id": link, "parent_id": None, "role": "user", "content": ASKED}
        lists.append({"id": "c", "messages": [question, *answers]})
    nodes = chatgpt()["mapping"].values()
    for link in odd:
        mapping = {
            str(n): {**node, "id": link, "parent": link} for n, node in enumerate(nodes)
        }
        trees.append({"mapping": mapping, "current_node": None})
    deep = oasst("q0", None, "prompter", ASKED)
    for n in range(150):
        deep = oasst(f"q{n}", None, "prompter", ASKED) | {"replies": [deep]}
    rows = [*trees, *lists, {"message_tree_id": "q", "prompt": deep}]
    reading = ReadingReport()
    list(read_dialogues(save(tmp_path, "c.jsonl", in_jsonl(rows)), reading=reading))
    assert reading.read + reading.count == len(rows)


@pytest.mark.parametrize("content", ["", None, []])
def test_a_text_beside_an_empty_content_is_read(
    content: object, tmp_path: Path
) -> None:
    listed = [
        claude("q1", START, "human", ASKED) | {"content": content},
        claude("a1", "q1", "assistant", RIGHT) | {"content": content},
    ]
    for field in ("chat_messages", "messages"):
        row = {"uuid": "c1", field: listed}
        dialogue, _ = read(
            save(tmp_path, "conversations.json", json.dumps([row]).encode())
        )
        assert said(dialogue) == [ASKED, RIGHT]


def test_a_list_that_is_no_tree_is_read_whole(tmp_path: Path) -> None:
    chain = [
        {
            "id": n,
            "parent_id": n - 1 if n else None,
            "role": role,
            "content": f"{role} {n}",
        }
        for n, role in enumerate(["user", "assistant"] * 3)
    ]
    # All are replies to the first message; or only the answers name a question, twice the same.
    thread = [
        message | {"parent_id": None if n == 0 else 0}
        for n, message in enumerate(chain)
    ]
    replies = [
        message | {"parent_id": n - 1 if message["role"] == "assistant" else None}
        for n, message in enumerate(chain)
    ]
    replies.insert(2, {"id": 9, "parent_id": 0, "role": "assistant", "content": "more"})
    # The column names something else.
    other = [message | {"parent_id": "board 7"} for message in chain]
    for messages, count in ((chain, 6), (thread, 6), (replies, 6), (other, 6)):
        row = {"id": "c", "messages": messages}
        dialogue, reading = read(save(tmp_path, "c.jsonl", in_jsonl([row])))
        assert len(dialogue.turns) == count and OTHERS not in reading.folded
        table = [{"chat_id": "c", **message} for message in messages]
        dialogue, reading = read(save(tmp_path, "c.jsonl", in_jsonl(table)))
        assert len(dialogue.turns) == count and OTHERS not in reading.folded
