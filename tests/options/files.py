"""Two dozen labelled dialogues, in files of several forms."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .table import works

WORDS = (
    "music",
    "film",
    "river",
    "city",
    "bread",
    "stone",
    "cloud",
    "paper",
    "light",
    "winter",
)
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
    labels = {}
    for place, name in enumerate(ISSUES):
        is_there = (number + place) % 2
        labels[name] = [is_there, 1 - is_there if number % 7 == 3 else is_there]
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
    path.write_text(
        "".join(json.dumps(each) + "\n" for each in records), encoding="utf-8"
    )
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Files:
    """``chats`` in the line format; ``others`` with the same questions and other answers;
    ``scores`` and ``scores2`` of both by length; ``prices`` of the model "tester"."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.chats = write(folder / "chats.jsonl", RECORDS)
        self.others = write(
            folder / "others.jsonl", map(_with_another_answer, range(COUNT))
        )
        self.scores = self._scored(self.chats, "scores.jsonl")
        self.scores2 = self._scored(self.others, "scores2.jsonl")
        self.prices = folder / "prices.yaml"
        self.prices.write_text(
            "date: 2026-11-27\nmodels: {tester: {input: 1000, output: 1000}}\n"
        )

    def _scored(self, chats: Path, name: str) -> Path:
        keep = ("--keep", "user", "--keep", "day", "--keep", "chatbot")
        works("score", chats, "--judge", "length", *keep, "--out", self.folder / name)
        return self.folder / name


def _with_another_answer(number: int) -> dict[str, Any]:
    question, _ = RECORDS[number]["dialogue"]
    other = {"role": "assistant", "content": "No."}
    changed = {
        "id": f"e{number}",
        "dialogue": [question, other],
        "models": {"assistant": "three"},
    }
    return {**RECORDS[number], **changed}
