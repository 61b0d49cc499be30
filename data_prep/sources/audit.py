"""Audit of a labelled set: clipped turns, duplicates, broken text, leaking groups."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from medal_judges.records.labelled import LabelledDialogue

# MEDAL's published code calls str.strip("user: "), which removes these letters at both ends of
# a turn. It shows only in turns that start or end with a lower-case letter.
CLIPPED = frozenset("user")
_MIN_EXPECTED = 10.0  # fewer than a tenth of this by chance has p < 0.001


@dataclass(slots=True)
class LanguageAudit:
    """Counts of one language. ``letters`` counts lower-case letters by side (0: start of a word,
    -1: end), by whether the word is at the edge of a turn, and by whether they are u, s, e or r."""

    dialogues: int = 0
    turns: int = 0
    letters: Counter[tuple[int, bool, bool]] = field(default_factory=Counter)

    def add(self, side: int, at_edge: bool, letter: str) -> None:
        if letter.islower():
            self.letters[side, at_edge, letter in CLIPPED] += 1

    @property
    def edges(self) -> int:
        """Edges of turns that are a lower-case letter."""
        return sum(count for (_, at_edge, _), count in self.letters.items() if at_edge)

    @property
    def hits(self) -> int:
        """Edges that are u, s, e or r."""
        return self.letters[0, True, True] + self.letters[-1, True, True]

    @property
    def expected(self) -> float:
        """Expected ``hits`` if edges were like words inside turns; minus ``hits`` it estimates how
        many edges lost letters."""
        expected = 0.0
        for side in (0, -1):
            edges, inner = (
                self.letters[side, at_edge, True] + self.letters[side, at_edge, False]
                for at_edge in (True, False)
            )
            expected += edges * self.letters[side, False, True] / inner if inner else 0.0
        return expected

    @property
    def clipped(self) -> bool | None:
        """True if edges have u, s, e, r less than a tenth as often as words inside turns; None if
        there are too few such letters."""
        if self.expected < _MIN_EXPECTED:
            return None
        return self.hits < 0.1 * self.expected


@dataclass(slots=True)
class Audit:
    """Findings of ``audit``; ``examples`` has up to three ids a problem, ``forms`` counts rows by
    their form (``medal-released`` or ``line``)."""

    languages: dict[str, LanguageAudit] = field(default_factory=dict)
    forms: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, problem: str, id: str) -> None:
        self.problems[problem] += 1
        if len(self.examples[problem]) < 3:
            self.examples[problem].append(id)


def audit(rows: Iterable[LabelledDialogue]) -> Audit:
    """Finds clipped turns per language, empty turns, odd role orders, broken characters,
    duplicates, missing labels and groups in several splits."""
    findings = Audit()
    texts: dict[tuple[str, ...], str] = {}
    splits: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        findings.forms[str(row.extra.get("form") or "line")] += 1
        language = findings.languages.setdefault(row.dialogue.lang, LanguageAudit())
        _count_edges(row, language)
        for problem in _row_problems(row):
            findings.add(problem, row.id)
        text = tuple(t.content for t in row.dialogue.turns)
        if text in texts and row.level == "dialogue":
            findings.add(f"same text as another row ({row.dialogue.lang})", row.id)
        texts.setdefault(text, row.id)
        if row.split:
            splits[row.group].add(row.split)
    for group, names in splits.items():
        if len(names) > 1:
            findings.add("group in several splits", group)
    return findings


def _count_edges(row: LabelledDialogue, language: LanguageAudit) -> None:
    language.dialogues += 1
    language.turns += len(row.dialogue.turns)
    for turn in row.dialogue.turns:
        words = turn.content.split()
        if len(words) < 3:
            continue
        for side in (0, -1):
            language.add(side, True, words[side][side])
            for word in words[1:-1]:
                language.add(side, False, word[side])


def _row_problems(row: LabelledDialogue) -> list[str]:
    turns = row.dialogue.turns
    pairs = pairwise(turns)
    checks: Sequence[tuple[str, bool]] = (
        ("empty turn", any(not t.content.strip() for t in turns)),
        ("two turns of one role in a row", any(a.role == b.role for a, b in pairs)),
        ("no assistant turn", not row.dialogue.assistant_turns),
        ("ends on a user turn", turns[-1].role == "user"),
        ("replacement character", any("\ufffd" in t.content for t in turns)),
        ("more than 200 turns", len(turns) > 200),
        ("no label", not any(v is not None for vs in row.labels.values() for v in vs)),
        ("language unknown", row.dialogue.lang == "und"),
    )
    return [name for name, present in checks if present]
