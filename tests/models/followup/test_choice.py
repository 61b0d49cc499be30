"""What answers to DIET's selection prompt choose: a table written by hand, in three languages."""

from __future__ import annotations

import pytest

from medal_judges.models.followup.choice import read_choice
from medal_judges.models.llm.protocol import Completion

OPTIONS = (
    "What? That's not what I asked.",
    "I don't understand what you're trying to say.",
    "Are you even listening to me?",
    "You already told me that.",
    "That wasn't very helpful.",
    "Let's talk about something else.",
)
CHINESE = ("你说的跟我问的没关系。", "我听不懂你的意思。", "这个你已经说过了。", "这没什么帮助。")

# (answer, the options it chooses, numbered from 1; None where nobody can say)
TABLE: list[tuple[str, set[int] | None]] = [
    ("2, 4, 5", {2, 4, 5}),
    ("2\n4\n5", {2, 4, 5}),
    ("2.\n4.\n5.", {2, 4, 5}),
    ("- 2\n- 4", {2, 4}),
    ("[2, 4, 5]", {2, 4, 5}),
    ('{"options": [2, 4]}', {2, 4}),
    ("2, 4 and 5", {2, 4, 5}),
    ("２、４、５", {2, 4, 5}),
    ("**2**, **4**", {2, 4}),
    ("#2, #4", {2, 4}),
    ("Options: 2, 4", {2, 4}),
    ("Options 2 and 4", {2, 4}),
    ("I would choose options 2, 4 and 5.", {2, 4, 5}),
    ("I would choose option 4.", {4}),
    ("My selection: 2, 4, 5.", {2, 4, 5}),
    ("I pick 2 and 4.", {2, 4}),
    ("3 of them fit: 2, 4, 5", {2, 4, 5}),
    ("I choose 3 options: 2, 4 and 5.", {2, 4, 5}),
    ("Options 2-4", {2, 3, 4}),
    ("Option 2, option 4 and option 5.", {2, 4, 5}),
    ("1. You already told me that. 2. That wasn't very helpful.", {4, 5}),
    ("1. You already told me that.\n2. That wasn't very helpful.", {4, 5}),
    ("4. You already told me that.\n5. That wasn't very helpful.", {4, 5}),
    ("4. You already told me that.\n5.", {4, 5}),
    ("1) “You already told me that.”\n2) “Are you even listening to me?”", {3, 4}),
    ("You already told me that", {4}),
    ("- you already told me THAT\n- that wasn’t very helpful", {4, 5}),
    ("1. You already told me.", {4}),
    ("I would not choose 1 or 3, but 2 and 4.", {2, 4}),
    ("All except 3.", {1, 2, 4, 5, 6}),
    ("I choose 2 and 4. Option 3 does not fit.", {2, 4}),
    ("Options 1 and 3 are too general. I choose 2 and 4.", {2, 4}),
    ("All of them.", {1, 2, 3, 4, 5, 6}),
    ("None of these fit.", set()),
    ("<think>1 and 3? Rather 2.</think>2, 4", {2, 4}),
    ("<think>Options 1, 2 and 3 are\n", None),
    ("The chatbot repeated itself 2 times.", None),
    ("It took 3 turns to answer.", None),
    ("2, 4 and 9", None),
    ("All 12 of them are fine, I give it 5 stars", None),
    ("I cannot choose.", None),
    ("", None),
    # Spanish
    ("Elijo las opciones 2, 4 y 5.", {2, 4, 5}),
    ("Opciones: 2 y 4", {2, 4}),
    ("Me quedo con la 4.", {4}),
    ("Hay 3 opciones que encajan: 2, 4 y 5.", {2, 4, 5}),
    ("Todas las opciones.", {1, 2, 3, 4, 5, 6}),
    ("Todas menos la 3.", {1, 2, 4, 5, 6}),
    ("Ninguna.", set()),
    ("Seleccionaría 2 y 4, pero no 3.", {2, 4}),
    # Chinese
    ("我选择选项2、4和5。", {2, 4, 5}),
    ("选2、4。", {2, 4}),
    ("选项：2，4", {2, 4}),
    ("第2和第4个选项", {2, 4}),
    ("有3个合适的选项：2、4、5。", {2, 4, 5}),
    ("全部选项", {1, 2, 3, 4, 5, 6}),
    ("都不合适。", set()),
    ("我选2和4，但不选3。", {2, 4}),
]


@pytest.mark.parametrize(("answer", "chosen"), TABLE)
def test_what_an_answer_chooses(answer: str, chosen: set[int] | None) -> None:
    read = read_choice(Completion(answer), OPTIONS)
    assert read.indices == (None if chosen is None else {n - 1 for n in chosen}), read
    assert (read.reason is None) == (chosen is not None)


@pytest.mark.parametrize(
    ("answer", "chosen"),
    [
        ("1. 这个你已经说过了。2. 这没什么帮助。", {3, 4}),
        ("我会选“这个你已经说过了”。", {3}),
        ("3、4", {3, 4}),
    ],
)
def test_options_in_chinese(answer: str, chosen: set[int]) -> None:
    assert read_choice(Completion(answer), CHINESE).indices == {n - 1 for n in chosen}


def test_a_cut_answer_is_not_read() -> None:
    assert read_choice(Completion("2, 4", finish="length"), OPTIONS).indices is None
    assert read_choice(Completion("", finish="failed", failure="busy"), OPTIONS).reason == "busy"
