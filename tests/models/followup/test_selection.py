"""DIET's selection: what counts as chosen, and the intersection over shuffled runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medal_judges.models.followup.pool import FollowUp, Pool
from medal_judges.models.followup.selection import SelectionConfig, chosen, select
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
    Message,
)

TEXTS = ("No.", "I don't understand.", "That's wrong.", "You said that before.")
POOL = Pool(name="p", method="m", follow_ups=tuple(FollowUp(text=t) for t in TEXTS))
TALK = (Message("user", "Hi"), Message("assistant", "Ho"))


class Scripted(LanguageModel):
    """Chooses the options whose texts it is given, by the number they were shown with."""

    name, context = "scripted", 1000

    def __init__(self, *runs: Sequence[str]) -> None:
        self.runs, self.seen = runs, []

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        answers = []
        for k, request in enumerate(requests):
            text = request.messages[-1].content
            self.seen.append(text)
            wanted = self.runs[k % len(self.runs)]
            lines = [line for line in text.splitlines() if line[:1].isdigit()]
            numbers = [line.split(".")[0] for line in lines if line.split(". ", 1)[1] in wanted]
            answers.append(Completion("\n".join(numbers)))
        return answers

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        raise NotImplementedError

    def count_tokens(self, messages: Sequence[Message]) -> int:
        return 1

    def fingerprint(self) -> Mapping[str, str]:
        return {}


def test_options_are_named_by_number_or_by_text() -> None:
    order = [2, 0, 3, 1]
    shown = [TEXTS[i] for i in order]
    assert chosen("1. That's wrong.\n3.", shown, order) == {2, 3}
    assert chosen("I would choose “i don’t understand!”".replace("’", "'"), shown, order) == {1}
    assert chosen("2 and 4", shown, order) == {0, 1}
    assert chosen("- 2, 3", shown, order) == {0, 3}
    assert chosen("All 12 of them are fine, I give it 5 stars", shown, order) == set()
    assert chosen("9. Something else", shown, order) == set()
    assert chosen("", shown, order) == set()


def test_the_intersection_of_the_runs_counts() -> None:
    llm = Scripted([TEXTS[0], TEXTS[2]], [TEXTS[2], TEXTS[1]], [TEXTS[2]])
    found = select(llm, [("d1", TALK)], POOL, SelectionConfig(), turn=False)[0]
    assert found.indices == (2,) and not found.empty


def test_an_empty_intersection_takes_all_and_is_counted() -> None:
    llm = Scripted([TEXTS[0]], [TEXTS[1]], [TEXTS[2]])
    found = select(llm, [("d1", TALK)], POOL, SelectionConfig(), turn=False)[0]
    assert found.indices == (0, 1, 2, 3) and found.empty


def test_options_are_shuffled_by_dialogue_run_and_seed_and_nothing_else() -> None:
    def shown(*names: str, seed: int = 0) -> list[str]:
        llm = Scripted(TEXTS)
        select(llm, [(n, TALK) for n in names], POOL, SelectionConfig(seed=seed), turn=False)
        return llm.seen

    alone, together = shown("b"), shown("a", "b")
    assert together[3:] == alone
    assert len(set(alone)) > 1
    assert shown("b", seed=1) != alone


def test_turn_and_dialogue_are_asked_for_in_their_own_words() -> None:
    llm = Scripted(TEXTS)
    select(llm, [("a", TALK)], POOL, SelectionConfig(runs=1), turn=True)
    select(llm, [("a", TALK)], POOL, SelectionConfig(runs=1), turn=False)
    assert "judge the last answer" in llm.seen[0] and "judge the conversation" in llm.seen[1]
    assert all("User: Hi\nChatbot: Ho" in text for text in llm.seen)
