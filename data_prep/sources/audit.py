"""Audit of a labelled set: clipped turns, duplicates, broken text, leaking groups."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import eq

from medal_judges.records.dialogue import UNKNOWN_LANGUAGE
from medal_judges.records.labelled import LabelledDialogue

# MEDAL's published code calls str.strip("user: "), which removes these letters at both ends of
# a turn. It shows only in turns that start or end with a lower-case letter.
CLIPPED = frozenset("user")
_MIN_EXPECTED = 10.0  # fewer than a tenth of this by chance has p < 0.001


@dataclass(slots=True)
class LanguageAudit:
    """Counts of one language. ``letters`` counts the lower-case first and last letters of words.
    Its keys: side (0: first letter, -1: last), whether the word is the first or last of its turn,
    whether the letter is u, s, e or r (``str.strip("user: ")`` removes these)."""

    dialogues: int = 0
    turns: int = 0
    letters: Counter[tuple[int, bool, bool]] = field(default_factory=Counter)

    def add(self, row: LabelledDialogue) -> None:
        """Counts a dialogue."""
        self.dialogues += 1
        self.turns += len(row.dialogue.turns)
        for turn in row.dialogue.turns:
            words = turn.content.split()
            if len(words) <= 2:
                continue
            for side in (0, -1):
                self._count(words[side][side], side, is_edge=True)
                for word in words[1:-1]:
                    self._count(word[side], side, is_edge=False)

    def _count(self, letter: str, side: int, *, is_edge: bool) -> None:
        if letter.islower():
            self.letters[side, is_edge, letter in CLIPPED] += 1

    def edges(self) -> tuple[int, int, float]:
        """Returns the number of turn edges (starts and ends) that are a lower-case letter, how many
        of them are u, s, e or r, and how many would be if no turn was clipped."""
        count = 0
        hits = 0
        expected = 0.0
        for side in (0, -1):
            hits_at_edges = self.letters[side, True, True]
            hits_inside = self.letters[side, False, True]
            edges = hits_at_edges + self.letters[side, True, False]
            inside = hits_inside + self.letters[side, False, False]
            count += edges
            hits += hits_at_edges
            expected += edges * hits_inside / max(1, inside)
        return count, hits, expected

    @property
    def clipped(self) -> bool | None:
        """Whether u, s, e and r are less than a tenth as frequent at the edges of turns as inside;
        None if there are too few letters."""
        _, hits, expected = self.edges()
        if expected < _MIN_EXPECTED:
            return None
        return hits < 0.1 * expected


def audit(
    rows: Iterable[LabelledDialogue],
) -> tuple[dict[str, LanguageAudit], dict[str, list[str]]]:
    """Finds clipped turns per language, and problems with the ids that have them: empty turns, odd
    role orders, broken characters, duplicates, missing labels, groups in several splits."""
    languages: dict[str, LanguageAudit] = defaultdict(LanguageAudit)
    problems: dict[str, list[str]] = defaultdict(list)
    texts: set[int] = set()
    splits: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        lang = row.dialogue.lang
        languages[lang].add(row)
        for problem in _problems(row):
            problems[problem].append(row.id)
        text = hash(tuple(turn.content for turn in row.dialogue.turns))
        if text in texts and row.level == "dialogue":
            problems[f"same text as another row ({lang})"].append(row.id)
        texts.add(text)
        if row.split:
            splits[row.group].add(row.split)
    if torn := [group for group, names in splits.items() if len(names) > 1]:
        problems["group in several splits"] = torn
    return languages, problems


def _problems(row: LabelledDialogue) -> list[str]:
    """The problems of a row by itself."""
    turns = row.dialogue.turns
    texts = [turn.content for turn in turns]
    roles = [turn.role for turn in turns]
    present = {
        "empty turn": not all(map(str.strip, texts)),
        "two turns of one role in a row": any(map(eq, roles, roles[1:])),
        "no assistant turn": not row.dialogue.assistant_turns,
        "ends on a user turn": roles[-1] == "user",
        "replacement character": "\ufffd" in "".join(texts),
        "more than 200 turns": len(turns) > 200,
        "no label": not any(map(row.has_label, row.labels)),
        "language unknown": row.dialogue.lang == UNKNOWN_LANGUAGE,
    }
    return [problem for problem, is_present in present.items() if is_present]
