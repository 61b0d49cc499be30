"""The weight of rare labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medal_judges.models.base.heads import HeadConfig
from medal_judges.training.config import ModelConfig
from medal_judges.training.rows import Columns, TrainingExample

_MOST_POSITIVE_WEIGHT = 10.0  # a larger one would let a few positives outweigh everything else


def balanced(model: ModelConfig, examples: Sequence[TrainingExample]) -> ModelConfig:
    """Returns the settings of a ``model`` with heads, each ``positive_weight: balanced`` of a
    binary head replaced by negatives / positives, so that the head does not answer no to every rare
    issue."""
    columns = Columns.of(examples).targets
    heads: dict[str, HeadConfig] = {}
    for name, head in model.heads.items():
        if head.positive_weight == "balanced":
            targets = columns.get(name, np.zeros(0))
            labels = targets[np.isfinite(targets)] >= 0.5
            positives = max(1, int(labels.sum()))
            weight = (len(labels) - positives) / positives
            weight = min(_MOST_POSITIVE_WEIGHT, max(1.0, weight))
            head = head.model_copy(update={"positive_weight": weight})
        heads[name] = head
    return model.model_copy(update={"heads": heads})
