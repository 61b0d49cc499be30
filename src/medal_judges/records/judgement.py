"""Judgement: a judge's scores of one dialogue or of one assistant turn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, SkipValidation

from medal_judges.errors import RecordError
from medal_judges.records.dialogue import Dialogue, parse_id
from medal_judges.records.dimension import EQUAL, Dimension, parse_dimensions
from medal_judges.records.validation import Count, Flag, Number, Numbers, parse

# The fields of a line, in order: those that each has, and those that it has with a value only.
_ALWAYS = (
    *("id", "turn", "judge", "scores", "distributions", "explanation", "failure"),
    *("truncated_turns", "usage"),
)
_OPTIONAL = (
    *("contributions", "details", "cut_turns", "left_out_turns", "shortened_turns"),
    *("unknown_language", "detected_language", "transient", "chat", "input"),
    *("reading", "meta"),
)

# The unit of contributions; the score is computed from their sum.
Unit = Literal[
    "score",  # the raw score: linear, before it is mapped onto its scale
    "uncalibrated score",  # the same before the calibration map
    "logit",  # its sigmoid is the score on a scale from 0 to 1 (binary: P(label 1))
    "uncalibrated logit",  # the same before the calibration map
    "mean logit",  # mean of an ordinal head's conditional logits, one for each step of the scale
    "logit per level",  # slope of a classification head's logits over the levels
]


@dataclass(frozen=True, slots=True)
class Cause:
    """A feature of a turn that moved the score towards the bad end: its ``value``, and the usual
    one, the mean over such turns of the training data (None if the judge has no means).
    ``feature``: a name of ALL_FEATURES or REACTION_NAMES."""

    feature: str
    value: Number
    usual: Number | None


@dataclass(frozen=True, slots=True)
class Contributions:
    """How much each turn added to one dimension's score: ``baseline`` + sum of ``turns`` is
    ``value``, in ``unit``.

    ``baseline`` is the value of a dialogue whose turns are average turns of the training data
    (without training data, the middle of the scale). So a turn above 0 raised the score, and a turn
    below 0 lowered it. ``turns`` has 0 for turns that the judge did not see. ``causes`` are
    features of the costliest turn, the largest cost first; empty if the judge reads no features, or
    if the vector of the turn cost more.
    """

    turns: tuple[Number, ...]
    baseline: Number
    unit: Unit = "score"
    causes: tuple[Cause, ...] = ()

    @property
    def value(self) -> float:
        return self.baseline + math.fsum(self.turns)

    def costliest(self, good: Literal["low", "high"]) -> int | None:
        """Returns the turn that moved the score most towards the bad end, the first of equals.
        ``good`` says which end of the scale is good. Returns None if no turn did."""
        sign = -1 if good == "high" else 1
        costs = [sign * move for move in self.turns]
        most = max(costs, default=0.0)
        if most <= EQUAL:
            return None
        return next(turn for turn, cost in enumerate(costs) if cost >= most - EQUAL)


def _require_intervals(details: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    for detail in details.values():
        if len(detail.get("interval", "ab")) != 2:
            raise ValueError("an interval of two numbers")
    return details


def known_details(**values: Any) -> dict[str, Any]:
    """Returns the details that have a value, JSON-ready."""
    details = {}
    for name, value in values.items():
        if isinstance(value, tuple):
            value = list(value)
        if value is not None and value not in ([], {}):
            details[name] = value
    return details


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judge's scores of a dialogue (``turn`` is None) or of the assistant turn with index
    ``turn``.

    ``scores``: dimension -> a number on its scale (binary: probability of label 1), None if
    unscored; ``failure`` then gives the reason. ``distributions``: the probability of each level of
    an ordinal or binary dimension. ``details``: what else a judge says about a dimension.
    ``value``: the number in the answer, pooled over repeats. ``expected`` and ``spread``: mean and
    standard deviation of the distribution over ratings. ``interval`` holds 9 in 10 human ratings of
    dialogues with this score. ``mass``: the probability of all ratings together before
    normalisation. ``samples``: the number of answers in which ratings were counted. ``raw``: the
    judge's number before it was mapped onto the scale. ``selected``: follow-ups that all selection
    runs chose (0: all are used). ``parsed``: how the answer was read. ``repeats``: one number for
    each of several answers. ``members``: scores by the members of a hybrid.
     ``contributions``: how much each turn
    added to a score. ``truncated_turns`` counts turns that did not fit into the judge's window,
    ``cut_turns`` turns of which only a part fitted, ``left_out_turns`` turns that the judge's
    settings leave out, ``shortened_turns`` turns of which the judge read a summary.
    ``usage``: amounts that can be summed over rows. ``tokens`` counts prompts and answers,
    ``cached_tokens`` prompt tokens from the backend's cache, ``seconds`` is the time of the model,
    ``money`` is in US dollars.
    ``transient``: the reason of the failure may pass (a server is down, a rate or cost limit), so
    the same command asks again. ``unknown_language``: the dialogue's language, if the judge does
    not support it. ``detected_language``: the dialogue's language, if it had to be detected.
    ``meta``: metadata copied from the dialogue (``--keep``). ``chat``: Dialogue.chat_hash of the
    judged turns, by which labels meet their scores. ``input``: a hash of everything that was read,
    by which ``medal score`` knows a chat that changed. ``reading``: how the chats were read, if
    options said so; on the first line of a file. ``dimensions``: scale and good end of each score;
    a file states them once.

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
    cut_turns: Count = 0
    usage: Mapping[str, Number] = field(default_factory=dict)
    contributions: Mapping[str, Contributions] = field(default_factory=dict)
    transient: Flag = False
    details: Annotated[
        dict[str, dict[str, Any]], AfterValidator(_require_intervals)
    ] = field(default_factory=dict)
    left_out_turns: Count = 0
    shortened_turns: Count = 0
    unknown_language: str | None = None
    detected_language: str | None = None
    chat: str | None = field(default=None, repr=False)
    input: str | None = field(default=None, repr=False)
    meta: Mapping[str, Any] = field(default_factory=dict)
    reading: Mapping[str, Any] = field(default_factory=dict)
    dimensions: Annotated[tuple[Dimension, ...], SkipValidation] = field(
        default=(), repr=False
    )

    @property
    def scored(self) -> bool:
        """True if every dimension has a number."""
        return bool(self.scores) and all(v is not None for v in self.scores.values())

    def to_record(self, before: tuple[Dimension, ...] = ()) -> dict[str, Any]:
        """Returns the JSON object of a line, without optional fields that are empty, and without
        dimensions if they are those of the line ``before``."""
        record = {name: getattr(self, name) for name in _ALWAYS}
        record |= {
            name: getattr(self, name) for name in _OPTIONAL if getattr(self, name)
        }
        if self.contributions:
            contributions = self.contributions.items()
            record["contributions"] = {
                name: asdict(moves) for name, moves in contributions
            }
        if self.dimensions is not before and self.dimensions != before:
            record["dimensions"] = list(map(asdict, self.dimensions))
        return record


def empty_judgement(
    dialogue: Dialogue,
    judge: str,
    dimensions: Sequence[Dimension],
    reason: str,
    turn: int | None = None,
) -> Judgement:
    """Returns a judgement of ``dialogue`` by ``judge`` without scores on ``dimensions``, that
    states its ``reason``. If a ``turn`` is judged, it is the last turn of the dialogue."""
    return Judgement(
        dialogue.id,
        judge,
        dict.fromkeys(dimension.name for dimension in dimensions),
        turn=turn,
        failure=reason,
        chat=dialogue.chat_hash,
        dimensions=tuple(dimensions),
    )


def parse_judgement(record: object, before: tuple[Dimension, ...] = ()) -> Judgement:
    """Returns the judgement of ``record``, a JSON object. Ignores unknown fields. If it states no
    dimensions it has those of the line ``before``. Raises RecordError that names the field if one
    is missing or malformed."""
    if not isinstance(record, dict):
        raise RecordError("(line)", "a JSON object", record)
    values = {field.name: record.get(field.name) for field in fields(Judgement)}
    if values["scores"] is None:
        raise RecordError("scores", "an object of dimension: number or null", None)
    values |= {"id": parse_id(values["id"]), "dimensions": before}
    if "dimensions" in record:
        values["dimensions"] = parse_dimensions(record["dimensions"])
    return parse(Judgement, values)


def judgement_parser() -> Callable[[object], Judgement]:
    """Returns a function that parses the lines of one file, called once for each line in order. A
    line that states no dimensions has the dimensions of the line before. The function raises
    RecordError as ``parse_judgement`` does."""
    before: tuple[Dimension, ...] = ()

    def parse_next(record: object) -> Judgement:
        nonlocal before
        judgement = parse_judgement(record, before)
        before = judgement.dimensions
        return judgement

    return parse_next


def to_records(
    judgements: Iterable[Judgement], before: tuple[Dimension, ...] = ()
) -> Iterator[dict[str, Any]]:
    """Yields the JSON object of each line of a file with ``judgements``.

    A line states its dimensions only if they differ from the line ``before``.
    """
    for judgement in judgements:
        yield judgement.to_record(before)
        before = judgement.dimensions
