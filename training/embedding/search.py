"""The settings an embedding judge is fitted with: grids, searched on validation rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from medal_judges.dimension import Dimension
from medal_judges.errors import ConfigError
from medal_judges.models.embedding.config import EmbeddingConfig, EmbeddingHead
from medal_judges.models.embedding.net import FittedNet, Floats
from medal_judges.training.loop.validation import validation_figures
from medal_judges.training.rows.examples import TrainingExample

_FLOOR = 1e-9


@dataclass(frozen=True, slots=True)
class FitSetting:
    """How one dimension is fitted; what does not apply to the head stays None."""

    head: EmbeddingHead
    top: int = 1
    alpha: float = 1.0
    share: float | None = None
    hidden: tuple[int, ...] | None = None
    epochs: int | None = None
    learning_rate: float | None = None


@dataclass(slots=True)
class SearchData:
    """Rows to fit and choose on: ``table`` [n, W] beside ``examples``; each fold is the numbers of
    rows fitted on, and of rows that the setting is then judged by."""

    examples: Sequence[TrainingExample]
    table: Floats
    is_feature: np.ndarray
    folds: Sequence[tuple[np.ndarray, np.ndarray]]
    decode: str
    seed: int

    def labelled(self, rows: np.ndarray, name: str) -> np.ndarray:
        """Those of ``rows`` with a label of dimension ``name``."""
        return np.array([i for i in rows if name in self.examples[i].targets], dtype=int)


def folds_of(
    examples: Sequence[TrainingExample], train: int, parts: int, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """One fold where there are rows after the first ``train``: they are the validation rows.
    Otherwise ``parts`` folds of the training rows, whole groups together."""
    if len(examples) > train:
        return [(np.arange(train), np.arange(train, len(examples)))]
    groups = [example.group or example.dialogue.id for example in examples]
    names = sorted(set(groups))
    if len(names) < 2:
        raise ConfigError(
            "an embedding judge chooses its settings on held-out rows: one conversation is too few"
        )
    order = np.random.default_rng(seed).permutation(len(names))
    home = {names[i]: place % parts for place, i in enumerate(order)}
    homes = np.array([home[group] for group in groups])
    return [(np.flatnonzero(homes != k), np.flatnonzero(homes == k)) for k in sorted(set(homes))]


def fit_net(problem: SearchData, rows: np.ndarray, name: str, setting: FitSetting) -> FittedNet:
    """The net of dimension ``name`` fitted on ``rows``, as plain arrays.

    Raises ConfigError when none of them has a label.
    """
    rows = problem.labelled(rows, name)
    if not len(rows):
        raise ConfigError(
            f"{name!r} has no label in a part of the training rows",
            hint="give validation rows, or fewer model.folds",
        )
    x = problem.table[rows]
    units = np.array([problem.examples[i].targets[name] for i in rows], dtype=float)
    weights = np.array([problem.examples[i].weight for i in rows])
    mean, deviation = np.average(x, axis=0, weights=weights), x.std(axis=0)
    scale = np.where(deviation > _FLOOR, 1 / np.maximum(deviation, _FLOOR), 0.0)
    if setting.share is not None:
        scale = scale * np.where(problem.is_feature, 1.0, setting.share)
    inputs = (x - mean) * scale
    if setting.head == "ridge":
        return _ridge(inputs, units, weights, setting, mean, scale)
    if len(set(weights)) > 1:
        raise ConfigError(
            "the weights of entries count for model.head: ridge only", hint="leave weight out"
        )
    return _mlp(inputs, units, setting, problem.seed, mean, scale)


def _ridge(
    x: Floats, y: Floats, weights: Floats, setting: FitSetting, mean: Floats, scale: Floats
) -> FittedNet:
    from sklearn.linear_model import Ridge

    fitted = Ridge(alpha=setting.alpha).fit(x, y, sample_weight=weights)
    layer = (fitted.coef_[:, None].astype(float), np.array([fitted.intercept_], dtype=float))
    return FittedNet("ridge", mean, scale, (layer,))


def _mlp(
    x: Floats, y: Floats, setting: FitSetting, seed: int, mean: Floats, scale: Floats
) -> FittedNet:
    """On whole-number classes: Equation 1 from [0, 1] to [0, top], rounded."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    classes = np.floor(y * setting.top + 0.5).astype(int)
    known = tuple(int(c) for c in np.unique(classes))
    classifier = setting.head == "mlp_classifier"
    if classifier and len(known) == 1:
        return FittedNet(setting.head, mean, scale, (), setting.top, known)
    kind = MLPClassifier if classifier else MLPRegressor
    model = kind(
        hidden_layer_sizes=setting.hidden,
        alpha=setting.alpha,
        max_iter=setting.epochs,
        learning_rate_init=setting.learning_rate,
        random_state=seed,
    )
    with warnings.catch_warnings():  # the duration is a setting, not a failure
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x, classes if classifier else classes.astype(float))
    layers = tuple(
        (w.astype(float), b.astype(float))
        for w, b in zip(model.coefs_, model.intercepts_, strict=True)
    )
    return FittedNet(setting.head, mean, scale, layers, setting.top, known if classifier else ())


def agreement(problem: SearchData, dimension: Dimension, setting: FitSetting) -> float | None:
    """Spearman (AUC of a binary dimension) on held-out rows, the mean over folds and sources; None
    where undefined everywhere. Its sign counts (ORALIS tunes for positive correlation)."""
    name, binary = dimension.name, dimension.kind == "binary"
    found = []
    for train, held_out in problem.folds:
        scores = fit_net(problem, train, name, setting).units(
            problem.table[held_out], problem.decode
        )
        examples = [problem.examples[i] for i in held_out]
        figures = validation_figures(examples, {name: scores}, {name} if binary else set())
        found += [v for k, v in figures.items() if k.endswith(f"/{name}")]
    return float(np.mean(found)) if found else None


class Search:
    """Chooses each dimension's FitSetting, and remembers what was tried (``rows``)."""

    def __init__(self, config: EmbeddingConfig, problem: SearchData) -> None:
        self.config, self.problem = config, problem
        self.rows: list[dict[str, Any]] = []

    def run(self, dimensions: Sequence[Dimension]) -> dict[str, FitSetting]:
        """Dimension -> its setting: ridge by its own grid; MLPs by the class range, then theirs."""
        config = self.config
        ridges = [d for d in dimensions if config.head_of(d.name) == "ridge"]
        chosen = {d.name: self._best("ridge", d, self._ridge_grid()) for d in ridges}
        nets = [d for d in dimensions if config.head_of(d.name) != "ridge"]
        top = self._class_range([d for d in nets if d.kind != "binary"])
        for d in nets:
            head = config.head_of(d.name)
            start = replace(self._first(head), top=1 if d.kind == "binary" else top)
            chosen[d.name] = self._best("hyperparameters", d, self._mlp_grid(start))
        return chosen

    def _ridge_grid(self) -> list[FitSetting]:
        grid = self.config.ridge
        return [FitSetting("ridge", alpha=a, share=s) for s, a in product(grid.shares, grid.alphas)]

    def _first(self, head: EmbeddingHead) -> FitSetting:
        grid = self.config.mlp
        return FitSetting(
            head,
            alpha=grid.alpha[0],
            hidden=grid.hidden[0],
            epochs=grid.epochs[0],
            learning_rate=grid.learning_rate[0],
        )

    def _mlp_grid(self, start: FitSetting) -> list[FitSetting]:
        grid = self.config.mlp
        return [
            replace(start, hidden=hidden, alpha=alpha, epochs=epochs, learning_rate=rate)
            for hidden, alpha, epochs, rate in product(
                grid.hidden, grid.alpha, grid.epochs, grid.learning_rate
            )
        ]

    def _class_range(self, dimensions: Sequence[Dimension]) -> int:
        """First stage: the highest class that is best on average over ``dimensions``."""
        tops = self.config.class_ranges
        if len(tops) == 1 or not dimensions:
            return tops[0]
        means = []
        for top in tops:
            tried = [replace(self._first(self.config.head_of(d.name)), top=top) for d in dimensions]
            found = [self._try("class range", d, s) for d, s in zip(dimensions, tried, strict=True)]
            means.append(float(np.mean([value or 0.0 for value in found])))
        best = tops[int(np.argmax(means))]
        for row in self.rows:
            if row["stage"] == "class range":
                row["chosen"] = row["top"] == best
        return best

    def _best(self, stage: str, dimension: Dimension, grid: Sequence[FitSetting]) -> FitSetting:
        """The setting of ``grid`` with the highest agreement; the first of equals, so that the
        order of the grid is a preference."""
        values = [self._try(stage, dimension, setting) for setting in grid]
        best = int(np.argmax([-np.inf if v is None else v for v in values]))
        self.rows[len(self.rows) - len(grid) + best]["chosen"] = True
        return grid[best]

    def _try(self, stage: str, dimension: Dimension, setting: FitSetting) -> float | None:
        value = agreement(self.problem, dimension, setting)
        row = {"stage": stage, "dimension": dimension.name} | asdict(setting)
        row["hidden"] = "x".join(map(str, setting.hidden)) if setting.hidden else None
        row["figure"] = "auc" if dimension.kind == "binary" else "spearman"
        self.rows.append(row | {"value": value, "chosen": False})
        return value
