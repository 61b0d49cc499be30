"""Audit of a labelled set: what a person should know before training or testing on it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from medal_judges.labelled import LabelledDialogue

# The published MEDAL code calls str.strip("user: "): it eats any of these characters at both ends,
# so a clipped set has no turn that begins or ends with one of them.
CLIPPED = frozenset("user: ")
_MIN_TURNS = 30


@dataclass(slots=True)
class LanguageAudit:
    """Counts of one language; ``edge_share`` is the share of assistant turns that begin or end with
    one of the letters u, s, e, r, ``inner_share`` the same of the words inside turns."""

    dialogues: int = 0
    turns: int = 0
    edges: int = 0
    edge_hits: int = 0
    words: int = 0
    word_hits: int = 0

    @property
    def edge_share(self) -> float | None:
        return self.edge_hits / self.edges if self.edges else None

    @property
    def inner_share(self) -> float | None:
        return self.word_hits / self.words if self.words else None

    @property
    def clipped(self) -> bool | None:
        """True when edges nearly never hold a letter that words inside turns often end with.

        None where it cannot be told: too few turns, or a script without these letters.
        """
        edge, inner = self.edge_share, self.inner_share
        if edge is None or inner is None or self.edges < 2 * _MIN_TURNS or inner < 0.1:
            return None
        return edge < 0.1 * inner


@dataclass(slots=True)
class Audit:
    """Findings of ``audit``; ``problems`` counts each kind, ``examples`` holds up to three ids."""

    languages: dict[str, LanguageAudit] = field(default_factory=dict)
    problems: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, problem: str, id: str) -> None:
        self.problems[problem] += 1
        if len(self.examples[problem]) < 3:
            self.examples[problem].append(id)


def audit(rows: Iterable[LabelledDialogue]) -> Audit:
    """Clipped turns per language, empty turns, odd role orders, broken characters, duplicates,
    missing labels and groups that stand in several splits."""
    found = Audit()
    texts: dict[tuple[str, ...], str] = {}
    splits: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        language = found.languages.setdefault(row.dialogue.lang, LanguageAudit())
        _count_edges(row, language)
        for problem in _row_problems(row):
            found.add(problem, row.id)
        text = tuple(t.content for t in row.dialogue.turns)
        if text in texts and row.level == "dialogue":
            found.add(f"same text as another row ({row.dialogue.lang})", row.id)
        texts.setdefault(text, row.id)
        if row.split:
            splits[row.group].add(row.split)
    for group, names in splits.items():
        if len(names) > 1:
            found.add("group stands in several splits", group)
    return found


def _count_edges(row: LabelledDialogue, language: LanguageAudit) -> None:
    language.dialogues += 1
    language.turns += len(row.dialogue.turns)
    for turn in row.dialogue.turns:
        words = turn.content.split()
        bare = turn.content
        if len(words) < 3:
            continue
        language.edges += 2
        language.edge_hits += (bare[0] in CLIPPED) + (bare[-1] in CLIPPED)
        inner = words[1:-1]
        language.words += 2 * len(inner)
        language.word_hits += sum((w[0] in CLIPPED) + (w[-1] in CLIPPED) for w in inner)


def _row_problems(row: LabelledDialogue) -> list[str]:
    turns = row.dialogue.turns
    pairs = zip(turns, turns[1:], strict=False)
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
