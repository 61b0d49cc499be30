"""Words of gender and of feeling: whole words, whatever hides them or looks like them."""

import pytest

from medal_judges.data_prep.seeds.contexts import affective_word, gendered_word


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("PersonX calls her", "her"),
        ("HE waits", "HE"),
        ("PersonX says: she's late", "she"),
        ("PersonX says: she’s late", "she"),
        ("PersonX asks s/he", "he"),
        ("PersonX meets a (wo)man", "man"),
        ("PersonX is a man's friend", "man"),
        ("PersonX is a he-man", "he"),
        ("PersonX hugs PersonX's grandmother", "grandmother"),
        ("PersonX is the chairwoman", "chairwoman"),
        ("PersonX proposes to a fiancée", "fiancée"),
        ("PersonX proposes to a fiance\u0301e", "fiancée"),
        ("PersonX writes _she_", "she"),
        ("PersonX writes ｓｈｅ", "she"),  # full width
        ("PersonX asks Miss Lee", "Miss"),
        ("PersonX\thim\nself", "him"),
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
        "PersonX is here and there, then ushers people in",
        *(
            "PersonX eats a sandwich with a songbird",
            "PersonX's own brotherless family",
            "",
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
        *(("PersonX is not happy", "happy"), ("PersonX happily leaves", "happily")),
        ("PersonX is unhappy", "unhappy"),
        ("PersonX bursts into\n tears", "bursts into\n tears"),
        ("PersonX is quite content", "is quite content"),
        *(
            ("PersonX and PersonY are hurt", "are hurt"),
            ("PersonX freaks out", "freaks out"),
        ),
        *(("PersonX falls in love", "in love"), ("PersonX misses home", "misses home")),
        ("PersonX feels better", "feels better"),
    ],
)
def test_feelings(text: str, word: str) -> None:
    assert affective_word(text) == word


@pytest.mark.parametrize(
    "text",
    [
        "PersonX writes the content of a speech",
        "PersonX hurt a knee and touched the stove",
        "PersonX is hungry and feels cold",
        "PersonX feels the wall for a switch",
        "PersonX talks to the ambassador of Madrid",  # sad, mad
        "PersonX pleases nobody in Glasgow",
        "PersonX moved to an abandoned house",
        "PersonX throws a surprise party",
        "",
    ],
)
def test_no_feelings(text: str) -> None:
    assert affective_word(text) is None
