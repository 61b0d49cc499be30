"""The feature judge: one or a few surface measures. The plain baseline that others must beat."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from medal_judges.contributions import Contributions
from medal_judges.dialogue import Dialogue
from medal_judges.dimension import Dimension, load_rubric
from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.base.judge import Judge, Prediction, ScoreRequest
from medal_judges.models.base.saving import read_config, write_config
from medal_judges.models.feature.config import FeatureConfig, LinearModel
from medal_judges.models.feature.turn_features import FEATURE_NAMES, turn_features
from medal_judges.signature import Signature, content_hash


class FeatureExample(Protocol):
    """What ``fit`` reads of a row: a dialogue and targets on [0, 1] per dimension."""

    dialogue: Dialogue
    targets: dict[str, Any]


class FeatureJudge(Judge):
    """Means of surface measures over the assistant's turns, one line a dimension.

    Contributions are what each turn adds to intercept + weights . features, around the features'
    means: in units of the score for a linear line, in logits for a sigmoid one.
    """

    family = "feature"

    def __init__(
        self,
        config: FeatureConfig,
        dimensions: Sequence[Dimension],
        lines: Mapping[str, LinearModel],
        *,
        name: str = "feature",
    ) -> None:
        self.config, self.dimensions, self.name = config, tuple(dimensions), name
        self.lines = dict(lines)
        self.columns = [FEATURE_NAMES.index(f) for f in config.features]

    @classmethod
    def fit(
        cls,
        config: FeatureConfig,
        examples: Sequence[FeatureExample],
        dimensions: Sequence[Dimension],
        *,
        name: str = "feature",
    ) -> FeatureJudge:
        """Logistic regression for binary dimensions, ridge for the others; missing labels left out.

        Raises ConfigError when a binary dimension has one class only.
        """
        blank = cls(config, dimensions, {}, name=name)
        table = np.array([blank._turn_table(e.dialogue).mean(axis=0) for e in examples])
        lines = {
            d.name: _fit_line(d, table, [e.targets.get(d.name) for e in examples])
            for d in dimensions
        }
        return cls(config, dimensions, lines, name=name)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> FeatureJudge:
        """A judge of configs/judges/: ``name``, ``rubric``, and ``features``: per feature a
        {mean, std, good}. Good is +1 or -1: which way the dialogue gets better. Nothing is fitted:
        z-scores are added up and squashed onto each dimension's scale.
        """
        features = settings["features"]
        config = FeatureConfig(features=tuple(features))
        dimensions = load_rubric(settings["rubric"])
        slopes = [f["good"] / f["std"] for f in features.values()]
        offset = -sum(s * f["mean"] for s, f in zip(slopes, features.values(), strict=True))
        lines = {
            d.name: LinearModel(
                link="sigmoid",
                intercept=sign * offset,
                weights=tuple(sign * s for s in slopes),
                means=tuple(f["mean"] for f in features.values()),
            )
            for d in dimensions
            for sign in [1 if d.good == "high" else -1]
        }
        return cls(config, dimensions, lines, name=settings["name"])

    def _save(self, folder: Path) -> None:
        write_config(
            folder,
            self,
            {
                "name": self.name,
                "feature": self.config.model_dump(),
                "lines": {k: v.model_dump() for k, v in self.lines.items()},
            },
        )

    @classmethod
    def load(cls, folder: Path, *, device: str | None = None, dtype: str = "fp32") -> FeatureJudge:
        """The judge saved in ``folder``. It has no weights: any ``device`` gives the same numbers,
        made on the CPU. Raises JudgeLoadError for another ``dtype`` than fp32."""
        if dtype != "fp32":
            raise JudgeLoadError(f"a feature judge has no weights that could be {dtype}")
        saved = read_config(folder)
        return cls(
            FeatureConfig(**saved["feature"]),
            [Dimension(**d) for d in saved["dimensions"]],
            {k: LinearModel(**v) for k, v in saved["lines"].items()},
            name=saved["name"],
        )

    def signature(self) -> Signature:
        from medal_judges import __version__

        return Signature(
            judge=self.name,
            revision=content_hash({k: v.model_dump() for k, v in self.lines.items()}),
            base="+".join(self.config.features),
            rubric=content_hash([d.to_record() for d in self.dimensions]),
            version=__version__,
        )

    def _turn_table(self, dialogue: Dialogue) -> np.ndarray:
        """Features of the assistant's turns [assistant turns, features]."""
        rows = turn_features(dialogue)[list(dialogue.assistant_turns)]
        table: np.ndarray = rows[:, self.columns].astype(float)
        return table

    def _prepare(self, items: Sequence[ScoreRequest]) -> None:
        for item in items:
            item.payload = self._turn_table(item.dialogue)
            item.tokens = len(item.dialogue.turns)

    def _score_batch(
        self, items: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Prediction]:
        return [self._score(item, dimensions) for item in items]

    def _score(self, item: ScoreRequest, dimensions: Sequence[str]) -> Prediction:
        scores: dict[str, float | None] = {}
        contributions: dict[str, Contributions] = {}
        for name in dimensions:
            line, dimension = self.lines[name], self.dimension(name)
            value = line.intercept + float(item.payload.mean(axis=0) @ np.array(line.weights))
            unit = min(1.0, max(0.0, value)) if line.link == "linear" else _sigmoid(value)
            scores[name] = dimension.from_unit(unit)
            contributions[name] = _contributions(item, line, dimension, value)
        return Prediction(scores, contributions=contributions)


def _contributions(
    item: ScoreRequest, line: LinearModel, dimension: Dimension, value: float
) -> Contributions:
    """``item.payload`` [assistant turns, features]; ``value`` of the line."""
    linear = line.link == "linear"
    factor = dimension.high - dimension.low if linear else 1.0
    shares = (item.payload - np.array(line.means)) @ np.array(line.weights) / len(item.payload)
    turns = np.zeros(len(item.dialogue.turns))
    turns[list(item.dialogue.assistant_turns)] = factor * shares
    whole = factor * value + (dimension.low if linear else 0.0)
    told = tuple(turns.tolist())
    return Contributions(told, whole - math.fsum(told), "score" if linear else "logit")


def _fit_line(dimension: Dimension, table: np.ndarray, targets: Sequence[Any]) -> LinearModel:
    from sklearn.linear_model import LogisticRegression, Ridge

    rows = [i for i, t in enumerate(targets) if t is not None]
    x = table[rows]
    y = np.array([targets[i] for i in rows], dtype=float)
    if dimension.kind != "binary":
        fitted = Ridge(alpha=1.0).fit(x, y)
        weights, intercept, link = fitted.coef_, fitted.intercept_, "linear"
    else:
        if len(set(y >= 0.5)) < 2:
            raise ConfigError(f"all training labels of {dimension.name!r} are the same")
        fitted = LogisticRegression(class_weight="balanced", max_iter=1000).fit(x, y >= 0.5)
        weights, intercept, link = fitted.coef_[0], fitted.intercept_[0], "sigmoid"
    return LinearModel(
        link=link,  # type: ignore[arg-type]
        intercept=float(intercept),
        weights=tuple(map(float, weights)),
        means=tuple(map(float, x.mean(axis=0))),
    )


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value >= 0 else math.exp(value) / (1 + math.exp(value))
