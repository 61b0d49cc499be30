"""Answers in a foreign language, found by keywords in the labelling judge's comments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from medal_judges.config import Config, load_config
from medal_judges.errors import ConfigError
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.languages import UNKNOWN_LANGUAGE, base_language
from medal_judges.records.signature import content_hash

_LONGEST = 4000  # characters of a comment; a sentence is expected
_CLAUSE = re.compile(r"[.;:!?\n]+|,|\b(?:but|although|though|while|whereas)\b", re.IGNORECASE)
_WORD = re.compile(r"[\w'’]+")
_REACH = 3  # words before a match among which a negation counts


class ForeignKeywords(Config):
    """The keywords of configs/curate/foreign_language.yaml, which explains the lists."""

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
    """Finds the keyword that excludes a row (MEDAL, section 5.1, Filtering)."""

    def __init__(self, keywords: ForeignKeywords) -> None:
        self.keywords, self.hash = keywords, content_hash(keywords.model_dump())
        self._patterns = lru_cache(maxsize=None)(self._patterns_of)
        self._patterns("en")  # reports a bad pattern at once

    def match(self, row: LabelledDialogue) -> tuple[str, str] | None:
        """(the text that matched, comment) for a row to leave out, else None; None also if the
        judge did not call the row uninterpretable."""
        for comment in self._comments(row):
            if (keyword := self.find(comment, row.dialogue.lang)) is not None:
                return keyword, comment
        return None

    def find(self, comment: str, lang: str) -> str | None:
        """The keyword in a comment on a dialogue in ``lang``, None if there is none."""
        text, keywords = comment[:_LONGEST], self.keywords
        for pattern in self._patterns(lang):
            for hit in pattern.finditer(text):
                before = _CLAUSE.split(text[: hit.start()])[-1]
                after = _CLAUSE.split(text[hit.end() :])[0]
                words = set(_words(before + hit.group() + after))
                of_user = words & set(keywords.user) and not words & set(keywords.assistant)
                if not of_user and not set(_words(before)[-_REACH:]) & set(keywords.negations):
                    return hit.group().strip()
        return None

    def _comments(self, row: LabelledDialogue) -> list[str]:
        """The comments on a row that is called uninterpretable."""
        values = row.labels.get(self.keywords.dimension, ())
        comments = row.extra.get("comments")
        uninterpretable = any(value is not None and value >= 0.5 for value in values)
        if not uninterpretable or not isinstance(comments, Mapping):
            return []
        texts = (comments.get(name) for name in self.keywords.comments)
        return [text for text in texts if isinstance(text, str) and text.strip()]

    def _patterns_of(self, lang: str) -> list[re.Pattern[str]]:
        """The phrases, and the patterns with names of languages other than ``lang`` if that is
        known."""
        keywords = self.keywords
        texts = [rf"\b(?:{text})" for text in keywords.phrases]
        if lang != UNKNOWN_LANGUAGE:
            own = base_language(lang)
            names = [n for code, all_ in keywords.languages.items() if code != own for n in all_]
            foreign, topic = (
                rf"{start}(?:{'|'.join(map(re.escape, words)) or '(?!)'})\b"
                for start, words in ((r"\b", names), ("[ -]", keywords.topics))
            )
            for text in keywords.named:
                texts.append(text.replace("{foreign}", foreign).replace("{topic}", topic))
        patterns = []
        for text in texts:
            try:
                patterns.append(re.compile(text, re.IGNORECASE))
            except re.error as error:
                problem = f"keyword pattern {text!r} is not a regular expression: {error}"
                raise ConfigError(problem) from error
        return patterns


def load_foreign(path: str = "curate/foreign_language") -> ForeignLanguage:
    """The filter of a keyword file. Raises ConfigError."""
    return ForeignLanguage(load_config(ForeignKeywords, path))


def _words(text: str) -> list[str]:
    return [word.lower().replace("’", "'") for word in _WORD.findall(text)]
