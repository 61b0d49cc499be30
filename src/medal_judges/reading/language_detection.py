"""Detects the language of a text or a dialogue with lingua (extra ``lang``).

A wrong language puts a chat into the wrong row of a report and gives its prompt the wrong examples.
So the language stays unknown if the text is short or mixed, or if the detector is not certain.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import Any

from medal_judges.errors import MissingExtraError
from medal_judges.records.dialogue import ROLES, Dialogue

# Scripts in which a few letters are enough; most of them belong to one language.
_DENSE = re.compile(
    r"[\u0e00-\u0e7f\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)
# Tags, addresses and marked gaps belong to no language.
_NO_WORDS = re.compile(r"<[^<>]{1,200}>|https?://\S+|\[(?:image|audio|video|file)\]")
# minimum of a text, of a part, of a dense script
_LETTERS, _PART, _DENSE_LETTERS = (40, 30, 4)
# minimum confidence, and share of a speaker's text in the language
_SURE, _AGREE = (0.9, 0.75)
_TURNS, _READ = 16, 300  # maximum of turns that are read, and of characters of each


@cache
def _load_detector() -> Any:
    """Returns lingua's detector of 75 languages.

    Raises:
        MissingExtraError: The extra ``lang`` is not installed.
    """
    try:
        from lingua import LanguageDetectorBuilder
    except ImportError as error:
        purpose = "the detection of languages"
        raise MissingExtraError("lingua-language-detector", "lang", purpose) from error
    builder = LanguageDetectorBuilder.from_all_languages()
    # The small models (75 MB) are as good as the large ones except on very short texts.
    return builder.with_low_accuracy_mode().build()


def detect_language(dialogue: Dialogue) -> str | None:
    """Returns the ISO 639-1 code, such as ``de``, of the language that both speakers of
    ``dialogue`` use.

    Only the first 16 turns are read. Returns None if they have too little text, if the speakers use
    different languages, or if the detector is not certain.

    Raises:
        MissingExtraError: The extra ``lang`` is not installed.
    """
    turns = []
    for turn in dialogue.turns[:_TURNS]:
        words = _NO_WORDS.sub(" ", turn.content[: 4 * _READ])
        turns.append((turn.role, words[:_READ]))
    language = detect_text_language("\n".join(text for _, text in turns))
    if language is None:
        return None
    for speaker in ROLES:
        # Each part has its share of the vote. Short parts are wrong more often.
        letters: Counter[str | None] = Counter()
        for role, text in turns:
            if role == speaker and _has_enough_letters(text, _PART):
                letters[detect_text_language(text, _PART)] += len(text)
        del letters[None]
        if letters[language] < _AGREE * letters.total():
            return None
    return language


def detect_text_language(text: str, letters: int = _LETTERS) -> str | None:
    """Returns the ISO 639-1 code of the language of ``text``, such as ``de``. Returns None if the
    text is too short or the detector is not certain.

    Args:
        text: The text to detect the language of.
        letters: A text with fewer letters is too short (default 40). In scripts such as Chinese,
            four are enough.

    Raises:
        MissingExtraError: The extra ``lang`` is not installed.
    """
    if not _has_enough_letters(text, letters):
        return None
    chances: Counter[str] = Counter()
    for chance in _load_detector().compute_language_confidence_values(text):
        code = chance.language.iso_code_639_1.name.lower()
        if code in ("nb", "nn"):  # the two written forms of Norwegian
            code = "no"
        chances[code] += chance.value
    ((language, highest),) = chances.most_common(1)
    if highest >= _SURE:
        return language
    return None


def _has_enough_letters(text: str, letters: int) -> bool:
    """Returns whether ``text`` has at least ``letters`` letters, or four of a script such
    as Chinese."""
    return (
        sum(map(str.isalpha, text)) >= letters
        or len(_DENSE.findall(text)) >= _DENSE_LETTERS
    )
