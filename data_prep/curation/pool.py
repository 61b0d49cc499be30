"""From labelled rows to candidates of a selection, and to the rows that are left out: without
labels, or with answers in a foreign language."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from medal_judges.config import OVERWRITE, SEED, Config, option, read_yaml
from medal_judges.data_prep.sources.registry import stream_rows
from medal_judges.errors import ConfigError, DataError
from medal_judges.reading.dialogues import ReadingReport, ReadOptions
from medal_judges.records.dialogue import UNKNOWN_LANGUAGE, base_language
from medal_judges.records.dimension import Dimension, load_rubric
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.signature import content_hash

_LONGEST = 4000  # characters of a comment; a sentence is expected
_CLAUSE = re.compile(
    r"[.;:!?\n]+|,|\b(?:but|although|though|while|whereas)\b", re.IGNORECASE
)
_WORD = re.compile(r"[\w'’]+")
_REACH = 3  # words before a match among which a negation counts


class ForeignLanguageFinder:
    """A filter for dialogues whose chatbot answered in a foreign language (MEDAL, section 5.1). It
    searches the judge's comments for keywords.

    Attributes:
        keywords: The content of configs/curate/foreign_language.yaml: phrases and language names to
            look for, and negations that make a keyword not count.
        hash: A hash of ``keywords``.
    """

    def __init__(self) -> None:
        self.keywords = read_yaml("curate/foreign_language")
        self.hash = content_hash(self.keywords)
        self._patterns = lru_cache(maxsize=None)(self._compile_patterns)

    def match_row(self, row: LabelledDialogue) -> tuple[str, str] | None:
        """Returns the phrase and the comment that show that the chatbot of ``row`` answered in a
        foreign language. Returns None if no comment shows it.

        Comments count only if the row has a label of 0.5 or more for the issue ``uninterpretable``.
        """
        comments = row.extra.get("comments")
        answers = _given_values(row, self.keywords["dimension"])
        if max(answers, default=0) < 0.5 or not isinstance(comments, Mapping):
            return None
        for name in self.keywords["comments"]:
            comment = comments.get(name)
            if isinstance(comment, str):
                keyword = self.find_keyword(comment, row.dialogue.lang)
                if keyword is not None:
                    return keyword, comment
        return None

    def find_keyword(self, comment: str, lang: str) -> str | None:
        """Returns the first phrase in ``comment`` that says that the chatbot used a foreign
        language, such as ``switches to French``. Returns None if there is none.

        A phrase does not count within three words after a negation, or in a clause that names the
        user but not the chatbot.

        Args:
            comment: A judge's comment on a dialogue, in English.
            lang: The language of the dialogue, which is not foreign.
        """
        keywords = self.keywords
        for pattern in self._patterns(lang):
            for hit in pattern.finditer(comment[:_LONGEST]):
                before = _CLAUSE.split(comment[: hit.start()])[-1]
                after = _CLAUSE.split(comment[hit.end() :])[0]
                words = set(_words(before + hit.group() + after))
                is_of_user = not words.isdisjoint(keywords["user"])
                if is_of_user and words.isdisjoint(keywords["assistant"]):
                    continue
                if set(_words(before)[-_REACH:]).isdisjoint(keywords["negations"]):
                    return hit.group().strip()
        return None

    def _compile_patterns(self, lang: str) -> list[re.Pattern[str]]:
        """Returns regular expressions that match comments such as "switches to French", for a
        dialogue in ``lang``.

        They match the names of all languages other than ``lang``. If ``lang`` is unknown, they
        match no language name, because any of them could be the right one.
        """
        keywords = self.keywords
        texts = [rf"\b(?:{text})" for text in keywords["phrases"]]
        if lang != UNKNOWN_LANGUAGE:
            foreign = []
            for code, names in keywords["languages"].items():
                if code != base_language(lang):
                    foreign += names
            for text in keywords["named"]:
                text = text.replace("{foreign}", rf"\b{_any_of_pattern(foreign)}\b")
                texts.append(
                    text.replace(
                        "{topic}", rf"[ -]{_any_of_pattern(keywords['topics'])}\b"
                    )
                )
        return [re.compile(text, re.IGNORECASE) for text in texts]


def _any_of_pattern(words: Iterable[str]) -> str:
    """Returns a regular expression that matches each of ``words``. Without words it
    never matches."""
    return f"(?:{'|'.join(map(re.escape, words)) or '(?!)'})"


def _words(text: str) -> list[str]:
    return [word.lower().replace("’", "'") for word in _WORD.findall(text)]


CLEAN = "clean"  # the category of dialogues without an issue


class CurateOptions(Config):
    """The options of ``medal curate``.

    Attributes:
        seed: Seed of all random choices.
        overwrite: Whether to replace the folder ``out``.
        reading: How to read ``files``.
    """

    files: tuple[str, ...] = option(
        argument=True,
        metavar="IN...",
        help="Files of labelled chats, or medal: the paper's chats.",
    )
    out: Path = option(help="Folder to write: the selected chats and a report.")
    n: int = option(100, ge=1, help="Number of chats to select per language.")
    lang: tuple[str, ...] = option(
        (), help="Only this language, such as en. May be repeated."
    )
    keep_foreign: bool = option(
        False, help="Keep chats whose comments say that the language is wrong."
    )
    rubric: str = option(
        "medal", help="Shipped name or YAML file with issues and overall."
    )
    seed: int = SEED
    overwrite: bool = OVERWRITE
    reading: ReadOptions = ReadOptions()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A dialogue that may be selected, without its text.

    Attributes:
        id: The id of the dialogue.
        lang: Its language, such as ``en``.
        group: An id that dialogues of one conversation share. Generated dialogues share it if their
            simulated users were told the same about themselves.
        user: The name of the user model. Empty if unknown.
        chatbot: The name of the chatbot. Empty if unknown.
        categories: Names of the issues in the dialogue, such as ``("unsafe", "repetitive")``, or
            ``("clean",)``. Empty if ``other`` is the only issue. Such a dialogue is never selected.
        level: The overall score, rounded to a whole number. None if there is no score.
    """

    id: str
    lang: str
    group: str
    user: str
    chatbot: str
    categories: tuple[str, ...]
    level: int | None

    @property
    def is_clean(self) -> bool:
        """Whether the dialogue has no issue."""
        return self.categories == (CLEAN,)


@dataclass(frozen=True, slots=True)
class LabelRules:
    """Rules by which the labels of a dialogue decide its categories: ``clean``, or one for each
    issue in it.

    Attributes:
        issues: Names of the issues that are categories, such as ``unsafe``.
        faults: Names of further issues (only ``other``). A dialogue with such an issue is not
            clean, but gets no category for it.
        overall: The dimension of the overall score.
    """

    issues: tuple[str, ...]
    faults: tuple[str, ...]
    overall: Dimension

    @property
    def categories(self) -> tuple[str, ...]:
        """The names of all categories: ``clean``, then the issues."""
        return (CLEAN, *self.issues)

    def missing_labels(self, row: LabelledDialogue) -> list[str]:
        """Returns the names of the needed dimensions without a label in ``row``. The issues in
        ``issues`` and the overall score are needed."""
        needed = (*self.issues, self.overall.name)
        return [name for name in needed if not row.has_label(name)]

    def to_candidate(self, row: LabelledDialogue) -> Candidate:
        """Returns a labelled dialogue as a candidate, with its categories and overall score.

        The dialogue has an issue if at least half of its ratings say so. The overall score is the
        mean of the ratings, rounded to a whole number. Halves are rounded down: 3.5 becomes 3.
        """
        present = []
        for name in (*self.issues, *self.faults):
            answers = _given_values(row, name)
            if answers and sum(answer >= 0.5 for answer in answers) >= len(answers) / 2:
                present.append(name)
        categories = tuple(name for name in present if name in self.issues)
        if not present and all(map(row.has_label, self.issues)):
            categories = (CLEAN,)
        level = None
        if overall := _given_values(row, self.overall.name):
            level = math.ceil(sum(overall) / len(overall) - 0.5)
        return Candidate(
            id=row.id,
            lang=row.dialogue.lang,
            group=row.group,
            user=row.dialogue.models.get("user") or "",
            chatbot=row.dialogue.chatbot or "",
            categories=categories,
            level=level,
        )


def _given_values(row: LabelledDialogue, name: str) -> list[float]:
    return [value for value in row.labels.get(name, ()) if value is not None]


def load_label_rules(rubric: str = "medal") -> LabelRules:
    """Returns the rules that put dialogues into categories: one for each issue of ``rubric``,
    and ``clean``.

    Args:
        rubric: A shipped name such as ``medal``, or the path of a YAML file.

    Raises:
        ConfigError: The rubric has no dimension ``overall``.
    """
    dimensions = {d.name: d for d in load_rubric(rubric)}
    if "overall" not in dimensions:
        raise ConfigError(
            f"rubric {rubric}: add a dimension 'overall', which curation needs"
        )
    issues = [name for name, d in dimensions.items() if d.is_issue]
    selected_by = tuple(name for name in issues if name != "other")
    return LabelRules(selected_by, tuple({*issues} & {"other"}), dimensions["overall"])


def hash_to_fraction(seed: int, key: str) -> float:
    """Returns a pseudo-random number in [0, 1) that depends only on ``seed`` and ``key``."""
    digest = hashlib.sha256(f"curate:{seed}:{key}".encode()).digest()
    return int.from_bytes(digest[:7], "big") / 2**56


def read_candidates(
    options: CurateOptions,
    rules: LabelRules,
    foreign: ForeignLanguageFinder | None,
    report: ReadingReport,
) -> tuple[list[Candidate], list[dict[str, Any]]]:
    """Reads ``options.files``, and separates the dialogues that may be selected from the others.

    Args:
        options: Names the files and the languages to read. Dialogues in other languages are in
            neither list.
        rules: Decides the categories of a dialogue.
        foreign: Finds chatbot replies in a foreign language. None keeps such dialogues.
        report: A report, in which dialogues and bad rows are counted.

    Returns:
        The candidates, and a list of the dialogues left out, each as ``{"id": ..., "lang": "en",
        "reason": "missing_label", "detail": ...}``.

    Raises:
        DataError: A file is missing or damaged, two rows have the same id, or there is no
            candidate.
        SourceError: A data set in ``options.files`` is unknown or not available.
    """
    candidates = []
    left_out = []
    ids: set[str] = set()
    langs: set[str] = set()
    for spec in options.files:
        for row in stream_rows(spec, reading=report, options=options.reading):
            lang = row.dialogue.lang
            if row.id in ids:
                raise DataError(
                    spec, None, f"two rows have the id {row.id!r}. Rename one"
                )
            ids.add(row.id)
            langs.add(lang)
            if options.lang and lang not in options.lang:
                continue
            line = {"id": row.id, "lang": lang}
            if foreign is not None and (match := foreign.match_row(row)):
                line["reason"] = "foreign_language"
                line["detail"] = "the judge's comment speaks of another language"
                line["keyword"], line["comment"] = match
                left_out.append(line)
            elif missing := rules.missing_labels(row):
                line["reason"] = "missing_label"
                line["detail"] = f"no answer for {', '.join(missing)}"
                left_out.append(line)
            else:
                candidates.append(rules.to_candidate(row))
    if not candidates:
        raise DataError(
            ", ".join(options.files),
            None,
            f"no dialogue to select from: {len(left_out)} left out, languages there: "
            f"{', '.join(sorted(langs)) or 'none'}",
            hint="Label the dialogues first. Type: medal label FILE --out labelled.jsonl",
        )
    return candidates, sorted(left_out, key=lambda line: (line["lang"], line["id"]))
