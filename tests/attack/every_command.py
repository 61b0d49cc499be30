"""Every command that writes, as somebody would call it on small files of their own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import yaml
from openpyxl import load_workbook
from tests.scales import stating
from typer.testing import CliRunner

from medal_judges.cli import app

WORDS = [
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
    "garden",
    "window",
]
ISSUES = (
    *("uninterpretable", "unsafe", "lacks_empathy", "lacks_commonsense", "repetitive"),
    *("incoherent", "irrelevant", "nonfactual", "other"),
)
# Placeholders: IN (labelled chats), OUT, and what ``Files`` makes of them. Commands of one file
# name it with its ending, the others write a folder.
COMMANDS = {
    "score": "score IN --judge length --out OUT.jsonl --min-coverage 0",
    "score to csv": "score IN --judge length --out OUT.csv",
    "score to parquet": "score IN --judge length --out OUT.parquet",
    "strict": "score IN --judge length --out OUT.jsonl --strict",
    "stats": "data stats IN --no-lemmas --out OUT",
    "agreement": "agreement IN --out OUT",
    "curate": "curate IN --n 1 --out OUT",
    "plant": "data plant IN --out OUT.jsonl",
    "write": "data write IN --out OUT.jsonl",
    "annotate": "annotate export IN --annotator a --annotator b --out OUT",
    "import": "annotate import PROJECT FILLED --out OUT.jsonl",
    "label": "label IN --judge length --users skip --replace-labels --out OUT",
    "report": "report SCORES --chats IN --human IN --out OUT",
    "compare": "compare a=IN b=MORE --judge length --out OUT",
    "compare labels": "compare a=SCORES b=SCORES2 --human IN --out OUT",
    "trial": "trial length --data IN --out OUT dialogues=3 languages=[en] "
    "per_check=2 checks=[same]",
    "train": "train --config TRAIN --out OUT",
    "benchmark": "benchmark --config BENCHMARK --out OUT",
    "seeds": "data seeds --n 200 --out OUT.jsonl",
    "configs": "configs copy train/quickstart --out OUT.yaml",
}
# Those that read IN, what is in it being somebody else's.
READERS = [
    *(
        name
        for name, line in COMMANDS.items()
        if "IN" in line.replace("=", " ").split()
    ),
    *("train", "benchmark"),
]


def sampled(one_in: int, *case: object) -> bool:
    """Whether a case is in the suite's sample: one in so many, the same in every run. The others
    have the mark ``nightly``."""
    return crc32(repr(case).encode()) % one_in == 0


def some(cases: Iterable[Any], one_in: int = 3) -> list[Any]:
    """Parameters of all cases, of which the first and one in so many are in the suite."""
    return [
        pytest.param(case, marks=() if n % one_in == 0 else pytest.mark.nightly)
        for n, case in enumerate(cases)
    ]


def row(number: int) -> dict[str, Any]:
    turns = [
        {
            "role": "user",
            "content": f"{WORDS[number % 12]} and {WORDS[(number + 3) % 12]}?",
        },
        {
            "role": "assistant",
            "content": f"I like {WORDS[(number * 5) % 12]} " * (1 + number % 4),
        },
    ]
    issues = {name: [(number + i) % 2, number % 2] for i, name in enumerate(ISSUES)}
    return {
        "id": f"d{number}",
        "lang": "en",
        "dialogue": turns * (1 + number % 3),
        "models": {"assistant": ("one", "two")[number % 2]},
        "labels": {"overall": [1 + number % 5, 1 + (number + 1) % 5], **issues},
        "scales": {"overall": [1, 5], **{name: [0, 1] for name in ISSUES}},
    }


class Files:
    """Sound files beside what is attacked, made once in ``folder``; read by ``arguments``."""

    def __init__(self, folder: Path, rows: int = 40) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.chats = self._lines("chats.jsonl", (row(n) for n in range(rows)))
        more = (row(n) | {"dialogue": row(n + 1)["dialogue"]} for n in range(rows))
        self.known = {
            "MORE": self._lines("more.jsonl", more),
            "SCORES": self._scores("scores.jsonl", 0.0, rows),
            "SCORES2": self._scores("scores2.jsonl", 0.3, rows, "e"),
            "PROJECT": folder / "project",
            "FILLED": folder / "filled.xlsx",
            "TRAIN": folder / "train.yaml",
            "BENCHMARK": folder / "benchmark.yaml",
        }
        people = ("--annotator", "a", "--annotator", "b")
        medal("annotate", "export", self.chats, *people, "--out", folder / "project")
        book = load_workbook(folder / "project" / "package" / "sheets" / "a.xlsx")
        sheet = book["answers"]
        for rule in sheet.data_validations.dataValidation:
            for (cell,) in sheet[str(rule.sqref)]:
                cell.value = rule.formula1.strip('"').split(",")[0]
        book.save(self.known["FILLED"])

    def arguments(self, command: str, source: Path, out: Path) -> list[str]:
        """The words of ``command`` on ``source``; it writes ``out``, with an ending for a file."""
        self._configs(source)
        words = []
        for word in COMMANDS[command].split():
            name, sign, value = word.rpartition("=")
            if value in self.known:
                value = str(self.known[value])
            elif value == "IN":
                value = str(source)
            elif value.startswith("OUT"):
                value = f"{out}{value.removeprefix('OUT')}"
            words.append(name + sign + value)
        return words

    def _configs(self, source: Path) -> None:
        train = {
            "name": "mine",
            "output_dir": str(self.folder / "never"),
            "rubric": "quickstart",
            "model": {
                "family": "linear",
                "vectors": False,
                "features": ["assistant.log_words"],
            },
            "train": [{"source": str(source), "dimensions": {"overall": "overall"}}],
        }
        benchmark = {
            "title": "t",
            "output_dir": str(self.folder / "never"),
            "judges": [{"name": "length", "path": "length"}],
            "sets": [
                {"name": "mine", "source": str(source), "dimensions": ["overall"]}
            ],
        }
        self.known["TRAIN"].write_text(yaml.safe_dump(train))
        self.known["BENCHMARK"].write_text(yaml.safe_dump(benchmark))

    def _lines(self, name: str, rows: Iterator[dict[str, Any]]) -> Path:
        path = self.folder / name
        path.write_text(
            "".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8"
        )
        return path

    def _scores(self, name: str, shift: float, rows: int, prefix: str = "d") -> Path:
        made = [
            {"id": f"{prefix}{n}", "turn": None, "judge": "judge:t|revision:1"}
            | {
                "scores": {"overall": 1 + (n % 4) + shift},
                "meta": {"chatbot": row(n)["models"]},
            }
            for n in range(rows)
        ]
        return self._lines(name, iter(stating(made)))


def medal(*words: object) -> str:
    """A command that works."""
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, (words, done.output, done.exception)
    return done.output
