"""Details: what is known about one number of a judgement, a plain dict for each dimension.

Fields on the dimension's scale: ``value`` (the number in the answer, pooled over repeats),
``expected`` and ``spread`` (mean and standard deviation of the distribution over ratings),
``interval`` ([lowest, highest] of nine in ten human ratings of held-out dialogues with such a
score), ``repeats`` (one number for each answer, None if it had none) with ``repeats_std`` (n - 1)
and ``repeats_agreement`` (share of pairs of repeats with the same number), and ``members`` (of a
hybrid: the score of each member that was asked).

Other fields: ``mass`` (probability of all ratings together before normalisation), ``samples`` (how
many answers the distribution was counted from), ``raw`` (the judge's number before it was put on
the scale), ``selected`` (how many follow-ups all selection runs chose; 0: none in common, all are
used), ``follow_ups`` (their texts), ``unread_runs`` (selection runs that could not be parsed),
``comment`` (the judge's text about the dimension) and ``parsed`` (how each answer was parsed:
"schema", "json", ...; None: no number).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from medal_judges.records.dimension import Dimension
from medal_judges.records.validation import Count, Number, parse


@dataclass(frozen=True)
class _Fields:
    """The types of the fields, in the order in which a file has them."""

    value: Number | None = None
    expected: Number | None = None
    spread: Number | None = None
    interval: list[Number] | None = None
    mass: Number | None = None
    samples: Count | None = None
    raw: Number | None = None
    selected: Count | None = None
    unread_runs: Count | None = None
    follow_ups: list[str] | None = None
    comment: str | None = None
    parsed: list[str | None] | None = None
    repeats: list[Number | None] | None = None
    repeats_std: Number | None = None
    repeats_agreement: Number | None = None
    members: dict[str, Number | None] | None = None


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


def rescaled_details(
    details: Mapping[str, Any], scale: Dimension, other: Dimension
) -> dict[str, Any]:
    """Returns ``details`` on the scale of another dimension."""
    ratio = (other.high - other.low) / (scale.high - scale.low)

    def moved(value: Any) -> Any:
        if isinstance(value, list):
            return [moved(each) for each in value]
        if isinstance(value, dict):
            return {name: moved(each) for name, each in value.items()}
        return None if value is None else other.low + (value - scale.low) * ratio

    found = dict(details)
    for name in ("value", "expected", "interval", "repeats", "members"):
        if name in found:
            found[name] = moved(found[name])
    for name in ("spread", "repeats_std"):
        if name in found:
            found[name] = found[name] * ratio
    return found


def finite_details(details: Mapping[str, Any]) -> dict[str, Any]:
    """Returns ``details`` without NaN and infinity, which JSON does not have."""

    def cleaned(value: Any) -> Any:
        return None if isinstance(value, float) and not math.isfinite(value) else value

    found: dict[str, Any] = {}
    for name, value in details.items():
        if isinstance(value, list):
            values = [cleaned(each) for each in value]
            found[name] = [] if name == "interval" and None in values else values
        elif isinstance(value, Mapping):
            found[name] = {key: cleaned(each) for key, each in value.items()}
        else:
            found[name] = cleaned(value)
    return known_details(**found)


def require_details(details: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises RecordError that names an unknown field of ``details``, or one of another type."""
    for dimension, given in details.items():
        parse(_Fields, given, f"details.{dimension}")
