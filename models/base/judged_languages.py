"""The languages that a judge supports, and what happens to dialogues in other languages."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Literal, get_args

from medal_judges.errors import ConfigError, MissingExtraError
from medal_judges.reading.language_detection import PURPOSE, detected_language
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.records.languages import UNKNOWN_LANGUAGE, base_language

# warn: score and say so; refuse: leave unscored with the reason; allow: score and say nothing.
UnknownLanguage = Literal["warn", "refuse", "allow"]
POLICIES: tuple[UnknownLanguage, ...] = get_args(UnknownLanguage)
logger = logging.getLogger(__name__)


def stated(languages: object, where: str) -> tuple[str, ...] | None:
    """Returns ``languages`` of a config as ISO 639-1 codes. Raises ConfigError."""
    if languages is None:
        return None
    codes = list(languages) if isinstance(languages, list | tuple) else []
    if not codes or not all(isinstance(x, str) and re.fullmatch("[a-z]{2,3}", x) for x in codes):
        raise ConfigError(
            f"{where}: languages must be a list of ISO 639-1 codes, not {languages!r:.60}",
            hint='languages: [en, "no"], or leave it out if any language will do',
        )
    return tuple(codes)


def languages_of(dialogues: Iterable[Dialogue]) -> tuple[str, ...] | None:
    """Returns the languages that ``dialogues`` state, sorted; None if none does."""
    known = {base_language(d.lang) for d in dialogues} - {UNKNOWN_LANGUAGE}
    return tuple(sorted(known)) or None


def is_outside(lang: str, languages: Sequence[str]) -> bool:
    """Whether a known language is none of ``languages``."""
    return lang != UNKNOWN_LANGUAGE and base_language(lang) not in map(base_language, languages)


def is_detecting(
    languages: Sequence[str] | None, wanted: bool | None, *, useful: bool = False
) -> bool:
    """Whether to detect the language of dialogues that state none: as ``wanted``, by default if the
    extra lang is installed and the judge states its ``languages`` or the language is ``useful``.

    Raises MissingExtraError if it is wanted without the extra.
    """
    installed = find_spec("lingua") is not None
    if wanted and not installed:
        raise MissingExtraError("lingua-language-detector", "lang", PURPOSE)
    return installed and (languages is not None or useful) if wanted is None else wanted


def with_language(dialogue: Dialogue, detect: bool) -> tuple[Dialogue, str | None]:
    """Returns the dialogue, with its detected language if it states none, and that language."""
    if not detect or dialogue.lang != UNKNOWN_LANGUAGE:
        return dialogue, None
    language = detected_language(dialogue)
    return (dialogue, None) if language is None else (replace(dialogue, lang=language), language)


def refusal(lang: str, languages: Sequence[str]) -> str:
    """Why a dialogue in ``lang`` is left unscored by a judge that supports ``languages``."""
    return f"in {lang!r}; the judge supports {', '.join(languages)}"


def is_refusal(judgement: Judgement) -> bool:
    """Whether ``judgement`` was left unscored for its language alone."""
    lang, failure = judgement.unknown_language, judgement.failure
    return lang is not None and failure is not None and failure.startswith(refusal(lang, ()))


def with_warnings(
    judgements: Iterator[Judgement], known: Sequence[str] | None, *, outside: bool
) -> Iterator[Judgement]:
    """Yields ``judgements``, then warns of truncated turns and, with ``outside``, of languages that
    the judge does not support."""
    cut = turns = 0
    others: Counter[str] = Counter()
    for judgement in judgements:
        cut += judgement.truncated_turns > 0
        turns += judgement.truncated_turns
        if outside and judgement.unknown_language is not None:
            others[judgement.unknown_language] += 1
        yield judgement
    if cut:
        logger.warning("%d judgements: %d whole turns beyond the judge's window", cut, turns)
    if others:
        counts = ", ".join(f"{lang} ({count})" for lang, count in others.most_common())
        logger.warning(
            "judgements in languages that the judge does not support: %s; it supports %s",
            counts,
            ", ".join(known or ()),
        )
