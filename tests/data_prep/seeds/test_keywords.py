"""Words of gender and of feeling: whole words, whatever hides them or looks like them."""

import pytest

from medal_judges.data_prep.seeds.contexts import find_feeling_word, find_gendered_word


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("PersonX calls her", "her"),
        ("HE waits", "HE"),
        ("PersonX says: she’s late", "she"),
        ("PersonX meets a (wo)man", "man"),
        ("PersonX is the chairwoman", "chairwoman"),
        ("PersonX proposes to a fiance\u0301e", "fiancée"),
        ("PersonX writes ｓｈｅ", "she"),
    ],
)
def test_words_that_tell_a_gender(text: str, word: str) -> None:
    assert find_gendered_word(text) == word


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Now PersonX feels annoyed.", "feels annoyed"),
        ("PersonX is ANGRY", "ANGRY"),
        ("PersonX is unhappy", "unhappy"),
        ("PersonX is quite content", "is quite content"),
    ],
)
def test_feelings(text: str, word: str) -> None:
    assert find_feeling_word(text) == word
