"""The name of a language, as a prompt says it."""

from __future__ import annotations

from functools import cache

from medal_judges.config import read_yaml


def language_name(code: str) -> str:
    """English name of an ISO 639-1 code (``de``: German); the code itself where it is not in
    configs/seeds/languages.yaml."""
    return _names().get(code, code)


@cache
def _names() -> dict[str, str]:
    return {code: str(entry["name"]) for code, entry in read_yaml("seeds/languages").items()}
