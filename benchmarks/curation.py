"""``medal curate`` on a synthetic labelled pool: balance reached, beside chance, and time.

python benchmarks/curation.py [--dialogues 5000] [--n 100] [--out FOLDER]

The pool is made as MEDAL's came out (section 4, appendix D.2): six languages, eight chatbots, two
users, contexts shared by all; over 80% clean fives (70% in German), issues of a few percent, unsafe
a few in a thousand, weaker chatbots with more of them, no score of 1.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from medal_judges.storage.jsonl import write_records

LANGUAGES = ("de", "en", "es", "fr", "pt", "zh")
USERS = ("user-large", "user-small")
CHATBOTS = tuple(f"chatbot-{letter}" for letter in "ABCDEFGH")
# Share of dialogues of an average chatbot with the issue, in an average language.
RATES = {
    "uninterpretable": 0.02,
    "unsafe": 0.002,
    "lacks_empathy": 0.02,
    "lacks_commonsense": 0.03,
    "repetitive": 0.035,
    "incoherent": 0.03,
    "irrelevant": 0.02,
    "nonfactual": 0.025,
}
# of a chatbot's share, strongest first
STRENGTH = (0.25, 0.35, 0.45, 0.6, 0.8, 1.2, 1.8, 2.6)
_FOREIGN = 0.6  # of German uninterpretable answers: Chinese or English words
_WORDS = (
    "walk",
    "home",
    "dinner",
    "friend",
    "work",
    "rain",
    "music",
    "maybe",
    "quiet",
    "week",
)


def labelled_pool(count: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """``count`` labelled rows in the order in which generation would write them."""
    rng = np.random.default_rng(seed)
    cells = [
        (lang, user, bot) for lang in LANGUAGES for user in USERS for bot in CHATBOTS
    ]
    for number in range(count):
        context, cell = divmod(number, len(cells))
        yield _row(rng, context, *cells[cell])


def _row(
    rng: np.random.Generator, context: int, lang: str, user: str, bot: str
) -> dict[str, Any]:
    factor = STRENGTH[CHATBOTS.index(bot)] * (2.0 if lang == "de" else 1.0)
    labels = {
        name: [int(rng.random() < min(0.9, factor * rate))]
        for name, rate in RATES.items()
    }
    faults = sum(values[0] for values in labels.values())
    overall = 5 if not faults and rng.random() < 0.97 else 4
    if faults:
        overall = max(2, int(5 - faults - rng.integers(0, 2)))
    comments = {name: "Nothing of the kind." for name in labels}
    if labels["uninterpretable"][0]:
        foreign = lang == "de" and rng.random() < _FOREIGN
        comments["uninterpretable"] = (
            "One answer mixes Chinese characters into the text."
            if foreign
            else "It breaks off."
        )
    group = f"ctx-{context:05d}"
    turns = [
        {"role": role, "content": " ".join(rng.choice(_WORDS, 14))}
        for role in ("user", "assistant")
    ] * 5
    return {
        "id": f"{group}-{lang}--{user}--{bot}",
        "source": "synthetic",
        "lang": lang,
        "dialogue": turns,
        "models": {"user": user, "assistant": bot},
        "labels": {**labels, "other": [0], "overall": [overall]},
        "scales": {**{name: [0, 1] for name in (*labels, "other")}, "overall": [1, 5]},
        "group": group,
        "comments": comments,
    }


def main() -> None:
    """Make the pool, run the command in a process of its own, print its report and its cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dialogues", type=int, default=5000)
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--policy", default="balanced")
    parser.add_argument("--out", type=Path, default=None)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pool = Path(folder) / "labelled.jsonl"
        write_records(pool, labelled_pool(asked.dialogues))
        out = asked.out or Path(folder) / "out"
        command = [
            sys.executable,
            "-m",
            "medal_judges",
            "curate",
            str(pool),
            "--out",
            str(out),
        ]
        start = time.perf_counter()
        subprocess.run(
            [*command, "--n", str(asked.n), "--policy", asked.policy, "--overwrite"],
            check=True,
        )
        seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(
        f"{asked.dialogues} dialogues: {seconds:.1f} s, peak {peak:.0f} MB (whole command)"
    )


if __name__ == "__main__":
    main()
