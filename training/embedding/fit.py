"""Fit an embedding judge: read every dialogue once, search the settings, fit, calibrate."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from medal_judges.dialogue import Dialogue
from medal_judges.dimension import Dimension
from medal_judges.models.base.heads import Calibration
from medal_judges.models.embedding.config import EmbeddingConfig
from medal_judges.models.embedding.judge import EmbeddingJudge
from medal_judges.models.embedding.net import Floats
from medal_judges.models.embedding.sentence_encoder import SentenceEncoder
from medal_judges.signature import content_hash
from medal_judges.training.config import TrainConfig
from medal_judges.training.embedding.search import FitSetting, Search, SearchData, fit_net, folds_of
from medal_judges.training.loop.calibration import MIN_ROWS, fit_isotonic
from medal_judges.training.loop.validation import validation_figures
from medal_judges.training.rows.examples import TrainingExample
from medal_judges.training.rows.rows import RunRows

logger = logging.getLogger(__name__)


def fit_embedding_judge(
    config: TrainConfig, rows: RunRows, dimensions: Sequence[Dimension]
) -> tuple[EmbeddingJudge, dict[str, float]]:
    """(judge, figures of validation; empty without validation rows).

    Settings are chosen on validation rows (cross-validation where there are none); the nets that
    are kept are fitted on the training rows alone. Raises ConfigError.
    """
    model = config.model
    assert isinstance(model, EmbeddingConfig)
    encoder = SentenceEncoder.create(model.base, model.base_revision)
    judge = EmbeddingJudge(model, encoder, dimensions, {}, name=config.name)
    examples: list[TrainingExample] = [*rows.train, *rows.validation]
    data = SearchData(
        examples=examples,
        table=_vectors(judge, [example.dialogue for example in examples]),
        is_feature=judge.reader.is_feature,
        folds=folds_of(examples, len(rows.train), model.folds),
        decode=model.decode,
        seed=config.seed,
    )
    search = Search(model, data)
    settings = search.run(dimensions)
    train = np.arange(len(rows.train))
    judge.nets = {name: fit_net(data, train, name, s) for name, s in settings.items()}
    judge.search = search.rows
    judge.calibration = {
        name: fitted
        for name, setting in settings.items()
        if (fitted := _calibration(data, name, setting, config.calibration)) is not None
    }
    judge.facts = {"seed": config.seed, "data": content_hash(rows.facts)}
    if not rows.validation:
        return judge, {}
    vectors = data.table[len(rows.train) :]
    scores = {name: judge.units(name, vectors) for name in judge.nets}
    binary = {d.name for d in dimensions if d.kind == "binary"}
    return judge, validation_figures(rows.validation, scores, binary)


def _vectors(judge: EmbeddingJudge, dialogues: Sequence[Dialogue]) -> Floats:
    """Vectors [n, W], a window of dialogues at a time: their turns' vectors are not kept."""
    vectors: list[Floats] = []
    for start in range(0, len(dialogues), judge.window):
        readings = judge.read(dialogues[start : start + judge.window])
        vectors += [reading.vector for reading in readings]
        logger.info("read %d of %d dialogues", len(vectors), len(dialogues))
    return np.stack(vectors)


def _calibration(
    data: SearchData, name: str, setting: FitSetting, method: str
) -> Calibration | None:
    """Spread of the residuals on held-out rows (a classifier has its own distribution), and with
    ``isotonic`` a monotone map of the score; None where there is nothing to fit."""
    spread_wanted = setting.head != "mlp_classifier"
    if method == "none" or not (spread_wanted or method == "isotonic"):
        return None
    units: list[float] = []
    targets: list[float] = []
    for train, held_out in data.folds:
        rows = data.labelled(held_out, name)
        net = fit_net(data, train, name, setting)
        units += net.units(data.table[rows], data.decode).tolist()
        targets += [float(data.examples[i].targets[name]) for i in rows]
    if len(targets) < MIN_ROWS:
        return None
    isotonic = fit_isotonic(units, targets) if method == "isotonic" else None
    residuals = np.array(targets) - np.array(units)
    spread = float(residuals.std()) if spread_wanted else None
    return Calibration(spread=spread, isotonic=isotonic, rows=len(targets))
