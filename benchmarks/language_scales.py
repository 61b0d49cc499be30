"""The ``scales`` of a hybrid judge: mean and deviation of its members' scores in each language.

    medal score CHATS --judge multilingual --out scores.jsonl
    python benchmarks/language_scales.py CHATS scores.jsonl

CHATS state their languages and need no labels. A score from 1 to 5 becomes one from 0 to 1.
"""

from __future__ import annotations

import sys
from collections import defaultdict

import numpy as np

from medal_judges import read_dialogues, read_judgements

langs = {dialogue.id: dialogue.lang for dialogue in read_dialogues(sys.argv[1])}
rows: dict[str, list[list[float]]] = defaultdict(list)
members: list[str] = []
for judgement in read_judgements(sys.argv[2]):
    found = judgement.details["overall"]["members"]
    if None not in found.values():
        members = list(found)
        rows[langs[judgement.id]].append([(score - 1) / 4 for score in found.values()])
for lang, table in sorted(rows.items()):
    pairs = zip(members, np.mean(table, axis=0), np.std(table, axis=0), strict=True)
    own = ", ".join(
        f"{name}: [{mean:.3f}, {deviation:.3f}]" for name, mean, deviation in pairs
    )
    print(f"  {lang}: {{{own}}}  # {len(table)} conversations")
