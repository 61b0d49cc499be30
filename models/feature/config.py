"""Settings of the feature judge."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from medal_judges.config import Config
from medal_judges.models.feature.turn_features import FEATURE_NAMES


class FeatureConfig(Config):
    """``features``: names of turn_features.py, averaged over the assistant's turns."""

    family: Literal["feature"] = "feature"
    features: tuple[str, ...] = Field(min_length=1)

    @field_validator("features")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [n for n in names if n not in FEATURE_NAMES]:
            raise ValueError(f"no feature {unknown}; there are {', '.join(FEATURE_NAMES)}")
        return names


class LinearModel(Config):
    """score = link(intercept + weights . features); ``linear`` gives the place on the scale [0, 1],
    clipped, ``sigmoid`` a probability. ``means``: of each feature over the dialogues it was fitted
    on, around which contributions are told."""

    link: Literal["linear", "sigmoid"]
    intercept: float
    weights: tuple[float, ...]
    means: tuple[float, ...]

    @model_validator(mode="after")
    def _of_equal_length(self) -> LinearModel:
        if len(self.means) != len(self.weights):
            raise ValueError(f"{len(self.means)} means for {len(self.weights)} weights")
        return self
