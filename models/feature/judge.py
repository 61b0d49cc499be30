"""The feature judge: a linear model of a few surface measures, as a baseline for other judges."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field
from scipy.special import expit

from medal_judges.config import Config
from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.base.heads import on_scale
from medal_judges.models.base.judge import Judge, ScoreRequest
from medal_judges.models.base.saving import read_config, write_config
from medal_judges.models.base.trained import TrainedConfig
from medal_judges.models.base.turn_features import FEATURE_NAMES, SurfaceFeatures, turn_features
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension, load_rubric
from medal_judges.records.judgement import Contributions, Judgement
from medal_judges.records.signature import Signature, content_hash


class FeatureConfig(TrainedConfig):
    """``features``: surface measures; their means over the assistant's turns are used."""

    family: Literal["feature"] = "feature"
    features: SurfaceFeatures = Field(min_length=1)


class LinearModel(Config):
    """score = link(intercept + weights . features), on [0, 1]; the link ``linear`` is ``on_scale``.
    ``means`` are the features' means over the fitting dialogues, to which contributions are
    relative."""

    link: Literal["linear", "sigmoid"]
    intercept: float
    weights: tuple[float, ...]
    means: tuple[float, ...]


class FeatureJudge(Judge):
    """Scores the means of surface measures over the assistant's turns with a linear model per
    dimension.

    A contribution is a turn's summand in intercept + weights . features, relative to the features'
    means: in units of the raw score for a linear link, in logits for a sigmoid link.
    """

    family = "feature"

    def __init__(
        self,
        config: FeatureConfig,
        dimensions: Sequence[Dimension],
        models: Mapping[str, LinearModel],
        *,
        name: str = "feature",
    ) -> None:
        self.config, self.dimensions, self.name = config, tuple(dimensions), name
        self.models = dict(models)
        self.columns = [FEATURE_NAMES.index(f) for f in config.features]

    @classmethod
    def fit(
        cls,
        config: FeatureConfig,
        examples: Sequence[Any],
        dimensions: Sequence[Dimension],
        *,
        name: str = "feature",
    ) -> FeatureJudge:
        """Returns a judge with a logistic regression for each binary dimension and a ridge
        regression for each other, fitted on the labelled ``examples`` (``dialogue``, ``targets`` on
        [0, 1]). Raises ConfigError for a binary dimension with one class only."""
        from sklearn.linear_model import LogisticRegression, Ridge

        judge = cls(config, dimensions, {}, name=name)
        table = np.array([judge._turn_table(e.dialogue).mean(axis=0) for e in examples])
        for dimension in dimensions:
            labelled = [i for i, e in enumerate(examples) if dimension.name in e.targets]
            y = np.array([examples[i].targets[dimension.name] for i in labelled], dtype=float)
            binary = dimension.kind == "binary"
            if binary and len(set(y >= 0.5)) < 2:
                raise ConfigError(f"all training labels of {dimension.name!r} are the same")
            if binary:
                model: Any = LogisticRegression(class_weight="balanced", max_iter=1000)
            else:
                model = Ridge(alpha=1.0)
            model.fit(table[labelled], y >= 0.5 if binary else y)
            judge.models[dimension.name] = LinearModel(
                link="sigmoid" if binary else "linear",
                intercept=float(np.ravel(model.intercept_)[0]),
                weights=tuple(np.ravel(model.coef_).tolist()),
                means=tuple(table[labelled].mean(axis=0).tolist()),
            )
        return judge

    @classmethod
    def from_settings(
        cls, settings: Mapping[str, Any], dimensions: Sequence[Dimension] | None = None
    ) -> FeatureJudge:
        """Returns a judge of configs/judges/ with nothing fitted: on each dimension the sigmoid of
        the sum of z-scores.

        ``settings``: ``name``, ``rubric``, and ``features``: name -> {mean, std, good}; good is 1
        if a higher value is better, else -1. ``dimensions`` replace those of the rubric.
        """
        features = settings["features"]
        slopes = [f["good"] / f["std"] for f in features.values()]
        offset = -sum(s * f["mean"] for s, f in zip(slopes, features.values(), strict=True))
        dimensions = dimensions or load_rubric(settings["rubric"])
        models = {
            d.name: LinearModel(
                link="sigmoid",
                intercept=sign * offset,
                weights=tuple(sign * s for s in slopes),
                means=tuple(f["mean"] for f in features.values()),
            )
            for d in dimensions
            for sign in [1 if d.good == "high" else -1]
        }
        config = FeatureConfig(features=tuple(features))
        return cls(config, dimensions, models, name=settings["name"])

    def _save(self, folder: Path) -> None:
        models = {k: v.model_dump() for k, v in self.models.items()}
        settings = {"name": self.name, "feature": self.config.model_dump(), "models": models}
        write_config(folder, self, settings)

    @classmethod
    def load(cls, folder: Path, *, device: str | None = None, dtype: str = "fp32") -> FeatureJudge:
        """Loads the judge saved in ``folder``, which always computes on the CPU. Raises
        JudgeLoadError for another ``dtype`` than fp32."""
        if dtype != "fp32":
            raise JudgeLoadError(f"a feature judge has no weights that could be {dtype}")
        saved = read_config(folder)
        config = FeatureConfig(**saved["feature"])
        dimensions = [Dimension(**d) for d in saved["dimensions"]]
        models = {k: LinearModel(**v) for k, v in saved["models"].items()}
        lengths = {len(each) for m in models.values() for each in (m.weights, m.means)}
        if set(models) != {d.name for d in dimensions} or lengths != {len(config.features)}:
            raise ValueError("the models do not fit the dimensions and features")
        return cls(config, dimensions, models, name=saved["name"])

    def signature(self) -> Signature:
        return self.signed(
            revision=content_hash({k: v.model_dump() for k, v in self.models.items()}),
            base="+".join(self.config.features),
        )

    def _turn_table(self, dialogue: Dialogue) -> np.ndarray:
        """Returns the features of the assistant's turns [assistant turns, features]."""
        rows = turn_features(dialogue)[list(dialogue.assistant_turns)]
        table: np.ndarray = rows[:, self.columns].astype(float)
        return table

    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        for request in requests:
            request.payload = self._turn_table(request.dialogue)
            request.tokens = len(request.dialogue.turns)

    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        judgements = []
        for request in requests:
            scores: dict[str, float | None] = {}
            contributions: dict[str, Contributions] = {}
            details: dict[str, dict[str, Any]] = {}
            table, turns = request.payload, list(request.dialogue.assistant_turns)
            for name in dimensions:
                model, dimension = self.models[name], self.dimension(name)
                linear, weights = model.link == "linear", np.array(model.weights)
                value = model.intercept + float(table.mean(axis=0) @ weights)
                scores[name] = dimension.from_unit(float((on_scale if linear else expit)(value)))
                factor = dimension.high - dimension.low if linear else 1.0
                shares = np.zeros(len(request.dialogue.turns))
                shares[turns] = factor * ((table - np.array(model.means)) @ weights) / len(table)
                whole = dimension.from_unit(value) if linear else value
                if linear:
                    details[name] = {"raw": whole}
                added = tuple(shares.tolist())
                contributions[name] = Contributions(
                    added, whole - math.fsum(added), "score" if linear else "logit"
                )
            judgements.append(
                Judgement(scores=scores, contributions=contributions, details=details)
            )
        return judgements
