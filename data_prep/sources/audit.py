"""Audit of a labelled set: empty turns, duplicates, broken text, leaking groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from medal_judges.records.dialogue import UNKNOWN_LANGUAGE
from medal_judges.records.labelled import LabelledDialogue


def audit(rows: Iterable[LabelledDialogue]) -> dict[str, list[str]]:
    """Returns problems, each with the ids of the rows that have it, or the groups."""
    problems: dict[str, list[str]] = defaultdict(list)
    texts: set[int] = set()
    splits: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        for problem in _problems(row):
            problems[problem].append(row.id)
        text = hash(row.dialogue.turns)
        if text in texts and row.level == "dialogue":
            same = f"same text as another row ({row.dialogue.lang})"
            problems[same].append(row.id)
        texts.add(text)
        if row.split:
            splits[row.group].add(row.split)
    for group, names in splits.items():
        if len(names) > 1:
            problems["group in several splits"].append(group)
    return problems


def _problems(row: LabelledDialogue) -> list[str]:
    """Returns the problems of a row by itself."""
    turns = row.dialogue.turns
    texts = [turn.content for turn in turns]
    is_present = {
        "empty turn": not all(map(str.strip, texts)),
        "two turns of one role in a row": any(
            first.role == second.role for first, second in pairwise(turns)
        ),
        "no assistant turn": not row.dialogue.assistant_turns,
        "ends on a user turn": turns[-1].role == "user",
        "replacement character": "\ufffd" in "".join(texts),
        "more than 200 turns": len(turns) > 200,
        "no label": not any(map(row.has_label, row.labels)),
        "language unknown": row.dialogue.lang == UNKNOWN_LANGUAGE,
    }
    return [problem for problem in is_present if is_present[problem]]
