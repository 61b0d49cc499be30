"""Units of length: words, or characters where a language puts no spaces between words."""

from __future__ import annotations

from typing import Literal

from medal_judges.languages import base_language

Unit = Literal["words", "characters"]

# Written without spaces between words: Chinese (MEDAL, Table 2, has only this one), Cantonese, Wu,
# Japanese, Thai, Lao, Khmer, Burmese.
SPACELESS = frozenset({"zh", "yue", "wuu", "ja", "th", "lo", "km", "my"})


def unit_of(lang: str) -> Unit:
    """The unit in which utterances of ``lang`` are measured."""
    return "characters" if base_language(lang) in SPACELESS else "words"


def length(text: str, unit: Unit) -> int:
    """Length of an utterance: what stands between spaces, or every character that is no space.

    Punctuation belongs to the word it touches, and is a character of its own.
    """
    words = text.split()
    return len(words) if unit == "words" else sum(map(len, words))
