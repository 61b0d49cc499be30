"""DSTC-12, track 1: dialogues with up to ten dimensions each; and FED and ConTurE mapped onto them
(ORALIS, section 3.2, Table 2, Equation 1).

The official files are for participants only and not public, so they are read in the line format.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from medal_judges.data_prep.sources.conture import CONTURE
from medal_judges.data_prep.sources.fed import FED
from medal_judges.data_prep.sources.source import Source, SourceFile
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.rating import Scale, mean, rescale

# Dimension of DSTC-12 -> the dimensions it averages; `depth` is FED's name for topic depth.
# Overall is not in Table 2. Section 3.2 has it in both sources, so it maps to itself.
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
# Section 3.1: the scales of the training set. The test set has other scales.
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


def nearest_whole(value: float) -> float:
    """``value`` rounded to the nearest whole number, halves up."""
    return float(math.floor(value + 0.5))


def to_dstc12(
    row: LabelledDialogue, scales: Mapping[str, Scale] = TRAIN_SCALES
) -> LabelledDialogue:
    """``row`` of FED or ConTurE with DSTC-12's dimensions, one whole number each on ``scales``.

    Averages annotators, then the parts of a dimension (Table 2), then applies Equation 1 and
    rounds. A dimension with an unanswered part is dropped.
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
    """``to_dstc12`` of every row."""
    return (to_dstc12(row) for row in rows)


def map_and_halve(rows: Iterable[LabelledDialogue]) -> Iterator[LabelledDialogue]:
    """``to_dstc12`` of every row, half of them ``train`` and half ``validation``."""
    yield from halve(list(map_rows(rows)))


def halve(rows: Sequence[LabelledDialogue], *, seed: int = 0) -> list[LabelledDialogue]:
    """``rows`` with split ``train`` or ``validation``: half of the labels of each dimension
    (section 3.2), in the order given.

    A conversation has one split for all dimensions. If dimensions cover different rows, the
    scarcest one is assigned first (iterative stratification, Sechidis et al., 2011).
    """
    groups: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        groups[row.group] |= set(row.labels)
    names = sorted(groups)
    drawn = np.random.default_rng(seed).permutation(len(names))
    waiting = {names[i]: groups[names[i]] for i in drawn}
    sides: dict[str, str] = {}
    lead: dict[str, int] = defaultdict(int)  # labels of train minus validation, by dimension
    while waiting:
        left = defaultdict(list)
        for group, dimensions in waiting.items():
            for dimension in dimensions:
                left[dimension].append(group)
        scarce = min(left, key=lambda name: (len(left[name]), name), default=None)
        for group in left[scarce] if scarce is not None else list(waiting):
            # By the lead of the scarcest dimension, then of all of its dimensions, then of groups.
            dimensions = waiting.pop(group)
            own = 0 if scarce is None else lead[scarce]
            ahead = own or sum(lead[name] for name in dimensions) or lead["group"]
            sides[group], step = ("train", 1) if ahead <= 0 else ("validation", -1)
            for name in (*dimensions, "group"):
                lead[name] += step
    return [replace(row, split=sides[row.group]) for row in rows]


_WHY = "the organisers of the track give it to participants; convert it to the line format"

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
            why=_WHY,
            view=lambda rows: iter(halve(list(rows))),
            splits=("train", "validation"),
        ),
        SourceFile("official", "dialogue", "dstc12_test.jsonl.gz", why=_WHY, splits=("test",)),
        replace(CONTURE.parts[0], name="conture", view=map_and_halve, named_only=True),
        replace(FED.parts[0], name="fed", view=map_rows, named_only=True),
    ),
    notes=(
        "dstc12:train is the official file; dstc12:conture and dstc12:fed are the mapped sets.",
        "ConTurE dialogues are DSTC9 dialogues: never train on one and test on the other.",
    ),
)
