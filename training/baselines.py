"""What needs no training, beside what was trained: the length of the answers, and repetition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medal_judges.dimension import Dimension
from medal_judges.models.base.turn_features import FEATURE_NAMES, turn_features
from medal_judges.training.agreement import Scores
from medal_judges.training.rows.examples import TrainingExample

MEASURES = {"length": "log_words", "repetition": "said_before_3"}
_MOST = 2000  # training rows that tell which way a measure points


def baseline_scores(
    train: Sequence[TrainingExample],
    examples: Sequence[TrainingExample],
    dimensions: Sequence[Dimension],
    seed: int,
) -> dict[str, Scores]:
    """Baseline -> dimension -> score of each example [n]: the mean of one surface measure over the
    assistant's turns, with the sign that its correlation with the labels has on (at most 2,000
    drawn) training rows. Only order and sign mean anything; NaN without an assistant turn."""
    drawn = np.random.default_rng(seed).permutation(len(train))[:_MOST]
    known = [train[i] for i in sorted(drawn)]
    before, now = _table(known), _table(examples)
    scores: dict[str, Scores] = {}
    for column, name in enumerate(MEASURES):
        signs = {d.name: _sign(known, before[:, column], d.name) for d in dimensions}
        scores[name] = {d.name: signs[d.name] * now[:, column] for d in dimensions}
    return scores


def _table(examples: Sequence[TrainingExample]) -> np.ndarray:
    """Means of the measures over the assistant's turns [n, measures]."""
    columns = [FEATURE_NAMES.index(name) for name in MEASURES.values()]
    rows = np.full((len(examples), len(columns)), np.nan)
    for row, example in enumerate(examples):
        if turns := list(example.dialogue.assistant_turns):
            rows[row] = turn_features(example.dialogue)[turns][:, columns].mean(axis=0)
    return rows


def _sign(examples: Sequence[TrainingExample], values: np.ndarray, name: str) -> float:
    """1 or -1: which way the labels go with ``values``, source by source; 1 where nothing tells."""
    total = 0.0
    for source in {e.source for e in examples if name in e.human}:
        pairs = [
            (value, e.human[name])
            for value, e in zip(values, examples, strict=True)
            if e.source == source and name in e.human and np.isfinite(value)
        ]
        table = np.array(pairs).reshape(-1, 2)
        centred = table - table.mean(axis=0) if len(table) else table
        spread = float(np.sqrt((centred**2).sum(axis=0).prod()))
        total += float((centred[:, 0] * centred[:, 1]).sum()) / spread if spread else 0.0
    return -1.0 if total < 0 else 1.0
