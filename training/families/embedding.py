"""Fit an embedding judge: read every dialogue once, search the settings on held-out rows, fit,
calibrate."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from statistics import fmean
from typing import Any

import numpy as np
from sklearn.metrics import f1_score

from medal_judges.errors import ConfigError
from medal_judges.models.base.heads import Calibration, isotonic_map
from medal_judges.models.embedding.judge import (
    EmbeddingConfig,
    EmbeddingHead,
    EmbeddingJudge,
    FittedNet,
    Floats,
    SentenceEncoder,
)
from medal_judges.records.dimension import Dimension
from medal_judges.records.signature import content_hash
from medal_judges.training.calibration import MIN_ROWS, fit_isotonic
from medal_judges.training.config import TrainConfig, refuse_steps
from medal_judges.training.fitted import FittedJudge, TrainingRun
from medal_judges.training.rows import RunRows, TrainingExample
from medal_judges.training.validation import validation_figures

_FLOOR = 1e-9
_MOST_TEXTS = 100_000

logger = logging.getLogger(__name__)


def check(config: TrainConfig) -> None:
    """Raises ValueError for settings of training by steps."""
    refuse_steps(config)


def fit(run: TrainingRun) -> FittedJudge:
    """Fits the judge of ``run``."""
    judge, figures = fit_embedding_judge(run.config, run.rows, run.dimensions)
    return FittedJudge(judge, figures)


def fit_embedding_judge(
    config: TrainConfig, rows: RunRows, dimensions: Sequence[Dimension]
) -> tuple[EmbeddingJudge, dict[str, float]]:
    """(judge, validation figures; empty without validation rows).

    Settings are chosen on validation rows (by cross-validation if there are none); the nets of the
    judge are fitted on the training rows alone. Raises ConfigError.
    """
    model = config.model
    assert isinstance(model, EmbeddingConfig)
    encoder = SentenceEncoder.create(model.base, model.base_revision, depth=model.depth)
    judge = EmbeddingJudge(model, encoder, dimensions, {}, name=config.name)
    if model.learn_last:
        judge.config = model.model_copy(update={"answers": 1})
    examples: list[TrainingExample] = [*rows.train, *rows.validation]
    vectors: list[Floats] = []
    known: dict[str, Floats] = {}
    for start in range(0, len(examples), judge.window):
        window = [e.dialogue for e in examples[start : start + judge.window]]
        vectors += [reading.vector for reading in judge.read(window, known)]
        if len(known) > _MOST_TEXTS:  # 300 MB of MiniLM's vectors
            known.clear()
        logger.info("read %d of %d dialogues", len(vectors), len(examples))
    search = Search(
        config=model,
        examples=examples,
        table=np.stack(vectors),
        is_feature=judge.is_feature,
        folds=folds_of(examples, len(rows.train), model, config.seed),
        seed=config.seed,
        tried=[],
    )
    judge.config = model
    settings = search.run(dimensions)
    train = np.arange(len(rows.train))
    judge.nets = {name: search.fit(train, name, s) for name, s in settings.items()}
    judge.search = search.tried
    calibration = {
        d.name: search.calibration(d, settings[d.name], config.calibration) for d in dimensions
    }
    judge.calibration = {name: fitted for name, fitted in calibration.items() if fitted is not None}
    judge.facts = {"seed": config.seed, "data": content_hash(rows.facts)}
    if not rows.validation:
        return judge, {}
    scores = {name: judge.units(name, search.table[len(rows.train) :]) for name in judge.nets}
    binary = {d.name for d in dimensions if d.kind == "binary"}
    return judge, validation_figures(rows.validation, scores, binary)


def folds_of(
    examples: Sequence[TrainingExample], train: int, model: EmbeddingConfig, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Folds (rows to fit on, rows to choose on). One if there are rows after the first ``train``,
    which are the validation rows; else ``folds`` folds of the training rows, whole groups together,
    or one for each chatbot."""
    if len(examples) > train:
        return [(np.arange(train), np.arange(train, len(examples)))]
    groups, parts = [example.group or example.dialogue.id for example in examples], model.folds
    if model.fold_by == "chatbot":
        groups = [example.dialogue.chatbot or "" for example in examples]
        parts = len(set(groups))
    names = sorted(set(groups))
    if len(names) < 2:
        raise ConfigError(
            "an embedding judge chooses its settings on held-out rows: one "
            f"{model.fold_by} is too few"
        )
    # Not GroupKFold, which deals groups by their size and not by the seed: judges would change.
    order = np.random.default_rng(seed).permutation(len(names))
    fold_of = {names[i]: place % parts for place, i in enumerate(order)}
    folds = np.array([fold_of[group] for group in groups])
    return [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in np.unique(folds)]


@dataclass(frozen=True, slots=True)
class FitSetting:
    """How one dimension is fitted; None for what the head does not have."""

    head: EmbeddingHead
    top: int = 1
    alpha: float = 1.0
    share: float | None = None
    hidden: tuple[int, ...] | None = None
    epochs: int | None = None
    learning_rate: float | None = None


@dataclass(slots=True)
class Search:
    """Chooses each dimension's FitSetting, and records what it ``tried``. ``table`` [n, W] has the
    vectors of ``examples``; ``folds`` as ``folds_of`` makes them."""

    config: EmbeddingConfig
    examples: Sequence[TrainingExample]
    table: Floats
    is_feature: np.ndarray
    folds: Sequence[tuple[np.ndarray, np.ndarray]]
    seed: int
    tried: list[dict[str, Any]]

    def run(self, dimensions: Sequence[Dimension]) -> dict[str, FitSetting]:
        """Dimension -> its setting: ridge by its own grid; MLPs by the class range, then theirs."""
        config = self.config
        nets = [d for d in dimensions if config.head_of(d.name) != "ridge"]
        ridges = [
            FitSetting("ridge", alpha=alpha, share=share)
            for share, alpha in product(config.ridge.shares, config.ridge.alphas)
        ]
        chosen = {d.name: self._best("ridge", d, ridges) for d in dimensions if d not in nets}
        top = self._class_range([d for d in nets if d.kind != "binary"])
        for d in nets:
            settings = self._mlp_grid(d, 1 if d.kind == "binary" else top)
            chosen[d.name] = self._best("hyperparameters", d, settings)
        return chosen

    def _mlp_grid(self, dimension: Dimension, top: int) -> list[FitSetting]:
        """Returns every combination of the grid's values, the defaults (first values) first."""
        grid, head = self.config.mlp, self.config.head_of(dimension.name)
        return [
            FitSetting(head, top, alpha, None, hidden, epochs, rate)
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
            values = [
                self._try("class range", d, self._mlp_grid(d, top)[0]) or 0.0 for d in dimensions
            ]
            means.append(np.mean(values))
        best = tops[int(np.argmax(means))]
        for row in self.tried:
            if row["stage"] == "class range":
                row["chosen"] = row["top"] == best
        return best

    def _best(self, stage: str, dimension: Dimension, grid: Sequence[FitSetting]) -> FitSetting:
        """The setting of ``grid`` with the highest agreement; the first of equals, so that the
        order of the grid is a preference."""
        values = [self._try(stage, dimension, setting) for setting in grid]
        best = int(np.argmax([-np.inf if v is None else v for v in values]))
        self.tried[len(self.tried) - len(grid) + best]["chosen"] = True
        return grid[best]

    def _try(self, stage: str, dimension: Dimension, setting: FitSetting) -> float | None:
        """Spearman (AUC of a binary dimension) on held-out rows, the mean over folds and sources;
        None if undefined everywhere. Its sign counts (ORALIS tunes for positive correlation)."""
        name = dimension.name
        kind = "auc" if dimension.kind == "binary" else "spearman"
        values = []
        for train, held_out in self.folds:
            net = self.fit(train, name, setting)
            scores = {name: net.units(self.table[held_out], self.config.decode)}
            examples = [self.examples[i] for i in held_out]
            figures = validation_figures(examples, scores, {name} if kind == "auc" else ())
            if f"{kind}/{name}" in figures:
                values.append(figures[f"{kind}/{name}"])
        value = float(np.mean(values)) if values else None
        row = {"stage": stage, "dimension": name} | asdict(setting)
        row["hidden"] = "x".join(map(str, setting.hidden)) if setting.hidden else None
        self.tried.append(row | {"figure": kind, "value": value, "chosen": False})
        return value

    def fit(self, rows: np.ndarray, name: str, setting: FitSetting) -> FittedNet:
        """The net of dimension ``name`` fitted on ``rows``. Raises ConfigError if none of them has
        a label."""
        chosen = [i for i in rows if name in self.examples[i].targets]
        if not chosen:
            raise ConfigError(
                f"{name!r} has no label in a part of the training rows",
                hint="give validation rows, or fewer model.folds",
            )
        x = self.table[chosen]
        units = np.array([self.examples[i].targets[name] for i in chosen], dtype=float)
        weights = np.array([self.examples[i].weight for i in chosen])
        mean, deviation = np.average(x, axis=0, weights=weights), x.std(axis=0)
        scale = np.where(deviation > _FLOOR, 1 / np.maximum(deviation, _FLOOR), 0.0)
        if setting.share is not None:
            scale = scale * np.where(self.is_feature, 1.0, setting.share)
        inputs = (x - mean) * scale
        if setting.head == "ridge":
            from sklearn.linear_model import Ridge

            fitted = Ridge(alpha=setting.alpha).fit(inputs, units, sample_weight=weights)
            layer = (fitted.coef_[:, None].astype(float), np.array([fitted.intercept_], float))
            return FittedNet("ridge", mean, scale, (layer,))
        if len(set(weights)) > 1:
            raise ConfigError(
                "the weights of entries count for model.head: ridge only", hint="leave weight out"
            )
        # On whole-number classes: Equation 1 from [0, 1] to [0, top], rounded.
        classes = np.floor(units * setting.top + 0.5).astype(int)
        known = tuple(int(c) for c in np.unique(classes))
        classifier = setting.head == "mlp_classifier"
        if classifier and len(known) == 1:
            return FittedNet(setting.head, mean, scale, (), setting.top, known)
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPClassifier, MLPRegressor

        model = (MLPClassifier if classifier else MLPRegressor)(
            hidden_layer_sizes=setting.hidden,
            alpha=setting.alpha,
            max_iter=setting.epochs,
            learning_rate_init=setting.learning_rate,
            random_state=self.seed,
        )
        with warnings.catch_warnings():  # the duration is a setting, not a failure
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(inputs, classes if classifier else classes.astype(float))
        layers = tuple(
            (w.astype(float), b.astype(float))
            for w, b in zip(model.coefs_, model.intercepts_, strict=True)
        )
        return FittedNet(
            setting.head, mean, scale, layers, setting.top, known if classifier else ()
        )

    def calibration(
        self, dimension: Dimension, setting: FitSetting, method: str
    ) -> Calibration | None:
        """Spread of the residuals on held-out rows (a classifier has its own distribution), and
        with ``isotonic`` a monotone map of the score, for a binary dimension also its threshold;
        None if there is nothing to fit."""
        with_spread, name = setting.head != "mlp_classifier", dimension.name

        def share(rows: Iterable[int]) -> float:
            return fmean(t[name] for i in rows if name in (t := self.examples[i].targets))

        if method == "none" or not (with_spread or method == "isotonic"):
            return None
        units: list[float] = []
        targets: list[float] = []
        folds: list[int] = []
        for number, (train, held_out) in enumerate(self.folds):
            rows = [i for i in held_out if name in self.examples[i].targets]
            net = self.fit(train, name, setting)
            shift = 0.0
            if dimension.kind == "binary":  # the rate of the fold's own rows is not the judge's
                shift = share(range(len(self.examples))) - share(train)
            units += (net.units(self.table[rows], self.config.decode) + shift).tolist()
            targets += [float(self.examples[i].targets[name]) for i in rows]
            folds += [number] * len(rows)
        if len(targets) < MIN_ROWS:
            return None
        scores, labels, fold = np.array(units), np.array(targets), np.array(folds)
        spread = float((labels - scores).std()) if with_spread else None
        if method != "isotonic":
            return Calibration(spread=spread, rows=len(labels))
        isotonic, threshold, others = fit_isotonic(scores, labels), None, []
        if dimension.kind == "binary":
            present = labels >= 0.5
            isotonic = fit_isotonic(scores, present)
            chances = isotonic_map(scores, isotonic)
            levels = np.unique([0.0, *chances])
            tried = (levels[1:] + levels[:-1]) / 2
            figures = [f1_score(present, chances >= value) for value in tried]
            threshold = float(tried[int(np.argmax(figures))])
            parts = np.unique(fold)
            if len(parts) > 1:
                others = [fit_isotonic(scores[fold != k], present[fold != k]) for k in parts]
        return Calibration(
            spread=spread,
            isotonic=isotonic,
            threshold=threshold,
            others=tuple(others),
            rows=len(labels),
        )
