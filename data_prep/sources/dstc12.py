"""DSTC-12, track 1: dialogues with up to ten dimensions each; and FED and ConTurE mapped onto them
(ORALIS, section 3.2, Table 2, Equation 1).

The organisers hand the files out to participants; nothing of them is public. The paper describes
what they hold and not how its fields are spelt, so the reader goes by what must be there.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from medal_judges.data_prep.sources.conture import CONTURE
from medal_judges.data_prep.sources.fed import FED
from medal_judges.data_prep.sources.source import Source, SourceFile
from medal_judges.errors import DataError, RecordError
from medal_judges.records.dialogue import Dialogue, Role, Turn
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.rating import Scale, mean, rescale
from medal_judges.records.validation import number

# Dimension of DSTC-12 -> what it is the average of; `depth` is FED's name for topic depth.
# Overall is not in Table 2; section 3.2 has it in both sources, so it maps to itself.
TABLE: dict[str, tuple[tuple[str, ...], ...]] = {
    "empathy": (("likeable",),),
    "trust": (("consistent",),),
    "skill": (("error_recovery",),),
    "talent": (("topic_depth", "depth"),),
    "capability": (("understanding",),),
    "relevance": (("informative",), ("coherent",)),
    "nonrepetition": (("diverse",),),
    "proactivity": (("flexible",),),
    "curiosity": (("inquisitive",),),
    "overall": (("overall",),),
}
_HUNDRED, _FIVE = (0.0, 100.0), (0.0, 5.0)
# Section 3.1: the ranges of the training set, and those of the test set, which are others.
TRAIN_SCALES: dict[str, Scale] = {
    "empathy": (1.0, 12.0),
    "trust": _FIVE,
    "skill": _FIVE,
    "talent": _FIVE,
    "capability": _FIVE,
    "relevance": _HUNDRED,
    "nonrepetition": _HUNDRED,
    "proactivity": _HUNDRED,
    "curiosity": _HUNDRED,
    "overall": _HUNDRED,
}
_TO_FIVE = ("skill", "talent", "capability", "trust", "overall")
TEST_SCALES: dict[str, Scale] = {
    name: (1.0, 5.0) if name in _TO_FIVE else (1.0, 10.0) for name in TABLE
}
_TURNS = ("dialogue", "dialog", "turns", "conversation")
_SCORES = ("annotations", "scores", "labels", "ratings")
_TEXT = ("content", "text", "utterance")
_SPEAKER = ("role", "speaker")
_ID = ("id", "dialogue_id", "dialog_id", "conversation_id")
_ROLES: dict[str, Role] = {
    **dict.fromkeys(("user", "human", "h"), "user"),
    **dict.fromkeys(("assistant", "system", "machine", "bot", "chatbot", "m"), "assistant"),
}


def read_dstc12_train(path: Path) -> Iterator[LabelledDialogue]:
    """Rows of the training file on its own scales (Empathy 1 to 12, Trust 0 to 5, Curiosity 0 to
    100, ...), half ``train`` and half ``validation`` (see ``halve``)."""
    yield from halve(list(_read(path, TRAIN_SCALES)))


def read_dstc12_test(path: Path) -> Iterator[LabelledDialogue]:
    """Rows of the test file on its scales, which are 1 to 5 or 1 to 10; split ``test``."""
    return (replace(row, split="test") for row in _read(path, TEST_SCALES))


def _read(path: Path, scales: Mapping[str, Scale]) -> Iterator[LabelledDialogue]:
    """One row a record of a JSON list or JSONL file; a dimension without a score is left out.

    Raises DataError that names the record (from 1) and the field; a score outside its scale is
    one, since the two files differ in scales.
    """
    for index, record in enumerate(_records(path)):
        try:
            yield _row(record, path.stem, index, scales)
        except RecordError as error:
            raise DataError(path, index + 1, error.message) from error


def _records(path: Path) -> list[object]:
    text = path.read_text(encoding="utf-8-sig").strip()
    if text.startswith("["):
        return list(json.loads(text))
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _row(record: object, file: str, index: int, scales: Mapping[str, Scale]) -> LabelledDialogue:
    if not isinstance(record, dict):
        raise RecordError("(record)", "an object", record)
    turns = _first(record, _TURNS)
    if not isinstance(turns, list) or not turns:
        raise RecordError(" or ".join(_TURNS), "a list of turns", turns)
    given = _first(record, _ID)
    id = f"dstc12-{index:04d}" if given is None else f"dstc12-{given}"
    labels = _labels(record, scales)
    return LabelledDialogue(
        dialogue=Dialogue(
            id=id, turns=tuple(_turn(t, i) for i, t in enumerate(turns)), lang="en", source="dstc12"
        ),
        labels=labels,
        scales={name: scales[name] for name in labels},
        group=f"{file}-{index:04d}",
    )


def _turn(turn: object, index: int) -> Turn:
    if not isinstance(turn, dict):
        raise RecordError(f"turn {index}", "an object with a speaker and a text", turn)
    text, speaker = _first(turn, _TEXT), _first(turn, _SPEAKER)
    if not isinstance(text, str):
        raise RecordError(f"turn {index}: {' or '.join(_TEXT)}", "text", text)
    role = _ROLES.get(str(speaker).strip().lower())
    if role is None:
        raise RecordError(f"turn {index}: speaker", f"one of {', '.join(_ROLES)}", speaker)
    return Turn(role, text.strip())


def _labels(
    record: Mapping[str, object], scales: Mapping[str, Scale]
) -> dict[str, tuple[float, ...]]:
    """The ten dimensions, in an object of their own or among the record's fields."""
    inner = _first(record, _SCORES)
    labels: dict[str, tuple[float, ...]] = {}
    for key, value in (inner if isinstance(inner, dict) else record).items():
        name = "".join(c for c in str(key).lower() if c.isalpha())
        if name not in scales or value is None or value == "":
            continue
        low, high = scales[name]
        score = number(str(key), value, "a number")
        if not low <= score <= high:
            raise RecordError(str(key), f"a score from {low:g} to {high:g}", value)
        labels[name] = (score,)
    if not labels:
        raise RecordError(" or ".join(_SCORES), f"scores of {', '.join(scales)}", inner)
    return labels


def _first(record: Mapping[str, object], names: tuple[str, ...]) -> object:
    return next((record[name] for name in names if name in record), None)


def nearest_whole(value: float) -> float:
    """``value`` rounded to the nearest whole number, a half upwards."""
    return float(math.floor(value + 0.5))


def to_dstc12(
    row: LabelledDialogue, scales: Mapping[str, Scale] = TRAIN_SCALES
) -> LabelledDialogue:
    """``row`` of FED or ConTurE with DSTC-12's dimensions, one whole number each on ``scales``.

    Annotators are averaged first, then the parts of a dimension (Table 2), then comes Equation 1
    and the rounding. A dimension is left out where one of its parts has no answer.
    """
    labels = {}
    for name, parts in TABLE.items():
        units = [_unit_mean(row, names) for names in parts]
        known = [unit for unit in units if unit is not None]
        if len(known) == len(parts):
            unit = sum(known) / len(known)
            labels[name] = (nearest_whole(rescale(unit, (0, 1), scales[name])),)
    return replace(
        row, labels=labels, scales={name: scales[name] for name in labels}, aggregated=True
    )


def _unit_mean(row: LabelledDialogue, names: Sequence[str]) -> float | None:
    """Mean over annotators on [0, 1] of the first of ``names`` that the row has."""
    rating = next((r for name in names if (r := row.rating(name)) is not None), None)
    if rating is None or rating.scale is None:
        return None
    average = mean(rating)
    return None if average is None else rescale(average, rating.scale, (0, 1))


def map_rows(rows: Iterable[LabelledDialogue]) -> Iterator[LabelledDialogue]:
    """``to_dstc12`` of every row; splits as they are."""
    return (to_dstc12(row) for row in rows)


def map_and_halve(rows: Iterable[LabelledDialogue]) -> Iterator[LabelledDialogue]:
    """``to_dstc12`` of every row, half of them ``train`` and half ``validation``."""
    yield from halve(list(map_rows(rows)))


def halve(rows: Sequence[LabelledDialogue], *, seed: int = 0) -> list[LabelledDialogue]:
    """``rows`` with split ``train`` or ``validation``, each dimension's labels halved (section
    3.2: "for each dimension"), in the order given.

    A conversation is on one side for all dimensions, because a judge of several would otherwise be
    validated on dialogues it was trained on. Where dimensions cover different rows, the scarcest
    dimension chooses first (iterative stratification, Sechidis et al., 2011).
    """
    groups: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        groups[row.group] |= set(row.labels)
    names = sorted(groups)
    drawn = np.random.default_rng(seed).permutation(len(names))
    waiting = {names[i]: groups[names[i]] for i in drawn}
    sides = _Sides()
    while waiting:
        left = defaultdict(list)
        for group, dimensions in waiting.items():
            for dimension in dimensions:
                left[dimension].append(group)
        scarce = min(left, key=lambda name: (len(left[name]), name), default=None)
        for group in left[scarce] if scarce is not None else list(waiting):
            sides.add(group, waiting.pop(group), scarce)
    return [replace(row, split=sides.of[row.group]) for row in rows]


class _Sides:
    """Which side each group is on, and by how much train leads over validation."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}
        self.lead: dict[str, int] = defaultdict(int)  # in labels of each dimension
        self.groups = 0

    def add(self, group: str, dimensions: set[str], scarce: str | None) -> None:
        """Put ``group`` where dimension ``scarce`` has fewer labels, then where all have fewer,
        then where there are fewer groups."""
        own = 0 if scarce is None else self.lead[scarce]
        lead = own or sum(self.lead[name] for name in dimensions) or self.groups
        side, step = ("train", 1) if lead <= 0 else ("validation", -1)
        self.of[group] = side
        self.groups += step
        for name in dimensions:
            self.lead[name] += step


_WHY = "the organisers of the track hand it out to participants"

DSTC12 = Source(
    name="dstc12",
    title="DSTC-12 track 1: ten dialogue-level dimensions; FED and ConTurE mapped onto them",
    licence="the track's terms; the mapped parts have FED's and ConTurE's",
    citation="Mendonça et al., 2025: Overview of Dialog System Evaluation: Dimensionality, "
    "Language, Culture and Safety at DSTC 12; mapping: Elizabeth et al., 2025 (ORALIS), Table 2",
    languages=("en",),
    parts=(
        SourceFile(
            "official",
            "dialogue",
            "dstc12_train.jsonl.gz",
            public_file="dstc12_train.json",
            read=read_dstc12_train,
            why=_WHY,
            splits=("train", "validation"),
        ),
        SourceFile(
            "official",
            "dialogue",
            "dstc12_test.jsonl.gz",
            public_file="dstc12_test.json",
            read=read_dstc12_test,
            why=_WHY,
            splits=("test",),
        ),
        replace(CONTURE.parts[0], name="conture", view=map_and_halve, named_only=True),
        replace(FED.parts[0], name="fed", view=map_rows, named_only=True),
    ),
    notes=(
        "dstc12:train is the official file; dstc12:conture and dstc12:fed are the mapped sets.",
        "ConTurE dialogues are DSTC9 dialogues: never train on one and test on the other.",
    ),
)
