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
    """A measured feature of a turn that moved the score towards the bad end.

    Attributes:
        feature: Name of the feature, such as ``log_words`` (logarithm of the number of words).
        value: The feature's value in this turn.
        usual: The feature's mean over training turns of the same role, None if unknown.
    """

    feature: str
    value: Number
    usual: Number | None


@dataclass(frozen=True, slots=True)
class Contributions:
    """How much each turn added to the score of one dimension.

    Attributes:
        turns: What each turn adds [turns]. 0 for turns that the judge did not read.
        baseline: What a dialogue of average training turns gets. ``turns`` are added to it. For an
            untrained judge, it is the middle of the scale.
        unit: Unit of ``turns`` and ``baseline``, such as ``score`` or ``logit``.
        causes: Features of the turn with the worst effect on the score, the largest effect first.
    """

    turns: tuple[Number, ...]
    baseline: Number
    unit: Unit = "score"
    causes: tuple[Cause, ...] = ()

    @property
    def value(self) -> float:
        """The sum of ``baseline`` and ``turns``, in ``unit``. The score is computed from it."""
        return self.baseline + math.fsum(self.turns)

    def worst_turn(self, good: Literal["low", "high"]) -> int | None:
        """Returns the index of the turn that moved the score most towards the bad end. None if no
        turn did.

        Args:
            good: Which end of the scale is better, ``low`` or ``high``.
        """
        sign = -1 if good == "high" else 1
        costs = [sign * move for move in self.turns]
        most = max(costs, default=0.0)
        if most <= EQUAL:
            return None
        return next(turn for turn, cost in enumerate(costs) if cost >= most - EQUAL)


def _require_two_ends(details: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns ``details`` unchanged. Raises ValueError if an interval does not have two ends."""
    for detail in details.values():
        if len(detail.get("interval", "ab")) != 2:
            raise ValueError("expected an interval of two numbers: [lowest, highest]")
    return details


def make_details(**values: Any) -> dict[str, Any]:
    """Returns facts about the score of one dimension as a mapping: ``{"value": 4, "comment":
    "Polite."}``.

    Args:
        values: Name -> value. Values that are None or empty are left out.
    """
    details = {}
    for name, value in values.items():
        if isinstance(value, tuple):
            value = list(value)
        if value is not None and value not in ([], {}):
            details[name] = value
    return details


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judge's scores of a dialogue, or of one of its assistant turns.

    Attributes:
        id: Id of the dialogue.
        judge: Name, weights and settings of the judge, as a string: ``judge:length|seed:0``.
        scores: Dimension -> number on its scale, None if it could not be scored. Binary dimensions
            have the probability of label 1.
        turn: Index of the scored turn, None for the whole dialogue.
        distributions: Dimension (ordinal or binary) -> probability of each level [levels].
        explanation: The judge's reasons in words, None if it gives none.
        failure: Why a score is None.
        truncated_turns: Number of turns that did not fit into the context window.
        cut_turns: Number of turns that fitted into the context window only in part.
        usage: What the scoring consumed: ``{"tokens": 812, "seconds": 1.4, "money": 0.002}``. Money
            is in US dollars.
        contributions: Dimension -> how much each turn added to its score.
        transient: Whether the failure is transient, such as a server that was down.
        details: Dimension -> name -> value, such as ``{"overall": {"comment": "Polite."}}``. The
            names are listed below.
        left_out_turns: Number of turns that the judge's settings leave out.
        shortened_turns: Number of turns of which the judge read only a summary.
        unknown_language: The dialogue's language, if the judge does not support it.
        detected_language: The dialogue's language, if it was detected from the text.
        chat: Hash of the roles and words of the scored turns. Labels with an equal hash belong to
            the scores.
        input: Hash of everything that the judge read. When it changes, the chat is scored again.
        meta: Metadata copied from the dialogue (``--keep``).
        reading: Options with which the file of chats was read: ``{"format": "csv"}``.
        dimensions: Name, scale and better end of each score.

    Names in ``details``:

    - ``value``: rating that a language model gave (the mean, if it was asked several times)
    - ``repeats``: each of these ratings, if it was asked several times
    - ``comment``: the model's words about this rating
    - ``parsed``: the format in which the rating was found in the model's answer, such as ``json``
    - ``expected``, ``spread``: mean and standard deviation of the model's distribution over ratings
    - ``mass``: total probability of all ratings before they were normalised
    - ``interval``: [low, high], which contains 9 in 10 human ratings of such dialogues
    - ``raw``: the judge's output before calibration, or before it was mapped onto the scale
    - ``follow_ups``: likely next messages of the user, which a language model selected from a list
    - ``selected``: the number of these messages
    - ``members``: scores by the members of a hybrid judge

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
    details: Annotated[dict[str, dict[str, Any]], AfterValidator(_require_two_ends)] = (
        field(default_factory=dict)
    )
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
        """Whether every dimension has a score."""
        return bool(self.scores) and all(v is not None for v in self.scores.values())

    def to_record(self, before: tuple[Dimension, ...] = ()) -> dict[str, Any]:
        """Returns the judgement as a JSON object, one line of a file. Empty optional fields are
        left out.

        Args:
            before: Dimensions of the previous line. If this judgement has the same, its line leaves
                ``dimensions`` out.
        """
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
    """Returns a judgement without scores, for a dialogue or a turn that could not be scored.

    Args:
        dialogue: The dialogue, up to the turn to score.
        judge: Name, weights and settings of the judge, such as ``judge:length``.
        dimensions: The dimensions whose scores are None.
        reason: Why there are no scores, the judgement's ``failure``.
        turn: Index of the turn to score, None for the whole dialogue.
    """
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
    """Returns the judgement in ``record``, a JSON object. Unknown fields are ignored.

    Args:
        before: Dimensions of the previous line, used if ``record`` has no ``dimensions``.

    Raises:
        RecordError: A field is missing or malformed. The error names it.
    """
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
    """Returns a function that parses the lines of one file of judgements, one after another.

    A line without dimensions gets the dimensions of the line before. The function raises
    RecordError for a bad line.
    """
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
    """Yields ``judgements`` as JSON objects, one for each line of a file.

    A line leaves ``dimensions`` out if they are the same as in the line before.

    Args:
        before: Dimensions of the line before the first one, empty at the start of a file.
    """
    for judgement in judgements:
        yield judgement.to_record(before)
        before = judgement.dimensions
