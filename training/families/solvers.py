"""Fits one head of a linear judge, with scikit-learn's solvers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier

from medal_judges.errors import ConfigError
from medal_judges.models.linear.heads import FittedHead, Floats
from medal_judges.models.linear.reader import DialogueReader
from medal_judges.records.dimension import Dimension
from medal_judges.training.rows import TrainingExample

_FLOOR = 1e-6  # below it is the rounding of a column that never varies


@dataclass(slots=True)
class LabelledRows:
    """Features and labels of n dialogues, all with a label of the same dimension.

    Attributes:
        x: [n, C] features.
        y: [n] labels on [0, 1].
        sources: [n] the name of each dialogue's data source.
        weights: [n] sample weights, with the same sum for every source.
    """

    x: Floats
    y: Floats
    sources: np.ndarray
    weights: Floats

    @classmethod
    def of(
        cls, x: Floats, examples: Sequence[TrainingExample], name: str
    ) -> LabelledRows:
        """Returns the features and labels of ``examples`` for one dimension.

        Args:
            x: [n, C] features of the examples.
            examples: The n labelled dialogues, which all have a label of the dimension.
            name: The name of the dimension.
        """
        y = np.array([example.targets[name] for example in examples], dtype=float)
        sources = np.array([example.source for example in examples])
        _, numbers, counts = np.unique(sources, return_inverse=True, return_counts=True)
        weights = 1 / counts[numbers]
        return cls(x, y, sources, weights)

    def source_means(self, values: Floats) -> Floats:
        """Returns the mean of ``values`` in each data source, [sources, ...]. The sources are in
        the alphabetical order of their names.

        Args:
            values: [n, ...] an entry for each of the n dialogues.
        """
        names = np.unique(self.sources)
        return np.array([values[self.sources == name].mean(axis=0) for name in names])

    def centre_by_source(self, values: Floats) -> Floats:
        """Returns ``values`` minus the mean of each data source, [n, ...].

        Args:
            values: [n, ...] an entry for each of the n dialogues.
        """
        _, numbers = np.unique(self.sources, return_inverse=True)
        differences: Floats = values - self.source_means(values)[numbers]
        return differences

    def deviation_within_sources(self, values: Floats) -> Floats:
        """Returns the standard deviation [...] of ``values`` around the mean of each data source.

        Args:
            values: [n, ...] an entry for each of the n dialogues.
        """
        squares = np.average(
            self.centre_by_source(values) ** 2, axis=0, weights=self.weights
        )
        return np.asarray(np.sqrt(squares))


def fit_head(
    reader: DialogueReader,
    columns: Floats,
    examples: Sequence[TrainingExample],
    dimension: Dimension,
    settings: Mapping[str, Any],
    seed: int,
) -> FittedHead:
    """Returns the output head of one dimension, fitted on the examples that have a label of it.

    Args:
        reader: The judge's feature extractor, which has its settings.
        columns: [n, C] features of the examples.
        examples: The n labelled dialogues. Those without a label of the dimension are ignored.
        dimension: The dimension to learn.
        settings: Hyperparameters of the solver, such as ``{"alpha": 1.0, "share": 0.3}``.
        seed: Seeds the fit of an MLP.

    Raises:
        ConfigError: No example has a label, or a logistic head finds all labels equal.
    """
    name, config = dimension.name, reader.config
    rows = [row for row, example in enumerate(examples) if name in example.targets]
    if not rows:
        raise ConfigError(
            f"{name!r} has no label in a part of the training rows",
            hint="Give validation rows",
        )
    labelled = LabelledRows.of(columns[rows], [examples[row] for row in rows], name)
    deviation = labelled.deviation_within_sources(labelled.x)
    scale = np.where(deviation > _FLOOR, 1 / np.maximum(deviation, _FLOOR), 0.0)
    is_feature = reader.feature_row(dict.fromkeys(config.features, 1.0)) > 0
    scale = scale * (reader.vector_mask | is_feature)
    head = config.head_name(dimension.kind)
    if head == "mlp_classifier":
        return _fit_mlp(labelled, scale, settings, seed)
    scale = scale * np.where(reader.vector_mask, settings["share"], 1.0)
    if head == "ridge":
        priors = reader.feature_row(config.prior_weights.get(name, {}))
        weights, bias = _fit_ridge(
            labelled, scale, settings["alpha"], config.stretch, priors
        )
    else:
        weights, bias = _fit_logistic(labelled, scale, settings["alpha"], name)
    averages = 0.0, 0.0
    if config.reading != "dialogue":
        # What the mean user side and the mean assistant side add to the output.
        added = labelled.source_means(labelled.x).mean(axis=0) * weights
        user, assistant = added.reshape(2, -1).sum(axis=1).tolist()
        averages = user, assistant
    return FittedHead.linear(head, weights, bias, averages)


def _fit_ridge(
    labelled: LabelledRows, scale: Floats, alpha: float, stretch: bool, priors: Floats
) -> tuple[Floats, float]:
    """Fits a ridge regression on differences within each source, and returns its weights [C] and
    its bias.

    Args:
        labelled: The features and labels.
        scale: [C] factors that standardise the features.
        alpha: The L2 penalty.
        stretch: Whether to widen the scores to the standard deviation of the labels.
        priors: [C] weights to add to the fitted weights. Needs ``stretch``.
    """
    x, y = labelled.centre_by_source(labelled.x), labelled.centre_by_source(labelled.y)
    solver = Ridge(alpha=alpha, fit_intercept=False)
    weights = solver.fit(x * scale, y, sample_weight=labelled.weights).coef_ * scale

    def unit(direction: Floats) -> Floats:
        spread = float(labelled.deviation_within_sources(x @ direction))
        if spread == 0:
            return direction
        return direction / spread

    if stretch:
        weights = unit(weights)
        if priors.any():
            weights = weights + float(np.abs(priors).max()) * unit(priors * scale)
        weights = unit(weights) * float(labelled.deviation_within_sources(y))
    middle = labelled.source_means(labelled.y).mean()
    mean_dialogue = labelled.source_means(labelled.x).mean(axis=0)
    return weights, float(middle - mean_dialogue @ weights)


def _fit_logistic(
    labelled: LabelledRows, scale: Floats, alpha: float, name: str
) -> tuple[Floats, float]:
    """Fits a logistic regression and returns its weights [C] and its bias, in logits.

    Args:
        labelled: The features and labels. Labels from 0.5 on are positive.
        scale: [C] factors that standardise the features.
        alpha: The L2 penalty.
        name: The dimension, for the error message.

    Raises:
        ConfigError: All labels are positive, or none is.
    """
    labels = labelled.y >= 0.5
    if labels.all() or not labels.any():
        raise ConfigError(f"all training labels of {name!r} are the same. Leave it out")
    middle = labelled.source_means(labelled.x).mean(axis=0)
    solver = LogisticRegression(C=1 / alpha, class_weight="balanced", max_iter=1000)
    solver.fit((labelled.x - middle) * scale, labels, sample_weight=labelled.weights)
    weights = solver.coef_[0] * scale
    return weights, float(solver.intercept_[0] - middle @ weights)


def _fit_mlp(
    labelled: LabelledRows, scale: Floats, settings: Mapping[str, Any], seed: int
) -> FittedHead:
    """Returns a head with an MLP that predicts labels as classes, whole numbers from 0 to the
    highest class (Equation 1 of ORALIS).

    Args:
        labelled: The features and labels.
        scale: [C] factors that standardise the features.
        settings: ``classes``, the highest class (the lowest is 0), and arguments of MLPClassifier.
        seed: Seeds the fit.
    """
    network = dict(settings)
    top = network.pop("classes")
    classes = np.floor(labelled.y * top + 0.5).astype(int)
    present: tuple[int, ...] = tuple(np.unique(classes).tolist())
    if len(present) == 1:
        return FittedHead("mlp_classifier", (), top, present)
    model = MLPClassifier(**network, random_state=seed)
    mean = labelled.x.mean(axis=0)
    inputs = (labelled.x - mean) * scale
    with warnings.catch_warnings():  # the duration is a setting, not a failure
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(inputs, classes)
    weights = [layer.astype(float) for layer in model.coefs_]
    biases = [layer.astype(float) for layer in model.intercepts_]
    # The head reads columns as they are.
    biases[0] = biases[0] - (mean * scale) @ weights[0]
    weights[0] = scale[:, None] * weights[0]
    layers = tuple(zip(weights, biases, strict=True))
    return FittedHead("mlp_classifier", layers, top, present)
