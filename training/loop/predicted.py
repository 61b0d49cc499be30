"""What the processes predicted of their batches, put together in the order of the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Predicted:
    """One batch: its ``rows``, its mean ``loss``, and logits [len(rows), outputs] per dimension."""

    rows: Sequence[int]
    loss: float
    logits: Mapping[str, np.ndarray]


def in_row_order(
    parts: Sequence[Predicted], names: Sequence[str]
) -> tuple[dict[str, np.ndarray], float]:
    """(logits [n, outputs] of each dimension of ``names``, mean loss over rows).

    A row that several batches have counts once.
    """
    rows = np.concatenate([part.rows for part in parts])
    _, first = np.unique(rows, return_index=True)
    losses = np.concatenate([np.full(len(part.rows), part.loss) for part in parts])
    logits = {name: np.concatenate([part.logits[name] for part in parts])[first] for name in names}
    return logits, float(losses[first].mean())
