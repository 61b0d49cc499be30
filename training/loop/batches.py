"""Batches of similar length: deterministic by seed and epoch, the same on every process."""

from __future__ import annotations

from collections.abc import Sequence

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
    wanted = len(batches) if count is None else count
    return [batches[i % len(batches)] for i in range(wanted)]


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


def padding_share(batches: Sequence[Sequence[int]], lengths: Sequence[int]) -> float:
    """Share of padded positions that hold no token."""
    padded = sum(len(b) * max(lengths[row] for row in b) for b in batches)
    real = sum(lengths[row] for b in batches for row in b)
    return 1 - real / padded
