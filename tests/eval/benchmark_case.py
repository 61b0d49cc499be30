"""A small judge, a small set and a benchmark's file, for tests of ``medal benchmark``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.models.base.judge import Judge, ScoreRequest
from medal_judges.models.base.saving import FAMILIES
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.dimension import load_rubric
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.signature import Signature
from medal_judges.storage.jsonl import write_records


class CountingJudge(Judge):
    """Overall is 1 plus the number of exclamation marks; remembers how many rows it scored."""

    family = "counting"
    scored = 0

    def __init__(self, settings: Mapping[str, Any]) -> None:
        names = ("overall", "repetitive")[: settings.get("dimensions", 1)]
        self.dimensions = tuple(d for d in load_rubric("medal") if d.name in names)
        self.silent = settings.get("silent", 0)
        self.revision = str(settings.get("revision", 1))

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> CountingJudge:
        return cls(settings)

    def signature(self) -> Signature:
        return Signature("counting", revision=self.revision)

    def _prepare(self, items: Sequence[ScoreRequest]) -> None:
        for item in items:
            item.tokens = len(item.dialogue.turns)

    def _score_batch(
        self, items: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        type(self).scored += len(items)
        return [self._one(item.dialogue, dimensions) for item in items]

    def _one(self, dialogue: Dialogue, dimensions: Sequence[str]) -> Judgement:
        if int(dialogue.id.split("-")[1]) < self.silent:
            return Judgement(scores=dict.fromkeys(dimensions), failure="would not say")
        marks = sum(turn.content.count("!") for turn in dialogue.turns)
        found = {"overall": 1.0 + marks, "repetitive": min(1.0, marks / 4)}
        return Judgement(scores={name: found[name] for name in dimensions})


@pytest.fixture
def counting_family(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    module = ModuleType("counting_judge_of_test")
    module.CountingJudge = CountingJudge  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(FAMILIES, "counting", f"{module.__name__}:CountingJudge")
    monkeypatch.setattr(CountingJudge, "scored", 0)
    yield


def write_set(path: Path, rows: int = 24) -> None:
    rng = np.random.default_rng(0)
    marks = rng.integers(0, 5, rows)
    write_records(
        path,
        (
            LabelledDialogue(
                Dialogue(
                    f"row-{i}",
                    (
                        Turn("user", "hello"),
                        Turn("assistant", "hi" + "!" * int(marks[i])),
                    ),
                    ("en", "de")[i % 2],
                    models={"assistant": f"bot-{i % 6}"},
                ),
                {
                    "overall": (float(marks[i] // 2 + 1), float(min(5, marks[i] + 1))),
                    "repeats": (float(marks[i] > 1), float(marks[i] > 2)),
                },
                {"overall": (1, 5), "repeats": (0, 1)},
                group=f"row-{i}",
                extra={"overlaps": "elsewhere"} if i >= 20 else {},
            )
            for i in range(rows)
        ),
    )


@pytest.fixture
def folder(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    counting_family: None,
    no_figure_files: None,
) -> Path:
    monkeypatch.chdir(tmp_path)
    write_set(tmp_path / "set.jsonl")
    (tmp_path / "judge.yaml").write_text("family: counting\ndimensions: 2\n")
    (tmp_path / "bench.yaml").write_text(
        "output_dir: out\n"
        "sets:\n"
        "  - name: little\n"
        "    source: set.jsonl\n"
        "    dimensions: {overall: overall, repeats: repetitive}\n"
        "judges:\n"
        "  - {name: counting, path: judge.yaml}\n"
    )
    return tmp_path


def medal(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["benchmark", "--config", "bench.yaml", *arguments])


def results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out/results.json").read_text("utf-8"))
    return found
