"""Fitting embedding judges: scikit-learn as the oracle, and the two-stage search."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medal_judges.config import build_config
from medal_judges.errors import ConfigError
from medal_judges.models.base.heads import on_scale
from medal_judges.models.embedding.judge import EmbeddingConfig
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.dimension import Dimension
from medal_judges.training.config import TrainConfig
from medal_judges.training.families.embedding import (
    FitSetting,
    Search,
    fit_embedding_judge,
    folds_of,
)
from medal_judges.training.rows import RunRows, TrainingExample

from ..conftest import WORDS

# The oracle is stopped as early as the fit that it is compared with.
pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
OVERALL = Dimension("overall", "ordinal", 0, 8)
REPETITIVE = Dimension("repetitive", "binary", 0, 1, good="low")


def example(number: int, unit: float, weight: float = 1.0) -> TrainingExample:
    turns = (Turn("user", WORDS[number % 12]), Turn("assistant", "film " * (1 + number % 7)))
    targets: dict[str, Any] = {"overall": unit, "repetitive": float(unit > 0.5)}
    return TrainingExample(
        Dialogue(str(number), turns), "s", targets, weight, dict(targets), str(number // 2)
    )


def problem(units: list[float]) -> Search:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(len(units), 6)) * [1, 2, 3, 1, 1, 1] + 5
    table[:, 5] = 1.0  # a constant column
    table[:, 0] += np.array(units) * 4
    examples = [example(i, unit) for i, unit in enumerate(units)]
    feature = np.array([True, True, True, False, False, False])
    return Search(EmbeddingConfig(), examples, table, feature, folds=[], seed=3, tried=[])


def standardised(table: np.ndarray) -> np.ndarray:
    from sklearn.preprocessing import StandardScaler

    return np.asarray(StandardScaler().fit_transform(table))


UNITS = [i / 39 for i in range(40)]
HALVES = [float(i % 2) for i in range(40)]


@pytest.mark.parametrize(
    ("units", "top"), [(UNITS, 8), (UNITS, 4), (HALVES, 1), (HALVES, 8), ([0.25] * 40, 8)]
)
@pytest.mark.parametrize("hidden", [(5,), (6, 4)])
def test_a_classifier_s_probabilities_are_scikit_learn_s(
    units: list[float], top: int, hidden: tuple[int, ...]
) -> None:
    from sklearn.neural_network import MLPClassifier

    here = problem(units)
    setting = FitSetting("mlp_classifier", top, 0.1, None, hidden, 40, 0.01)
    net = here.fit(np.arange(40), "overall", setting)
    classes = np.floor(np.array(units) * top + 0.5).astype(int)
    found = net.probabilities(here.table)
    assert found.shape == (40, top + 1) and found.sum(axis=1) == pytest.approx(1, abs=1e-9)
    unseen = sorted(set(range(top + 1)) - set(classes.tolist()))
    assert not found[:, unseen].any()
    if len(set(classes.tolist())) == 1:
        return
    oracle = MLPClassifier(
        hidden_layer_sizes=hidden, alpha=0.1, max_iter=40, learning_rate_init=0.01, random_state=3
    ).fit(standardised(here.table), classes)
    wanted = oracle.predict_proba(standardised(here.table))
    assert np.abs(found[:, oracle.classes_] - wanted).max() < 1e-6
    argmax = oracle.predict(standardised(here.table)) / top
    assert net.units(here.table, "argmax") == pytest.approx(argmax, abs=1e-9)
    expected = wanted @ oracle.classes_ / top
    assert net.units(here.table, "expected") == pytest.approx(expected, abs=1e-6)


def test_a_regressor_and_a_ridge_are_scikit_learn_s() -> None:
    from sklearn.linear_model import Ridge
    from sklearn.neural_network import MLPRegressor

    here = problem(UNITS)
    x = standardised(here.table)
    setting = FitSetting("mlp_regressor", 8, 0.1, None, (5,), 60, 0.01)
    oracle = MLPRegressor(
        hidden_layer_sizes=(5,), alpha=0.1, max_iter=60, learning_rate_init=0.01, random_state=3
    ).fit(x, np.floor(np.array(UNITS) * 8 + 0.5))
    found = here.fit(np.arange(40), "overall", setting)
    assert found.units(here.table, "expected") == pytest.approx(
        on_scale(oracle.predict(x) / 8), abs=1e-6
    )
    ridge = here.fit(np.arange(40), "overall", FitSetting("ridge", alpha=3.0, share=0.5))
    x[:, 3:] *= 0.5  # embedding columns
    assert ridge.raw(here.table)[:, 0] == pytest.approx(Ridge(alpha=3.0).fit(x, UNITS).predict(x))


def test_folds_keep_groups_together_and_hold_every_row_out_once() -> None:
    examples = [example(i, 0.5) for i in range(20)]
    folds = folds_of(examples, 20, EmbeddingConfig(folds=4), seed=0)
    assert sorted(i for _, held in folds for i in held) == list(range(20))
    for train, held in folds:
        assert not {examples[i].group for i in train} & {examples[i].group for i in held}
    ((train, held),) = folds_of(examples, 15, EmbeddingConfig(folds=4), seed=0)
    assert train.tolist() == list(range(15)) and held.tolist() == list(range(15, 20))


def test_weights_are_for_ridge() -> None:
    here = problem(UNITS)
    here.examples[0].weight = 4.0
    here.fit(np.arange(40), "overall", FitSetting("ridge"))
    with pytest.raises(ConfigError, match="ridge only"):
        here.fit(np.arange(40), "overall", FitSetting("mlp_regressor", 8, 1, None, (2,), 5, 0.1))


def fit(base: Path, validation: bool, **model: Any) -> tuple[Any, dict[str, float]]:
    settings = {
        "name": "x",
        "output_dir": "x",
        "rubric": "dstc12",
        "model": {"family": "embedding", "base": str(base), "features": ["log_words"]} | model,
        "train": [{"source": "s"}],
    }
    config = build_config(TrainConfig, settings, where="test")
    rows = [example(i, (i % 7) / 6) for i in range(60)]  # as long as the answer is good
    split = RunRows(rows[:36], rows[36:], []) if validation else RunRows(rows, [], [])
    return fit_embedding_judge(config, split, [OVERALL, REPETITIVE])


def test_the_ridge_finds_the_length_and_says_how(tiny_bert: Path) -> None:
    judge, figures = fit(tiny_bert, True, ridge={"alphas": [0.1, 1e6], "shares": [0.0, 1.0]})
    assert figures["spearman/overall"] > 0.9 and figures["auc/repetitive"] > 0.9
    assert len(judge.search) == 2 * 4
    for name, figure in (("overall", "spearman"), ("repetitive", "auc")):
        rows = [row for row in judge.search if row["dimension"] == name]
        (chosen,) = [row for row in rows if row["chosen"]]
        assert chosen["value"] == pytest.approx(max(row["value"] for row in rows))
        assert chosen["value"] == pytest.approx(figures[f"{figure}/{name}"])
    assert 0 < judge.calibration["overall"].spread < 0.3
    assert judge.calibration["overall"].rows == 24


def test_two_stages_class_range_then_hyperparameters(tiny_bert: Path) -> None:
    judge, figures = fit(
        tiny_bert,
        True,
        head="mlp_classifier",
        class_ranges=[2, 6],
        mlp={"hidden": [[4]], "alpha": [0.01, 1.0], "epochs": [60, 5], "learning_rate": [0.01]},
    )
    first = [r for r in judge.search if r["stage"] == "class range"]
    second = [r for r in judge.search if r["stage"] == "hyperparameters"]
    assert [(r["dimension"], r["top"]) for r in first] == [("overall", 2), ("overall", 6)]
    best = max(first, key=lambda r: r["value"])
    assert [r["top"] for r in first if r["chosen"]] == [best["top"]] == [judge.nets["overall"].top]
    assert len(second) == 2 * 4 and judge.nets["repetitive"].top == 1
    assert {r["top"] for r in second if r["dimension"] == "overall"} == {best["top"]}
    assert figures["spearman/overall"] > 0.5 and "overall" not in judge.calibration
    again, _ = fit(tiny_bert, True, head="mlp_classifier", class_ranges=[2, 6],
                   mlp={"hidden": [[4]], "alpha": [0.01, 1.0], "epochs": [60, 5],
                        "learning_rate": [0.01]})  # fmt: skip
    assert again.search == judge.search


def test_without_validation_rows_it_is_cross_validated(tiny_bert: Path) -> None:
    judge, figures = fit(tiny_bert, False, ridge={"alphas": [1.0], "shares": [1.0]}, folds=3)
    assert figures == {} and judge.calibration["overall"].rows == 60
    (row,) = [r for r in judge.search if r["dimension"] == "overall"]
    assert row["value"] > 0.9


def test_labels_of_the_last_answer_are_learnt_from_it(tiny_bert: Path) -> None:
    rows, judges = [], []
    for number in range(24):
        turns = [Turn(("user", "assistant")[k % 2], WORDS[(number + k) % 12]) for k in range(6)]
        told = {"overall": number / 23}
        rows.append(TrainingExample(Dialogue(str(number), tuple(turns)), "s", told, human=told))
    for more in ({}, {"learn_last": True, "answers": 3}):
        model = {"family": "embedding", "base": str(tiny_bert), "reading": "answers"} | more
        settings = {"name": "n", "output_dir": "o", "rubric": "medal"}
        settings |= {"train": [{"source": "s"}], "model": model}
        config = build_config(TrainConfig, settings, where="test")
        judges.append(fit_embedding_judge(config, RunRows(rows, [], []), [OVERALL])[0])
    last, three = judges
    assert three.nets["overall"].mean == pytest.approx(last.nets["overall"].mean, abs=1e-5)
    talk = [rows[0].dialogue]
    each = [j.details["overall"]["raw"] for j in last.score(talk, level="turn")]
    whole = next(iter(three.score(talk))).details["overall"]["raw"]
    assert whole == pytest.approx(np.mean(each), abs=4e-5)


def test_leaving_chatbots_out_gives_calibration_and_threshold(tiny_bert: Path) -> None:
    rng, rows = np.random.default_rng(0), []
    for number in range(90):
        said = int(rng.integers(0, 2))
        turns = (Turn("user", "music"), Turn("assistant", ("film bread", "garden")[said]))
        bot = ("a", "b", "c")[number % 3]
        talk = Dialogue(str(number), turns, models={"assistant": bot})
        present = float(rng.random() < (0.05 + 0.4 * said))
        rows.append(
            TrainingExample(talk, "s", {"repetitive": present}, human={"repetitive": present})
        )
    settings = {
        "name": "n", "output_dir": "o", "rubric": "medal", "calibration": "isotonic",
        "train": [{"source": "s"}],
        "model": {"family": "embedding", "base": str(tiny_bert), "reading": "answers",
                  "features": [], "fold_by": "chatbot"},
    }  # fmt: skip
    config = build_config(TrainConfig, settings, where="test")
    folds = folds_of(rows, len(rows), config.model, 0)
    assert sorted(len(held) for _, held in folds) == [30, 30, 30]
    assert all(len({rows[i].dialogue.chatbot for i in held}) == 1 for _, held in folds)
    judge, _ = fit_embedding_judge(config, RunRows(rows, [], []), [REPETITIVE])
    fitted = judge.calibration["repetitive"]
    assert fitted.threshold and len(fitted.others) == 3
    judged = list(judge.score([row.dialogue for row in rows]))
    for text in ("film bread", "garden"):
        mine = [i for i, row in enumerate(rows) if row.dialogue.turns[1].content == text]
        share = np.mean([rows[i].targets["repetitive"] for i in mine])
        chance = judged[mine[0]].distributions["repetitive"][1]
        low, high = judged[mine[0]].details["repetitive"]["interval"]
        score = judged[mine[0]].scores["repetitive"]
        assert chance == pytest.approx(share, abs=0.03) and low <= score <= high < low + 0.3
        # Below half of the rows have it, and the score says yes where that is the best guess.
        assert chance < 0.5 and (score >= 0.5) == (text == "garden")
    with pytest.raises(ConfigError, match="one chatbot is too few"):
        folds_of(rows[::3], 30, config.model, 0)
