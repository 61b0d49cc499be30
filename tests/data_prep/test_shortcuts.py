"""Planted issues: the innocent twin cannot be told by the sentences and words of the edits."""

import numpy as np
import pytest

from medal_judges.data_prep.perturbation.edit import LANGUAGES, entries, word_pairs
from medal_judges.data_prep.perturbation.injection import ISSUES, injected_set
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.labelled import LabelledDialogue

WORDS = (
    "hiking waterfall cousin baked sourdough oven bicycle brakes summer octopus memory concert "
    "singer swedish phone garden tomatoes kitchen sister novel lighthouse river frozen neighbour"
)


def _conversation(number: int, rng: np.random.Generator) -> LabelledDialogue:
    """Answers that no other conversation has, so that donors of any length are found."""
    turns = []
    for i in range(12):
        answer = " ".join(rng.choice(WORDS.split(), size=int(rng.integers(6, 16))))
        turns.append(
            Turn("assistant", f"{answer.capitalize()}.")
            if i % 2
            else Turn("user", f"{i}, {number}?")
        )
    dialogue = Dialogue(f"r{number}", tuple(turns), "en")
    return LabelledDialogue(dialogue, {}, {}, group=f"group-{number}")


@pytest.mark.parametrize("issue", ISSUES)
def test_a_neutral_sentence_does_not_mean_innocent(issue: str) -> None:
    """Planted and innocent rows hold the table's neutral sentences about equally often."""
    rng = np.random.default_rng(0)
    rows = [_conversation(number, rng) for number in range(150)]
    lines = entries("neutral", "en", "train")
    found: dict[str, list[bool]] = {"planted": [], "innocent": []}
    for row in injected_set(rows, seed=0, issues=[issue], clean_count=0):
        said = "\n".join(turn.content for turn in row.dialogue.turns)
        found[row.extra["planted"]["kind"]].append(any(line in said for line in lines))
    assert len(found["planted"]) > 100
    assert abs(np.mean(found["planted"]) - np.mean(found["innocent"])) <= 0.1


@pytest.mark.parametrize(
    ("lang", "text"),
    [
        ("en", "I get home with a little food"),  # not "I buy home", not "a small food"
        ("zh", "什么可爱"),
        ("es", "realmente quiero, aunque no puedo"),
        ("fr", "je veux vraiment y aller"),
    ],
)
def test_small_changes_leave_words_that_mean_something_else(lang: str, text: str) -> None:
    assert not [other for pattern, other in word_pairs(lang) if pattern.search(text)]


def test_every_language_has_small_changes() -> None:
    assert all(len(word_pairs(lang)) >= 8 for lang in LANGUAGES)
