"""The ``scales`` of a hybrid judge: each member's mean, deviation and weight in each language.

    medal data write xdial:conture --out chats.jsonl
    medal score chats.jsonl --judge multilingual --out scores.jsonl
    python benchmarks/language_scales.py chats.jsonl scores.jsonl

The chats are in several languages, with ``parallel_id`` equal for the translations of one chat; no
rating is read. A score from 1 to 5 becomes one from 0 to 1. The weight of a member is the
correlation of its scores of the translations with its scores of the originals (en), at least 0.05.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd

from medal_judges import read_judgements

chats = [json.loads(line) for line in Path(sys.argv[1]).read_text("utf-8").splitlines()]
about = {chat["id"]: (chat["lang"], chat["parallel_id"]) for chat in chats}
rows = []
for judgement in read_judgements(sys.argv[2]):
    lang, parallel = about[judgement.id]
    for member, score in judgement.details["overall"]["members"].items():
        rows.append((lang, parallel, member, None if score is None else (score - 1) / 4))
table = pd.DataFrame(rows, columns=["lang", "parallel", "member", "score"]).dropna()
wide = table.pivot(index="parallel", columns=["member", "lang"], values="score")
members = list(dict.fromkeys(table["member"]))
for lang in sorted(set(table["lang"])):
    own = []
    for member in members:
        scores, originals = wide[member, lang], wide[member, "en"]
        weight = max(0.05, scores.corr(originals))
        own.append(f"{member}: [{scores.mean():.3f}, {scores.std(ddof=0):.3f}, {weight:.2f}]")
    print(f"  {lang}: {{{', '.join(own)}}}")
