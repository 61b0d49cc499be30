"""Class balance of binary heads: rare issues must not be answered with a flat no."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.training.rows.example_store import targets_of
from medal_judges.training.rows.examples import Example

_MOST = 10.0  # above this a handful of positives would drown everything else


def balance_heads(model: EncoderConfig, examples: Sequence[Example]) -> EncoderConfig:
    """``model`` with each ``positive_weight: balanced`` replaced by negatives / positives."""
    heads = {}
    for name, head in model.heads.items():
        if head.positive_weight == "balanced":
            targets = targets_of(examples, name)
            labels = targets[np.isfinite(targets)] >= 0.5
            positives = max(1, int(labels.sum()))
            weight = min(_MOST, max(1.0, (len(labels) - positives) / positives))
            head = head.model_copy(update={"positive_weight": weight})
        heads[name] = head
    return model.model_copy(update={"heads": heads})
