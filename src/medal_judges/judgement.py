"""Judgement: what a judge said of one dialogue, or of one assistant turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medal_judges.dialogue import parse_id
from medal_judges.errors import RecordError


@dataclass(frozen=True, slots=True)
class Judgement:
    """One answer of a judge.

    ``scores`` maps dimension to a number on the dimension's own scale (binary: probability of
    label 1), None where unscored; ``failure`` then says why. ``distributions`` gives a probability
    per level of an ordinal or binary dimension. ``contributions`` gives one number per turn of the
    dialogue (0 for turns that were dropped), in units of the score. ``turn`` is the index of the
    judged turn, None for the dialogue. ``truncated_turns`` counts whole turns the judge did not
    see.
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

    @property
    def scored(self) -> bool:
        """True when every dimension has a number."""
        return bool(self.scores) and all(v is not None for v in self.scores.values())

    def to_record(self) -> dict[str, Any]:
        """The judgement line of design.md; ``contributions`` only where the judge has them."""
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
    scores = record.get("scores")
    if not isinstance(scores, dict):
        raise RecordError("scores", "an object of dimension: number or null", scores)
    for name, value in scores.items():
        if isinstance(value, bool) or not (value is None or isinstance(value, int | float)):
            raise RecordError(f"scores.{name}", "a number or null", value)
    turn = record.get("turn")
    if turn is not None and not isinstance(turn, int):
        raise RecordError("turn", "a whole number or null", turn)
    return Judgement(
        id=parse_id(record.get("id")),
        judge=str(record.get("judge", "")),
        scores=scores,
        turn=turn,
        distributions=record.get("distributions") or {},
        explanation=record.get("explanation"),
        failure=record.get("failure"),
        truncated_turns=int(record.get("truncated_turns") or 0),
        usage=record.get("usage") or {},
        contributions=record.get("contributions") or {},
    )
