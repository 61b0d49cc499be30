"""Languages: name in English and the countries a simulated user may speak from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.errors import ConfigError

_WHERE = "seeds/languages"


class Language(Config):
    """``name`` in English (``Chinese``); ``countries`` in English, one or more."""

    name: str
    countries: tuple[str, ...]


@cache
def load_languages() -> Mapping[str, Language]:
    """configs/seeds/languages.yaml: ISO 639-1 code to Language."""
    entries = read_yaml(_WHERE)
    return {c: build_config(Language, e, where=f"{_WHERE}.yaml: {c}") for c, e in entries.items()}


def language(code: str) -> Language:
    """The language of an ISO 639-1 code. Raises ConfigError for one that is not listed."""
    known = load_languages()
    if code not in known:
        raise ConfigError(
            f"no language {code!r} in {_WHERE}.yaml",
            hint=f"known: {' '.join(known)}; add others to that file",
        )
    return known[code]


def language_name(code: str) -> str:
    """``Chinese`` for ``zh``; raises as ``language`` does."""
    return language(code).name
