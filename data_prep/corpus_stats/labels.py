"""Labels: one number per row and dimension, kept in columns without the texts."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from math import nan

import numpy as np
import numpy.typing as npt

from medal_judges.data_prep.corpus_stats.part import Part
from medal_judges.labelled import LabelledDialogue
from medal_judges.rating import Scale, mean

PRESENT_FROM = 0.5  # a mean of answers from here on counts as 1
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension as the rows have it: the same name on another scale is another dimension."""

    name: str
    scale: Scale | None


class Labels:
    """Answers of all rows. Several answers to one question are their mean; how many rows have
    several is in ``repeated``. ``answered`` counts rows with any label. Each row has a weight."""

    def __init__(self) -> None:
        self.rows = 0
        self.answered = 0
        self.repeated = 0
        self._cells: dict[Part, int] = {}
        self._groups: dict[str, int] = {}
        self._cell, self._group = array("l"), array("l")
        self._weight = array("d")
        self._columns: dict[Dimension, array[float]] = {}
        self._between: set[Dimension] = set()  # with an answer that is neither 0 nor 1

    def add(self, row: LabelledDialogue, cell: Part, weight: float = 1) -> None:
        self._weight.append(weight)
        self._cell.append(self._cells.setdefault(cell, len(self._cells)))
        self._group.append(self._groups.setdefault(row.group, len(self._groups)))
        found = False
        for rating in row.ratings():
            value = mean(rating)
            if value is None:
                continue
            found = True
            dimension = Dimension(rating.dimension, rating.scale)
            column = self._columns.setdefault(dimension, array("d"))
            column.extend([nan] * (self.rows - len(column)))
            column.append(value)
            if any(v not in (0, 1) for v in rating.given):
                self._between.add(dimension)
        self.answered += found
        self.repeated += any(len(r.given) > 1 for r in row.ratings())
        self.rows += 1

    def dimensions(self) -> list[Dimension]:
        """In order of appearance."""
        return list(self._columns)

    def is_share(self, dimension: Dimension) -> bool:
        """True where every answer is 0 or 1: the figure is the share of rows at 1."""
        return dimension.scale == (0, 1) and dimension not in self._between

    def select(self, part: Part) -> tuple[Ints, list[str], Floats]:
        """Of the rows of ``part``: the index of each one's group, the groups' names by index, and
        values of shape (rows, dimensions), NaN where a row has no label.

        Values are the mean of the answers; where the dimension is a share, 1 from 0.5 on, else 0.
        """
        rows = self._inside(part)
        columns = [self._column(d)[rows] for d in self._columns]
        values = np.stack(columns, axis=1) if columns else np.empty((int(rows.sum()), 0))
        names = list(self._groups)
        used, member = np.unique(np.asarray(self._group, dtype=np.int64)[rows], return_inverse=True)
        return member, [names[i] for i in used], values

    def weights(self, part: Part) -> Floats:
        """Of the rows of ``part``: how often each counts, in the order of ``select``."""
        return np.asarray(self._weight, dtype=np.float64)[self._inside(part)]

    def _inside(self, part: Part) -> npt.NDArray[np.bool_]:
        inside = np.array([part.holds(cell) for cell in self._cells], dtype=bool)
        return inside[np.asarray(self._cell, dtype=np.int64)] if self.rows else np.empty(0, bool)

    def _column(self, dimension: Dimension) -> Floats:
        values = np.full(self.rows, np.nan)
        given = np.asarray(self._columns[dimension])
        values[: len(given)] = given
        if not self.is_share(dimension):
            return values
        return np.where(np.isnan(values), np.nan, (values >= PRESENT_FROM).astype(np.float64))
