"""Languages: their codes (ISO 639-1), English names and countries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from medal_judges.config import read_yaml
from medal_judges.errors import ConfigError, RecordError
from medal_judges.records.validation import text

UNKNOWN_LANGUAGE = "und"  # ISO 639-2 for undetermined
_CODE = re.compile(r"[a-z]{2,3}(?:[-_][a-z0-9]{1,8})*\Z")  # zh, yue, zh-hant, pt_br
_REGION = re.compile(r"[-_](?:[a-z]{2}|[0-9]{3})(?![a-z0-9])")  # of zh-cn, ja_jp, es-419
_EXPECTED = "an ISO 639-1 code such as 'en', or a language's English name"


def language_code(value: object, field: str = "lang") -> str:
    """Returns the code of a language: ``zh`` for ``ZH``, ``zh-CN`` and ``Chinese``. Drops a country
    (``en`` for ``en_US``) but not a script (``zh-hant``); None and blank text are ``und``. Raises
    RecordError for an unknown name."""
    if value is None:
        return UNKNOWN_LANGUAGE
    word = text(field, value, _EXPECTED).strip().lower()
    if not word:
        return UNKNOWN_LANGUAGE
    if _CODE.match(word):
        return _REGION.sub("", word).replace("_", "-")
    code = _codes_by_name().get(word)
    if code is None:
        raise RecordError(field, _EXPECTED, value)
    return code


@cache
def _codes_by_name() -> Mapping[str, str]:
    listed = read_yaml("language_names").items()
    return {name.lower(): code for code, names in listed for name in names}


def base_language(lang: str) -> str:
    """Returns the language of a code without script and country: ``zh`` for ``zh-Hant``."""
    return lang.replace("_", "-").split("-")[0].lower()


class Language(NamedTuple):
    """``name`` in English, and the ``countries``, in English, where simulated users live."""

    name: str
    countries: tuple[str, ...]


@cache
def load_languages() -> Mapping[str, Language]:
    """Returns configs/seeds/languages.yaml: ISO 639-1 code -> Language."""
    entries = read_yaml("seeds/languages").items()
    return {code: Language(each["name"], tuple(each["countries"])) for code, each in entries}


def language(code: str) -> Language:
    """Returns the language of an ISO 639-1 code. Raises ConfigError for a code that is not
    listed."""
    known = load_languages()
    if code not in known:
        raise ConfigError(
            f"no language {code!r} in seeds/languages.yaml",
            hint=f"known: {' '.join(known)}; add others to that file",
        )
    return known[code]


def language_name(code: str) -> str:
    """Returns ``German`` for ``de``; the code itself if it is not listed."""
    known = load_languages()
    return known[code].name if code in known else code
