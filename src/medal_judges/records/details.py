"""Details: what is known about one number of a judgement, a plain dict for each dimension."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from medal_judges.records.dimension import Dimension
from medal_judges.records.validation import Count, Number, parse


@dataclass(frozen=True)
class _Fields:
    """The fields in the order in which a file has them. Numbers without a remark about their scale
    are on the dimension's scale."""

    value: Number | None = None  # the number in the answer, pooled over repeats
    expected: Number | None = None  # mean of the distribution over ratings
    spread: Number | None = None  # its standard deviation
    interval: list[Number] | None = None  # of 9 in 10 human ratings of held-out dialogues with it
    mass: Number | None = None  # probability of all ratings together before normalisation
    samples: Count | None = None  # how many answers the distribution was counted from
    raw: Number | None = None  # the judge's number before it was put on the scale
    selected: Count | None = None  # follow-ups that all selection runs chose; 0: all are used
    unread_runs: Count | None = None  # selection runs that could not be parsed
    follow_ups: list[str] | None = None
    comment: str | None = None  # the judge's text about the dimension
    parsed: list[str | None] | None = None  # how each answer was parsed: schema, json, ...
    repeats: list[Number | None] | None = None  # one number for each answer
    repeats_std: Number | None = None  # n - 1
    repeats_agreement: Number | None = None  # share of pairs of repeats with the same number
    members: dict[str, Number | None] | None = None  # of a hybrid: the score of each member asked


FIELDS = tuple(each.name for each in fields(_Fields))


def known_details(**given: Any) -> dict[str, Any]:
    """Returns the fields ``given`` that have a value, JSON-ready and in the order of FIELDS."""
    found = {}
    for name in FIELDS:
        value = given.pop(name, None)
        if value is not None and value not in ((), [], {}):
            found[name] = list(value) if isinstance(value, tuple) else value
    assert not given, f"details have no field {next(iter(given))!r}"
    return found


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, list):
        return [change(each) for each in value]
    if isinstance(value, Mapping):
        return {name: change(each) for name, each in value.items()}
    return change(value)


def rescaled_details(
    details: Mapping[str, Any], scale: Dimension, other: Dimension
) -> dict[str, Any]:
    """Returns ``details`` on the scale of another dimension."""
    ratio = (other.high - other.low) / (scale.high - scale.low)
    found = dict(details)
    for name in found:
        if name in ("value", "expected", "interval", "repeats", "members"):
            found[name] = _mapped(
                found[name], lambda v: None if v is None else other.low + (v - scale.low) * ratio
            )
        elif name in ("spread", "repeats_std"):
            found[name] *= ratio
    return found


def finite_details(details: Mapping[str, Any]) -> dict[str, Any]:
    """Returns ``details`` without NaN and infinity, which JSON does not have."""

    def cleaned(value: Any) -> Any:
        return None if isinstance(value, float) and not math.isfinite(value) else value

    found = {name: _mapped(value, cleaned) for name, value in details.items()}
    if None in found.get("interval", ()):
        del found["interval"]
    return known_details(**found)


def require_details(details: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises RecordError that names an unknown field of ``details``, or one of another type."""
    for dimension, given in details.items():
        parse(_Fields, given, f"details.{dimension}")
