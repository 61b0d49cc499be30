"""FED and ConTurE on the ten dimensions of DSTC-12 (ORALIS, section 3.2, Table 2, Equation 1)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from medal_judges.labelled import LabelledDialogue
from medal_judges.rating import Scale, mean, rescale

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
