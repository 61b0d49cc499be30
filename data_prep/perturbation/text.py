"""Words, sentences and joints of a turn, for languages with and without spaces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_NO_SPACES = frozenset({"zh", "ja"})
_END = re.compile(r"[.!?…。！？:：,，;](?:[\"'”’)\]]*)\s*$")
_BOUNDARY = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])\s*|\n+")
_LETTERS = re.compile(r"\w+", re.UNICODE)


def units(text: str, lang: str) -> list[str]:
    """What can be moved about: words between spaces; single characters in Chinese."""
    return [c for c in text if not c.isspace()] if lang in _NO_SPACES else text.split()


def join(parts: Iterable[str], lang: str) -> str:
    """The text of ``parts``, with spaces where the language has them."""
    return ("" if lang in _NO_SPACES else " ").join(part for part in parts if part)


def has_words(text: str, lang: str, count: int) -> bool:
    """True when ``text`` has ``count`` words; a Chinese word is taken as 1.6 characters."""
    return len(units(text, lang)) >= count * (1.6 if lang in _NO_SPACES else 1)


def sentences(text: str) -> list[str]:
    """Sentences of ``text`` by punctuation and line ends; at least one for a non-empty text."""
    return [part.strip() for part in _BOUNDARY.split(text) if part.strip()]


def content_words(texts: Iterable[str], lang: str) -> set[str]:
    """Words that carry a subject: of four letters or more; in Chinese all pairs of characters."""
    found: set[str] = set()
    for word in _LETTERS.findall(" ".join(texts).lower()):
        if lang in _NO_SPACES:
            found.update(word[i : i + 2] for i in range(len(word) - 1))
        elif len(word) >= 4:
            found.add(word)
    return found


def in_style(sentence: str, like: str) -> str:
    """``sentence`` in the manner of ``like``: without capitals or full stop where it has none.

    Otherwise the one well-written sentence in a chat in lower case gives the place away.
    """
    if like.strip() and like == like.lower() and like.upper() != like:
        sentence = sentence.lower()
    if like.strip() and not _END.search(like):
        sentence = sentence.rstrip(".。")
    return sentence


def insert(text: str, sentence: str, position: float, lang: str) -> str:
    """``text`` with ``sentence`` at the sentence boundary nearest to ``position`` in [0, 1]."""
    parts = sentences(text)
    at = round(position * len(parts))
    return glue([*parts[:at], in_style(sentence, text), *parts[at:]], lang)


def glue(parts: Sequence[str], lang: str) -> str:
    """One text of several sentences, a full stop put where one ended in none."""
    kept = [part for part in parts if part]
    closed = [part if _END.search(part) else part + full_stop(lang) for part in kept[:-1]]
    return join([*closed, *kept[-1:]], lang)


def full_stop(lang: str) -> str:
    return "。" if lang in _NO_SPACES else "."
