"""Rating: what people said, one value per annotator, raw scale.

Aggregation and rescaling are explicit steps here, never done at load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medal_judges.errors import RecordError
from medal_judges.records.validation import number

Scale = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Rating:
    """Answers of all annotators about one dialogue (``turn`` None) or one turn of it.

    ``values`` holds one number per annotator, None where none was given. ``scale`` is (lowest,
    highest) allowed answer, None where the source has no bounds. ``aggregated`` marks values that
    the source released as a mean or vote already.

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
    """Mean over the annotators who answered, on the raw scale; None when nobody did."""
    given = rating.given
    return sum(given) / len(given) if given else None


def rescale(value: float, source: Scale, target: Scale) -> float:
    """Linear map of ``value`` from one scale to another (ORALIS, Equation 1, before rounding)."""
    (a, b), (c, d) = source, target
    return c + (value - a) * (d - c) / (b - a)


def parse_values(field: str, values: object) -> tuple[float | None, ...]:
    """One value per annotator; a bare number is one annotator. Raises RecordError."""
    listed: Sequence[object] = values if isinstance(values, list) else [values]
    expected = "finite numbers or nulls, one per annotator"
    return tuple(None if v is None else number(field, v, expected) for v in listed)


def parse_scale(field: str, value: object) -> Scale | None:
    """(lowest, highest) or None where the source states no bounds. Raises RecordError."""
    if value is None:
        return None
    expected = "[lowest, highest] or null"
    if not isinstance(value, list) or len(value) != 2:
        raise RecordError(field, expected, value)
    low, high = (number(field, v, expected) for v in value)
    if not low < high:
        raise RecordError(field, expected, value)
    return low, high
