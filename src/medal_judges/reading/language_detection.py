"""Which language a text or a dialogue is in, by lingua (extra ``lang``), or that it cannot be told.

A wrong language sends a chat to the wrong row of a report and to the wrong examples of a prompt, an
unknown one to a row of its own: what is short, mixed or not certain stays unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

from medal_judges.errors import MissingExtraError
from medal_judges.records.dialogue import ROLES, Dialogue
from medal_judges.records.languages import UNKNOWN_LANGUAGE

_PURPOSE = "the detection of languages"
NORWEGIAN = ("nb", "nn")  # lingua knows it by its two written forms, we as ``no``
# Scripts that say much with few letters, most of them of one language.
_DENSE = re.compile(r"[\u0e00-\u0e7f\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
# Tags, addresses and marked gaps say nothing of the language around them.
_NO_WORDS = re.compile(r"<[^<>]{1,200}>|https?://\S+|\[(?:image|audio|video|file)\]")
_LETTERS, _PART = 40, 30  # the fewest of a text, and of a part of one that is to agree with it
_DENSE_LETTERS = 4  # so few of a dense script will do
_SURE = 0.9  # least confidence
_AGREE = 0.75  # least share of a speaker's text in the dialogue's language
_TURNS, _READ = 16, 300  # turns that are looked at, and characters of each


class LanguageIdentifier:
    """lingua's detector of the languages ``langs`` (ISO 639-1), None for all 75 that it knows.

    ``small`` takes its small models (75 MB for all languages; the large ones take 250 MB for
    fifteen languages), which do as well on texts of some length. Raises MissingExtraError without
    the extra lang; ``purpose`` says what needs it.
    """

    def __init__(
        self, langs: Iterable[str] | None = None, *, small: bool = False, purpose: str
    ) -> None:
        try:
            from lingua import IsoCode639_1, Language, LanguageDetectorBuilder
        except ImportError as error:
            raise MissingExtraError("lingua-language-detector", "lang", purpose) from error
        every = {each.iso_code_639_1.name.lower() for each in Language.all()}
        wanted = every if langs is None else _in_lingua(langs) & every
        codes = [getattr(IsoCode639_1, lang.upper()) for lang in sorted(wanted)]
        builder = LanguageDetectorBuilder.from_iso_codes_639_1(*codes)
        self._detector: Any = (builder.with_low_accuracy_mode() if small else builder).build()
        self.known = {_ours(lang) for lang in wanted}

    def chances(self, text: str) -> dict[str, float]:
        """Confidence in each language, the likeliest first; together 1, or all 0."""
        chances: Counter[str] = Counter()
        for each in self._detector.compute_language_confidence_values(text):
            chances[_ours(each.language.iso_code_639_1.name.lower())] += each.value
        return dict(chances.most_common())

    def likeliest(self, text: str) -> str | None:
        """The language lingua takes the text for, None where it takes it for none."""
        found = self._detector.detect_language_of(text)
        return None if found is None else _ours(found.iso_code_639_1.name.lower())


def detects() -> bool:
    """Whether the extra ``lang`` is installed."""
    return find_spec("lingua") is not None


def require_detection() -> None:
    """Raise MissingExtraError without the extra ``lang``, before anything is judged."""
    if not detects():
        raise MissingExtraError("lingua-language-detector", "lang", _PURPOSE)


def detected_language(dialogue: Dialogue) -> str | None:
    """ISO 639-1 code of the language in which both sides of ``dialogue`` speak; None where it is
    not certain: too little text, two languages, or none that stands out.

    Raises MissingExtraError without the extra lang.
    """
    turns = [
        (turn.role, _NO_WORDS.sub(" ", turn.content[: 4 * _READ])[:_READ])
        for turn in dialogue.turns[:_TURNS]
    ]
    language = text_language("\n".join(text for _, text in turns))
    if language is None:
        return None
    for speaker in ROLES:
        letters: Counter[str] = Counter()
        for chunk in _chunks(text for role, text in turns if role == speaker):
            letters[_sure_language(chunk) or UNKNOWN_LANGUAGE] += len(chunk)
        del letters[UNKNOWN_LANGUAGE]
        if letters[language] < _AGREE * sum(letters.values()):
            return None
    return language


def text_language(text: str) -> str | None:
    """ISO 639-1 code of a text's language, None where it is too short or not certain.

    Raises MissingExtraError without the extra lang.
    """
    return _sure_language(text) if _is_enough(text, _LETTERS) else None


def _sure_language(text: str) -> str | None:
    language, chance = next(iter(_all_languages().chances(text).items()))
    return language if chance >= _SURE else None


def _chunks(texts: Iterable[str]) -> Iterator[str]:
    """Neighbouring texts together, as many as make enough to tell a language by. A part may be
    short: it is wrong more often, but only has its share of a vote."""
    chunk = ""
    for text in texts:
        chunk = f"{chunk}\n{text}" if chunk else text
        if _is_enough(chunk, _PART):
            yield chunk
            chunk = ""


def _is_enough(text: str, letters: int) -> bool:
    return sum(map(str.isalpha, text)) >= letters or len(_DENSE.findall(text)) >= _DENSE_LETTERS


@cache
def _all_languages() -> LanguageIdentifier:
    return LanguageIdentifier(small=True, purpose=_PURPOSE)


def _in_lingua(langs: Iterable[str]) -> set[str]:
    return {each for lang in langs for each in (NORWEGIAN if lang == "no" else (lang,))}


def _ours(code: str) -> str:
    return "no" if code in NORWEGIAN else code
