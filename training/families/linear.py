"""Trains a judge of the family ``linear``: encodes every dialogue once, chooses the settings of
each head on held-out rows, then fits and calibrates the heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import expit, logit
from sklearn.model_selection import ParameterGrid
from sklearn.neural_network import MLPClassifier

from medal_judges.errors import ConfigError
from medal_judges.models.base.heads import Calibration
from medal_judges.models.base.turn_features import SIMILARITY_NAMES
from medal_judges.models.batching import chunks
from medal_judges.models.linear.config import LinearConfig
from medal_judges.models.linear.heads import FittedHead, Floats
from medal_judges.models.linear.judge import LinearJudge
from medal_judges.models.linear.reader import (
    DialogueReader,
    DialogueReading,
    TurnScale,
    concat_field,
)
from medal_judges.records.dimension import Dimension
from medal_judges.records.signature import content_hash
from medal_judges.training.calibration import MIN_ROWS, fit_score_map, fit_temperature
from medal_judges.training.families.reply import fit_reactions, half_index
from medal_judges.training.families.solvers import fit_head
from medal_judges.training.family import TrainingRun
from medal_judges.training.rows import RunRows, TrainingExample
from medal_judges.training.validation import agreement

_LEAST_DEVIATION = 1e-3  # a feature that never varies must not be large on a new domain
FOLDS = 5
_SCALE_ROWS = 4000  # dialogues are enough for means and deviations

# The values of which training tries all combinations, unless model.grid says others.
LINEAR_GRID: dict[str, tuple[Any, ...]] = {
    "alpha": (1e-2, 0.1, 1.0, 10.0, 100.0, 1e3),
    "share": (0.0, 0.1, 0.3, 1.0),
}
MLP_GRID: dict[str, tuple[Any, ...]] = {
    "classes": (8,),
    "hidden_layer_sizes": ((64,), (16,), (64, 32)),
    "alpha": (1.0, 0.01, 10.0),
    "max_iter": (100, 30),
}


def check_grid(model: LinearConfig) -> None:
    """Checks the hyperparameters to try, ``model.grid``, such as ``{"alpha": [0.1, 1.0]}``.

    Raises:
        ConfigError: The judge's head has no hyperparameter of such a name, or a list of values is
            empty.
    """
    names = set(LINEAR_GRID)
    if model.head == "mlp_classifier":
        names = {"classes", *MLPClassifier().get_params()}
    for name, values in model.grid.items():
        if name not in names or not values:
            raise ConfigError(
                f"model.grid.{name}: expected a list of values of one of "
                f"{', '.join(sorted(names))}"
            )


def fit(rows: RunRows, run: TrainingRun) -> LinearJudge:
    """Trains a linear judge on ``rows``, with the settings and dimensions in ``run``.

    The hyperparameters of each head are chosen on validation rows, or by cross-validation if there
    are none.

    Raises:
        ConfigError: The grid of hyperparameters is wrong, the labels of a dimension are missing or
            all equal, all rows are of one conversation, or too few assistant turns have a user's
            reply to train the models of replies.
    """
    config = run.config
    model = config.model
    assert isinstance(model, LinearConfig)
    check_grid(model)
    torch.manual_seed(config.seed)
    judge = LinearJudge.create(model, run.dimensions, name=config.name)
    search = fit_reader_and_make_search(judge, rows.train, rows.validation, config.seed)
    train = np.arange(len(rows.train))
    for dimension in run.dimensions:
        name, settings = dimension.name, search.find_best_settings(dimension)
        judge.heads[name] = search.fit_head(train, dimension, settings)
        calibration = search.fit_calibration(dimension, settings, config.calibration)
        if calibration is not None:
            judge.calibration[name] = calibration
    judge.facts = {"seed": config.seed, "data": content_hash(rows.facts)}
    return judge


def fit_reader_and_make_search(
    judge: LinearJudge,
    train: Sequence[TrainingExample],
    validation: Sequence[TrainingExample],
    seed: int,
) -> Search:
    """Fits the reader of ``judge`` (its feature extractor) on the training rows. Computes the
    features of all rows.

    Args:
        train: The training rows.
        validation: The rows on which hyperparameters are chosen. If empty, cross-validation chooses
            them.
        seed: Divides the rows into folds for cross-validation.

    Returns:
        A Search, which fits heads on the features and finds their best hyperparameters.
    """
    reader, examples = judge.reader, [*train, *validation]
    readings = _read_turns(judge, examples)
    reader.scale = fit_scale(reader, train, readings)
    halves: list[int | None] = [None] * len(examples)
    if judge.config.reply is not None:
        reader.reactions = fit_reactions(
            reader, train, readings[: len(train)], seed, judge.token_budget
        )
        # A training dialogue is read by the model that has not learnt from it.
        halves[: len(train)] = [
            1 - half_index(example.group, seed) for example in train
        ]
        # Again: now there are reactions.
        for group in chunks(readings, judge.window):
            reader.add_reply_features(group)
        reader.scale = fit_scale(reader, train, readings)
    columns = np.zeros((len(readings), len(reader.layout)))
    for half in set(halves):
        numbers = [n for n, of_row in enumerate(halves) if of_row == half]
        for window in chunks(numbers, judge.window):
            group = list(map(readings.__getitem__, window))
            reader.add_reply_features(group, half)
            columns[window] = reader.pool_turns(
                group, reader.turn_columns(group), concat_field(group, "weights")
            )
    folds = make_folds(examples, len(train), judge.config, seed)
    return Search(reader, examples, columns, folds, seed)


def _read_turns(
    judge: LinearJudge, examples: Sequence[TrainingExample]
) -> list[DialogueReading]:
    """Returns the embeddings and features of the turns of each dialogue in ``examples``, read by
    ``judge``. With ``reading: answers`` only the last assistant turn and the user turn before it
    are kept."""
    dialogues = [example.dialogue for example in examples]
    readings = judge.reader.read(dialogues, judge.token_budget)
    if judge.config.reading == "answers":
        # The other turns of long dialogues would fill the memory.
        readings = [reading.drop_unweighted_turns() for reading in readings]
    return readings


@torch.no_grad()
def fit_scale(
    reader: DialogueReader,
    train: Sequence[TrainingExample],
    readings: Sequence[DialogueReading],
) -> TurnScale:
    """Returns the means and standard deviations that standardise the features of turns. User and
    assistant turns have their own.

    Each data source has the same weight.

    Args:
        reader: The judge's feature extractor.
        train: The training rows.
        readings: The embeddings and features of the turns of each training row. Element i belongs
            to ``train[i]``. Further elements are ignored.
    """
    scale = TurnScale.neutral(len(reader.config.bare_feature_names), reader.turn_width)
    is_similarity = np.isin(reader.config.bare_feature_names, SIMILARITY_NAMES)
    readings_by_source: dict[str, list[DialogueReading]] = {}
    for example, reading in zip(train[:_SCALE_ROWS], readings, strict=False):
        readings_by_source.setdefault(example.source, []).append(reading)
    for role in (0, 1):
        moments = []  # of each source
        for source_readings in readings_by_source.values():
            has_role = concat_field(source_readings, "roles") == role
            table = concat_field(source_readings, "features")[has_role]
            vectors = concat_field(source_readings, "vectors")[has_role]
            if reader.config.reading == "answers":
                # The similarity 0 of a first answer says that there is no earlier one.
                table = table[table[:, is_similarity].all(axis=1)]
            if len(table) > 1:
                centre = vectors.mean(axis=0, dtype=float)
                moments.append((table.mean(axis=0), table.std(axis=0), centre))
        if moments:
            means, deviations, centres = zip(*moments, strict=True)
            count = len(means[0])
            deviation = np.maximum(np.mean(deviations, axis=0), _LEAST_DEVIATION)
            scale.mean[role, :count] = np.mean(means, axis=0)
            scale.deviation[role, :count] = deviation
            scale.centre[role] = np.mean(centres, axis=0)
    return scale


Folds = Sequence[tuple[np.ndarray, np.ndarray]]


def make_folds(
    examples: Sequence[TrainingExample], train: int, model: LinearConfig, seed: int
) -> Folds:
    """Returns the folds on which hyperparameters are chosen.

    With validation rows there is one fold, which fits on the training rows and measures on the
    validation rows. Without them, the training rows are divided.

    Args:
        examples: The training rows, then the validation rows.
        train: The number of training rows.
        model: The settings. ``fold_by`` says whether a fold keeps the rows of a ``conversation`` or
            of a ``chatbot`` together.
        seed: Decides which conversations are in which fold.

    Returns:
        Two arrays for each fold: the indices in ``examples`` of the rows to fit on, and of the rows
            to measure on. The list is empty if all rows are of one conversation (or one chatbot).
    """
    if len(examples) > train:
        return [(np.arange(train), np.arange(train, len(examples)))]
    if model.fold_by == "chatbot":
        groups = [example.dialogue.chatbot or "" for example in examples]
        count = len(set(groups))
    else:
        groups = [example.group or example.dialogue.id for example in examples]
        count = FOLDS
    names, group_of_row = np.unique(groups, return_inverse=True)
    if len(names) < 2:
        return []
    # Not GroupKFold, which deals groups by their size and not by the seed: judges would change.
    order = np.random.default_rng(seed).permutation(len(names))
    fold_of_row = (np.argsort(order) % count)[group_of_row]
    folds = []
    for fold in np.unique(fold_of_row):
        held_out = fold_of_row == fold
        folds.append((np.flatnonzero(~held_out), np.flatnonzero(held_out)))
    return folds


@dataclass(frozen=True, slots=True)
class Search:
    """A search for the best hyperparameters of each head of a linear judge. The best give scores
    that agree most with people's labels on held-out rows.

    Attributes:
        reader: The judge's feature extractor, which has its settings.
        examples: The n labelled dialogues.
        columns: [n, C] features of the examples.
        folds: Two arrays for each fold: the indices in ``examples`` of the rows to fit on, and of
            the rows to measure on.
        seed: Seeds the fit of an MLP.
    """

    reader: DialogueReader
    examples: Sequence[TrainingExample]
    columns: Floats
    folds: Folds
    seed: int

    @property
    def config(self) -> LinearConfig:
        return self.reader.config

    def grid(self, dimension: Dimension) -> list[dict[str, Any]]:
        """Returns the hyperparameters to try for the head of ``dimension``, such as ``[{"alpha":
        0.1, "share": 1.0}, ...]``."""
        head = self.config.head_name(dimension.kind)
        grid = {**LINEAR_GRID, **self.config.grid}
        if head == "mlp_classifier":
            grid = {**MLP_GRID, **self.config.grid}
            if dimension.kind == "binary":
                grid["classes"] = (1,)
        elif not self.config.vectors:
            grid["share"] = (1.0,)
        return list(ParameterGrid(grid))

    def find_best_settings(self, dimension: Dimension) -> dict[str, Any]:
        """Returns the hyperparameters with which the head of ``dimension`` agrees best with people
        on held-out rows, such as ``{"alpha": 0.1, "share": 1.0}``.

        Raises:
            ConfigError: There are several combinations to try and no fold to measure them on, or a
                fold has no labels to fit on.
        """
        grid = self.grid(dimension)
        if len(grid) == 1:
            return grid[0]
        if not self.folds:
            raise ConfigError(
                "a linear judge chooses its settings on held-out rows: one "
                f"{self.config.fold_by} is too few",
                hint="Give more rows, validation rows, or one value for each setting of model.grid",
            )
        values = [self.cross_validate(dimension, settings) for settings in grid]
        best = int(np.argmax(np.nan_to_num(values, nan=-np.inf)))
        return grid[best]

    def cross_validate(
        self, dimension: Dimension, settings: Mapping[str, Any]
    ) -> float:
        """Returns how well scores on held-out rows agree with people's labels of ``dimension``.

        It is Spearman's ρ, or AUC if the dimension is binary, averaged over folds and data sources.
        Where all labels or all scores are equal, it is undefined and left out of the mean. If it is
        undefined everywhere, the result is NaN.

        Args:
            settings: The hyperparameters of the heads that score, such as ``{"alpha": 0.1}``.
        """
        values: list[float] = []
        for train, held_out in self.folds:
            head = self.fit_head(train, dimension, settings)
            units = head.unit_scores(self.columns[held_out], self.config.decode)
            values += self.agreement(dimension, units, held_out).values()
        # A negative ρ counts as bad, however strong (ORALIS tunes for positive correlation).
        return float(np.mean(values)) if values else np.nan

    def agreement(
        self, dimension: Dimension, units: Floats, rows: np.ndarray
    ) -> dict[str, float]:
        """Returns how well scores agree with people's labels of ``dimension``, such as
        ``{"spearman/overall": 0.6}``.

        The value is the mean over data sources. A source whose labels are all equal is left out.
        If none remains, the result is empty. If the scores are all equal, the AUC is 0.5 and ρ is
        0.

        Args:
            units: [k] scores on [0, 1].
            rows: [k] index in ``examples`` of each scored dialogue.
        """
        name = dimension.name
        examples = [self.examples[row] for row in rows]
        human = [example.human.get(name, np.nan) for example in examples]
        sources = [example.source for example in examples]
        is_binary = dimension.kind == "binary"
        return agreement(name, np.array(human), units, np.array(sources), is_binary)

    def fit_head(
        self, rows: np.ndarray, dimension: Dimension, settings: Mapping[str, Any]
    ) -> FittedHead:
        """Returns a head for ``dimension``, fitted on some of the examples.

        Args:
            rows: [k] indices in ``examples`` of the dialogues to fit on.
            settings: The hyperparameters of the head, such as ``{"alpha": 0.1}``.

        Raises:
            ConfigError: None of these dialogues has a label, or a logistic head finds all labels
                equal.
        """
        examples = [self.examples[row] for row in rows]
        columns = self.columns[rows]
        return fit_head(self.reader, columns, examples, dimension, settings, self.seed)

    def fit_calibration(
        self, dimension: Dimension, settings: Mapping[str, Any], method: str
    ) -> Calibration | None:
        """Returns the calibration of ``dimension``, fitted on the scores of held-out rows.

        Args:
            settings: The hyperparameters of the heads that score these rows.
            method: ``temperature``, ``isotonic`` (a monotone map of scores) or ``none``. An MLP
                classifier supports only ``isotonic``.

        Returns:
            The calibration. None if ``method`` is ``none`` or not supported, or fewer than 20
            held-out rows have a label.
        """
        head = self.config.head_name(dimension.kind)
        if method == "none" or not self.folds:
            return None
        if head == "mlp_classifier" and method != "isotonic":
            return None
        units, ratings = self._score_held_out(dimension, settings)
        if len(ratings) < MIN_ROWS:
            return None
        temperature = None
        if head == "mlp_classifier":
            temperature = 1.0
        elif head == "logistic":
            logits = logit(np.clip(units, 1e-9, 1 - 1e-9))

            def probabilities(temperature: float) -> Floats:
                chances = expit(logits / temperature)
                return np.column_stack([1 - chances, chances])

            temperature = fit_temperature(probabilities, ratings[:, None])
            units = probabilities(temperature)[:, 1]
        return fit_score_map(
            units,
            ratings,
            method,
            is_binary=dimension.kind == "binary",
            temperature=temperature,
        )

    def _score_held_out(
        self, dimension: Dimension, settings: Mapping[str, Any]
    ) -> tuple[Floats, Floats]:
        """Returns the scores [k] and labels [k] of the k held-out rows with a label of
        ``dimension``, both on [0, 1].

        The head that scores a row has the hyperparameters ``settings`` and was not fitted on the
        row.
        """
        targets = [example.targets.get(dimension.name) for example in self.examples]
        labels = np.array(targets, dtype=float)
        scores, labelled = [], []
        for train, held_out in self.folds:
            rows = held_out[np.isfinite(labels[held_out])]
            head = self.fit_head(train, dimension, settings)
            units = head.unit_scores(self.columns[rows], self.config.decode)
            if dimension.kind == "binary" and head.kind != "logistic":
                # The rate of the fold's training rows is not the judge's.
                units = units + np.nanmean(labels) - np.nanmean(labels[train])
            scores.append(units)
            labelled.append(labels[rows])
        return np.concatenate(scores), np.concatenate(labelled)
