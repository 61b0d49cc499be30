"""Answers in a foreign language, found by keywords in the labelling judge's comments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from medal_judges.config import Config, load_config
from medal_judges.errors import ConfigError
from medal_judges.labelled import LabelledDialogue
from medal_judges.languages import UNKNOWN_LANGUAGE, base_language

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
        self._words = {
            name: frozenset(getattr(keywords, name)) for name in ("negations", "user", "assistant")
        }
        self._named = lru_cache(maxsize=None)(self._patterns)
        self._named(UNKNOWN_LANGUAGE), self._named("en")  # a bad pattern is an error at once

    def match(self, row: LabelledDialogue) -> tuple[str, str] | None:
        """(keyword, comment) for a row to be left out, else None.

        None also where the judge did not call the row uninterpretable. The keyword is the text
        that matched.
        """
        values = row.labels.get(self.keywords.dimension, ())
        if not any(value is not None and value >= 0.5 for value in values):
            return None
        for comment in self._comments(row):
            keyword = self.find(comment, row.dialogue.lang)
            if keyword is not None:
                return keyword, comment
        return None

    def is_silent(self, row: LabelledDialogue) -> bool:
        """True where the row is called uninterpretable and no comment says why."""
        values = row.labels.get(self.keywords.dimension, ())
        return any(value is not None and value >= 0.5 for value in values) and not self._comments(
            row
        )

    def find(self, comment: str, lang: str) -> str | None:
        """The keyword in a comment on a dialogue in ``lang``, None where there is none."""
        text = comment[:_LONGEST]
        for pattern in (*self._phrases, *self._named(lang)):
            for hit in pattern.finditer(text):
                if not self._taken_back(text, hit.start(), hit.end()):
                    return hit.group().strip()
        return None

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
        parts = {
            "{foreign}": rf"\b(?:{_either(names)})\b",
            "{topic}": rf"[ -](?:{_either(self.keywords.topics)})\b",
        }
        return [_compiled(_filled(text, parts)) for text in self.keywords.named]

    def _taken_back(self, text: str, start: int, end: int) -> bool:
        """True for a match that is denied, or that speaks of the user's words."""
        before = _CLAUSE.split(text[:start])[-1]
        nearest = [w.lower().replace("’", "'") for w in _WORD.findall(before)][-_REACH:]
        if self._words["negations"].intersection(nearest):
            return True
        clause = before + text[start:end] + _CLAUSE.split(text[end:])[0]
        words = {w.lower().replace("’", "'") for w in _WORD.findall(clause)}
        return bool(words & self._words["user"]) and not words & self._words["assistant"]


def load_foreign(path: str = DEFAULT) -> ForeignLanguage:
    """The filter of a keyword file, or of the shipped one. Raises ConfigError."""
    return ForeignLanguage(load_config(ForeignKeywords, path))


def _either(words: Sequence[str]) -> str:
    return "|".join(re.escape(word) for word in words) or "(?!)"


def _filled(text: str, parts: Mapping[str, str]) -> str:
    for name, pattern in parts.items():
        text = text.replace(name, pattern)
    return text


def _compiled(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as error:
        raise ConfigError(f"keyword pattern {text!r} is no regular expression: {error}") from error
