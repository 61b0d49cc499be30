"""Words of gender and of feeling: whole words, whatever hides them or looks like them."""

import pytest

from medal_judges.data_prep.seeds.contexts import affective_word, gendered_word


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
    assert gendered_word(text) == word


@pytest.mark.parametrize(
    "text",
    [
        *(
            "PersonX goes to the theatre with the others",
            "PersonX is a human and manages a manor",
        ),
        "PersonX sees a shaman in Germany and a Roman talisman",
        *(
            "PersonX will miss the bus; PersonY misses it too",
            "PersonX heals the sheep in a shed",
        ),
    ],
)
def test_words_that_only_hold_one(text: str) -> None:
    assert gendered_word(text) is None


@pytest.mark.parametrize(
    ("text", "word"),
    [
        *(
            ("Now PersonX feels annoyed.", "feels annoyed"),
            ("PersonX is ANGRY", "ANGRY"),
        ),
        ("PersonX is unhappy", "unhappy"),
        ("PersonX is quite content", "is quite content"),
    ],
)
def test_feelings(text: str, word: str) -> None:
    assert affective_word(text) == word


@pytest.mark.parametrize(
    "text",
    [
        "PersonX writes the content of a speech",
        "PersonX hurt a knee and touched the stove",
        "PersonX talks to the ambassador of Madrid",
    ],
)
def test_no_feelings(text: str) -> None:
    assert affective_word(text) is None
