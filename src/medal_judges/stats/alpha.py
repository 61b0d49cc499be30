"""Krippendorff's alpha as a function of row weights, by the package krippendorff."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np

from medal_judges.stats.correlation import Floats, Statistic

Measurement = Literal["nominal", "ordinal", "interval"]


def alpha_statistic(ratings: Floats, measurement: Measurement) -> Statistic:
    """Returns a function that computes Krippendorff's alpha (agreement of
    annotators) on samples of rows.

    Args:
        ratings: [rows, annotators], NaN for a missing rating.
        measurement: Level of measurement: ``nominal``, ``ordinal`` or ``interval``.

    Returns:
        A function that takes weights [samples, rows] and returns ``{"alpha": [samples]}``. A sample
            has the rows whose weight is above 0. The size of a weight has no effect. Alpha is NaN
            where it is undefined, for example if all ratings are equal.
    """
    levels = np.unique(ratings[np.isfinite(ratings)])
    counts = (ratings[:, :, None] == levels).sum(axis=1)

    def statistic(weights: Floats) -> dict[str, Floats]:
        alphas = [_alpha(counts[drawn], levels, measurement) for drawn in weights > 0]
        return {"alpha": np.array(alphas)}

    return statistic


def _alpha(counts: Floats, levels: Floats, measurement: Measurement) -> float:
    import krippendorff

    shared = counts[counts.sum(axis=1) > 1]
    if (shared.sum(axis=0) > 0).sum() < 2:
        return np.nan
    with warnings.catch_warnings():
        # Levels that no row of the sample has are empty columns.
        warnings.simplefilter("ignore", RuntimeWarning)
        return float(
            krippendorff.alpha(
                value_counts=shared,
                value_domain=levels,
                level_of_measurement=measurement,
            )
        )


def no_interval_reason(ratings: Floats, measurement: str) -> str | None:
    """Returns why Krippendorff's alpha has no confidence interval, or None if it can have one.

    Alpha has no interval if the level is ``nominal`` and no row has the rarest rating twice.

    Args:
        ratings: [rows, annotators], NaN for a missing rating.
        measurement: Level of measurement: ``nominal``, ``ordinal`` or ``interval``.
    """
    if measurement != "nominal":
        return None
    shared = ratings[np.isfinite(ratings).sum(axis=1) > 1]
    levels, sizes = np.unique(shared[np.isfinite(shared)], return_counts=True)
    if len(levels) < 2:
        return None
    of_rarest = (shared == levels[sizes.argmin()]).sum(axis=1)
    # Otherwise alpha is just below 0, whichever row is left out: in simulations no interval covers.
    if (of_rarest > 1).any():
        return None
    return "no interval: no row has the rarest answer twice"
