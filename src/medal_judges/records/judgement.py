"""Judgement: the scores of one dialogue, or of one assistant turn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from medal_judges.errors import RecordError
from medal_judges.records.contributions import Contributions
from medal_judges.records.details import require_details
from medal_judges.records.dialogue import parse_id
from medal_judges.records.validation import Count, Flag, Number, Numbers, mapping, parse

# Amounts that add up over rows and over the judges of a hybrid. ``tokens`` counts prompts and
# answers, ``cached_tokens`` the part of the prompts from the backend's cache, ``seconds`` the
# model's time, ``money`` US dollars.
USAGE = (
    *("tokens", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"),
    *("seconds", "money"),
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One answer of a judge.

    ``scores``: dimension -> a number on its scale (binary: probability of label 1), None if
    unscored; ``failure`` then gives the reason. ``turn``: index of the judged turn, None for the
    whole dialogue. ``distributions``: a probability for each level of an ordinal or binary
    dimension. ``details``: see details.py. ``contributions``: what each turn added to a score.
    ``truncated_turns`` counts turns that did not fit, ``left_out_turns`` turns that the judge's
    settings leave out, ``shortened_turns`` turns that it read shortened. ``usage``: amounts, see
    USAGE.
    ``transient``: an answer is missing for a reason that may pass (a server is down, a rate or cost
    limit), so the same command asks again. ``unknown_language``: the dialogue's language if the
    judge does not support it. ``detected_language``: its language if it stated none and it was
    detected. ``meta``: metadata copied from the dialogue (``--keep``).

    Raises ValueError for an unknown amount in ``usage``.

    >>> judgement = Judgement("d1", "judge:length", {"overall": 3.2, "unsafe": None})
    >>> judgement.scored
    False
    """

    id: str = ""
    judge: str = ""
    scores: Mapping[str, Number | None] = field(default_factory=dict)
    turn: Count | None = None
    distributions: Mapping[str, Numbers] = field(default_factory=dict)
    explanation: str | None = None
    failure: str | None = None
    truncated_turns: Count = 0
    usage: Mapping[str, Number] = field(default_factory=dict)
    contributions: Mapping[str, Contributions] = field(default_factory=dict)
    transient: Flag = False
    details: dict[str, dict[str, Any]] = field(default_factory=dict)
    left_out_turns: Count = 0
    shortened_turns: Count = 0
    unknown_language: str | None = None
    detected_language: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if unknown := [name for name in self.usage if name not in USAGE]:
            raise ValueError(f"usage has no {unknown[0]!r}; amounts are {', '.join(USAGE)}")

    @property
    def scored(self) -> bool:
        """True if every dimension has a number."""
        return bool(self.scores) and all(v is not None for v in self.scores.values())

    def uncertainty(self, dimension: str) -> float | None:
        """Returns the standard deviation of the dimension's distribution as a share of its scale:
        0 if one level has all probability, 0.5 if each end has half. None without a distribution.
        """
        chances = self.distributions.get(dimension, ())
        total = sum(chances)
        if len(chances) < 2 or total <= 0:
            return None
        places = [i / (len(chances) - 1) for i in range(len(chances))]
        mean = sum(p * x for p, x in zip(chances, places, strict=True)) / total
        spread = sum(p * (x - mean) ** 2 for p, x in zip(chances, places, strict=True)) / total
        return math.sqrt(max(0.0, spread))

    def to_record(self) -> dict[str, Any]:
        """Returns the judgement's line; optional fields are left out if empty."""
        record: dict[str, Any] = {
            "id": self.id,
            "turn": self.turn,
            "judge": self.judge,
            "scores": dict(self.scores),
            "distributions": {k: list(v) for k, v in self.distributions.items()},
            "explanation": self.explanation,
            "failure": self.failure,
            "truncated_turns": self.truncated_turns,
            "usage": dict(self.usage),
        }
        optional = {
            "contributions": {k: v.to_record() for k, v in self.contributions.items()},
            "details": {name: dict(each) for name, each in self.details.items() if each},
            "left_out_turns": self.left_out_turns,
            "shortened_turns": self.shortened_turns,
            "unknown_language": self.unknown_language,
            "detected_language": self.detected_language,
            "transient": self.transient,
            "meta": dict(self.meta),
        }
        return record | {k: v for k, v in optional.items() if v or isinstance(v, str)}


def unscored(
    id: str, judge: str, dimensions: Sequence[str], reason: str, turn: int | None = None
) -> Judgement:
    """Returns a judgement without numbers that gives its reason."""
    return Judgement(id, judge, dict.fromkeys(dimensions), turn=turn, failure=reason)


def parse_judgement(record: object) -> Judgement:
    """Returns the judgement of a JSON object; ignores unknown fields. Raises RecordError that names
    the field."""
    if not isinstance(record, dict):
        raise RecordError("(line)", "a JSON object", record)
    if not isinstance(record.get("scores"), dict):
        raise RecordError("scores", "an object of dimension: number or null", record.get("scores"))
    usage = mapping(record, "usage")
    if unknown := [name for name in usage if name not in USAGE]:
        raise RecordError(f"usage.{unknown[0]}", f"one of {', '.join(USAGE)}", usage[unknown[0]])
    known = {field.name: record.get(field.name) for field in fields(Judgement)}
    judgement = parse(Judgement, known | {"id": parse_id(record.get("id"))})
    require_details(judgement.details)
    return judgement
