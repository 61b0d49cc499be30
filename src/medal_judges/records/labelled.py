"""LabelledDialogue: a dialogue with labels by annotators or by a model, on the source's own
scale."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator

from medal_judges.errors import RecordError
from medal_judges.records.dialogue import Dialogue, parse_dialogue_line
from medal_judges.records.dimension import EQUAL
from medal_judges.records.validation import Flag, Number, number_as_text, parse

Scale = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Rating:
    """The values that annotators gave a dialogue, or one of its turns, for one dimension.

    Attributes:
        dialogue_id: Id of the dialogue.
        turn: Index of the rated turn, None for the whole dialogue.
        dimension: The rated aspect, such as ``overall``.
        values: One number per annotator [annotators], None if the annotator gave none.
        scale: (lowest, highest) allowed value, None if unknown.
        aggregated: Whether ``values`` is the mean or vote that a data set publishes, not one number
            per annotator.

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
    def given_values(self) -> tuple[float, ...]:
        """The ``values`` that are not None."""
        return tuple(v for v in self.values if v is not None)


def mean(rating: Rating) -> float | None:
    """Returns the mean of the annotators' values in ``rating``, on the scale of ``rating``. Returns
    None if no annotator gave a value."""
    values = rating.given_values
    return sum(values) / len(values) if values else None


def rescale(value: float, source: Scale, target: Scale) -> float:
    """Maps ``value`` linearly from the scale ``source`` (lowest, highest) to the scale ``target``,
    without rounding or clipping, as in Equation 1 of the ORALIS paper."""
    (a, b), (c, d) = source, target
    return c + (value - a) * (d - c) / (b - a)


def choose_split(
    key: str, *, seed: int, shares: Sequence[float] = (0.8, 0.1, 0.1)
) -> str:
    """Returns ``train``, ``validation`` or ``test``, drawn at random for a dialogue. The same id
    and seed always give the same split.

    Args:
        key: Id of the dialogue, or of the conversation whose dialogues stay in one split.
        seed: Seed of the random division.
        shares: Expected shares of train, validation and test.
    """
    digest = hashlib.sha256(f"{seed}:{key}".encode()).digest()
    point = int.from_bytes(digest[:8], "big") / 2**64  # from 0 to 1
    if point < shares[0]:
        return "train"
    if point < shares[0] + shares[1]:
        return "validation"
    return "test"


Level = Literal["dialogue", "turn"]


def _require_order(scale: Scale) -> Scale:
    if not scale[0] < scale[1]:
        raise ValueError("[lowest, highest]")
    return scale


Labels = Annotated[
    tuple[Number | None, ...],
    BeforeValidator(lambda one: one if isinstance(one, list) else [one]),
]
Range = Annotated[tuple[Number, Number], AfterValidator(_require_order)]


@dataclass(frozen=True, slots=True)
class LabelledDialogue:
    """A dialogue with its labels: one line of a labelled file.

    Attributes:
        dialogue: The dialogue. At level ``turn`` it ends with the rated turn.
        labels: Dimension -> one value per annotator [annotators], None if missing.
        scales: Dimension -> (lowest, highest) value of its labels, None if unknown.
        level: What the labels rate: the ``dialogue``, or its last ``turn``.
        split: A name such as ``train`` or ``test``, None if not decided.
        group: Name shared by dialogues that must stay in one split, such as turns of one chat.
        aggregated: Whether a label is a mean or a vote over annotators.
        extra: Other fields of the line -> their values: ``{"annotators": ["ann1", "ann2"]}``.

    >>> said = [{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello!"}]
    >>> line = {"id": "d1", "dialogue": said, "labels": {"overall": [4, 5]}}
    >>> parse_labelled(line).rating("overall").values
    (4.0, 5.0)
    """

    dialogue: Dialogue
    labels: Mapping[str, Labels] = field(default_factory=dict)
    scales: Mapping[str, Range | None] = field(default_factory=dict)
    level: Level = "dialogue"
    split: str | None = None
    group: Annotated[str, BeforeValidator(number_as_text)] = ""
    aggregated: Flag = False
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.dialogue.id

    @property
    def turn(self) -> int | None:
        """The index of the rated turn, None if the labels rate the whole dialogue."""
        if self.level == "turn":
            return len(self.dialogue.turns) - 1
        return None

    def ratings(self) -> Iterator[Rating]:
        """Yields one Rating for each dimension in ``labels``."""
        for name, values in self.labels.items():
            yield Rating(
                self.id, self.turn, name, values, self.scales.get(name), self.aggregated
            )

    def rating(self, dimension: str) -> Rating | None:
        """Returns the Rating for ``dimension``, or None if there is no label for it."""
        return next((r for r in self.ratings() if r.dimension == dimension), None)

    def has_label(self, dimension: str) -> bool:
        """Returns whether at least one annotator rated ``dimension``."""
        return any(value is not None for value in self.labels.get(dimension, ()))

    def to_record(self) -> dict[str, Any]:
        """Returns the labelled dialogue as a JSON object, one line of a labelled file."""
        record = self.dialogue.to_record()
        record |= {
            "level": self.level,
            "labels": {k: list(v) for k, v in self.labels.items()},
            "scales": {
                k: None if v is None else list(v) for k, v in self.scales.items()
            },
            "split": self.split,
            "group": self.group,
        }
        if self.aggregated:
            record["aggregated"] = True
        return record | dict(self.extra)


_OWN = ("labels", "scales", "level", "split", "group", "aggregated")
# The fields of a line; what else it has is ``extra``.
KNOWN_FIELDS = {*_OWN, "dialogue", *(field.name for field in fields(Dialogue))}


def parse_labelled(record: object) -> LabelledDialogue:
    """Returns the labelled dialogue in ``record``, the JSON object of one line of a labelled file.

    Without ``group``, the dialogue's id becomes its group.

    Raises:
        RecordError: A field is missing or malformed, or a label is outside its scale.
    """
    dialogue = parse_dialogue_line(record)
    assert isinstance(record, dict)  # parse_dialogue_line raises for anything else
    values = {name: record.get(name) for name in _OWN}
    values["dialogue"] = dialogue
    values["group"] = values["group"] or dialogue.id
    values["extra"] = {k: v for k, v in record.items() if k not in KNOWN_FIELDS}
    row = parse(LabelledDialogue, values)
    for name, labels in row.labels.items():
        low, high = row.scales.get(name) or (-math.inf, math.inf)
        # A label may be a judge's score, which differs between CPUs.
        tolerance = EQUAL * (high - low)
        for label in labels:
            if label is not None and not low - tolerance <= label <= high + tolerance:
                expected = f"values from {low:g} to {high:g}"
                raise RecordError(f"labels.{name}", expected, label)
    return row
