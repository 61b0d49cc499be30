"""LabelledDialogue: a dialogue with what people (or a labelling model) said of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from medal_judges.errors import RecordError
from medal_judges.records.dialogue import Dialogue, parse_dialogue
from medal_judges.records.rating import Rating, Scale, parse_scale, parse_values
from medal_judges.records.validation import mapping, optional_text

Level = Literal["dialogue", "turn"]
_DIALOGUE_FIELDS = {"id", "source", "lang", "dialogue", "turns", "models", "context", "meta"}
_LABEL_FIELDS = {"level", "labels", "scales", "split", "group", "aggregated"}
KNOWN_FIELDS = frozenset(_DIALOGUE_FIELDS | _LABEL_FIELDS)


@dataclass(frozen=True, slots=True)
class LabelledDialogue:
    """One line of a labelled file.

    At level ``turn`` the judged response is the last turn of ``dialogue``. ``labels`` maps a
    dimension to one value per annotator on the raw ``scales``; an absent dimension is a missing
    label, not a zero. ``group`` is shared by all rows built on one conversation, in every file:
    splits, leak checks and statistics go by it. Other fields of the line are kept in ``extra``.

    >>> said = [{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello!"}]
    >>> line = {"id": "d1", "dialogue": said, "labels": {"overall": [4, 5]}}
    >>> parse_labelled(line).rating("overall").values
    (4.0, 5.0)
    """

    dialogue: Dialogue
    labels: Mapping[str, tuple[float | None, ...]]
    scales: Mapping[str, Scale | None]
    level: Level = "dialogue"
    split: str | None = None
    group: str = ""
    aggregated: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.dialogue.id

    @property
    def turn(self) -> int | None:
        """Index of the judged turn, None at level dialogue."""
        return len(self.dialogue.turns) - 1 if self.level == "turn" else None

    def ratings(self) -> Iterator[Rating]:
        """The labels as Rating records, one per dimension."""
        for name, values in self.labels.items():
            yield Rating(self.id, self.turn, name, values, self.scales.get(name), self.aggregated)

    def rating(self, dimension: str) -> Rating | None:
        """The rating of one dimension, None where the row has no label for it."""
        return next((r for r in self.ratings() if r.dimension == dimension), None)

    def to_record(self) -> dict[str, Any]:
        """The line, in the format of shared labelled data."""
        record = self.dialogue.to_record()
        record |= {
            "level": self.level,
            "labels": {k: list(v) for k, v in self.labels.items()},
            "scales": {k: None if v is None else list(v) for k, v in self.scales.items()},
            "split": self.split,
            "group": self.group,
        }
        if self.aggregated:
            record["aggregated"] = True
        return record | dict(self.extra)


def parse_labelled(record: object) -> LabelledDialogue:
    """Returns the labelled dialogue of a JSON object in the line format.

    Raises RecordError that names the field, also for a label outside its declared scale: pooled raw
    scales are the most common silent fault of such files.
    """
    dialogue = parse_dialogue(record)
    assert isinstance(record, dict)  # parse_dialogue refused anything else
    level = record.get("level", "dialogue")
    if level not in ("dialogue", "turn"):
        raise RecordError("level", "'dialogue' or 'turn'", level)
    aggregated = record.get("aggregated") or False
    if not isinstance(aggregated, bool):
        raise RecordError("aggregated", "true or false", aggregated)
    labels = mapping(record, "labels", "an object of dimension: values")
    stated = mapping(record, "scales", "an object of dimension: [lowest, highest]")
    scales = {k: parse_scale(f"scales.{k}", v) for k, v in stated.items()}
    parsed = {k: parse_values(f"labels.{k}", v) for k, v in labels.items()}
    for name, values in parsed.items():
        _check_scale(name, values, scales.get(name))
    return LabelledDialogue(
        dialogue=dialogue,
        labels=parsed,
        scales=scales,
        level=level,
        split=optional_text(record, "split"),
        group=_group(record, dialogue.id),
        aggregated=aggregated,
        extra={k: v for k, v in record.items() if k not in KNOWN_FIELDS},
    )


def _check_scale(name: str, values: tuple[float | None, ...], scale: Scale | None) -> None:
    for value in values:
        if value is not None and scale and not scale[0] - 1e-9 <= value <= scale[1] + 1e-9:
            raise RecordError(f"labels.{name}", f"values from {scale[0]:g} to {scale[1]:g}", value)


def _group(record: Mapping[str, object], id: str) -> str:
    """The group as text; a row without one is a conversation of its own."""
    value = record.get("group")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return optional_text(record, "group") or id
