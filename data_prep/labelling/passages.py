"""Passages of a turn whose language can be asked for: names, links, code and quotations taken out.

What is left is cut into sentences and clauses, and each of them where its script changes, so that
one foreign clause is not outvoted by the rest of the turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

# Han and kana are one script here: Japanese writes both in one word.
_RANGES = {
    "latin": "A-Za-zªºÀ-ÖØ-öø-ɏḀ-ỿ",
    "cjk": "\u3005\u3007\u3040-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff",
    "hangul": "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af",
    "cyrillic": "\u0400-\u052f",
    "greek": "\u0370-\u03ff\u1f00-\u1fff",
    "arabic": "\u0620-\u065f\u066e-\u06d3\u06fa-\u06ff\u0750-\u077f",
    "hebrew": "\u05d0-\u05ea",
    "devanagari": "\u0900-\u0963\u0970-\u097f",
    "bengali": "\u0980-\u09e3",
    "thai": "\u0e01-\u0e4e",
}
# The scripts that a language is written in; Latin for all others.
_WRITTEN = {
    **{lang: ("cjk",) for lang in ("zh", "ja")},
    "ko": ("hangul",),
    **{lang: ("cyrillic",) for lang in ("ru", "uk", "bg", "be", "mk", "kk", "mn")},
    **{lang: ("arabic",) for lang in ("ar", "fa", "ur")},
    **{lang: ("devanagari",) for lang in ("hi", "mr")},
    **{"el": ("greek",), "he": ("hebrew",), "bn": ("bengali",), "th": ("thai",)},
}
_SCRIPT = re.compile("|".join(f"(?P<{name}>[{chars}]+)" for name, chars in _RANGES.items()))
# Without の, which Chinese shop signs and brands use for 的.
_KANA = re.compile("[\u3041-\u306d\u306f-\u3096\u30a1-\u30fa]")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
# An address or a host begins where its run of characters does: from no other place is it tried.
_LINK = re.compile(
    r"https?://\S+|www\.\S+|(?<!\S)\S+@\S+|[@#]\w+|(?<![\w-])[\w-]+\.(?:com|org|net|io|de|fr|es)\b"
)
_PAIRS = tuple(zip('"“„„«»‹「『《〈【', '"”“”»«›」』》〉】', strict=True))
_QUOTED = re.compile(
    "|".join(f"{a}[^{a}{b}\n]{{1,80}}{b}" for a, b in _PAIRS)
    + r"|(?<!\w)['‘][^'‘’\n]{1,80}['’](?!\w)|\*{1,2}[^*\n]{1,40}\*{1,2}"
)
# (東京), [привет]: what something is called where it comes from.
_BRACKETED = re.compile(r"[(（\[][^()（）\[\]\n]{1,30}[)）\]]")
_SENTENCE = re.compile(r"[.!?…;]+(?=\s|$)|[。！？；।؟\n]+")
_CLAUSE = re.compile(r"[,:]\s|\s[-–—]+\s|[，、：—()（）\[\]،]")
_CASED = "".join(_RANGES[script] for script in ("latin", "cyrillic", "greek"))
_WORD = re.compile(rf"[{_CASED}]+(?:['’\-][{_CASED}]+)*")


WINDOW = 5  # words


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of one script; ``letters`` and ``words`` count what it is made of. ``window``: it
    is some words in a row out of a longer passage, and begins and ends anywhere."""

    text: str
    script: str
    letters: int
    words: int
    window: bool = False


def scripts_of(lang: str) -> tuple[str, ...]:
    """The scripts that texts of the language ``lang`` (ISO 639-1) are written in."""
    return _WRITTEN.get(lang, ("latin",))


def kana(text: str) -> int:
    """How many characters there are that only Japanese writes."""
    return len(_KANA.findall(text))


def plain(text: str) -> str:
    """``text`` without what may be of any language: code, links, quotations and titles, and words
    with a capital letter that do not begin a sentence (names; German nouns too, which leaves
    enough to know German by).

    Quotation marks around the whole text are taken off first: some models put them.
    """
    text = text.strip()
    for left, right in _PAIRS:
        inner = text[1:-1]
        whole = len(text) > 2 and text[0] == left and text[-1] == right
        if whole and left not in inner and right not in inner:
            text = inner
    for pattern in (_CODE, _LINK, _QUOTED):
        text = pattern.sub(" ", text)
    return "\n".join(_without_names(sentence) for sentence in _SENTENCE.split(text))


def _without_names(sentence: str) -> str:
    first = _WORD.search(sentence)
    if first is None:
        return sentence

    def kept(match: re.Match[str]) -> str:
        word = match[0]
        if match.start() == first.start():
            return word if word == word.lower() or word[1:] == word[1:].lower() else " "
        return word if word == word.lower() or word in ("I", "I'm", "I'll", "I've", "I’m") else " "

    return _WORD.sub(kept, sentence)


def passages(text: str, lang: str) -> Iterator[Passage]:
    """The passages of ``text``, which should be in ``lang``: for each script what there is of it in
    the whole turn, then in each sentence of several, then in each clause of several, then in
    every second run of ``WINDOW`` words of a long sentence."""
    own = scripts_of(lang)
    cleaned = _BRACKETED.sub(lambda m: " " if _foreign(m[0], own) else m[0], plain(text))
    sentences = [s for s in cleaned.split("\n") if s.strip()]
    yield from _of_scripts("\n".join(sentences))
    for sentence in sentences:
        if len(sentences) > 1:
            yield from _of_scripts(sentence)
        clauses = [c for c in _CLAUSE.split(sentence) if c.strip()]
        if len(clauses) > 1:
            for clause in clauses:
                yield from _of_scripts(clause)
        yield from _windows(sentence)


def _windows(sentence: str) -> Iterator[Passage]:
    words = sentence.split()
    if len(words) >= WINDOW + 2:
        for start in range(0, len(words) - WINDOW + 1, 2):
            for passage in _of_scripts(" ".join(words[start : start + WINDOW])):
                yield replace(passage, window=True)


def _foreign(text: str, own: tuple[str, ...]) -> bool:
    scripts = {match.lastgroup for match in _SCRIPT.finditer(text)}
    return not scripts & set(own)


def _of_scripts(text: str) -> Iterator[Passage]:
    """One passage a script, its words in their order."""
    runs_of: dict[str, list[re.Match[str]]] = {}
    for match in _SCRIPT.finditer(text):
        runs_of.setdefault(str(match.lastgroup), []).append(match)
    for script, runs in runs_of.items():
        stretch = text if len(runs_of) == 1 else " ".join(match[0] for match in runs)
        letters = sum(len(match[0]) for match in runs)
        yield Passage(" ".join(stretch.split()), script, letters, len(runs))
