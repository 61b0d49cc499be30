"""Fitting linear judges: scikit-learn as the oracle, the search of settings, what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from medal_judges import Judge
from medal_judges.config import build_config
from medal_judges.errors import ConfigError
from medal_judges.models.linear.config import LinearConfig
from medal_judges.models.linear.judge import LinearJudge
from medal_judges.models.linear.reader import DialogueReader
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.dimension import Dimension, load_rubric
from medal_judges.training.config import TrainConfig
from medal_judges.training.families import linear
from medal_judges.training.families.linear import Search, make_folds
from medal_judges.training.family import TrainingRun
from medal_judges.training.rows import RunRows, TrainingExample

from ..conftest import WORDS
from ..talks import talk

# The oracle is stopped as early as the fit that it is compared with.
pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
OVERALL = Dimension("overall", "ordinal", 0, 8)
REPETITIVE = Dimension("repetitive", "binary", 0, 1, good="low")
UNITS = [number / 39 for number in range(40)]
HALVES = [float(number % 2) for number in range(40)]
ALL = np.arange(40)


def example(number: int, unit: float, source: str = "s") -> TrainingExample:
    turns = (
        Turn("user", WORDS[number % 12]),
        Turn("assistant", "film " * (1 + number % 7)),
    )
    targets: dict[str, Any] = {"overall": unit, "repetitive": float(unit > 0.5)}
    dialogue = Dialogue(str(number), turns)
    return TrainingExample(dialogue, source, targets, dict(targets), str(number // 2))


class HalfVectors(DialogueReader):
    vector_mask = np.array([False] * 3 + [True] * 3)


def problem(units: list[float], **settings: Any) -> Search:
    """Columns of three features of each side, of which one never varies."""
    config = LinearConfig(
        features=("log_words", "copy", "question"), vectors=False, **settings
    )
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(len(units), 6)) * [1, 2, 3, 1, 1, 1] + 5
    columns[:, 5] = 1.0
    columns[:, 0] += np.array(units) * 4
    reader = HalfVectors(config, None)
    examples = [example(number, unit) for number, unit in enumerate(units)]
    return Search(reader, examples, columns, folds=[], seed=3)


def standardise(columns: np.ndarray) -> np.ndarray:
    return np.asarray(StandardScaler().fit_transform(columns))


def spread(values: np.ndarray, weights: np.ndarray) -> float:
    return float(np.sqrt(np.average(values**2, weights=weights)))


# -- heads: scikit-learn is the oracle -------------------------------------------------------------


@pytest.mark.parametrize(
    ("units", "top"),
    [(UNITS, 8), (UNITS, 4), (HALVES, 1), (HALVES, 8), ([0.25] * 40, 8)],
)
@pytest.mark.parametrize("hidden", [(5,)])
def test_a_classifier_s_probabilities_are_scikit_learn_s(
    units: list[float], top: int, hidden: tuple[int, ...]
) -> None:
    from sklearn.neural_network import MLPClassifier

    here = problem(units, head="mlp_classifier")
    network = {"hidden_layer_sizes": hidden, "alpha": 0.1}
    network |= {"max_iter": 40, "learning_rate_init": 0.01}
    head = here.fit_head(ALL, OVERALL, {"classes": top} | network)
    columns = here.columns
    classes = np.floor(np.array(units) * top + 0.5).astype(int)
    chances = head.mlp_probabilities(columns)
    assert chances.shape == (40, top + 1) and chances.sum(axis=1) == pytest.approx(
        1, abs=1e-9
    )
    unseen = sorted(set(range(top + 1)) - set(classes.tolist()))
    assert not chances[:, unseen].any()
    if len(set(classes.tolist())) == 1:
        return
    oracle = MLPClassifier(**network, random_state=3)
    oracle.fit(standardise(columns), classes)
    expected = oracle.predict_proba(standardise(columns))
    assert np.abs(chances[:, oracle.classes_] - expected).max() < 1e-6
    argmax = oracle.predict(standardise(columns)) / top
    assert head.unit_scores(columns, "argmax") == pytest.approx(argmax, abs=1e-9)
    mean = expected @ oracle.classes_ / top
    assert head.unit_scores(columns, "expected") == pytest.approx(mean, abs=1e-6)


def test_ridge_and_logistic_are_scikit_learn_s() -> None:
    here = problem(UNITS)
    columns, x = here.columns, standardise(here.columns)
    x[:, 3:] *= 0.5  # columns of vectors
    ridge = here.fit_head(ALL, OVERALL, {"alpha": 3.0 / 40, "share": 0.5})
    # there a row has a weight of 1
    expected = Ridge(alpha=3.0).fit(x, UNITS).predict(x)
    assert ridge.outputs(columns)[:, 0] == pytest.approx(expected)
    bias = ridge.layers[0][1][0]
    assert bias + sum(ridge.averages) == pytest.approx(ridge.outputs(columns).mean())
    labels = np.array(UNITS) > 0.5
    logistic = here.fit_head(ALL, REPETITIVE, {"alpha": 0.1 / 40, "share": 0.5})
    oracle = LogisticRegression(C=10, class_weight="balanced", max_iter=1000).fit(
        x, labels
    )
    assert logistic.unit_scores(columns, "expected") == pytest.approx(
        oracle.predict_proba(x)[:, 1], abs=2e-3
    )


def test_a_ridge_is_fitted_within_sources_that_count_the_same() -> None:
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(90, 6))
    sources = ["a"] * 60 + ["b"] * 30
    truth = columns @ np.array([1.0, -2, 0, 0, 0.5, 0]) + rng.normal(size=90) * 0.1
    truth[60:] += 7  # the second source is rated higher all over
    units = 0.5 + 0.02 * truth
    rows = zip(units.tolist(), sources, strict=True)
    examples = [example(number, u, source=s) for number, (u, s) in enumerate(rows)]
    weights = np.array([1 / 60] * 60 + [1 / 30] * 30)
    centred, labels = columns.copy(), units.copy()
    for part in (slice(0, 60), slice(60, 90)):
        centred[part] -= centred[part].mean(0)
        labels[part] -= labels[part].mean()
    scale = np.array([1 / spread(column, weights) for column in centred.T])
    oracle = Ridge(alpha=0.3, fit_intercept=False)
    oracle.fit(centred * scale, labels, sample_weight=weights)
    expected = oracle.coef_ * scale
    for stretch in (False, True):
        config = LinearConfig(
            features=("log_words", "copy", "question"), vectors=False, stretch=stretch
        )
        reader = DialogueReader(config, None)
        search = Search(reader, examples, columns, [], 0)
        head = search.fit_head(np.arange(90), OVERALL, {"alpha": 0.3, "share": 1.0})
        factor = (
            spread(labels, weights) / spread(centred @ expected, weights)
            if stretch
            else 1
        )
        assert head.layers[0][0][:, 0] == pytest.approx(expected * factor, rel=1e-8)
        # The mean dialogue of the sources scores the mean of their labels.
        means = [columns[:60].mean(0), columns[60:].mean(0)]
        middle = np.mean([units[:60].mean(), units[60:].mean()])
        assert head.outputs(np.mean(means, axis=0)[None])[0, 0] == pytest.approx(middle)


# -- the search ------------------------------------------------------------------------------------


def run_of(rows: RunRows, dimensions: list[Dimension], **settings: Any) -> LinearJudge:
    defaults = {
        "name": "x",
        "output_dir": "x",
        "rubric": "dstc12",
        "train": [{"source": "s"}],
    }
    config = build_config(TrainConfig, defaults | settings, where="test")
    return linear.fit(rows, TrainingRun(config, dimensions))


def fit(
    rows: list[TrainingExample], base: Path, validation: bool, **model: Any
) -> LinearJudge:
    split = RunRows(rows[:36], rows[36:], []) if validation else RunRows(rows, [], [])
    settings = {"family": "linear", "base": str(base), "features": ["log_words"]}
    return run_of(
        split, [OVERALL, REPETITIVE], model=settings | {"max_tokens": 64} | model
    )


@pytest.mark.parametrize("head", [None, "ridge"])
def test_the_search_finds_the_length(tiny_bert: Path, head: str | None) -> None:
    grid = {"alpha": [1e-3, 1e4], "share": [0.0, 1.0]}
    rows = [example(i, (i % 7) / 6) for i in range(60)]  # as long as the answer is good
    judge = fit(rows, tiny_bert, True, grid=grid, head=head)
    assert judge.heads["repetitive"].kind == (head or "logistic")
    scored = [one.scores for one in judge.score(row.dialogue for row in rows[36:])]
    for name, least in {"overall": 0.9, "repetitive": 0.7}.items():
        labels = [row.targets[name] for row in rows[36:]]
        assert spearmanr([one[name] for one in scored], labels).statistic > least
    fitted = judge.calibration["overall"]
    assert fitted.spread is not None and 0 < fitted.spread < 0.3 and fitted.rows == 24
    assert fitted.margin is not None and 0 < fitted.margin < 0.5
    temperature = judge.calibration["repetitive"].temperature
    assert (temperature == 1) == (head == "ridge")


def test_leaving_chatbots_out_gives_calibration_and_threshold(tiny_bert: Path) -> None:
    rng, rows = np.random.default_rng(0), []
    for number in range(90):
        said = int(rng.integers(0, 2))
        turns = (
            Turn("user", "music"),
            Turn("assistant", ("film bread", "garden")[said]),
        )
        bot = ("a", "b", "c")[number % 3]
        dialogue = Dialogue(str(number), turns, models={"assistant": bot})
        label = {"repetitive": float(rng.random() < (0.05 + 0.4 * said))}
        rows.append(TrainingExample(dialogue, "s", label, human=label))
    model = {
        "family": "linear",
        "base": str(tiny_bert),
        "reading": "answers",
        "head": "ridge",
    }
    model |= {"features": [], "fold_by": "chatbot"}
    model |= {"grid": {"alpha": [0.01, 1.0], "share": [1.0]}}
    config = LinearConfig(**model)
    folds = make_folds(rows, len(rows), config, 0)
    assert sorted(len(held_out) for _, held_out in folds) == [30, 30, 30]
    for _, held_out in folds:
        assert len({rows[row].dialogue.chatbot for row in held_out}) == 1
    judge = run_of(
        RunRows(rows, [], []), [REPETITIVE], model=model, calibration="isotonic"
    )
    fitted = judge.calibration["repetitive"]
    assert fitted.threshold
    judged = list(judge.score([row.dialogue for row in rows]))
    for text in ("film bread", "garden"):
        own = [i for i, row in enumerate(rows) if row.dialogue.turns[1].content == text]
        share = np.mean([rows[i].targets["repetitive"] for i in own])
        chance = judged[own[0]].distributions["repetitive"][1]
        score = judged[own[0]].scores["repetitive"]
        assert chance == pytest.approx(share, abs=0.03)
        # Below half of the rows have it, and the score says yes where that is the best guess.
        assert chance < 0.5 and (score >= 0.5) == (text == "garden")
    with pytest.raises(ConfigError, match="one chatbot is too few"):
        run_of(RunRows(rows[::3], [], []), [REPETITIVE], model=model)


# -- turns -----------------------------------------------------------------------------------------

DIMENSIONS = ("overall", "repetitive")


def rated() -> list[TrainingExample]:
    """24 dialogues of two sources; every third lacks one of the labels."""
    rng = np.random.default_rng(0)
    rows = []
    for number in range(24):
        dialogue = talk(
            *(" ".join(rng.choice(WORDS, 5)) for _ in range(4)), id=str(number)
        )
        labels = {
            n: float(rng.integers(2))
            for n in DIMENSIONS
            if number % 3 or n == "overall"
        }
        source = "ba"[number % 2]
        rows.append(TrainingExample(dialogue, source, labels, labels, str(number)))
    return rows


def fitted_on(base: Path, rows: list[TrainingExample], **model: Any) -> LinearJudge:
    dimensions = [d for d in load_rubric("medal") if d.name in DIMENSIONS]
    settings = {
        "family": "linear",
        "base": str(base),
        "max_tokens": 64,
        "limit": 4.0,
    } | model
    judge = run_of(
        RunRows(rows, [], []), dimensions, model=settings, calibration="none"
    )
    return judge


def test_a_logistic_head_is_calibrated_to_its_labels() -> None:
    rng = np.random.default_rng(3)
    rows = []
    for number in range(300):
        again = number % 2  # who repeats himself is marked, three times in four
        said = ["a b", "c d e", "b a", "c d e" if again else "a d c"]
        marked = float(rng.random() < (0.75 if again else 0.25))
        label = {"repetitive": marked, "overall": 1 - marked}
        rows.append(TrainingExample(talk(*said, id=str(number)), "a", label, label))
    model = {"vectors": False, "features": ["assistant.copy"]}
    model |= {"grid": {"alpha": [1e-4]}}
    judge = fitted_on(Path("nowhere"), rows, **model)
    scores = [
        one.scores["repetitive"]
        for one in judge.score([rows[0].dialogue, rows[1].dialogue])
    ]
    shares = [
        np.mean([row.targets["repetitive"] for row in rows[k::2]]) for k in (0, 1)
    ]
    assert scores == pytest.approx(shares, abs=0.02)
    for row in rows:
        row.targets["repetitive"] = 1.0
    with pytest.raises(
        ConfigError, match="all training labels of 'repetitive' are the same"
    ):
        fitted_on(Path("nowhere"), rows, **model)


REPLY = {"positive": ["w1 w2"], "negative": ["w3"]}
REACTIONS = {
    "reply": REPLY,
    "features": ["log_words", "user.reaction", "assistant.expected_reaction"],
    "grid": {"alpha": [0.1], "share": [0.2]},
}


def test_a_judge_without_its_base_is_small_and_the_same(
    tmp_path: Path,
) -> None:
    rows = rated()
    judge = fitted_on("embedded:minilm", rows, **REACTIONS)
    folder = judge.save_pretrained(tmp_path / "judge")
    weights = load_file(folder / "model.safetensors")
    halves = {name for name, tensor in weights.items() if tensor.dtype == torch.float16}
    assert (
        halves == {name for name in weights if name.startswith("reply.models.")}
        and halves
    )
    assert not (folder / "encoder").exists()
    again = Judge.from_pretrained(folder)
    dialogues = [row.dialogue for row in rows]
    for one, other in zip(judge.score(dialogues), again.score(dialogues), strict=True):
        assert one.scores == pytest.approx(dict(other.scores), abs=1e-5)
