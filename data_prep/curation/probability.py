"""Samples with known inclusion probabilities, of a fixed size.

A policy gives each dialogue a size; its chance to be chosen is proportional to it, and one over the
chance is the weight with which it stands for the pool (Horvitz and Thompson 1952). Taking the
dialogues of the largest size instead would leave nothing to weight by: a correlation estimated on
them is biased, as active testing notes (Kossen et al. 2021).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from medal_judges.errors import ConfigError

Floats = npt.NDArray[np.float64]

# This share of every chance is the same for all (Hesterberg 1995, defensive mixtures): a dialogue
# that a policy thinks worthless weighs about 1 / EVEN_SHARE times the mean.
EVEN_SHARE = 0.25


def inclusion_chances(sizes: Sequence[float] | Floats, n: int) -> Floats:
    """Chance of each dialogue to be among ``n``; they add up to n, none is above 1.

    Proportional to a mixture of an even share and the sizes. Sizes of 0 throughout give even
    chances. Raises ConfigError for a size below 0 or not finite.
    """
    size = np.asarray(sizes, dtype=np.float64)
    if not np.isfinite(size).all() or (size < 0).any():
        raise ConfigError("sizes of a sample must be finite and not below 0")
    if n >= len(size):
        return np.ones(len(size))
    mean = size.mean() if len(size) else 0.0
    share = np.ones(len(size)) if mean == 0 else EVEN_SHARE + (1 - EVEN_SHARE) * size / mean
    chances = np.zeros(len(size))
    certain = np.zeros(len(size), dtype=bool)
    while True:  # who would get more than 1 is certain, and the rest share what is left
        rest = n - int(certain.sum())
        chances = np.where(certain, 1.0, share * rest / share[~certain].sum())
        over = (chances >= 1) & ~certain
        if not over.any():
            return chances
        certain |= over


def systematic(chances: Floats, start: float) -> npt.NDArray[np.intp]:
    """Rows chosen in a systematic pass over ``chances`` in the order given, from ``start`` in
    [0, 1): each row is chosen with exactly its chance over uniform starts (Madow 1949).

    The order should be random. As many rows as the chances add up to, a whole number.
    """
    n = round(float(chances.sum()))
    ends = np.cumsum(chances)
    marks = np.minimum(start + np.arange(n), ends[-1] * (1 - 1e-12) if n else 0.0)
    chosen: npt.NDArray[np.intp] = np.searchsorted(ends, marks, side="right")
    return chosen
