"""The judge of single answers in the package."""

import pytest

from medal_judges import Dialogue, Judge, Turn
from medal_judges.models.base.golden import compare
from medal_judges.models.base.saving import judge_folder

LAKE = "We have a small boat, and we go fishing on the lake every Sunday morning."
CHAT = Dialogue(
    "1",
    tuple(
        Turn("assistant" if i % 2 else "user", text)
        for i, text in enumerate(
            [
                "Hi! What do you do at the weekend?",
                LAKE,
                "Nice! My mother fell ill this week, I am so worried about her.",
                "Oh no, I am so sorry to hear that. That must be really hard for you. "
                "How is she feeling now?",
                "A little better, thanks. What else do you like?",
                f"{LAKE} I like the boat and the lake.",
            ]
        )
    ),
    lang="en",
)


def test_it_tells_the_turn() -> None:
    name, repeating = "repetitive", 2
    judge = Judge.from_pretrained(name)
    assert sum(p.stat().st_size for p in judge_folder(name).iterdir()) < 100_000
    assert compare(judge_folder(name)).holds
    chances = [
        judgement.scores[name] for judgement in judge.score([CHAT], level="turn")
    ]
    is_repetitive = [chance is not None and chance >= 0.5 for chance in chances]
    assert is_repetitive == [False, False, True], chances
    (whole,) = judge.score([CHAT])
    low, high = whole.details[name]["interval"]
    assert 0 <= low < high <= 1
    # The conversation has it, and its turn is named.
    assert whole.scores[name] == pytest.approx(chances[repeating], abs=1e-5)
    turns = whole.contributions[name].turns
    named = [turn for turn, value in enumerate(turns) if value]
    assert named == [CHAT.assistant_turns[repeating]]
