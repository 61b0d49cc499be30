"""Fits one head of a linear judge, with scikit-learn's solvers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor

from medal_judges.errors import ConfigError
from medal_judges.models.linear.config import HeadName, LinearConfig
from medal_judges.models.linear.heads import FittedHead, Floats
from medal_judges.models.linear.reader import DialogueReader
from medal_judges.records.dimension import Dimension
from medal_judges.training.rows import TrainingExample

_FLOOR = 1e-6  # below it is the rounding of a column that never varies


@dataclass(frozen=True, slots=True)
class FitSetting:
    """How one dimension is fitted; None for what the head does not have."""

    head: HeadName
    top: int = 1
    alpha: float = 1.0
    share: float | None = None
    hidden: tuple[int, ...] | None = None
    epochs: int | None = None
    learning_rate: float | None = None


@dataclass(frozen=True, slots=True)
class ColumnTable:
    """The columns of dialogues [n, C]; ``is_vector`` [C]; ``is_read`` [C], which of them heads may
    read; and how to name them (``reader``)."""

    columns: Floats
    is_vector: np.ndarray
    is_read: np.ndarray
    reader: DialogueReader

    @classmethod
    def of(
        cls,
        columns: Floats,
        reader: DialogueReader,
    ) -> ColumnTable:
        named = reader.named(dict.fromkeys(reader.config.features, 1.0))
        return cls(columns, reader.is_vector, reader.is_vector | (named > 0), reader)


@dataclass(slots=True)
class Labelled:
    """The labelled rows of a dimension: columns ``x`` [n, C], labels ``y`` [n] on [0, 1], the
    ``sources`` [n], and ``weights`` [n], with which every source of entries of equal weight counts
    the same."""

    x: Floats
    y: Floats
    sources: np.ndarray
    weights: Floats

    @classmethod
    def of(
        cls,
        x: Floats,
        examples: Sequence[TrainingExample],
        name: str,
    ) -> Labelled:
        y = np.array([example.targets[name] for example in examples], dtype=float)
        sources = np.array([example.source for example in examples])
        weights = np.array([example.weight for example in examples], dtype=float)
        for source in np.unique(sources):
            weights[sources == source] /= (sources == source).sum()
        return cls(x, y, sources, weights)

    def source_means(self, values: Floats) -> Floats:
        """Returns the weighted mean of ``values`` [n, ...] of each source."""
        return source_means(values, self.sources, self.weights)

    def centred(self, values: Floats) -> Floats:
        """Returns ``values`` [n, ...] less the mean of their source."""
        _, numbers = np.unique(self.sources, return_inverse=True)
        differences: Floats = values - self.source_means(values)[numbers]
        return differences

    def deviation(self, values: Floats) -> Floats:
        """Returns the deviation of ``values`` [n, ...] within sources."""
        squares = np.average(self.centred(values) ** 2, axis=0, weights=self.weights)
        return np.asarray(np.sqrt(squares))


def source_means(
    values: Floats,
    sources: np.ndarray,
    weights: Floats,
) -> Floats:
    """Returns the weighted mean of ``values`` [n, ...] of each source, in the order of their
    names."""
    means = []
    for source in np.unique(sources):
        rows = sources == source
        means.append(np.average(values[rows], axis=0, weights=weights[rows]))
    return np.array(means)


def fit_head(
    table: ColumnTable,
    rows: np.ndarray,
    examples: Sequence[TrainingExample],
    dimension: Dimension,
    setting: FitSetting,
    seed: int,
) -> FittedHead:
    """Returns the head of ``dimension`` fitted on ``rows`` of the table. Raises ConfigError if none
    of them has a label, or a logistic head has one label only."""
    name = dimension.name
    chosen = [row for row in rows if name in examples[row].targets]
    if not chosen:
        raise ConfigError(
            f"{name!r} has no label in a part of the training rows",
            hint="give validation rows, or fewer model.folds",
        )
    labelled = Labelled.of(
        table.columns[chosen], [examples[row] for row in chosen], name
    )
    deviation = labelled.deviation(labelled.x)
    scale = np.where(deviation > _FLOOR, 1 / np.maximum(deviation, _FLOOR), 0.0)
    scale = scale * table.is_read
    if setting.share is not None:
        scale = scale * np.where(table.is_vector, setting.share, 1.0)
    config = table.reader.config
    if setting.head == "ridge":
        priors = table.reader.named(config.prior_weights.get(name, {}))
        weights, bias = _ridge(labelled, scale, setting.alpha, config.stretch, priors)
    elif setting.head == "logistic":
        weights, bias = _logistic(labelled, scale, setting.alpha, config, name)
    elif len({examples[row].weight for row in chosen}) > 1:
        raise ConfigError(
            "the weights of entries count for model.head: ridge and logistic only",
            hint="leave weight out",
        )
    else:
        return _mlp(labelled, scale, setting, seed)
    averages = _averages(labelled, weights, table.reader)
    return FittedHead.line(setting.head, weights, bias, averages)


def _ridge(
    labelled: Labelled,
    scale: Floats,
    alpha: float,
    stretch: bool,
    priors: Floats,
) -> tuple[Floats, float]:
    """Returns weights [C] and bias. Every source is centred on its own mean: a judge learns what is
    better within a source, not which source was rated higher. The mean dialogue of the sources
    scores the mean of their labels."""
    x, y = labelled.centred(labelled.x), labelled.centred(labelled.y)
    solver = Ridge(alpha=alpha, fit_intercept=False)
    weights = solver.fit(x * scale, y, sample_weight=labelled.weights).coef_ * scale

    def unit(direction: Floats) -> Floats:
        spread = float(labelled.deviation(x @ direction))
        if spread == 0:
            return direction
        return direction / spread

    if stretch:
        weights = unit(weights)
        if priors.any():
            weights = weights + float(np.abs(priors).max()) * unit(priors * scale)
        weights = unit(weights) * float(labelled.deviation(y))
    middle = labelled.source_means(labelled.y).mean()
    mean_dialogue = labelled.source_means(labelled.x).mean(axis=0)
    return weights, float(middle - mean_dialogue @ weights)


def _logistic(
    labelled: Labelled,
    scale: Floats,
    alpha: float,
    config: LinearConfig,
    name: str,
) -> tuple[Floats, float]:
    """Returns weights [C] and bias of the logit. Raises ConfigError for one label only."""
    labels = labelled.y >= 0.5
    if labels.all() or not labels.any():
        raise ConfigError(f"all training labels of {name!r} are the same")
    middle = labelled.source_means(labelled.x).mean(axis=0)
    class_weight = "balanced" if config.balanced else None
    solver = LogisticRegression(C=1 / alpha, class_weight=class_weight, max_iter=1000)
    solver.fit((labelled.x - middle) * scale, labels, sample_weight=labelled.weights)
    weights = solver.coef_[0] * scale
    return weights, float(solver.intercept_[0] - middle @ weights)


def _averages(
    labelled: Labelled,
    weights: Floats,
    reader: DialogueReader,
) -> tuple[float, float]:
    """Returns what the mean user side and the mean assistant side of the rows add to the output."""
    if reader.config.reading == "dialogue":
        return 0.0, 0.0
    added = labelled.source_means(labelled.x).mean(axis=0) * weights
    user, assistant = added.reshape(2, -1).sum(axis=1).tolist()
    return user, assistant


def _mlp(
    labelled: Labelled,
    scale: Floats,
    setting: FitSetting,
    seed: int,
) -> FittedHead:
    """Returns an MLP over whole-number classes: Equation 1 from [0, 1] to [0, top], rounded."""
    classes = np.floor(labelled.y * setting.top + 0.5).astype(int)
    present: tuple[int, ...] = tuple(np.unique(classes).tolist())
    is_classifier = setting.head == "mlp_classifier"
    if is_classifier and len(present) == 1:
        return FittedHead(setting.head, (), setting.top, present)
    model_class: Any = MLPClassifier if is_classifier else MLPRegressor
    model = model_class(
        hidden_layer_sizes=setting.hidden,
        alpha=setting.alpha,
        max_iter=setting.epochs,
        learning_rate_init=setting.learning_rate,
        random_state=seed,
    )
    mean = labelled.x.mean(axis=0)
    inputs = (labelled.x - mean) * scale
    targets = classes if is_classifier else classes.astype(float)
    with warnings.catch_warnings():  # the duration is a setting, not a failure
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(inputs, targets)
    weights = [layer.astype(float) for layer in model.coefs_]
    biases = [layer.astype(float) for layer in model.intercepts_]
    # The head reads columns as they are.
    biases[0] = biases[0] - (mean * scale) @ weights[0]
    weights[0] = scale[:, None] * weights[0]
    layers = tuple(zip(weights, biases, strict=True))
    if not is_classifier:
        present = ()
    return FittedHead(setting.head, layers, setting.top, present)
