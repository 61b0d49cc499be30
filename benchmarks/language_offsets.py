"""The ``offsets`` of a linear judge: what a translation of a dialogue loses in each language.

    medal score CHATS --judge runs/multilingual --out scores.jsonl
    python benchmarks/language_offsets.py CHATS scores.jsonl

CHATS state their languages, hold the same dialogues in each (English too), and need no labels.
The judge has been trained without offsets. An offset is a share of the scale from 1 to 5.
"""

from __future__ import annotations

import sys

import pandas as pd

from medal_judges import read_dialogues, read_judgements

languages = {dialogue.id: dialogue.lang for dialogue in read_dialogues(sys.argv[1])}
rows = []
for judgement in read_judgements(sys.argv[2]):
    score = judgement.scores["overall"]
    if score is not None:
        rows.append((languages[judgement.id], (score - 1) / 4))
table = pd.DataFrame(rows, columns=["language", "score"])
means = table.groupby("language")["score"].mean()
offsets = (means["en"] - means).round(3)
print(f"  offsets: {offsets.to_dict()}")
