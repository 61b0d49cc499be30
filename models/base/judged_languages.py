"""Languages that a judge was made for: which dialogues are outside, and what is done with them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Literal, get_args

from medal_judges.dialogue import Dialogue
from medal_judges.errors import ConfigError
from medal_judges.languages import UNKNOWN_LANGUAGE

# warn: score and say so; refuse: leave unscored with the reason; allow: score and say nothing.
UnknownLanguage = Literal["warn", "refuse", "allow"]
POLICIES: tuple[UnknownLanguage, ...] = get_args(UnknownLanguage)
# What a dialogue without ``lang`` may be in, besides the judge's own: each costs memory.
_CANDIDATES = ("ar", "de", "en", "es", "fr", "hi", "it", "ja", "ko", "nl", "pt", "ru", "tr", "zh")
_LETTERS = 20  # fewer say too little
_READ = 2000  # characters of a dialogue are enough
_SURE = 0.5
_DENSE = re.compile(r"[\u3040-\u9fff\uac00-\ud7af]")  # scripts that say much with few letters
_CODE = re.compile(r"[a-z]{2,3}")


def stated(languages: object, where: str) -> tuple[str, ...] | None:
    """``languages`` of a config as ISO 639-1 codes; None where none are stated. Raises
    ConfigError."""
    if languages is None:
        return None
    is_list = isinstance(languages, list | tuple) and languages
    if not is_list or not all(isinstance(x, str) and _CODE.fullmatch(x) for x in languages):  # type: ignore[attr-defined]
        raise ConfigError(
            f"{where}: languages must be a list of ISO 639-1 codes, not {languages!r:.60}",
            hint='languages: [en, "no"], or leave it out where any may do',
        )
    return tuple(languages)  # type: ignore[arg-type]


def languages_of(dialogues: Iterable[Dialogue]) -> tuple[str, ...] | None:
    """The languages that ``dialogues`` state, in alphabetical order; None where none does."""
    return tuple(sorted({d.lang for d in dialogues} - {UNKNOWN_LANGUAGE})) or None


def language_outside(dialogue: Dialogue, languages: Sequence[str]) -> str | None:
    """The dialogue's language where it is none of ``languages``; None where it is one, and where
    it cannot be told. Without ``lang`` it is detected, if the extra ``lang`` is installed."""
    lang = dialogue.lang
    if lang == UNKNOWN_LANGUAGE:
        lang = _detected(dialogue, tuple(languages)) or UNKNOWN_LANGUAGE
    return None if lang == UNKNOWN_LANGUAGE or lang in languages else lang


def detects() -> bool:
    """Whether the extra ``lang`` is installed."""
    return find_spec("lingua") is not None


def _detected(dialogue: Dialogue, own: tuple[str, ...]) -> str | None:
    if not detects():
        return None
    text = "\n".join(turn.content for turn in dialogue.turns)[:_READ]
    if sum(map(str.isalpha, text)) < _LETTERS and not _DENSE.search(text):
        return None
    best = _detector(tuple(sorted({*_CANDIDATES, *own}))).compute_language_confidence_values(text)
    if not best or best[0].value < _SURE:
        return None
    code: str = best[0].language.iso_code_639_1.name.lower()
    return "no" if code in ("nb", "nn") else code


@lru_cache(maxsize=4)
def _detector(codes: tuple[str, ...]) -> Any:
    from lingua import Language, LanguageDetectorBuilder

    known = {each.iso_code_639_1.name.lower(): each for each in Language.all()}
    wanted = [
        known["nb" if code == "no" else code] for code in codes if code in known or code == "no"
    ]
    # Whole dialogues are long: the small models do as well, at a tenth of the memory.
    return LanguageDetectorBuilder.from_languages(*wanted).with_low_accuracy_mode().build()
