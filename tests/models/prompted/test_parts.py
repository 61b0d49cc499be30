"""Context shares, repeats, examples."""

import pytest

from medal_judges.errors import ConfigError
from medal_judges.models.prompted.builder import chosen_examples, load_examples, shown_turns
from medal_judges.models.prompted.ratings import self_agreement
from medal_judges.records.dialogue import Turn

TEN = [Turn("assistant" if i % 2 else "user", f"turn {i}") for i in range(10)]


def test_shares_of_a_dialogue() -> None:
    assert shown_turns(TEN, "full") == list(range(10)) == shown_turns(TEN, "summary_50")
    assert shown_turns(TEN, "last_40") == [6, 7, 8, 9]
    assert shown_turns(TEN, "first_40") == [0, 1, 2, 3]
    assert shown_turns(TEN, "first_20_last_20") == [0, 1, 8, 9]
    assert shown_turns(TEN[:3], "first_20_last_20") == [0, 1, 2]  # grown to a turn of the assistant
    assert shown_turns(TEN[:3], "last_40") == [1, 2]
    assert shown_turns(TEN[:2], "first_40") == [0, 1]
    assert shown_turns([], "last_40") == []


def test_self_agreement() -> None:
    told = self_agreement([1, 1, 0, None])
    assert told["repeats_std"] == pytest.approx(0.57735, abs=1e-5)
    assert told["repeats_agreement"] == pytest.approx(1 / 3)
    assert self_agreement([1, None]) == {}


def test_examples_are_lowest_median_and_highest() -> None:
    shipped = load_examples("prompts/examples")
    three = chosen_examples(shipped, "empathy", 3, seed=0, without=None)
    assert [e.scores["empathy"] for e in three] == [0.0, 0.5, 1.0]
    assert [e.id for e in chosen_examples(shipped, "trust", 1, seed=0, without=None)] == [
        "example-middling"
    ]
    with pytest.raises(ConfigError, match="2 examples have a score for 'trust'"):
        chosen_examples(shipped, "trust", 3, seed=0, without="example-good")
