"""Keywords: does an English text reveal a gender, does it name a feeling (MEDAL, appendix C.1)."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from medal_judges.config import read_yaml
from medal_judges.errors import ConfigError

# A letter or digit beside a word makes it another word; an underscore or a hyphen does not.
_BEFORE, _AFTER = r"(?<![^\W_])", r"(?![^\W_])"
_FORMAT = {"Cf", "Mn"}  # zero-width marks and accents written apart, which could hide a word
_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'"})


def gendered_word(text: str) -> str | None:
    """The first word of ``text`` that reveals a gender; None where the text is neutral.

    Whole words only (``the`` holds no ``he``), from configs/seeds/gendered_words.yaml. A rule, and
    a strict one: a scene in which PersonX calls a brother is not neutral either.
    """
    return _first("gendered_words", text)


def affective_word(text: str) -> str | None:
    """The first word or phrase of ``text`` that names a feeling; None where there is none.

    From configs/seeds/affect_words.yaml. A denied feeling (``not happy``) is one too.
    """
    return _first("affect_words", text)


def _first(name: str, text: str) -> str | None:
    plain = _plain(text)
    ignoring, exact = _patterns(name)
    match = ignoring.search(plain) or (exact.search(plain) if exact else None)
    return match[0] if match else None


def _plain(text: str) -> str:
    """``text`` with full-width and curly forms made plain and invisible marks taken out."""
    if text.isascii():
        return text
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFC", text))
    kept = "".join(c for c in folded if unicodedata.category(c) not in _FORMAT)
    return kept.translate(_APOSTROPHES)


@cache
def _patterns(name: str) -> tuple[re.Pattern[str], re.Pattern[str] | None]:
    """Of all words and phrases, capitals ignored; and of those under ``exact``, as written."""
    lists = read_yaml(f"seeds/{name}")
    exact = lists.pop("exact", [])
    phrases = [phrase.replace(" ", r"\s+") for phrase in lists.pop("phrases", [])]
    words: set[str] = set()
    for key, listed in lists.items():
        if not isinstance(listed, str):
            raise ConfigError(f"seeds/{name}.yaml: {key}: expected words parted by blanks")
        words.update(listed.split())
    # Longest first: the word that is reported is the whole one.
    plain = [re.escape(word) for word in sorted(words, key=lambda w: (-len(w), w))]
    whole = re.compile(_whole([*plain, *phrases]), re.IGNORECASE)
    return whole, re.compile(_whole([re.escape(word) for word in exact])) if exact else None


def _whole(alternatives: list[str]) -> str:
    return f"{_BEFORE}(?:{'|'.join(alternatives)}){_AFTER}"
