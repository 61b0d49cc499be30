"""Words, sentences and joints of a turn, for languages with and without spaces."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NO_SPACES = frozenset({"zh", "ja"})
_END = re.compile(r"[.!?…。！？:：,，;](?:[\"'”’)\]]*)\s*$")
_BOUNDARY = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])\s*|\n+")
_CHARACTER = re.compile(r"\S")
_WORD = re.compile(r"\S+")
_LETTERS = re.compile(r"\w+", re.UNICODE)


def units(text: str, lang: str) -> list[str]:
    """What can be moved about: words between spaces; single characters in Chinese."""
    return [c for c in text if not c.isspace()] if lang in _NO_SPACES else text.split()


def with_units(text: str, words: Iterable[str], lang: str) -> str:
    """``text`` with its units (see ``units``) replaced by ``words``, one for one.

    White space stays as it was: an edit that loses line breaks would be known by that.
    """
    following = iter(words)
    return _unit(lang).sub(lambda _: next(following), text)


def halfway(text: str, lang: str) -> int:
    """Where in ``text`` the first half of its units ends."""
    ends = [match.end() for match in _unit(lang).finditer(text)]
    return ends[(len(ends) - 1) // 2] if ends else 0


def _unit(lang: str) -> re.Pattern[str]:
    return _CHARACTER if lang in _NO_SPACES else _WORD


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
    content: set[str] = set()
    for word in _LETTERS.findall(" ".join(texts).lower()):
        if lang in _NO_SPACES:
            content.update(word[i : i + 2] for i in range(len(word) - 1))
        elif len(word) >= 4:
            content.add(word)
    return content


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
    """``text`` with ``sentence`` at the sentence boundary nearest to ``position`` in [0, 1].

    The rest of ``text`` stays as it was, line ends and all.
    """
    text = text.strip()
    if not text:
        return sentence
    ends = {match.end() for match in _BOUNDARY.finditer(text)} - {0, len(text)}
    cuts = [0, *sorted(ends), len(text)]
    cut = cuts[round(position * (len(cuts) - 1))]
    styled, line_end = in_style(sentence, text), "\n" in text
    return attach(attach(text[:cut], styled, lang, line_end), text[cut:], lang, line_end)


def attach(left: str, right: str, lang: str, line_end: bool = False) -> str:
    """``left`` and ``right`` on two lines, or on one with a full stop between where none is."""
    left, right = left.rstrip(), right.lstrip()
    if not left or not right:
        return left or right
    if line_end:
        return f"{left}\n{right}"
    return join([left if _END.search(left) else left + full_stop(lang), right], lang)


def glue(parts: Iterable[str], lang: str) -> str:
    """One text of several sentences, a full stop put where one ended in none."""
    whole = ""
    for part in parts:
        whole = attach(whole, part, lang)
    return whole


def full_stop(lang: str) -> str:
    return "。" if lang in _NO_SPACES else "."
