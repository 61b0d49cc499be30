"""Ratings and the distributions over them: arithmetic by hand, hostile answers."""

import math

import pytest

from medal_judges.models.llm.protocol import Completion, TokenChoice
from medal_judges.models.prompted.answers import Answer
from medal_judges.models.prompted.ratings import Ratings, from_logprobs, from_samples, from_token
from medal_judges.records.dimension import Dimension

FIVE = Ratings.of(Dimension("overall", "ordinal", 1, 5), 5)


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
def test_what_is_offered(kind: str, low: float, high: float, texts: str, values: list[float]):
    offered = Ratings.of(Dimension("d", kind, low, high), 5)  # type: ignore[arg-type]
    assert offered.texts == tuple(texts)
    assert offered.values == pytest.approx(values)
    assert not offered.ambiguous


def test_moments_by_hand() -> None:
    mean, spread = FIVE.moments([0.1, 0.0, 0.2, 0.3, 0.4])
    assert mean == pytest.approx(0.1 + 0.6 + 1.2 + 2.0)
    assert spread**2 == pytest.approx(0.1 * 8.41 + 0.2 * 0.81 + 0.3 * 0.01 + 0.4 * 1.21)


def test_logprobs_are_normalised_also_when_tiny() -> None:
    found = from_logprobs(Answer(), [math.log(0.1), math.log(0.3)])
    assert found.chances == pytest.approx([0.25, 0.75])
    assert found.mass == pytest.approx(0.4)
    assert from_logprobs(Answer(), [-2000.0, -2000.0]).chances == pytest.approx([0.5, 0.5])


def answer(*tokens: tuple[str, dict[str, float]]) -> Completion:
    choices = tuple(
        TokenChoice(text, told.get(text, 0.0), {k: math.log(v) for k, v in told.items()})
        for text, told in tokens
    )
    choices = tuple(
        TokenChoice(c.text, c.alternatives.get(c.text, 0.0), c.alternatives) for c in choices
    )
    return Completion("".join(c.text for c in choices), tokens=choices)


def test_the_token_of_the_rating_is_found_and_its_alternatives_weighed() -> None:
    found = from_token(
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
        *(["4", ".", "5"], ["8", "/", "10"], ["4", "/", "10"], ["4", " out", " of", " ", "10"]),
        *(["-", "3"], ["3", "-", "4"], ["9"], ["I", " cannot"], [], ["1", "0"]),
    ],
)
def test_answers_without_a_rating_are_not_read(tokens: list[str]) -> None:
    found = from_token(answer(*[(t, {t: 1.0}) for t in tokens]), FIVE)
    assert found.chances is None and found.reason


def test_a_fraction_of_the_highest_rating_is_its_numerator() -> None:
    tokens = [(" 4", {" 4": 0.6, " 3": 0.2}), ("/", {"/": 1.0}), ("5", {"5": 1.0})]
    assert from_token(answer(*tokens), FIVE).chances == pytest.approx([0, 0, 0.25, 0.75, 0])


def test_samples_are_counted() -> None:
    said = ["4", "4", "2", "no idea"]
    found = from_samples([Completion(text) for text in said], FIVE)
    assert found.chances == pytest.approx([0, 1 / 3, 0, 2 / 3, 0])
    assert found.samples == 3 and found.mass == pytest.approx(0.75)
    nothing = from_samples([Completion("no idea")], FIVE)
    assert nothing.chances is None
    assert (
        nothing.reason
        == "no rating in 1 answers: no score line as any line in the answer 'no idea'"
    )
    failed = Completion("", finish="failed", failure="timeout")
    assert from_samples([failed], FIVE).reason == "no rating in 1 answers: timeout"


def test_what_a_model_thinks_is_no_rating() -> None:
    thought = "<think>\nScore: 2?\n</think>\n\n4"
    said = FIVE.read(thought)
    assert said.value == 4 and said.span is not None and thought[slice(*said.span)] == "4"
    assert FIVE.read("<think>Score: 2").value is None
    found = from_samples([Completion(thought)], FIVE)
    assert found.chances == (0, 0, 0, 1, 0)
