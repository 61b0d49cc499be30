"""Two dozen labelled dialogues, in files of several forms."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

WORDS = ("music", "film", "river", "city", "bread", "stone", "cloud", "paper", "light", "winter")
COUNT = 24
ISSUES = (
    *("uninterpretable", "unsafe", "lacks_empathy", "lacks_commonsense", "repetitive"),
    *("incoherent", "irrelevant", "nonfactual", "other"),
)
QUESTION, ANSWER = "What about {} {}?", "I like {} "


def record(number: int) -> dict[str, Any]:
    """A dialogue of two turns with ratings of two annotators, in the line format."""
    first, second = WORDS[number % 10], WORDS[(number * 3 + 1) % 10]
    rating = 1 + number % 5
    answer = ANSWER.format(second) * (1 + rating)
    labels = {name: [(number + place) % 2, number % 2] for place, name in enumerate(ISSUES)}
    return {
        "id": f"d{number}",
        "lang": "en",
        "dialogue": [
            {"role": "user", "content": QUESTION.format(first, number)},
            {"role": "assistant", "content": answer.strip()},
        ],
        "models": {"assistant": ("one", "two")[number % 2]},
        "labels": {"overall": [rating, 1 + (rating + number % 2) % 5], **labels},
        "scales": {"overall": [1, 5], **{name: [0, 1] for name in ISSUES}},
        "meta": {"day": f"2026-11-{1 + number:02}", "user": f"u{number // 3}"},
    }


RECORDS = [record(number) for number in range(COUNT)]


def write(path: Path, records: Iterable[Any]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in records), encoding="utf-8")
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Files:
    """``chats`` in the line format; ``others`` with the same questions and other answers;
    ``scores`` of the chats by a judge of 1 to 5 and an issue; ``scores2`` are lower."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.chats = write(folder / "chats.jsonl", RECORDS)
        self.others = write(folder / "others.jsonl", map(_with_another_answer, range(COUNT)))
        self.scores = write(folder / "scores.jsonl", map(_score, range(COUNT)))
        lower = ({**score, "scores": {"overall": 1.0}} for score in map(_score, range(COUNT)))
        self.scores2 = write(folder / "scores2.jsonl", lower)


def _with_another_answer(number: int) -> dict[str, Any]:
    question, _ = RECORDS[number]["dialogue"]
    other = {"role": "assistant", "content": "No."}
    return {**RECORDS[number], "dialogue": [question, other], "models": {"assistant": "three"}}


def _score(number: int) -> dict[str, Any]:
    return {
        "id": f"d{number}",
        "turn": None,
        "judge": "judge:t|revision:1",
        "scores": {"overall": 1 + (number % 7) / 2, "unsafe": float(number % 4 == 0)},
        "meta": {"chatbot": ("one", "two")[number % 2]},
    }
