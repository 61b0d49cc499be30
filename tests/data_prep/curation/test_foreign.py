"""The foreign-language filter: what a comment must say, and what it may say without harm."""

from typing import Any

import pytest

from medal_judges.data_prep.curation.pool import ForeignLanguageFinder

from .rows import labelled

FOREIGN = [
    ("de", "The assistant mixes Chinese and English words into its German answers."),
    ("de", "Several responses contain Chinese characters that make them hard to read."),
    ("fr", "The chatbot switches to English halfway through the reply."),
    ("en", "Random Cyrillic script appears in the middle of an answer."),
    ("pt", "The answer drifts into Spanish in the last turn."),
    ("zh", "Some replies are in another language."),
]
HARMLESS = [
    ("en", "The assistant speaks about Chinese food and the sentence breaks off."),
    ("en", "The assistant talks of French cinema in a garbled way."),
    ("de", "The German is ungrammatical and hard to follow."),
    ("de", "The sentences collapse, though they are all in German."),
    ("de", "Garbled; no foreign words, just broken grammar."),
    ("en", "The user writes in Spanish, but the assistant is merely confusing."),
]


@pytest.fixture(scope="module")
def keywords() -> Any:
    return ForeignLanguageFinder()


@pytest.mark.parametrize(("lang", "comment"), FOREIGN)
def test_a_comment_on_another_language_leaves_the_row_out(
    keywords: Any, lang: str, comment: str
):
    row = labelled(
        "x", "uninterpretable", lang=lang, comments={"uninterpretable": comment}
    )
    found = keywords.match_row(row)
    assert found is not None
    assert found[0] in comment and found[1] == comment


@pytest.mark.parametrize(("lang", "comment"), HARMLESS)
def test_other_comments_do_not(keywords: Any, lang: str, comment: str) -> None:
    row = labelled(
        "x", "uninterpretable", lang=lang, comments={"uninterpretable": comment}
    )
    assert keywords.match_row(row) is None
