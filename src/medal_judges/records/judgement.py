"""Judgement: what a judge said of one dialogue, or of one assistant turn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from medal_judges.errors import RecordError
from medal_judges.records.contributions import Contributions
from medal_judges.records.details import require_details
from medal_judges.records.dialogue import parse_id
from medal_judges.records.fields import mapping, optional_text, parse_record

# Amounts that add up over rows and over the judges of a hybrid, and nothing else. ``tokens`` are
# those of all prompts (``cached_tokens`` of them from the backend's cache) and all answers,
# ``seconds`` the model's time, ``money`` US dollars.
USAGE = (
    "tokens",
    "input_tokens",
    "cached_tokens",
    "output_tokens",
    "reasoning_tokens",
    "seconds",
    "money",
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One answer of a judge. A judge family leaves ``id`` and ``judge`` empty; ``Judge`` sets them.

    ``scores`` maps dimension to a number on the dimension's own scale (binary: probability of
    label 1), None where unscored; ``failure`` then says why. ``distributions`` gives a probability
    per level of an ordinal or binary dimension, ``details`` what else is known of how its number
    came about, ``contributions`` what each turn added to it. ``turn`` is the index of the judged
    turn, None for the dialogue. ``truncated_turns`` counts whole turns the judge had no room for,
    ``left_out_turns`` those that its settings leave out, ``shortened_turns`` those that it read in
    a shorter form. ``usage`` has amounts only, see USAGE: answers belong to ``details``.
    ``transient``: an answer that the judgement needed did not come for a reason that passes by
    itself (a server that is down, a limit of rate or cost): some of the rest is missing, a score or
    one of several repeats, and the same command asks again. ``unknown_language``: the dialogue's
    language, where the judge was not made for it. ``detected_language``: the dialogue's language,
    where it did not state one and it was detected. ``meta``: what was kept of the dialogue (its
    language, chatbot, version, ...; ``--keep``), by the name that was asked for.

    Raises ValueError for a ``usage`` of anything else.

    >>> judgement = Judgement("d1", "judge:length", {"overall": 3.2, "unsafe": None})
    >>> judgement.scored
    False
    """

    id: str = ""
    judge: str = ""
    scores: Mapping[str, float | None] = field(default_factory=dict)
    turn: int | None = None
    distributions: Mapping[str, Sequence[float]] = field(default_factory=dict)
    explanation: str | None = None
    failure: str | None = None
    truncated_turns: int = 0
    usage: Mapping[str, float] = field(default_factory=dict)
    contributions: Mapping[str, Contributions] = field(default_factory=dict)
    transient: bool = False
    details: dict[str, dict[str, Any]] = field(default_factory=dict)
    left_out_turns: int = 0
    shortened_turns: int = 0
    unknown_language: str | None = None
    detected_language: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if unknown := [name for name in self.usage if name not in USAGE]:
            raise ValueError(f"usage has no {unknown[0]!r}; amounts are {', '.join(USAGE)}")

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
        """The judgement line of design.md; details, contributions and counts of turns only where
        there are some, and ``transient`` where it is true."""
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
            record["contributions"] = {k: v.to_record() for k, v in self.contributions.items()}
        if details := {name: dict(each) for name, each in self.details.items() if each}:
            record["details"] = details
        for name in ("left_out_turns", "shortened_turns"):
            if count := getattr(self, name):
                record[name] = count
        for name in ("unknown_language", "detected_language"):
            if (language := getattr(self, name)) is not None:
                record[name] = language
        if self.transient:
            record["transient"] = True
        if self.meta:
            record["meta"] = dict(self.meta)
        return record


def unscored(
    id: str, judge: str, dimensions: Sequence[str], reason: str, turn: int | None = None
) -> Judgement:
    """A judgement without numbers and with its reason; never a sentinel."""
    return Judgement(id, judge, dict.fromkeys(dimensions), turn=turn, failure=reason)


def parse_judgement(record: object) -> Judgement:
    """Judgement of one JSON object; fields that are not known are passed over. Raises RecordError
    that names the field."""
    if not isinstance(record, dict):
        raise RecordError("(line)", "a JSON object", record)
    if not isinstance(record.get("scores"), dict):
        raise RecordError("scores", "an object of dimension: number or null", record.get("scores"))
    usage = mapping(record, "usage")
    if unknown := [name for name in usage if name not in USAGE]:
        raise RecordError(f"usage.{unknown[0]}", f"one of {', '.join(USAGE)}", usage[unknown[0]])
    known = {field.name: record.get(field.name) for field in fields(Judgement)}
    id, judge = parse_id(record.get("id")), optional_text(record, "judge") or ""
    for name, details in mapping(record, "details").items():
        mapping({f"details.{name}": details}, f"details.{name}")
    require_details(mapping(record, "details"))
    return parse_record(Judgement, "", known, id=id, judge=judge)
