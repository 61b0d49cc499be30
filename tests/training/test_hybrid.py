"""Fitting hybrids: the same numbers as scikit-learn's, nothing judged twice."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest

from medal_judges import Dialogue, Judge, Turn
from medal_judges.errors import ConfigError
from medal_judges.models.base import saving
from medal_judges.models.base.heads import on_scale
from medal_judges.models.base.hub import judge_files
from medal_judges.models.hybrid.judge import MemberSelection, Stack
from medal_judges.models.hybrid.members import HybridConfig
from medal_judges.models.linear.judge import LinearJudge
from medal_judges.records.dimension import Dimension
from medal_judges.training.config import TrainConfig
from medal_judges.training.families import hybrid
from medal_judges.training.families.hybrid import (
    ALPHAS,
    FitRows,
    _combined,
    agreement,
    crossed,
    fit_blend,
    fit_hybrid,
    with_alpha,
)
from medal_judges.training.rows import TrainingExample, training_chats

from ..conftest import WORDS

LENGTH, REPETITION = "configs/judges/length.yaml", "configs/judges/repetition.yaml"
OVERALL = Dimension("overall", "continuous", 1, 5)
TWO = {"length": {"path": LENGTH}, "repetition": {"path": REPETITION}}


def settings(**changes: object) -> HybridConfig:
    return HybridConfig(**({"members": TWO} | changes))  # type: ignore[arg-type]


def fit_rows(count: int = 90, sources: int = 1) -> FitRows:
    """``sources`` sources of sizes that differ, each with a level of its own."""
    rng = np.random.default_rng(0)
    units = rng.uniform(size=(count, 2)) * [0.5, 0.1] + [0.2, 0.7]
    source = np.sort(
        rng.integers(0, sources, count) if sources > 1 else np.zeros(count, int)
    )
    targets = (
        0.55
        + 0.6 * units[:, 0]
        - 0.8 * units[:, 1]
        + rng.normal(0, 0.05, count)
        + 0.2 * source
    )
    units = units + 0.3 * source[:, None]
    return FitRows(
        ("length", "repetition"),
        units,
        targets,
        source.astype(str),
        np.array([f"g{i // 2}" for i in range(count)]),
        np.ones(count),
    )


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("alpha", [0.5, 30.0])
def test_the_ridge_is_scikit_learns(alpha: float, nonnegative: bool) -> None:
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows = fit_rows()
    oracle = make_pipeline(StandardScaler(), Ridge(alpha=alpha, positive=nonnegative))
    expected = oracle.fit(rows.units, rows.targets).predict(rows.units)
    blend = fit_blend(settings(alpha=alpha, nonnegative=nonnegative), rows)
    assert blend(rows.units) == pytest.approx(on_scale(expected), abs=1e-6)
    assert blend.residual == pytest.approx(
        np.sqrt(np.mean((rows.targets - expected) ** 2))
    )
    if nonnegative:
        # the other one's weight would be below 0
        assert blend.weights.tolist().count(0) == 1


def test_a_member_of_one_score_does_not_count() -> None:
    """The mean of 0.1s is not 0.1 to the last digit, and their spread not 0."""
    for count in range(30, 90, 7):
        rows = fit_rows(count, sources=3)
        rows.units[:, 1] = 0.1
        blend = fit_blend(settings(alpha=1.0, nonnegative=False), rows)
        moved = rows.units.copy()
        moved[:, 1] = 0.9
        assert blend(moved) == pytest.approx(blend(rows.units), abs=1e-9)


def test_sources_are_centred_apart_and_weigh_the_same() -> None:
    rows = fit_rows(120, sources=3)
    blend = fit_blend(settings(nonnegative=False, alpha=1e-6), rows)
    slopes = blend.weights / blend.spread
    # the levels' own slope is 0.2 / 0.3
    assert slopes == pytest.approx([0.6, -0.8], abs=0.15)
    twice = np.concatenate([np.arange(120), np.flatnonzero(rows.sources == "0")])
    again = fit_blend(settings(nonnegative=False, alpha=1e-6), rows.part(twice))
    assert again.weights == pytest.approx(blend.weights)


def test_the_penalty_is_the_one_that_cross_validates_best() -> None:
    rows = fit_rows(120, sources=3)
    by_alpha: dict[float, float] = {}
    for alpha in ALPHAS:
        scores = crossed(settings(alpha=alpha, nonnegative=False), rows)
        assert scores is not None
        by_alpha[alpha] = agreement("mean", scores, rows).get("mean", -1)
    found = with_alpha(settings(nonnegative=False), rows)
    assert found.alpha != "auto" and by_alpha[found.alpha] == max(by_alpha.values())
    assert with_alpha(settings(alpha=7.0), rows).alpha == 7.0
    assert with_alpha(settings(), rows.part(np.arange(6))).alpha == ALPHAS[0]


def test_cross_validation_keeps_conversations_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, learnt = fit_rows(), []
    monkeypatch.setattr(
        hybrid, "fit_blend", lambda c, r: (learnt.append(r), fit_blend(c, r))[1]
    )
    scores = crossed(settings(alpha=1.0, nonnegative=False), rows)
    assert scores is not None and np.isfinite(scores).all() and len(learnt) == 5
    # each is held out once
    assert not set.intersection(*(set(r.groups) for r in learnt))
    assert crossed(settings(alpha=1.0), rows.part(np.arange(6))) is None


def test_the_best_member_is_best_over_sources() -> None:
    rng = np.random.default_rng(1)
    targets = rng.uniform(size=80)
    sources = np.array(["big"] * 60 + ["small"] * 20)
    first = np.where(sources == "big", targets, -targets)  # right on three rows of four
    second = targets + rng.normal(0, 0.1, 80)
    rows = FitRows(
        ("first", "second"),
        np.stack([first, second], 1),
        targets,
        sources,
        sources,
        np.ones(80),
    )
    chosen, _ = _combined(settings(kind="select"), {"overall": rows})
    assert chosen == MemberSelection({"overall": "second"})


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
        source = ("dstc9", "other")[i % 2]
        found.append(
            TrainingExample(
                Dialogue(str(i), turns), source, {"overall": target}, group=str(i)
            )
        )
    return found


def run(folder: Path, **changes: object) -> TrainConfig:
    model = {"family": "hybrid", "members": TWO} | changes
    return TrainConfig(
        name="both",
        output_dir=str(folder),
        rubric="overall",
        model=model,  # type: ignore[arg-type]
        train=({"source": "dstc9:validation"},),  # type: ignore[arg-type]
    )


def test_a_stack_from_its_rows_to_a_saved_judge(tmp_path: Path) -> None:
    judge, figures = fit_hybrid(run(tmp_path / "j"), examples(), [OVERALL])
    assert figures["spearman/overall"] > 0.8
    assert {"spearman/overall/length", "spearman/overall@dstc9"} <= set(figures)
    assert isinstance(judge.combination, Stack)
    found = Judge.from_pretrained(judge.save_pretrained(tmp_path / "j"))
    names = {p.name for p in judge_files(tmp_path / "j")}
    assert names == {"judge.json", "model.safetensors", "golden.json"}
    given = [e.dialogue for e in examples()]
    for one, other in zip(found.score(given), judge.score(given), strict=True):
        assert one.scores == pytest.approx(other.scores, abs=4e-5)


def test_members_judge_the_rows_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = fit_hybrid(run(tmp_path), examples(), [OVERALL])
    files = sorted((tmp_path / "judgements").rglob("*.jsonl"))
    assert len(files) == 4  # two members, two sources
    scored: list[object] = []
    whole = LinearJudge._score_batch

    def counted(self: LinearJudge, items: list, dimensions: list) -> list:
        scored.extend(items)
        return whole(self, items, dimensions)

    monkeypatch.setattr(LinearJudge, "_score_batch", counted)
    again, _ = fit_hybrid(run(tmp_path, alpha=5.0), examples(), [OVERALL])
    assert scored == []
    assert again.signature().revision != first.signature().revision
    fit_hybrid(run(tmp_path), examples(32), [OVERALL])
    assert len(scored) == 64  # other rows: judged anew


def test_a_selection_takes_the_winner(tmp_path: Path) -> None:
    judge, figures = fit_hybrid(run(tmp_path, kind="select"), examples(), [OVERALL])
    assert judge.combination == MemberSelection({"overall": "length"})
    assert figures["spearman/overall/length"] > 0.8


def test_rows_that_a_member_learnt_from_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    folder = Judge.from_pretrained(LENGTH).save_pretrained(tmp_path / "member")
    # Chats count, whatever the files are called: 3 of the 30, and one of other data.
    chats = [example.dialogue.text_hash for example in examples()[:3]]
    facts = [{"part": "train", "source": "mine.jsonl", "chats": " ".join(chats)}]
    facts.append({"part": "validation", "source": "dstc9:validation"})
    (folder / "data.json").write_text(json.dumps(facts), encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        fit_hybrid(
            run(tmp_path / "j", members={"a": {"path": str(folder)}}),
            examples(),
            [OVERALL],
        )
    assert "member a was trained on 3 of the 30 rows on which" in caplog.text


def test_training_chats_are_known_of_every_saved_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = training_chats("boxed")
    assert len(packaged) > 1000
    assert training_chats(LENGTH) == training_chats("length") == set()
    # of the Hub
    folder = Judge.from_pretrained(LENGTH).save_pretrained(tmp_path / "hub")
    facts = [{"part": "train", "source": "x", "chats": "ab cd"}, {"part": "test"}]
    (folder / "data.json").write_text(json.dumps(facts), encoding="utf-8")
    monkeypatch.setattr(saving, "pull", lambda name, revision: folder)
    assert training_chats("org/judge") == {"ab", "cd"}


def test_an_alpha_that_nothing_chose_is_told(caplog: pytest.LogCaptureFixture) -> None:
    rows = fit_rows(60, sources=2)
    assert with_alpha(settings(alpha="auto"), rows).alpha in ALPHAS
    assert "alpha: auto" not in caplog.text
    # In one source all ratings are the same, so it never has a figure.
    rows.targets[rows.sources == "1"] = 0.5
    assert with_alpha(settings(alpha="auto"), rows).alpha == ALPHAS[0]
    assert "alpha: auto is 1: no penalty has a figure for each source" in caplog.text
    caplog.clear()
    few = rows.part(np.arange(6))
    assert with_alpha(settings(alpha="auto"), few).alpha == ALPHAS[0]
    assert "alpha: auto is 1" in caplog.text


def test_what_cannot_be_fitted_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no member has any of warmth"):
        fit_hybrid(run(tmp_path), examples(), [Dimension("warmth", "continuous", 0, 1)])
    with pytest.raises(ConfigError, match="cross-validation"):
        held_out = run(tmp_path).model_copy(update={"validation": run(tmp_path).train})
        fit_hybrid(held_out, examples(), [OVERALL])
