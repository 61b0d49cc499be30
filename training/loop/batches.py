"""Batches of similar length, the same on every process, and what was predicted of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medal_judges.training.config import OptimConfig

_POOL = 50  # batches sorted together: near-equal lengths, yet a shuffled order


def epoch_batches(
    lengths: Sequence[int], optim: OptimConfig, *, seed: int, epoch: int, count: int | None = None
) -> list[list[int]]:
    """Row numbers of each batch of one epoch, shuffled.

    Length-grouped: rows are shuffled, sorted by length within pools, cut by ``batch_size`` and
    ``batch_tokens``, and the batches shuffled again. With ``count`` exactly that many come back
    (the first ones twice where there are fewer): every epoch and process has as many steps.
    """
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(lengths))
    size = optim.batch_size * _POOL if optim.length_grouped else len(lengths)
    batches: list[list[int]] = []
    for start in range(0, len(order), size):
        pool = order[start : start + size].tolist()
        if optim.length_grouped:
            pool.sort(key=lambda row: lengths[row])
        batches += _cut(pool, lengths, optim)
    batches = [batches[i] for i in generator.permutation(len(batches))]
    return [batches[i % len(batches)] for i in range(count or len(batches))]


def prediction_batches(
    lengths: Sequence[int], optim: OptimConfig, processes: int
) -> list[list[int]]:
    """Row numbers of batches that hold every row, sorted by length and cut as training's are.

    Their number is a multiple of ``processes``: the first ones come again where it is not.
    """
    order = sorted(range(len(lengths)), key=lambda row: lengths[row])
    batches = _cut(order, lengths, optim)
    return [*batches, *(batches[i % len(batches)] for i in range(-len(batches) % processes))]


def _cut(pool: Sequence[int], lengths: Sequence[int], optim: OptimConfig) -> list[list[int]]:
    batches: list[list[int]] = [[]]
    longest = 0
    for row in pool:
        longest = max(longest, lengths[row])
        full = len(batches[-1]) == optim.batch_size
        if batches[-1] and (full or longest * (len(batches[-1]) + 1) > optim.batch_tokens):
            batches.append([])
            longest = lengths[row]
        batches[-1].append(row)
    return batches


@dataclass(frozen=True, slots=True)
class PredictedBatch:
    """One batch: its ``rows``, its mean ``loss``, and logits [len(rows), outputs] per dimension."""

    rows: Sequence[int]
    loss: float
    logits: Mapping[str, np.ndarray]


def in_row_order(
    batches: Sequence[PredictedBatch], names: Sequence[str]
) -> tuple[dict[str, np.ndarray], float]:
    """(logits [n, outputs] of each dimension of ``names``, mean loss over rows).

    A row that several batches have counts once.
    """
    rows = np.concatenate([batch.rows for batch in batches])
    _, first = np.unique(rows, return_index=True)
    losses = np.concatenate([np.full(len(batch.rows), batch.loss) for batch in batches])
    logits = {n: np.concatenate([batch.logits[n] for batch in batches])[first] for n in names}
    return logits, float(losses[first].mean())
