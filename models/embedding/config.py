"""Settings of the embedding judge: its encoder, what it reads, and the grids of its fit."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from medal_judges.config import Config
from medal_judges.models.base.turn_features import USUAL_FEATURES, TurnFeatures

EmbeddingHead = Literal["ridge", "mlp_classifier", "mlp_regressor"]


class RidgeGrid(Config):
    """What is tried for each ridge dimension: the penalty, and how large an embedding column (of
    unit deviation) stands beside a feature column; 0 leaves embeddings out."""

    alphas: tuple[float, ...] = Field(default=(1.0, 10.0, 100.0, 1e3, 1e4, 1e5), min_length=1)
    shares: tuple[float, ...] = Field(default=(0.0, 0.1, 0.3, 1.0), min_length=1)


class MlpGrid(Config):
    """What is tried for each MLP dimension (scikit-learn's names: ``alpha`` is the L2 penalty,
    ``epochs`` is max_iter). The first of each stands in the search of the class range."""

    hidden: tuple[tuple[int, ...], ...] = Field(default=((64,), (16,), (64, 32)), min_length=1)
    alpha: tuple[float, ...] = Field(default=(1.0, 0.01, 10.0), min_length=1)
    epochs: tuple[int, ...] = Field(default=(100, 30), min_length=1)
    learning_rate: tuple[float, ...] = Field(default=(1e-3,), min_length=1)


class EmbeddingConfig(Config):
    """What an embedding judge is made of; stored whole in its config.json.

    ``base`` is any sentence-transformers model by hub id or folder, or ``embedded:minilm``.
    ``reading: turns`` sees the mean of the assistant's turn vectors beside the mean of the user's;
    ``reading: dialogue`` sees one vector of the whole text, as ORALIS does (section 4.4).
    ``features`` (base/turn_features.py) are averaged by side and stand
    beside the vectors.

    ``head`` (``heads`` for single dimensions): ``ridge``; or an MLP over whole-number classes 0 to
    k, to which Equation 1 maps the scale. ``class_ranges`` are the k that are tried, on all
    dimensions together; a binary dimension has 0 and 1. ``decode``: a classifier answers with its
    expected class, or its likeliest as the paper does. Without validation rows, settings are
    chosen by cross-validation in ``folds`` parts.
    """

    family: Literal["embedding"] = "embedding"
    base: str = "embedded:minilm"
    base_revision: str | None = None
    reading: Literal["turns", "dialogue"] = "turns"
    features: TurnFeatures = USUAL_FEATURES
    head: EmbeddingHead = "ridge"
    heads: dict[str, EmbeddingHead] = Field(default_factory=dict)
    class_ranges: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(8, 2, 4, 6, 10), min_length=1
    )
    decode: Literal["expected", "argmax"] = "expected"
    ridge: RidgeGrid = Field(default_factory=RidgeGrid)
    mlp: MlpGrid = Field(default_factory=MlpGrid)
    folds: int = Field(default=5, ge=2)

    def head_of(self, dimension: str) -> EmbeddingHead:
        """The head of one dimension."""
        return self.heads.get(dimension, self.head)
