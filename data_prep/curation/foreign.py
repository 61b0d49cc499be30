"""Answers in a foreign language, found by keywords in the labelling judge's comments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from medal_judges.config import Config, load_config
from medal_judges.errors import ConfigError
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.languages import UNKNOWN_LANGUAGE, base_language

DEFAULT = "curate/foreign_language"
_LONGEST = 4000  # of a comment, in characters: a sentence is asked for
_CLAUSE = re.compile(r"[.;:!?\n]+|,|\b(?:but|although|though|while|whereas)\b", re.IGNORECASE)
_WORD = re.compile(r"[\w'’]+")
_REACH = 3  # words before a match among which a negation counts


class ForeignKeywords(Config):
    """The keywords of configs/curate/foreign_language.yaml; the file says what each list does."""

    dimension: str
    comments: list[str]
    phrases: list[str]
    named: list[str]
    topics: list[str]
    negations: list[str]
    user: list[str]
    assistant: list[str]
    languages: dict[str, list[str]]


class ForeignLanguage:
    """Finds the keyword by which a row is left out (MEDAL, section 5.1, Filtering)."""

    def __init__(self, keywords: ForeignKeywords) -> None:
        self.keywords = keywords
        self._phrases = [_compiled(rf"\b(?:{text})") for text in keywords.phrases]
        self._negations = frozenset(keywords.negations)
        self._user, self._assistant = frozenset(keywords.user), frozenset(keywords.assistant)
        self._named = lru_cache(maxsize=None)(self._patterns)
        self._named("en")  # a bad pattern is an error at once

    def match(self, row: LabelledDialogue) -> tuple[str, str] | None:
        """(keyword, comment) for a row to be left out, else None.

        None also where the judge did not call the row uninterpretable. The keyword is the text
        that matched.
        """
        for comment in self._comments(row) if self._is_uninterpretable(row) else ():
            keyword = self.find(comment, row.dialogue.lang)
            if keyword is not None:
                return keyword, comment
        return None

    def is_silent(self, row: LabelledDialogue) -> bool:
        """True where the row is called uninterpretable and no comment says why."""
        return self._is_uninterpretable(row) and not self._comments(row)

    def find(self, comment: str, lang: str) -> str | None:
        """The keyword in a comment on a dialogue in ``lang``, None where there is none."""
        text = comment[:_LONGEST]
        for pattern in (*self._phrases, *self._named(lang)):
            for hit in pattern.finditer(text):
                if not self._is_taken_back(text, hit.start(), hit.end()):
                    return hit.group().strip()
        return None

    def _is_uninterpretable(self, row: LabelledDialogue) -> bool:
        values = row.labels.get(self.keywords.dimension, ())
        return any(value is not None and value >= 0.5 for value in values)

    def _comments(self, row: LabelledDialogue) -> list[str]:
        comments = row.extra.get("comments")
        if not isinstance(comments, Mapping):
            return []
        texts = (comments.get(name) for name in self.keywords.comments)
        return [text for text in texts if isinstance(text, str) and text.strip()]

    def _patterns(self, lang: str) -> list[re.Pattern[str]]:
        """The patterns with names; none where the dialogue's own language is unknown, since then
        no language is known to be foreign."""
        if lang == UNKNOWN_LANGUAGE:
            return []
        own = base_language(lang)
        names = [n for code, all_ in self.keywords.languages.items() if code != own for n in all_]
        foreign = rf"\b(?:{_either(names)})\b"
        topic = rf"[ -](?:{_either(self.keywords.topics)})\b"
        named = self.keywords.named
        filled = (t.replace("{foreign}", foreign).replace("{topic}", topic) for t in named)
        return [_compiled(text) for text in filled]

    def _is_taken_back(self, text: str, start: int, end: int) -> bool:
        """True for a match that is denied, or that speaks of the user's words."""
        before = _CLAUSE.split(text[:start])[-1]
        if self._negations.intersection(_words(before)[-_REACH:]):
            return True
        words = set(_words(before + text[start:end] + _CLAUSE.split(text[end:])[0]))
        return bool(words & self._user) and not words & self._assistant


def load_foreign(path: str = DEFAULT) -> ForeignLanguage:
    """The filter of a keyword file, or of the shipped one. Raises ConfigError."""
    return ForeignLanguage(load_config(ForeignKeywords, path))


def _words(text: str) -> list[str]:
    return [word.lower().replace("’", "'") for word in _WORD.findall(text)]


def _either(words: Sequence[str]) -> str:
    return "|".join(re.escape(word) for word in words) or "(?!)"


def _compiled(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as error:
        raise ConfigError(
            f"keyword pattern {text!r} is not a regular expression: {error}"
        ) from error
