"""The family ``linear`` in a run: reads every dialogue once, searches the settings of its heads on
held-out rows, fits and calibrates them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from statistics import fmean
from typing import Any

import numpy as np
import torch
from scipy.special import logit
from sklearn.metrics import f1_score

from medal_judges.errors import ConfigError
from medal_judges.models.base.heads import Calibration, isotonic_map
from medal_judges.models.linear.config import LinearConfig
from medal_judges.models.linear.heads import FittedHead, Floats
from medal_judges.models.linear.judge import LinearJudge
from medal_judges.models.linear.reader import DialogueReader, TurnReading, TurnScale
from medal_judges.records.dimension import Dimension
from medal_judges.records.signature import content_hash
from medal_judges.training.calibration import MIN_ROWS, fit_isotonic, fit_temperature, margin_of
from medal_judges.training.config import TrainConfig, refuse_steps
from medal_judges.training.families.reply import fit_reactions, half_of
from medal_judges.training.families.solvers import ColumnTable, FitSetting, fit_head
from medal_judges.training.fitted import FittedJudge, TrainingRun
from medal_judges.training.rows import TrainingExample
from medal_judges.training.validation import validation_figures

_LEAST_DEVIATION = 1e-3  # a feature that never varies must not be large on a new domain
_SCALE_ROWS = 4000  # dialogues are enough for means and deviations

logger = logging.getLogger(__name__)


def check(config: TrainConfig) -> None:
    """Raises ValueError for settings of training by steps."""
    refuse_steps(config)


def fit(run: TrainingRun) -> FittedJudge:
    """Fits the judge of ``run``. Settings are chosen on validation rows (by cross-validation if
    there are none); the heads of the judge are fitted on the training rows alone."""
    config, rows = run.config, run.rows
    model = config.model
    assert isinstance(model, LinearConfig)
    torch.manual_seed(config.seed)
    judge = LinearJudge.create(model, run.dimensions, name=config.name)
    search = search_of(judge, rows.train, rows.validation, config.seed)
    settings = search.run(run.dimensions)
    train = np.arange(len(rows.train))
    for dimension in run.dimensions:
        setting = settings[dimension.name]
        judge.heads[dimension.name] = search.head(train, dimension, setting)
        fitted = search.calibration(dimension, setting, config.calibration)
        if fitted is not None:
            judge.calibration[dimension.name] = fitted
    judge.search = search.tried
    judge.facts = {"seed": config.seed, "data": content_hash(rows.facts)}
    if not rows.validation:
        return FittedJudge(judge)
    held_out = search.table.columns[len(rows.train) :]
    scores = {name: judge.units(name, held_out) for name in judge.heads}
    binary = {dimension.name for dimension in run.dimensions if dimension.kind == "binary"}
    return FittedJudge(judge, validation_figures(rows.validation, scores, binary))


def search_of(
    judge: LinearJudge,
    train: Sequence[TrainingExample],
    validation: Sequence[TrainingExample],
    seed: int,
) -> Search:
    """Returns the search for the heads of ``judge``, whose reader is fitted on ``train``."""
    reader, examples = judge.reader, [*train, *validation]
    readings = _read(judge, examples)
    reader.scale = fit_scale(reader, train, readings)
    halves: list[int | None] = [None] * len(examples)
    if judge.config.reply is not None:
        own = readings[: len(train)]
        reader.reactions = fit_reactions(reader, train, own, seed, judge.token_budget)
        # A training dialogue is read by the model that has not learnt from it.
        halves[: len(train)] = [1 - half_of(example.group, seed) for example in train]
        reader.scale = fit_scale(reader, train, readings)  # again: now there are reactions
    columns = [
        reader.pool(reading, reader.rows(reading, half))
        for reading, half in zip(readings, halves, strict=True)
    ]
    return Search(
        judge.config,
        examples,
        ColumnTable.of(np.stack(columns), reader),
        folds_of(examples, len(train), judge.config, seed),
        seed,
    )


def _read(judge: LinearJudge, examples: Sequence[TrainingExample]) -> list[TurnReading]:
    """Returns the reading of each example, with equal texts encoded once."""
    reader = judge.reader
    if judge.config.learn_last:
        last_answer = judge.config.model_copy(update={"answers": 1})
        reader = DialogueReader(last_answer, judge.reader.encoder)
    reader.known = {}
    readings: list[TurnReading] = []
    for start in range(0, len(examples), judge.window):
        dialogues = [example.dialogue for example in examples[start : start + judge.window]]
        window = reader.read(dialogues, judge.token_budget)
        if judge.config.reading == "answers":  # the other turns of long dialogues fill the memory
            window = [reading.read_turns() for reading in window]
        readings += window
        logger.info("read %d of %d dialogues", len(readings), len(examples))
    reader.known = None
    return readings


@torch.no_grad()
def fit_scale(
    reader: DialogueReader, train: Sequence[TrainingExample], readings: Sequence[TurnReading]
) -> TurnScale:
    """Returns mean and deviation by role of the features of turns, and the mean of their vectors,
    over the first rows of the training set; each source counts the same."""
    scale = TurnScale.neutral(len(reader.config.names), reader.turn_width)
    chosen = range(min(_SCALE_ROWS, len(train)))
    for role in (0, 1):
        features: dict[str, list[Floats]] = {}
        vectors: dict[str, list[Floats]] = {}
        for row in chosen:
            reading, source = readings[row], train[row].source
            own = reading.roles == role
            features.setdefault(source, []).append(reader.features(reading)[own])
            vectors.setdefault(source, []).append(reading.vectors[own].sum(axis=0, keepdims=True))
        tables = {source: np.concatenate(parts) for source, parts in features.items()}
        spoken = [source for source, table in tables.items() if len(table) > 1]
        if not spoken:
            continue
        count = tables[spoken[0]].shape[1]
        means = [tables[source].mean(axis=0) for source in spoken]
        spreads = [tables[source].std(axis=0) for source in spoken]
        centres = [np.sum(vectors[source], axis=(0, 1)) / len(tables[source]) for source in spoken]
        scale.mean[role, :count] = np.mean(means, axis=0)
        scale.deviation[role, :count] = np.maximum(np.mean(spreads, axis=0), _LEAST_DEVIATION)
        scale.centre[role] = np.mean(centres, axis=0)
    return scale


Folds = Sequence[tuple[np.ndarray, np.ndarray]]


def folds_of(
    examples: Sequence[TrainingExample], train: int, model: LinearConfig, seed: int
) -> Folds:
    """Returns folds (rows to fit on, rows to choose on). One if there are rows after the first
    ``train``, which are the validation rows; else ``folds`` folds of the training rows, whole
    groups together, or one for each chatbot; none for rows of one group."""
    if len(examples) > train:
        return [(np.arange(train), np.arange(train, len(examples)))]
    groups, parts = [example.group or example.dialogue.id for example in examples], model.folds
    if model.fold_by == "chatbot":
        groups = [example.dialogue.chatbot or "" for example in examples]
        parts = len(set(groups))
    names = sorted(set(groups))
    if len(names) < 2:
        return []
    # Not GroupKFold, which deals groups by their size and not by the seed: judges would change.
    order = np.random.default_rng(seed).permutation(len(names))
    fold_of = {names[number]: place % parts for place, number in enumerate(order)}
    folds = np.array([fold_of[group] for group in groups])
    return [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in np.unique(folds)]


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Scores [n] on [0, 1] of labelled rows by heads that have not learnt from them, the labels [n]
    and the number of the fold of each."""

    scores: Floats
    labels: Floats
    folds: np.ndarray


@dataclass(slots=True)
class Search:
    """Chooses each dimension's FitSetting, and records what it ``tried``; ``folds`` as ``folds_of``
    makes them."""

    config: LinearConfig
    examples: Sequence[TrainingExample]
    table: ColumnTable
    folds: Folds
    seed: int
    tried: list[dict[str, Any]] = field(default_factory=list)

    def run(self, dimensions: Sequence[Dimension]) -> dict[str, FitSetting]:
        """Returns the setting of each dimension: of linear heads by their grid; of MLPs by the
        class range, then by theirs."""
        config = self.config
        chosen: dict[str, FitSetting] = {}
        mlps: list[Dimension] = []
        for dimension in dimensions:
            head = config.head_of(dimension.name, dimension.kind)
            if head not in ("ridge", "logistic"):
                mlps.append(dimension)
                continue
            shares = config.grid.shares if config.vectors else (1.0,)
            grid = [
                FitSetting(head, alpha=alpha, share=share)
                for share, alpha in product(shares, config.grid.alphas)
            ]
            chosen[dimension.name] = self._best("linear", dimension, grid)
        top = self._class_range([d for d in mlps if d.kind != "binary"])
        for dimension in mlps:
            grid = self._mlp_grid(dimension, 1 if dimension.kind == "binary" else top)
            chosen[dimension.name] = self._best("hyperparameters", dimension, grid)
        return chosen

    def _mlp_grid(self, dimension: Dimension, top: int) -> list[FitSetting]:
        """Returns every combination of the grid's values, the defaults (first values) first."""
        grid = self.config.mlp
        head = self.config.head_of(dimension.name, dimension.kind)
        return [
            FitSetting(head, top, alpha, None, hidden, epochs, rate)
            for hidden, alpha, epochs, rate in product(
                grid.hidden, grid.alpha, grid.epochs, grid.learning_rate
            )
        ]

    def _class_range(self, dimensions: Sequence[Dimension]) -> int:
        """Returns the highest class that is best on average over ``dimensions``."""
        tops = self.config.class_ranges
        if len(tops) == 1 or not dimensions:
            return tops[0]
        means = []
        for top in tops:
            values = []
            for dimension in dimensions:
                first = self._mlp_grid(dimension, top)[0]
                values.append(self._try("class range", dimension, first) or 0.0)
            means.append(np.mean(values))
        best = tops[int(np.argmax(means))]
        for row in self.tried:
            if row["stage"] == "class range":
                row["chosen"] = row["top"] == best
        return best

    def _best(self, stage: str, dimension: Dimension, grid: Sequence[FitSetting]) -> FitSetting:
        """Returns the setting of ``grid`` with the highest agreement; the first of equals, so that
        the order of the grid is a preference."""
        if len(grid) > 1 and not self.folds:
            raise ConfigError(
                "a linear judge chooses its settings on held-out rows: one "
                f"{self.config.fold_by} is too few",
                hint="more rows, validation rows, or one value in model.grid.alphas and .shares",
            )
        values = [self._try(stage, dimension, setting) for setting in grid]
        best = int(np.argmax([-np.inf if value is None else value for value in values]))
        self.tried[len(self.tried) - len(grid) + best]["chosen"] = True
        return grid[best]

    def _try(self, stage: str, dimension: Dimension, setting: FitSetting) -> float | None:
        """Returns Spearman's ρ (AUC of a binary dimension) on held-out rows, the mean over folds
        and sources; None if undefined everywhere. Its sign counts (ORALIS tunes for positive
        correlation)."""
        name = dimension.name
        figure, binary = ("auc", {name}) if dimension.kind == "binary" else ("spearman", set())
        values = []
        for train, held_out in self.folds:
            head = self.head(train, dimension, setting)
            scores = {name: head.units(self.table.columns[held_out], self.config.decode)}
            examples = [self.examples[row] for row in held_out]
            value = validation_figures(examples, scores, binary).get(f"{figure}/{name}")
            if value is not None:
                values.append(value)
        mean = float(np.mean(values)) if values else None
        row = {"stage": stage, "dimension": name} | asdict(setting)
        row["hidden"] = "x".join(map(str, setting.hidden)) if setting.hidden else None
        self.tried.append(row | {"figure": figure, "value": mean, "chosen": False})
        return mean

    def head(self, rows: np.ndarray, dimension: Dimension, setting: FitSetting) -> FittedHead:
        """Returns the head of ``dimension`` fitted on ``rows``."""
        return fit_head(self.table, rows, self.examples, dimension, setting, self.seed)

    def calibration(
        self, dimension: Dimension, setting: FitSetting, method: str
    ) -> Calibration | None:
        """Returns what is fitted on held-out scores; None if there is nothing to fit: of a logistic
        head the temperature, of ridge and MLP regressor the spread of the residuals and the margin
        (a classifier has its own distribution). With ``isotonic`` also a monotone map of the score,
        for a binary dimension with its threshold."""
        head = setting.head
        if method == "none" or (head == "mlp_classifier" and method != "isotonic"):
            return None
        labels = [e for e in self.examples if dimension.name in e.targets]
        if not self.folds or len(labels) < MIN_ROWS:
            return None
        held_out = self._held_out(dimension, setting)
        scores, targets = held_out.scores, held_out.labels
        if len(targets) < MIN_ROWS:
            return None
        fitted = Calibration(rows=len(targets))
        if head == "logistic":
            temperature = fit_temperature(logit(np.clip(scores, 1e-9, 1 - 1e-9)), targets)
            scores = np.clip(scores, 1e-9, 1 - 1e-9)
            scores = 1 / (1 + np.exp(-logit(scores) / temperature))
            fitted = fitted.model_copy(update={"temperature": temperature})
        elif head != "mlp_classifier":
            fitted = fitted.model_copy(update={"spread": float((targets - scores).std())})
        if method == "isotonic":
            knots = fit_isotonic(scores, targets)
            fitted = fitted.model_copy(update={"isotonic": knots})
            if dimension.kind == "binary":
                fitted = _with_threshold(fitted, HeldOut(scores, targets, held_out.folds))
        if dimension.kind != "binary" and head != "mlp_classifier":
            mapped = [fitted.map_unit(score) for score in scores.tolist()]
            fitted = fitted.model_copy(update={"margin": margin_of(mapped, targets)})
        return fitted

    def _held_out(self, dimension: Dimension, setting: FitSetting) -> HeldOut:
        name = dimension.name
        scores, labels, folds = [], [], []
        for number, (train, held_out) in enumerate(self.folds):
            rows = [row for row in held_out if name in self.examples[row].targets]
            head = self.head(train, dimension, setting)
            units = head.units(self.table.columns[rows], self.config.decode)
            if dimension.kind == "binary" and head.kind != "logistic":
                # The rate of the fold's own rows is not the judge's.
                units = units + self._rate(name, range(len(self.examples)))
                units = units - self._rate(name, train)
            scores.append(units)
            labels.append([float(self.examples[row].targets[name]) for row in rows])
            folds.append([number] * len(rows))
        return HeldOut(np.concatenate(scores), np.concatenate(labels), np.concatenate(folds))

    def _rate(self, name: str, rows: Sequence[int] | np.ndarray) -> float:
        """Returns the mean label of ``rows``."""
        targets = [self.examples[row].targets for row in rows]
        return fmean(float(target[name]) for target in targets if name in target)


def _with_threshold(fitted: Calibration, held_out: HeldOut) -> Calibration:
    """Returns the calibration of a binary dimension with the threshold of the best F1, and the maps
    without one fold."""
    scores, present, folds = held_out.scores, held_out.labels >= 0.5, held_out.folds
    isotonic = fit_isotonic(scores, present)
    chances = isotonic_map(scores, isotonic)
    levels = np.unique([0.0, *chances])
    thresholds = (levels[1:] + levels[:-1]) / 2
    figures = [f1_score(present, chances >= value) for value in thresholds]
    others = []
    parts = np.unique(folds)
    for part in parts if len(parts) > 1 else ():
        others.append(fit_isotonic(scores[folds != part], present[folds != part]))
    return fitted.model_copy(
        update={
            "isotonic": isotonic,
            "threshold": float(thresholds[int(np.argmax(figures))]),
            "others": tuple(others),
        }
    )
