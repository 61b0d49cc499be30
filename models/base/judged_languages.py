"""Languages that a judge was made for: which dialogues are outside, and what is done with them."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, get_args

from medal_judges.errors import ConfigError
from medal_judges.reading.language_detection import detected_language, detects, require_detection
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.records.languages import UNKNOWN_LANGUAGE, base_language

# warn: score and say so; refuse: leave unscored with the reason; allow: score and say nothing.
UnknownLanguage = Literal["warn", "refuse", "allow"]
POLICIES: tuple[UnknownLanguage, ...] = get_args(UnknownLanguage)
logger = logging.getLogger(__name__)
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
    known = {base_language(d.lang) for d in dialogues} - {UNKNOWN_LANGUAGE}
    return tuple(sorted(known)) or None


def is_outside(lang: str, languages: Sequence[str]) -> bool:
    """Whether a language is none of ``languages``; one that is not known cannot be told to be."""
    return lang != UNKNOWN_LANGUAGE and base_language(lang) not in map(base_language, languages)


def is_detecting(languages: Sequence[str] | None, asked: bool | None) -> bool:
    """Whether the language of dialogues that state none is detected: as ``asked``, by default where
    a judge states its ``languages`` and the extra lang is installed.

    Raises MissingExtraError where it is asked for without the extra.
    """
    if asked is None:
        return languages is not None and detects()
    if asked:
        require_detection()
    return asked


def with_language(dialogue: Dialogue, detect: bool) -> tuple[Dialogue, str | None]:
    """The dialogue in the language that it states, else, with ``detect``, in the one it is written
    in; and that language where it was detected."""
    if not detect or dialogue.lang != UNKNOWN_LANGUAGE:
        return dialogue, None
    language = detected_language(dialogue)
    return (dialogue, None) if language is None else (replace(dialogue, lang=language), language)


def refusal(lang: str, languages: Sequence[str]) -> str:
    """Why a dialogue in ``lang`` is left unscored by a judge made for ``languages``."""
    return f"in {lang!r}; the judge was made for {', '.join(languages)}"


def is_refusal(judgement: Judgement) -> bool:
    """Whether ``judgement`` was left unscored for its language alone."""
    lang, failure = judgement.unknown_language, judgement.failure
    return lang is not None and failure is not None and failure.startswith(refusal(lang, ()))


def with_warnings(
    judgements: Iterator[Judgement], known: Sequence[str] | None, *, outside: bool
) -> Iterator[Judgement]:
    """``judgements``; when they end, warnings of turns that were cut and, with ``outside``, of
    languages that the judge was not made for."""
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
            "judgements in languages that the judge was not made for: %s; it was made for %s",
            counts,
            ", ".join(known or ()),
        )
