"""The ``offsets`` of a linear judge: what a translation of a dialogue loses in each language.

    medal score CHATS --judge runs/multilingual --out scores.jsonl
    medal score CHATS --judge runs/issues --level turn --out scores.jsonl
    python benchmarks/language_offsets.py CHATS scores.jsonl

CHATS state their languages, hold the same dialogues in each (English too), and need no labels.
The judge has been trained without offsets. An offset is a share of the scale.
"""

from __future__ import annotations

import sys

import pandas as pd

from medal_judges import read_dialogues, read_judgements

languages = {dialogue.id: dialogue.lang for dialogue in read_dialogues(sys.argv[1])}
rows = []
for judgement in read_judgements(sys.argv[2]):
    for dimension in judgement.dimensions:
        if judgement.scores[dimension.name] is not None:
            raw = judgement.details[dimension.name]["raw"]
            language = languages[judgement.id]
            rows.append((dimension.name, language, dimension.to_unit(raw)))
table = pd.DataFrame(rows, columns=["dimension", "language", "output"])
for name, outputs in table.groupby("dimension"):
    means = outputs.groupby("language")["output"].mean()
    print(f"  {name}: {(means['en'] - means).round(3).to_dict()}")
