"""Fitting hybrids: the same numbers as scikit-learn's, nothing judged twice."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest

from medal_judges import Dialogue, Judge, Turn
from medal_judges.models.base import saving
from medal_judges.models.base.saving import training_chats
from medal_judges.models.hybrid.judge import HybridJudge, Line
from medal_judges.records.dimension import Dimension
from medal_judges.training.config import TrainConfig
from medal_judges.training.families import hybrid
from medal_judges.training.fitted import FittedJudge, TrainingRun
from medal_judges.training.rows import RunRows, TrainingExample

from ..conftest import WORDS

LENGTH, REPETITION = "configs/judges/length.yaml", "configs/judges/repetition.yaml"
OVERALL = Dimension("overall", "continuous", 1, 5)
TWO = {"length": {"path": LENGTH}, "repetition": {"path": REPETITION}}


def examples(count: int = 30) -> list[TrainingExample]:
    """Longer answers are better, in two sources."""
    rng = np.random.default_rng(0)
    found = []
    for i in range(count):
        words = 1 + i % 10
        turns = (
            Turn("user", "film ?"),
            Turn("assistant", " ".join(rng.choice(WORDS, words))),
        )
        target = min(1.0, words / 10 + float(rng.uniform(0, 0.05)))
        example = TrainingExample(
            Dialogue(str(i), turns), ("dstc9", "other")[i % 2], {"overall": target}
        )
        example.human, example.group = {"overall": target}, str(i)
        found.append(example)
    return found


def fit(
    folder: Path,
    rows: list[TrainingExample],
    dimension: Dimension = OVERALL,
    **changes: object,
) -> FittedJudge:
    config = TrainConfig(
        name="both",
        output_dir=str(folder),
        rubric="overall",
        model={"family": "hybrid", "members": TWO} | changes,
        train=({"source": "dstc9:validation"},),  # type: ignore[arg-type]
    )
    return hybrid.fit(TrainingRun(config, [dimension], RunRows(rows, [], [])))


def line_of(fitted: FittedJudge) -> Line:
    assert isinstance(fitted.judge, HybridJudge)
    return fitted.judge.lines["overall"]


def test_a_stack_from_its_rows_to_a_saved_judge(tmp_path: Path) -> None:
    """Sources are centred apart, and the ridge is scikit-learn's."""
    from sklearn.linear_model import Ridge

    rows = examples()
    fitted = fit(tmp_path / "j", rows)
    assert fitted.figures["spearman/overall"] > 0.8
    found = Judge.from_pretrained(fitted.judge.save_pretrained(tmp_path / "j"))
    given = [row.dialogue for row in rows]
    for one, other in zip(found.score(given), fitted.judge.score(given), strict=True):
        assert one.scores == pytest.approx(other.scores, abs=4e-5)
    assert isinstance(fitted.judge, HybridJudge)
    columns = []
    for name in line_of(fitted).inputs:
        member = fitted.judge.members[name].judge
        columns.append([j.scores["overall"] for j in member.score(given)])
    units = (np.array(columns, dtype=float).T - 1) / 4
    y = np.array([row.targets["overall"] for row in rows])
    for start in (0, 1):  # the two sources, of equal size
        units[start::2] -= units[start::2].mean(axis=0)
        y[start::2] -= y[start::2].mean()
    spread = units.std(axis=0)
    slopes = []
    for alpha in hybrid.ALPHAS:
        ridge = Ridge(alpha=alpha, positive=True, fit_intercept=False)
        slopes.append(ridge.fit(units / spread, y).coef_ / spread)
    chosen = np.array(line_of(fitted).weights)
    assert min(np.abs(chosen - expected).max() for expected in slopes) < 1e-6


def test_rows_that_a_member_learnt_from_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Judge.from_pretrained(LENGTH).save_pretrained(tmp_path / "member")
    # Chats count, whatever the files are called: 3 of the 30, and one of other data.
    chats = [example.dialogue.text_hash for example in examples()[:3]]
    facts = [{"part": "train", "source": "mine.jsonl", "chats": " ".join(chats)}]
    facts.append({"part": "validation", "source": "dstc9:validation"})
    (folder / "data.json").write_text(json.dumps(facts), encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        fit(tmp_path / "j", examples(), members={"a": {"path": str(folder)}})
    assert "member a was trained on 3 of the 30" in caplog.text
    assert len(training_chats("boxed")) > 1000
    assert training_chats(LENGTH) == training_chats("length") == set()
    monkeypatch.setattr(saving, "pull", lambda name, revision: folder)  # of the Hub
    assert training_chats("org/judge") == set(chats)
