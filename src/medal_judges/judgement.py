"""Judgement: what a judge said of one dialogue, or of one assistant turn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medal_judges.dialogue import parse_id
from medal_judges.errors import RecordError
from medal_judges.fields import mapping, number, numbers, optional_text, whole_number


@dataclass(frozen=True, slots=True)
class Judgement:
    """One answer of a judge.

    ``scores`` maps dimension to a number on the dimension's own scale (binary: probability of
    label 1), None where unscored; ``failure`` then says why. ``distributions`` gives a probability
    per level of an ordinal or binary dimension. ``contributions`` gives one number per turn of the
    dialogue (0 for turns that were dropped), in units of the score. ``turn`` is the index of the
    judged turn, None for the dialogue. ``truncated_turns`` counts whole turns the judge did not
    see. ``transient``: an answer that the judgement needed did not come for a reason that passes by
    itself (a server that is down, a limit of rate or cost): some of the rest is missing, a score or
    one of several repeats, and the same command asks again.
    """

    id: str
    judge: str
    scores: Mapping[str, float | None]
    turn: int | None = None
    distributions: Mapping[str, Sequence[float]] = field(default_factory=dict)
    explanation: str | None = None
    failure: str | None = None
    truncated_turns: int = 0
    usage: Mapping[str, float] = field(default_factory=dict)
    contributions: Mapping[str, Sequence[float]] = field(default_factory=dict)
    transient: bool = False

    @property
    def scored(self) -> bool:
        """True when every dimension has a number."""
        return bool(self.scores) and all(v is not None for v in self.scores.values())

    def uncertainty(self, dimension: str) -> float | None:
        """Standard deviation of the dimension's distribution as a share of its scale, from 0 (one
        level has it all) to 0.5 (half of it at each end); None where there is no distribution."""
        chances = self.distributions.get(dimension, ())
        total = sum(chances)
        if len(chances) < 2 or total <= 0:
            return None
        places = [i / (len(chances) - 1) for i in range(len(chances))]
        mean = sum(p * x for p, x in zip(chances, places, strict=True)) / total
        spread = sum(p * (x - mean) ** 2 for p, x in zip(chances, places, strict=True)) / total
        return math.sqrt(max(0.0, spread))

    def to_record(self) -> dict[str, Any]:
        """The judgement line of design.md; ``contributions`` only where the judge has them, and
        ``transient`` where it is true."""
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
        if self.contributions:
            record["contributions"] = {k: list(v) for k, v in self.contributions.items()}
        if self.transient:
            record["transient"] = True
        return record


def unscored(
    id: str, judge: str, dimensions: Sequence[str], reason: str, turn: int | None = None
) -> Judgement:
    """A judgement without numbers and with its reason; never a sentinel."""
    return Judgement(id, judge, dict.fromkeys(dimensions), turn=turn, failure=reason)


def parse_judgement(record: object) -> Judgement:
    """Judgement of one JSON object. Raises RecordError that names the field."""
    if not isinstance(record, dict):
        raise RecordError("(line)", "a JSON object", record)
    if not isinstance(record.get("scores"), dict):
        raise RecordError("scores", "an object of dimension: number or null", record.get("scores"))
    turn = record.get("turn")
    return Judgement(
        id=parse_id(record.get("id")),
        judge=optional_text(record, "judge") or "",
        scores={
            name: None if value is None else number(f"scores.{name}", value, "a number or null")
            for name, value in record["scores"].items()
        },
        turn=None if turn is None else whole_number("turn", turn, "a whole number from 0 or null"),
        distributions=_number_lists(record, "distributions"),
        explanation=optional_text(record, "explanation"),
        failure=optional_text(record, "failure"),
        truncated_turns=_count(record, "truncated_turns"),
        usage={k: number(f"usage.{k}", v) for k, v in mapping(record, "usage").items()},
        contributions=_number_lists(record, "contributions"),
        transient=_flag(record, "transient"),
    )


def _flag(record: Mapping[str, Any], key: str) -> bool:
    value = record.get(key, False)
    if not isinstance(value, bool):
        raise RecordError(key, "true or false", value)
    return value


def _count(record: Mapping[str, Any], key: str) -> int:
    value = record.get(key)
    return 0 if value is None else whole_number(key, value)


def _number_lists(record: Mapping[str, Any], key: str) -> dict[str, tuple[float, ...]]:
    return {k: numbers(f"{key}.{k}", v) for k, v in mapping(record, key).items()}
