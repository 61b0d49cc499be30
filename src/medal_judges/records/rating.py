"""Rating: one value per annotator on the raw scale. Loading neither aggregates nor rescales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medal_judges.errors import RecordError
from medal_judges.records.validation import number

Scale = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Rating:
    """The annotators' values for one dialogue (``turn`` None) or one of its turns.

    ``values``: one number per annotator, None if missing. ``scale``: (lowest, highest) allowed
    value, None if the source has no bounds. ``aggregated``: the source released a mean or vote.

    >>> rating = Rating("d1", None, "overall", (4, None, 5), (1, 5))
    >>> mean(rating)
    4.5
    """

    dialogue_id: str
    turn: int | None
    dimension: str
    values: tuple[float | None, ...]
    scale: Scale | None
    aggregated: bool = False

    @property
    def given(self) -> tuple[float, ...]:
        return tuple(v for v in self.values if v is not None)


def mean(rating: Rating) -> float | None:
    """Returns the mean of the given values on the raw scale; None if there are none."""
    given = rating.given
    return sum(given) / len(given) if given else None


def rescale(value: float, source: Scale, target: Scale) -> float:
    """Maps ``value`` linearly from one scale to another (ORALIS, Equation 1, before rounding)."""
    (a, b), (c, d) = source, target
    return c + (value - a) * (d - c) / (b - a)


def parse_values(field: str, values: object) -> tuple[float | None, ...]:
    """Returns one value per annotator; a bare number is one annotator. Raises RecordError."""
    listed: Sequence[object] = values if isinstance(values, list) else [values]
    expected = "finite numbers or nulls, one per annotator"
    return tuple(None if v is None else number(field, v, expected) for v in listed)


def parse_scale(field: str, value: object) -> Scale | None:
    """Returns (lowest, highest), None without bounds. Raises RecordError."""
    if value is None:
        return None
    expected = "[lowest, highest] or null"
    if not isinstance(value, list) or len(value) != 2:
        raise RecordError(field, expected, value)
    low, high = (number(field, v, expected) for v in value)
    if not low < high:
        raise RecordError(field, expected, value)
    return low, high
