"""Details: what stands behind one number of a judgement, typed, one object a dimension."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from medal_judges.records.dimension import Dimension
from medal_judges.records.validation import Count, Number


@dataclass(frozen=True, slots=True)
class Details:
    """How a judge came to one dimension's score; a judge fills in what it has.

    ``value``: the number that the answer said (pooled over repeats). ``expected`` and ``spread``:
    mean and standard deviation of the distribution over ratings. ``interval``: (lowest, highest) of
    nine in ten of people's ratings of held-out dialogues with such a score. All four, and
    ``repeats`` (one
    number an answer, None where it had none), are on the dimension's scale. ``mass``: probability
    of all ratings together before they were made to add up to 1. ``samples``: how many answers the
    distribution was counted from. ``raw``: the judge's number before it was put on the scale (nats
    of a likelihood judge). ``selected``: how many follow-ups all selection runs chose (0: none in
    common, all are used), ``follow_ups`` their texts, ``unread_runs`` the selection runs that could
    not be read and do not count. ``comment``: what the judge wrote about the dimension.
    ``parsed``: how each answer was read ("schema", "json", ...; None: no number in it).
    ``repeats_std`` (n - 1) and ``repeats_agreement`` (share of pairs of repeats that give the same
    number). ``members``: of a hybrid, the score of each member that was asked, on the hybrid's
    scale.
    """

    value: Number | None = None
    expected: Number | None = None
    spread: Number | None = None
    interval: tuple[Number, ...] = ()
    mass: Number | None = None
    samples: Count | None = None
    raw: Number | None = None
    selected: Count | None = None
    unread_runs: Count | None = None
    follow_ups: tuple[str, ...] = ()
    comment: str | None = None
    parsed: tuple[str | None, ...] = ()
    repeats: tuple[Number | None, ...] = ()
    repeats_std: Number | None = None
    repeats_agreement: Number | None = None
    members: Mapping[str, Number | None] = field(default_factory=dict)

    def rescaled(self, scale: Dimension, other: Dimension) -> Details:
        """The same from the scale of one dimension to another's."""
        ratio = (other.high - other.low) / (scale.high - scale.low)

        def moved(value: float | None) -> float | None:
            return None if value is None else other.low + (value - scale.low) * ratio

        return replace(
            self,
            value=moved(self.value),
            expected=moved(self.expected),
            spread=None if self.spread is None else self.spread * ratio,
            interval=tuple(other.low + (end - scale.low) * ratio for end in self.interval),
            repeats=tuple(map(moved, self.repeats)),
            repeats_std=None if self.repeats_std is None else self.repeats_std * ratio,
            members={name: moved(score) for name, score in self.members.items()},
        )

    def finite(self) -> Details:
        """Without NaN and infinity, which JSON does not have: such a number becomes None."""
        numbers: dict[str, Any] = {name: _finite(getattr(self, name)) for name in _NUMBERS}
        return replace(
            self,
            **numbers,
            interval=self.interval if all(map(math.isfinite, self.interval)) else (),
            repeats=tuple(map(_finite, self.repeats)),
            members={name: _finite(score) for name, score in self.members.items()},
        )

    def to_record(self) -> dict[str, Any]:
        """The fields that say something; an absent one is None or empty."""
        record: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if value is None or (each.name in _GROUPS and not value):
                continue
            record[each.name] = (
                list(value)
                if isinstance(value, tuple)
                else dict(value)
                if isinstance(value, Mapping)
                else value
            )
        return record


_NUMBERS = ("value", "expected", "spread", "mass", "raw", "repeats_std", "repeats_agreement")
_GROUPS = ("interval", "parsed", "repeats", "members", "follow_ups")


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value
