"""Which answers to DIET's selection prompt are read, and what they choose; in three languages."""

import pytest

from medal_judges.models.followup.judge import read_choice
from medal_judges.models.llm.protocol import Completion

OPTIONS = (
    *("What? That's not what I asked.", "I don't understand what you're trying to say."),
    *("Are you even listening to me?", "You already told me that.", "That wasn't very helpful."),
    "Let's talk about something else.",
)
CHINESE = ("你说的跟我问的没关系。", "我听不懂你的意思。", "这个你已经说过了。", "这没什么帮助。")

READ: list[tuple[str, set[int]]] = [
    *(("2, 4, 5", {2, 4, 5}), ("2\n4\n5", {2, 4, 5}), ("2.\n4.\n5.", {2, 4, 5})),
    *(("- 2\n- 4", {2, 4}), ("[2, 4, 5]", {2, 4, 5}), ("2, 4 and 5", {2, 4, 5})),
    ("２、４、５", {2, 4, 5}),
    ("1. You already told me that.\n2. That wasn't very helpful.", {4, 5}),
    ("4. You already told me that.\n5. That wasn't very helpful.", {4, 5}),
    ("1) “You already told me that.”\n2) “Are you even listening to me?”", {3, 4}),
    ("You already told me that", {4}),
    *(("- you already told me THAT\n- that wasn’t very helpful", {4, 5}), ("None.", set())),
    ("<think>1 and 3? Rather 2.</think>2, 4", {2, 4}),
]
# Asked for again: sentences, ranges, negations, shortened texts, numbers of something else.
UNREAD = (
    *("I would choose options 2, 4 and 5.", "3 of them fit: 2, 4, 5", "Options 2-4", "", "[]"),
    *("I would not choose 1 or 3, but 2 and 4.", "2, 4 and 9", "4. You already told me.", "2.4"),
    *("All except 3.", "The chatbot repeated itself 2 times.", "I cannot say.", "选2、4。"),
    *("<think>Options 1, 2 and 3 are\n", "Elijo las opciones 2, 4 y 5.", "我选择选项2、4和5。"),
    "None of these fit.",
    "\n".join(f"{i}. {text}" if i < 3 else text for i, text in enumerate(OPTIONS, start=1)),
)


@pytest.mark.parametrize(("answer", "chosen"), READ)
def test_what_an_answer_chooses(answer: str, chosen: set[int]) -> None:
    assert read_choice(Completion(answer), OPTIONS) == {n - 1 for n in chosen}


@pytest.mark.parametrize("answer", UNREAD)
def test_an_answer_of_another_form_is_not_guessed(answer: str) -> None:
    assert isinstance(read_choice(Completion(answer), OPTIONS), str)


def test_options_in_chinese() -> None:
    for answer, chosen in (("1. 这个你已经说过了。\n2. 这没什么帮助。", {3, 4}), ("3、4", {3, 4})):
        assert read_choice(Completion(answer), CHINESE) == {n - 1 for n in chosen}


def test_a_cut_answer_is_not_read() -> None:
    assert "cut" in str(read_choice(Completion("2, 4", finish="length"), OPTIONS))
    assert read_choice(Completion("", finish="failed", failure="busy"), OPTIONS) == "busy"
