"""The languages that the turns of a dialogue are written in, by a language-identification library.

MEDAL asks GPT-4.1 whether a user wrote in another language (section 3.4); a library costs nothing,
says where, and errs in other places. Names, links, code and quotations are removed from a turn;
what is left is cut into sentences and clauses, and each of these where its script changes, so that
one foreign clause is not outvoted by the rest. A passage of another script is foreign by its
characters, one of the same script if lingua is certain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from medal_judges.reading.language_detection import LanguageIdentifier
from medal_judges.records.dialogue import ROLES, Dialogue
from medal_judges.records.languages import UNKNOWN_LANGUAGE

# The languages that a passage may be in, besides those of the dialogues: MEDAL's six and those that
# a model slips into. Each further one costs memory and false alarms.
CANDIDATES = ("zh", "en", "de", "fr", "pt", "es", "ar", "hi", "it", "ja", "ko", "nl", "ru")
SHORT = "too short to tell"
UNCERTAIN = "not certain of any language"
UNKNOWN = "the dialogue has no language"
UNSUPPORTED = "the library does not know the language {}"
NO_TURN = "no turn"
_OF_ONE_LANGUAGE = ("hangul", "greek", "hebrew", "bengali", "thai")
_SHOWN = 80  # characters of a foreign passage that are kept
Verdict = tuple[Literal["own", "foreign"] | None, str | None]  # and the language

# When a passage counts: the fewest letters and words for lingua; the least confidence in a foreign
# language and the most that may be left for the dialogue's own, for a whole passage and for words
# from the middle of a sentence; letters of a script that the language does not use; words of Latin
# script in a language of another one, where brands and titles are common.
_LETTERS, _WORDS = 10, 3
_SURE, _OWN = 0.4, 0.1
_WINDOW_SURE, _WINDOW_OWN = 0.5, 0.05
_OTHER_SCRIPT, _OTHER_LETTERS = {"cjk": 2, "hangul": 2}, 4
_LATIN = 3
WINDOW = 5  # words

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
# Without の, which Chinese brands use for 的.
_KANA = re.compile("[\u3041-\u306d\u306f-\u3096\u30a1-\u30fa]")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
# An address or a host is tried only from the beginning of its run of characters.
_LINK = re.compile(
    r"https?://\S+|www\.\S+|(?<!\S)\S+@\S+|[@#]\w+|(?<![\w-])[\w-]+\.(?:com|org|net|io|de|fr|es)\b"
)
_PAIRS = tuple(zip('"“„„«»‹「『《〈【', '"”“”»«›」』》〉】', strict=True))
_QUOTED = re.compile(
    "|".join(f"{a}[^{a}{b}\n]{{1,80}}{b}" for a, b in _PAIRS)
    + r"|(?<!\w)['‘][^'‘’\n]{1,80}['’](?!\w)|\*{1,2}[^*\n]{1,40}\*{1,2}"
)
# (東京), [привет]: a name in its own language.
_BRACKETED = re.compile(r"[(（\[][^()（）\[\]\n]{1,30}[)）\]]")
_SENTENCE = re.compile(r"[.!?…;]+(?=\s|$)|[。！？；।؟\n]+")
_CLAUSE = re.compile(r"[,:]\s|\s[-–—]+\s|[，、：—()（）\[\]،]")
_CASED = "".join(_RANGES[script] for script in ("latin", "cyrillic", "greek"))
_CASED_WORD = re.compile(rf"[{_CASED}]+(?:['’\-][{_CASED}]+)*")


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of one script with its number of letters and words. ``window``: some words in a row
    from a longer passage."""

    text: str
    script: str
    letters: int
    words: int
    window: bool = False


def scripts_of(lang: str) -> tuple[str, ...]:
    """The scripts that texts of the language ``lang`` (ISO 639-1) are written in."""
    return _WRITTEN.get(lang, ("latin",))


def plain(text: str) -> str:
    """``text`` without what may be of any language: code, links, quotations and titles, and words
    with a capital letter that do not begin a sentence (names; German nouns too, which leaves enough
    to recognise German). Quotation marks around the whole text are removed first."""
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
    first = _CASED_WORD.search(sentence)

    def kept(match: re.Match[str]) -> str:
        word = match[0]
        if word == word.lower() or word in ("I", "I'm", "I'll", "I've", "I’m"):
            return word
        begins = first is not None and match.start() == first.start()
        return word if begins and word[1:] == word[1:].lower() else " "

    return _CASED_WORD.sub(kept, sentence)


def passages(text: str, lang: str) -> Iterator[Passage]:
    """The passages of ``text``, which should be in ``lang``: for each script what the whole turn
    has of it, then each sentence, then each clause, then every second run of ``WINDOW`` words of a
    long sentence."""
    own = set(scripts_of(lang))

    def outside(match: re.Match[str]) -> str:
        scripts = {each.lastgroup for each in _SCRIPT.finditer(match[0])}
        return match[0] if scripts & own else " "

    cleaned = _BRACKETED.sub(outside, plain(text))
    sentences = [s for s in cleaned.split("\n") if s.strip()]
    yield from _of_scripts("\n".join(sentences))
    for sentence in sentences:
        if len(sentences) > 1:
            yield from _of_scripts(sentence)
        clauses = [c for c in _CLAUSE.split(sentence) if c.strip()]
        for clause in clauses if len(clauses) > 1 else ():
            yield from _of_scripts(clause)
        words = sentence.split()
        if len(words) >= WINDOW + 2:
            for start in range(0, len(words) - WINDOW + 1, 2):
                for passage in _of_scripts(" ".join(words[start : start + WINDOW])):
                    yield replace(passage, window=True)


def _of_scripts(text: str) -> Iterator[Passage]:
    """One passage a script, its words in their order."""
    runs_of: dict[str, list[re.Match[str]]] = {}
    for match in _SCRIPT.finditer(text):
        runs_of.setdefault(str(match.lastgroup), []).append(match)
    for script, runs in runs_of.items():
        stretch = text if len(runs_of) == 1 else " ".join(match[0] for match in runs)
        letters = sum(len(match[0]) for match in runs)
        yield Passage(" ".join(stretch.split()), script, letters, len(runs))


class LanguageChecker:
    """Checks dialogues of the languages ``langs`` (ISO 639-1); loads lingua's models of these and
    of ``CANDIDATES`` (about 200 MB, one second). Raises MissingExtraError without the extra lang.
    """

    def __init__(self, langs: Iterable[str]) -> None:
        purpose = "the check of languages by a library"
        self.identifier = LanguageIdentifier({*langs, *CANDIDATES}, purpose=purpose)
        self.known = self.identifier.known

    def check(self, dialogue: Dialogue) -> dict[str, Any]:
        """A line of language_check.jsonl: for ``user`` and ``assistant`` whether a turn holds
        another language (``mixed``; None with the commonest ``reason`` if no turn has a verdict),
        and the ``turns`` (see ``turn``)."""
        turns = [
            {"turn": i, "role": turn.role, **self.turn(turn.content, dialogue.lang)}
            for i, turn in enumerate(dialogue.turns)
        ]
        record: dict[str, Any] = {"id": dialogue.id, "lang": dialogue.lang}
        for role in ROLES:
            known = [t["mixed"] for t in turns if t["role"] == role and t["mixed"] is not None]
            reasons = [t["reason"] for t in turns if t["role"] == role]
            reason = max(sorted(set(reasons)), key=reasons.count) if reasons and not known else None
            record[role] = {
                "mixed": any(known) if known else None,
                "reason": reason if reasons else NO_TURN,
            }
        return record | {"turns": turns}

    def turn(self, text: str, lang: str) -> dict[str, Any]:
        """Of a text that should be in ``lang``: ``mixed``, whether it holds another language, None
        with the ``reason``; letters by language (``languages``); ``foreign`` passages."""
        letters: dict[str, int] = {}
        foreign: dict[str, str | None] = {}
        reason, own = SHORT, False
        if lang not in self.known:
            reason = UNKNOWN if lang == UNKNOWN_LANGUAGE else UNSUPPORTED.format(lang)
        for passage in passages(text, lang) if lang in self.known else ():
            answer = self._passage(passage, lang)
            if answer is None:
                continue
            reason = UNCERTAIN
            verdict, code = answer
            own |= verdict == "own"
            if verdict == "foreign":
                foreign.setdefault(passage.text[:_SHOWN], code)
            if code is not None:
                letters[code] = max(letters.get(code, 0), passage.letters)
        mixed = True if foreign else False if own else None
        return {
            "mixed": mixed,
            "reason": reason if mixed is None else None,
            "languages": letters,
            "foreign": [{"lang": code, "text": passage} for passage, code in foreign.items()],
        }

    def _passage(self, passage: Passage, lang: str) -> Verdict | None:
        """The verdict on a passage; None if it is too short."""
        script, letters = passage.script, passage.letters
        if script not in scripts_of(lang):
            enough = letters >= _OTHER_SCRIPT.get(script, _OTHER_LETTERS)
            if script == "latin":
                enough = passage.words >= _LATIN and letters >= 3 * _LATIN
            return ("foreign", self.identifier.likeliest(passage.text)) if enough else None
        if script == "cjk" and lang in ("zh", "ja"):
            # By kana, which only Japanese has; a single one is an ornament in Chinese.
            kana = len(_KANA.findall(passage.text))
            if letters < 2:
                return None
            if lang == "zh":
                return ("foreign", "ja") if kana >= 2 else ("own", "zh")
            if kana:
                return "own", "ja"
            chinese = letters >= 8 and self.identifier.chances(passage.text)["zh"] >= _SURE
            return ("foreign", "zh") if chinese else (None, None)
        if script in _OF_ONE_LANGUAGE:
            return ("own", lang) if letters >= 2 else None
        if letters < _LETTERS or passage.words < _WORDS:
            return None
        chances = self.identifier.chances(passage.text)
        best = max(chances, key=lambda code: chances[code])
        if best == lang:
            return "own", lang
        sure, own = (_WINDOW_SURE, _WINDOW_OWN) if passage.window else (_SURE, _OWN)
        foreign = chances[best] >= sure and chances[lang] <= own
        return ("foreign", best) if foreign else (None, None)
