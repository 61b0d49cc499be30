"""The scale of an untrained judge: which raw value means which rating, from labelled dialogues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from medal_judges.dimension import Dimension
from medal_judges.errors import ConfigError
from medal_judges.labelled import LabelledDialogue
from medal_judges.rating import mean, rescale

MIN_ROWS = 20


@dataclass(frozen=True, slots=True)
class FittedScale:
    """``center`` and ``spread`` of models/followup's LogisticScale, the rows they come from, and
    the mean absolute error on the dimension's scale: fitted, and of always saying the mean
    rating."""

    center: float
    spread: float
    rows: int
    error: float
    error_of_mean: float


def human_units(rows: Sequence[LabelledDialogue], name: str, dimension: Dimension) -> list[float]:
    """Mean rating of label ``name`` as a share of its scale [rows]; 1 is the dimension's good end.

    Raises ConfigError where a row has no such label, or the label no bounds.
    """
    units = []
    for row in rows:
        rating = row.rating(name)
        value = mean(rating) if rating is not None else None
        if rating is None or value is None:
            raise ConfigError(f"{row.id} has no rating of {name!r}")
        if rating.scale is None:
            raise ConfigError(
                f"the ratings of {name!r} have no bounds, so nothing tells where its scale begins",
                hint="fit on a set with bounds, such as dstc9:train",
            )
        units.append(rescale(value, rating.scale, (0.0, 1.0)))
    return [1 - u for u in units] if dimension.good == "low" else units


def fit_scale(raw: Sequence[float], units: Sequence[float], dimension: Dimension) -> FittedScale:
    """The sigmoid of ``raw`` that comes nearest to ``units`` (least squares).

    The sigmoid has to rise: where raw and rating disagree, its spread becomes as wide as the bound
    allows and every score is near the mean rating. Raises ConfigError with fewer than 20 rows.
    """
    from scipy.optimize import least_squares

    x, y = np.asarray(raw, dtype=float), np.asarray(units, dtype=float)
    if len(x) < MIN_ROWS:
        raise ConfigError(f"{len(x)} rows are too few to fit a scale on, at least {MIN_ROWS}")
    unit = float(x.std()) or 1.0
    z = (x - x.mean()) / unit

    def predicted(p: np.ndarray) -> np.ndarray:
        values: np.ndarray = 1 / (1 + np.exp(-(p[0] + np.exp(p[1]) * z)))
        return values

    level = float(np.clip(y.mean(), 0.02, 0.98))
    first = np.array([np.log(level / (1 - level)), -1.0])
    found = least_squares(lambda p: predicted(p) - y, first, bounds=([-6, -5], [6, 2])).x
    spread = unit / float(np.exp(found[1]))
    center = float(x.mean()) - float(found[0]) * spread
    width = dimension.high - dimension.low
    return FittedScale(
        center=center,
        spread=spread,
        rows=len(x),
        error=width * float(np.abs(predicted(found) - y).mean()),
        error_of_mean=width * float(np.abs(y - y.mean()).mean()),
    )
