"""Equality of scores within a tolerance, so that the size of a batch changes no rank, sign, tie or
test.

Two scores of one dialogue, computed in batches of different sizes, differ by up to 5e-7 of the
scale. Rounding to a grid does not help, because two such scores can lie on either side of a cell's
edge. So each value is tied with all values within a distance, the ``tolerance``.
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
    f"two results that differ by at most {EQUAL:g} of their scale",
)


def tolerance_of(scale: tuple[float, float] | None, values: Floats) -> float:
    """Returns the largest difference at which two numbers count as equal: 1e-5 of the
    length of their scale.

    Args:
        scale: Lowest and highest possible number, such as (1, 5). None if unknown.
        values: The numbers. If ``scale`` is None, their largest absolute value takes the place of
            the length of the scale.
    """
    if scale is not None:
        return EQUAL * (scale[1] - scale[0])
    return EQUAL * float(np.nanmax(np.abs(values), initial=0.0))


def signs(differences: Floats, tolerance: float) -> Floats:
    """Returns the sign of each of ``differences``: 1, -1, or 0 if within ``tolerance`` of 0."""
    return np.where(np.abs(differences) <= tolerance, 0.0, np.sign(differences))


def is_issue_present(probabilities: Floats) -> npt.NDArray[np.bool_]:
    """Returns whether an issue (a defect of a dialogue, such as repetition) counts as present.

    Args:
        probabilities: Probabilities of the issue, of any shape.

    Returns:
        An array of the same shape: True for a probability of 0.5 or above.
    """
    return probabilities >= 0.5 - EQUAL


@dataclass(frozen=True, slots=True)
class Values:
    """An array of numbers with the tolerance at which two of them count as equal.

    Attributes:
        numbers: The numbers, with rows as the first axis.
        tolerance: Largest difference at which two numbers count as equal.
    """

    numbers: Floats
    tolerance: float

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows: Any) -> Values:
        return Values(self.numbers[rows], self.tolerance)

    @property
    def is_constant(self) -> bool:
        """Returns whether all numbers are equal, within ``tolerance``."""
        return not len(self) or float(np.ptp(self.numbers)) <= self.tolerance

    def cumulative_weights(self, weights: Floats) -> tuple[Floats, Floats]:
        """Returns, for each row, the total weight of the rows with smaller numbers.

        Args:
            weights: Row weights [samples, rows].

        Returns:
            Two arrays [samples, rows]. The first has the weight of all rows with a smaller number.
            The second also counts the rows with an equal number.
        """
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
        """Returns the weighted rank of each row in each sample, [samples, rows]. Tied rows
        get their mean rank.

        Args:
            weights: Row weights [samples, rows].
        """
        below, upto = self.cumulative_weights(weights)
        return (below + upto + 1) / 2
