"""Detects the language of a text or a dialogue with lingua (extra ``lang``).

A wrong language sends a chat to the wrong row of a report and to the wrong examples of a prompt; an
unknown one gets a row of its own. So text that is short, mixed or not certain stays unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

from medal_judges.errors import MissingExtraError
from medal_judges.records.dialogue import ROLES, Dialogue

PURPOSE = "the detection of languages"
NORWEGIAN = ("nb", "nn")  # lingua has its two written forms, this package ``no``
# Scripts that say much with few letters, most of them of one language.
_DENSE = re.compile(r"[\u0e00-\u0e7f\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
# Tags, addresses and marked gaps, which are in no language.
_NO_WORDS = re.compile(r"<[^<>]{1,200}>|https?://\S+|\[(?:image|audio|video|file)\]")
_LETTERS, _PART, _DENSE_LETTERS = 40, 30, 4  # fewest of a text, of a part, of a dense script
_SURE, _AGREE = 0.9, 0.75  # least confidence; least share of a speaker's text in the language
_TURNS, _READ = 16, 300  # most turns that are read, and characters of each


class LanguageIdentifier:
    """lingua's detector of the languages ``langs`` (ISO 639-1), or of all 75.

    ``small`` uses its small models (75 MB for all languages; the large ones need 250 MB for
    fifteen), which are as good on texts of some length. Raises MissingExtraError without the extra
    lang; ``purpose`` is what needs it.
    """

    def __init__(
        self, langs: Iterable[str] | None = None, *, small: bool = False, purpose: str
    ) -> None:
        try:
            from lingua import IsoCode639_1, Language, LanguageDetectorBuilder
        except ImportError as error:
            raise MissingExtraError("lingua-language-detector", "lang", purpose) from error
        wanted = {each.iso_code_639_1.name.lower() for each in Language.all()}
        if langs is not None:
            wanted &= {each for lang in langs for each in (NORWEGIAN if lang == "no" else (lang,))}
        codes = [getattr(IsoCode639_1, lang.upper()) for lang in sorted(wanted)]
        builder = LanguageDetectorBuilder.from_iso_codes_639_1(*codes)
        self._detector: Any = (builder.with_low_accuracy_mode() if small else builder).build()
        self.known = {_code(lang) for lang in wanted}

    def chances(self, text: str) -> dict[str, float]:
        """Returns the confidence in each language, the likeliest first; together 1, or all 0."""
        chances: Counter[str] = Counter()
        for each in self._detector.compute_language_confidence_values(text):
            chances[_code(each.language.iso_code_639_1.name)] += each.value
        return dict(chances.most_common())

    def likeliest(self, text: str) -> str | None:
        """Returns the likeliest language, None if lingua finds none."""
        found = self._detector.detect_language_of(text)
        return None if found is None else _code(found.iso_code_639_1.name)


def _code(name: str) -> str:
    return "no" if name.lower() in NORWEGIAN else name.lower()


def detected_language(dialogue: Dialogue) -> str | None:
    """Returns the ISO 639-1 code of the language of both sides of ``dialogue``; None if it is not
    certain: too little text, two languages, or none that stands out. Needs the extra lang."""
    turns = [
        (turn.role, _NO_WORDS.sub(" ", turn.content[: 4 * _READ])[:_READ])
        for turn in dialogue.turns[:_TURNS]
    ]
    language = text_language("\n".join(text for _, text in turns))
    if language is None:
        return None
    for speaker in ROLES:
        # Neighbouring texts are joined until they are long enough. Short parts are wrong more
        # often, but each has only its share of the vote.
        letters: Counter[str | None] = Counter()
        chunk = ""
        for text in (text for role, text in turns if role == speaker):
            chunk = f"{chunk}\n{text}" if chunk else text
            if _is_enough(chunk, _PART):
                letters[_sure_language(chunk)] += len(chunk)
                chunk = ""
        del letters[None]
        if letters[language] < _AGREE * letters.total():
            return None
    return language


def text_language(text: str) -> str | None:
    """Returns the ISO 639-1 code of a text's language, None if it is too short or not certain."""
    return _sure_language(text) if _is_enough(text, _LETTERS) else None


def _sure_language(text: str) -> str | None:
    language, chance = next(iter(_all_languages().chances(text).items()))
    return language if chance >= _SURE else None


def _is_enough(text: str, letters: int) -> bool:
    return sum(map(str.isalpha, text)) >= letters or len(_DENSE.findall(text)) >= _DENSE_LETTERS


@cache
def _all_languages() -> LanguageIdentifier:
    return LanguageIdentifier(small=True, purpose=PURPOSE)
