"""Chats as plain text, as people paste them."""

from pathlib import Path

import pytest

from medal_judges import DataError, Dialogue, read_dialogues

ONE = "User: Hi, are you open?\nAssistant: Yes.\nNote: until eight, though.\n\nCome by!\nUser: OK"
TWO = "User: Hi\nBot: Hello\n\nUser: Bye\nBot: See you"


def said(dialogue: Dialogue) -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in dialogue.turns]


def read(
    folder: Path, text: str, name: str = "chat.txt", **named: object
) -> list[Dialogue]:
    (folder / name).write_text(text, encoding="utf-8")
    return list(read_dialogues(folder / name, **named))  # type: ignore[arg-type]


def test_a_line_without_a_known_speaker_belongs_to_the_turn_before(
    tmp_path: Path,
) -> None:
    (chat,) = read(tmp_path, ONE)
    assert said(chat) == [
        ("user", "Hi, are you open?"),
        ("assistant", "Yes.\nNote: until eight, though.\n\nCome by!"),
        ("user", "OK"),
    ]


@pytest.mark.parametrize("between", ["\n---\n", "\n\n***\n\n"])
def test_rules_part_chats_and_blank_lines_do_not(tmp_path: Path, between: str) -> None:
    chats = read(tmp_path, "\n\n" + TWO.replace("\n\n", between) + "\n\n")
    assert [said(chat)[1] for chat in chats] == [
        ("assistant", "Hello"),
        ("assistant", "See you"),
    ]
    (chat,) = read(tmp_path, TWO.replace("\n", "\n\n"))
    assert len(chat.turns) == 4


def test_markdown_and_wide_colons(tmp_path: Path) -> None:
    (bold,) = read(tmp_path, "**User:** Hi\n\n**Assistant**: Hello\n", "chat.md")
    assert said(bold) == [("user", "Hi"), ("assistant", "Hello")]
    roles = {"roles": {"田中": "user", "ボット": "assistant"}}
    (wide,) = read(
        tmp_path, "田中：こんにちは\nボット：はい、どうぞ。\n", columns=roles
    )
    assert said(wide) == [("user", "こんにちは"), ("assistant", "はい、どうぞ。")]


def test_unknown_speakers_are_an_error_that_says_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match='--role "Anna=user" --role "Shop Bot=assistant"'
    ):
        read(tmp_path, "Anna: Are you open?\nShop Bot: Yes.\n")
    with pytest.raises(DataError, match="a user and an assistant among"):
        read(tmp_path, "User: Is anybody there?\n")


def test_a_transcript_in_a_cell_of_a_table(tmp_path: Path) -> None:
    table = 'id,dialogue\n7,"User: Hi, you\nAgent: Hello"\n'
    (chat,) = read(tmp_path, table, "t.csv")
    assert (chat.id, said(chat)) == ("7", [("user", "Hi, you"), ("assistant", "Hello")])
    other = table.replace("dialogue", "text").replace("User", "Kunde")
    columns = {"messages": "text", "roles": {"Kunde": "user"}}
    (chat,) = read(tmp_path, other, "u.csv", columns=columns)
    assert said(chat)[0] == ("user", "Hi, you")


def test_what_only_looks_like_a_transcript_is_what_it_was(tmp_path: Path) -> None:
    row = '{"messages": [{"role": "user", "content": "User: a"}, {"role": "bot", "content": "b"}]}'
    assert len(read(tmp_path, f"{row}\n{row}\n")) == 2
    assert said(read(tmp_path, "prompt,response\nUser: hi,Hello\n")[0])[0] == (
        "user",
        "User: hi",
    )


HEADED = """=== Chat c-1, version 2.0 ===
[2026-10-01 09:12] User: Hi
09:13 Bot: Three things:
---
milk, bread,
and tea
=== Chat c-2, version 2.1
User: もう一度
Assistant: はい。
"""


def test_headings_part_chats_and_a_rule_in_an_answer_stays(
    tmp_path: Path,
) -> None:
    first, second = read(tmp_path, HEADED)
    assert said(first)[1] == ("assistant", "Three things:\n---\nmilk, bread,\nand tea")
    assert said(second) == [("user", "もう一度"), ("assistant", "はい。")]
