"""Samples whose rows are clusters by themselves, unless clusters are given."""

from __future__ import annotations

from itertools import count

import numpy as np

from medal_judges.stats.correlation import Floats
from medal_judges.stats.equal import Values
from medal_judges.stats.means import ClusterNames, Sample

# Two samples share no cluster.
_STARTS = count(step=100_000_000)


def sample(
    scores: Floats,
    clusters: ClusterNames | None = None,
    weights: Floats | None = None,
    *,
    tolerance: float = 1e-5,
) -> Sample:
    if clusters is None:
        clusters = next(_STARTS) + np.arange(len(scores))
    return Sample(Values(scores, tolerance), clusters, weights)
