"""DIET's selection: what counts as chosen, and the intersection over shuffled runs."""

from collections.abc import Sequence

import pytest

from medal_judges.models.followup.judge import (
    read_choice,
    select_follow_ups,
)
from medal_judges.models.followup.pool import FollowUp, FollowUpPool
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Message,
)
from medal_judges.models.prompted.answers import UnreadError

from ...talks import ChatModel

TEXTS = ("No.", "I don't understand.", "That's wrong.", "You said that before.")
POOL = FollowUpPool(name="p", follow_ups=tuple(FollowUp(text=t) for t in TEXTS))
TALK = (Message("user", "Hi"), Message("assistant", "Ho"))


class Scripted(ChatModel):
    """Chooses the options whose texts it is given, by the number they were shown with."""

    def __init__(self, *runs: Sequence[str]) -> None:
        self.runs, self.seen = runs, []

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        answers = []
        for k, request in enumerate(requests):
            text = request.messages[-1].content
            self.seen.append(text)
            wanted = self.runs[k % len(self.runs)]
            lines = [line for line in text.splitlines() if line[:1].isdigit()]
            numbers = [
                line.split(".")[0] for line in lines if line.split(". ", 1)[1] in wanted
            ]
            answers.append(Completion("\n".join(numbers)))
        return answers


def test_the_intersection_of_the_runs_counts() -> None:
    llm = Scripted([TEXTS[0], TEXTS[2]], [TEXTS[2], TEXTS[1]], [TEXTS[2]])
    found = select_follow_ups(llm, [("d1", TALK)], POOL, turn=False)[0]
    assert found.indices == (2,) and not found.empty


class Says(Scripted):
    """Gives the same answers in order, whatever is asked."""

    def __init__(self, *answers: Completion) -> None:
        super().__init__()
        self.answers, self.requests = list(answers), []

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        self.requests += requests
        return [self.answers.pop(0) for _ in requests]


def test_a_cut_answer_is_asked_for_again_with_more_room() -> None:
    llm = Says(Completion("Let me think about", finish="length"), Completion("1"))
    found = select_follow_ups(llm, [("d1", TALK)], POOL, turn=False, runs=1)[0]
    assert len(found.indices) == 1 and not found.empty
    first, second = llm.requests
    assert second.max_tokens > first.max_tokens
    assert second.messages[-1].content.startswith(first.messages[-1].content)
    assert "separated by commas" in second.messages[-1].content


def test_without_an_answer_of_every_run_there_is_no_selection() -> None:
    one, nothing = Completion("1"), Completion("It is dull.")
    llm = Says(one, nothing, nothing, nothing, one)
    found = select_follow_ups(llm, [("d1", TALK)], POOL, turn=False)[0]
    assert found.failure is not None and len(llm.requests) == 5
    busy = Completion("", finish="failed", failure="busy", transient=True)
    failed = Says(one, busy, one)
    found = select_follow_ups(failed, [("d1", TALK)], POOL, turn=False)[0]
    assert found.failure and "busy" in found.failure and found.transient
    assert len(failed.requests) == 3  # the backend has tried already


def test_options_are_shuffled_by_dialogue_run_and_seed_and_nothing_else() -> None:
    def shown(*names: str, seed: int = 0) -> list[str]:
        llm = Scripted(TEXTS)
        select_follow_ups(
            llm,
            [(n, TALK) for n in names],
            POOL,
            turn=False,
            seed=seed,
        )
        return llm.seen

    alone, together = shown("b"), shown("a", "b")
    assert together[3:] == alone
    assert len(set(alone)) > 1
    assert shown("b", seed=1) != alone


OPTIONS = (
    *(
        "What? That's not what I asked.",
        "I don't understand what you're trying to say.",
    ),
    *(
        "Are you even listening to me?",
        "You already told me that.",
        "That wasn't very helpful.",
    ),
    "Let's talk about something else.",
)
CHINESE = (
    "你说的跟我问的没关系。",
    "我听不懂你的意思。",
    "这个你已经说过了。",
    "这没什么帮助。",
)

READ: list[tuple[str, set[int]]] = [
    *(("2, 4, 5", {2, 4, 5}), ("2\n4\n5", {2, 4, 5}), ("2.\n4.\n5.", {2, 4, 5})),
    ("２、４、５", {2, 4, 5}),
    ("4. You already told me that.\n5. That wasn't very helpful.", {4, 5}),
    ("1) “You already told me that.”\n2) “Are you even listening to me?”", {3, 4}),
]
# Asked for again: sentences, ranges, negations, shortened texts, numbers of something else.
UNREAD = (
    *(
        "I would choose options 2, 4 and 5.",
        "3 of them fit: 2, 4, 5",
        "Options 2-4",
        "",
        "[]",
    ),
    *(
        "All except 3.",
        "The chatbot repeated itself 2 times.",
        "I cannot say.",
        "选2、4。",
    ),
    "None of these fit.",
)


@pytest.mark.parametrize(("answer", "chosen"), READ)
def test_what_an_answer_chooses(answer: str, chosen: set[int]) -> None:
    assert read_choice(Completion(answer), OPTIONS) == {n - 1 for n in chosen}


@pytest.mark.parametrize("answer", UNREAD)
def test_an_answer_of_another_form_is_not_guessed(answer: str) -> None:
    with pytest.raises(UnreadError):
        read_choice(Completion(answer), OPTIONS)


def test_a_cut_answer_is_not_read() -> None:
    with pytest.raises(UnreadError, match="cut"):
        read_choice(Completion("2, 4", finish="length"), OPTIONS)
    with pytest.raises(UnreadError, match=r"^busy$"):
        read_choice(Completion("", finish="failed", failure="busy"), OPTIONS)
