"""Equal is equal: no rank, sign, tie or test counts a difference that a batch can make.

Scores that should be the same differ by up to 5e-7 of the scale if they were computed in batches of
other sizes. Rounding to a grid does not mend that, because two such scores can lie on either side
of a cell's edge. So each value ties with all values up to a distance away, the ``tolerance``: a
rank, a sign or a tie changes only if two values differ by just that much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from medal_judges.records.dimension import EQUAL

Floats = npt.NDArray[np.float64]
# A line among the facts of a page with statistics.
EQUAL_FACT = (
    "Equal",
    f"scores, and figures, that differ by at most {EQUAL:g} of their scale",
)


def tolerance_of(scale: tuple[float, float] | None, values: Floats) -> float:
    """Returns the distance up to which numbers on a ``scale`` (lowest, highest) are equal. If it is
    not known (labels that do not state theirs), it is as long as the largest of ``values``."""
    if scale is not None:
        return EQUAL * (scale[1] - scale[0])
    return EQUAL * float(np.nanmax(np.abs(values), initial=0.0))


def signs(differences: Floats, tolerance: float) -> Floats:
    """Returns 1 for ``differences`` above ``tolerance``, -1 for differences below its negative, and
    0 for the others."""
    return np.where(np.abs(differences) <= tolerance, 0.0, np.sign(differences))


def present(probabilities: Floats) -> npt.NDArray[np.bool_]:
    """Returns whether an issue of each of ``probabilities`` is present: from 0.5 on."""
    return probabilities >= 0.5 - EQUAL


@dataclass(frozen=True, slots=True)
class Values:
    """Numbers of shape (rows,), and the distance up to which two of them are equal."""

    numbers: Floats
    tolerance: float

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows: Any) -> Values:
        return Values(self.numbers[rows], self.tolerance)

    @property
    def constant(self) -> bool:
        """Returns whether no two of them differ."""
        return not len(self) or float(np.ptp(self.numbers)) <= self.tolerance

    def ties(self, weights: Floats) -> tuple[Floats, Floats]:
        """Returns, for each value, the weight of the rows below it, and of the rows that are not
        above it, in the shape of ``weights``, (samples, rows)."""
        order = np.argsort(self.numbers, kind="stable")
        sorted_numbers = self.numbers[order]
        start = np.searchsorted(
            sorted_numbers, self.numbers - self.tolerance, side="left"
        )
        end = np.searchsorted(
            sorted_numbers, self.numbers + self.tolerance, side="right"
        )
        nothing = np.zeros((len(weights), 1))
        upto = np.concatenate([nothing, np.cumsum(weights[:, order], axis=1)], axis=1)
        return upto[:, start], upto[:, end]

    def ranks(self, weights: Floats) -> Floats:
        """Returns the ranks (mean ranks for ties) in each weighted sample, in the shape of
        ``weights``."""
        below, upto = self.ties(weights)
        return (below + upto + 1) / 2
