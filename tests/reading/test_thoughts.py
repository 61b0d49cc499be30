"""Reasoning between think tags is left out of answers and counted, by every reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from medal_judges import parse_dialogue
from medal_judges.reading.dialogues import ReadingReport, read_dialogues, read_labelled
from medal_judges.reading.messages import read_messages
from medal_judges.reading.thoughts import (
    THOUGHTS,
    join_thought_lines,
    remove_thoughts,
)

from .written import in_jsonl, save

Row = dict[str, Any]
ASKED = "When does the library open?"
ANSWER = "At ten on weekdays."
THOUGHT = "<think>\nThe user asks for an hour.\nMaybe `ten`?\n</think>\n\n"
FENCED = "Write it so:\n```xml\n<think>why</think>\n```\nand then `</think>`."


@pytest.mark.parametrize(
    ("answer", "text", "count"),
    [
        (THOUGHT + ANSWER, ANSWER, 1),
        (f'<thinking budget="3" mode=deep>no</thinking >{ANSWER}', ANSWER, 1),
        (f"<reasoning>no <think> and </think> no</reasoning>\n{ANSWER}", ANSWER, 1),
        (
            f"<|channel|>analysis<|message|>no<|channel|>final<|message|>{ANSWER}",
            ANSWER,
            1,
        ),
        (
            f"The user asks. Ten?\n</think>\n\n{ANSWER}",
            ANSWER,
            1,
        ),
        ("<think>\nThe user asks", "", 1),
        (f"So.\n<think>a</think>\n{ANSWER}<think>b</think>", f"So.\n\n{ANSWER}", 2),
        (f"<think>a<think>b</think>c</think>{ANSWER}", ANSWER, 2),
        (FENCED, FENCED, 0),
        *(
            (text, text, 0)
            for text in ("<thinker> <b>think</b> 1 < 2", "[think] Hm.", " a ")
        ),
    ],
)
def test_what_is_left_of_an_answer(answer: str, text: str, count: int) -> None:
    assert remove_thoughts(answer) == (text, count)


@given(st.text("<>/think `\n[a]"), st.text("ab \n"))
def test_no_tag_survives_and_what_has_none_is_unchanged(noise: str, text: str) -> None:
    left, count = remove_thoughts(f"<think>{noise.replace('</', '')}</think>{text}")
    assert (left, count) == (text.strip(), 1)
    assert remove_thoughts(text) == (text, 0)


def rows_of(answer: str) -> dict[str, list[Row]]:
    """One chat in every form."""
    said = [
        {"role": "user", "content": ASKED},
        {"role": "assistant", "content": answer},
    ]
    pieces = [
        said[0],
        {"role": "assistant", "content": [{"type": "text", "text": answer}]},
    ]
    sharegpt = [{"from": "human", "value": ASKED}, {"from": "gpt", "value": answer}]
    released = {
        "source": "x-1",
        "models": [None, "m"],
        "lang": "English",
        "dialogue": said,
    }
    return {
        "line": [{"id": "a", "dialogue": said}],
        "medal": [released],
        "messages": [{"id": "a", "messages": said}],
        "content parts": [{"id": "a", "messages": pieces}],
        "ShareGPT": [{"id": "a", "conversations": sharegpt}],
        "answer beside messages": [
            {"id": "a", "messages": said[:1], "response": answer}
        ],
        "prompts": [{"id": "a", "prompt": ASKED, "response": answer}],
        "transcript": [{"id": "a", "transcript": f"User: {ASKED}\nBot: {answer}"}],
        "turns": [{"chat_id": "a", **message} for message in said],
    }


@pytest.mark.parametrize("form", rows_of(""))
@pytest.mark.parametrize("read", [read_dialogues, read_labelled])
def test_every_reader_leaves_it_out(
    form: str, read: Callable[..., Any], tmp_path: Path
) -> None:
    rows = rows_of(THOUGHT + ANSWER)[form]
    report = ReadingReport()
    (found,) = read(save(tmp_path, "chats.jsonl", in_jsonl(rows)), reading=report)
    dialogue = found if read is read_dialogues else found.dialogue
    assert [turn.content for turn in dialogue.turns] == [ASKED, ANSWER]
    assert report.changes[THOUGHTS] == 1 and not report.count, report.messages


def test_a_line_of_a_thought_is_no_turn_of_a_transcript(tmp_path: Path) -> None:
    thought = "<think>\nUser: asks for an hour\nBot: ten?\n</think>\n"
    text = f"User: {ASKED}\nBot: {thought}{ANSWER}\nUser: Thanks\nBot: Bye"
    (found,) = read_dialogues(save(tmp_path, "x.txt", text.encode()))
    assert [turn.content for turn in found.turns] == [ASKED, ANSWER, "Thanks", "Bye"]


def test_hostile_tags_end() -> None:
    """A search that is quadratic would take minutes."""
    for text in ("<think " * 50_000, "`" * 99_999, "<" + "a" * 300_000):
        assert join_thought_lines(text) == text and remove_thoughts(text) == (
            text,
            0,
        )
    opened = "<think>" * 50_000
    assert join_thought_lines(opened) == opened and remove_thoughts(opened) == (
        "",
        1,
    )


def test_the_id_of_a_chat_is_that_of_the_text_that_was_seen() -> None:
    for form in ("line", "messages", "prompts"):
        first, second = (
            rows_of(answer)[form][0] | {"id": None}
            for answer in (THOUGHT + ANSWER, ANSWER)
        )
        assert parse_dialogue(first).id == parse_dialogue(second).id


def test_a_user_and_a_system_prompt_may_write_tags() -> None:
    said = [
        {"role": "system", "content": "Answer after <think>...</think>."},
        {"role": "user", "content": THOUGHT + ASKED},
        {"role": "assistant", "content": ANSWER},
    ]
    counts: Counter[str] = Counter()
    dialogue = read_messages(said, changes=counts)
    assert dialogue.turns[0].content == THOUGHT + ASKED and not counts[THOUGHTS]
    assert dialogue.context["system_prompt"] == said[0]["content"]
