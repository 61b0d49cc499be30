"""G-Eval: the expected value by hand, prompts, fallbacks."""

import math
from typing import Any

import numpy as np
import pytest

from medal_judges.models.base.judge import make_score_requests
from medal_judges.models.base.saving import load_judge
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.llm.protocol import Completion, LanguageModel, TokenChoice
from medal_judges.models.prompted.geval import GEvalJudge, rating_distribution
from medal_judges.models.prompted.ratings import (
    Ratings,
)
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension

from ..talks import talk
from .conftest import token_logs, told

GOOD = [
    "Hi! I hiked in the Alps.",
    "How lovely, which route?",
    "The Tour du Mont Blanc.",
    "Great!",
]
BAD = [
    "Hi! I hiked in the Alps.",
    "banana banana",
    "What?",
    "banana banana",
    "Bye.",
    "banana",
]


def load(llm: LanguageModel, **options: Any) -> GEvalJudge:
    options = {"dimensions": ["overall", "engagingness"]} | options
    judge = load_judge("configs/judges/geval.yaml", llm=llm, **options)
    assert isinstance(judge, GEvalJudge)
    return judge


def by_hand(model: LocalModel, prompt: str, ratings: str) -> list[float]:
    """Chances of the ratings' tokens after the prompt and "Rating:", one plain pass each."""
    chances = np.exp(
        [sum(token_logs(model, prompt, "Rating:", rating)) for rating in ratings]
    )
    return [float(chance) for chance in chances / chances.sum()]


def test_expected_value_equals_a_plain_loop(tiny_lm: LocalModel) -> None:
    judge = load(tiny_lm)
    (judged,) = judge.score([talk(*GOOD)])
    (item,) = make_score_requests(talk(*GOOD), "dialogue")
    for name, ratings in (("engagingness", "123"),):
        (message,) = told(judge, item, name)
        chances = by_hand(tiny_lm, message.content, ratings)
        values = [int(r) for r in ratings]
        mean = sum(c * v for c, v in zip(chances, values, strict=True))
        square = sum(c * (v - mean) ** 2 for c, v in zip(chances, values, strict=True))
        assert judged.distributions[name] == pytest.approx(chances, abs=1e-4)
        assert judged.scores[name] == pytest.approx(mean, abs=1e-3)
        assert judged.details[name]["spread"] == pytest.approx(square**0.5, abs=1e-3)
        assert 0 < judged.details[name]["mass"] <= 1


def test_turns_share_the_dialogue_and_equal_single_ones(tiny_lm: LocalModel) -> None:
    judge = load(tiny_lm, dimensions=["overall"])
    together = list(judge.score([talk(*BAD)], level="turn"))
    assert [j.turn for j in together] == [1, 3, 5]
    for judged in together:
        cut = talk(*BAD[: (judged.turn or 0) + 1])
        (alone,) = judge.score([cut], level="last")
        assert judged.scores == pytest.approx(alone.scores, abs=1e-4)


def test_whole_oldest_turns_go_and_a_giant_last_turn_is_unscored(
    tiny_lm: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medal_judges.models.prompted.geval.MAX_TOKENS", 500)
    judge = load(tiny_lm, dimensions=["overall"])
    long = talk(*[f"We talk about the number {i} for a while now." for i in range(30)])
    (judged,) = judge.score([long])
    assert judged.scored and judged.truncated_turns > 10
    assert judged.usage["tokens"] <= 500
    (kept,) = judge.score([Dialogue("k", long.turns[judged.truncated_turns :])])
    assert kept.truncated_turns == 0
    assert kept.scores == pytest.approx(judged.scores, abs=1e-4)
    (giant,) = judge.score([talk("Hi", "word " * 600)])
    assert giant.scores == {"overall": None} and "500 fit" in (giant.failure or "")


FIVE = Ratings.of_dimension(Dimension("overall", "ordinal", 1, 5), 5)


@pytest.mark.parametrize(
    ("kind", "low", "high", "texts", "values"),
    [
        ("ordinal", 1, 5, "12345", [1, 2, 3, 4, 5]),
        ("binary", 0, 1, "01", [0, 1]),
        ("ordinal", 0, 8, "012345678", list(range(9))),
        ("continuous", 1, 3, "123", [1, 2, 3]),
        ("continuous", 0, 1, "12345", [0, 0.25, 0.5, 0.75, 1]),
        ("continuous", 0, 100, "12345", [0, 25, 50, 75, 100]),
        ("ordinal", -2, 2, "12345", [-2, -1, 0, 1, 2]),
    ],
)
def test_what_is_offered(
    kind: str, low: float, high: float, texts: str, values: list[float]
):
    offered = Ratings.of_dimension(Dimension("d", kind, low, high), 5)  # type: ignore[arg-type]
    assert offered.texts == tuple(texts)
    assert offered.values == pytest.approx(values)
    assert not offered.any_is_prefix


def answer(*tokens: tuple[str, dict[str, float]]) -> Completion:
    choices = tuple(
        TokenChoice(
            text, told.get(text, 0.0), {k: math.log(v) for k, v in told.items()}
        )
        for text, told in tokens
    )
    choices = tuple(
        TokenChoice(c.text, c.alternatives.get(c.text, 0.0), c.alternatives)
        for c in choices
    )
    return Completion("".join(c.text for c in choices), tokens=choices)


def test_the_token_of_the_rating_is_found_and_its_alternatives_weighed() -> None:
    found = rating_distribution(
        answer(
            ("Rating", {"Rating": 0.9}),
            (":", {":": 1.0}),
            (" 4", {" 4": 0.5, "4": 0.1, " 5": 0.2, " x": 0.1, " 9": 0.1}),
        ),
        FIVE,
    )
    assert found.chances == pytest.approx([0, 0, 0, 0.75, 0.25])
    assert found.mass == pytest.approx(0.8)


@pytest.mark.parametrize(
    "tokens",
    [
        *(
            ["4", ".", "5"],
            ["8", "/", "10"],
            ["4", "/", "10"],
            ["4", " out", " of", " ", "10"],
        ),
        *(["-", "3"], ["3", "-", "4"], ["9"], ["I", " cannot"], [], ["1", "0"]),
    ],
)
def test_answers_without_a_rating_are_not_read(tokens: list[str]) -> None:
    found = rating_distribution(answer(*[(t, {t: 1.0}) for t in tokens]), FIVE)
    assert found.chances is None and found.reason


def test_what_a_model_thinks_is_no_rating() -> None:
    thought = "<think>\nScore: 2?\n</think>\n\n4"
    said = FIVE.read(Completion(thought))
    assert (
        said.value == 4 and said.span is not None and thought[slice(*said.span)] == "4"
    )
    assert FIVE.read(Completion("<think>Score: 2")).value is None
