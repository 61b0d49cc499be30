"""DSTC-12, track 1: FED and ConTurE mapped onto its ten dimensions, and its training set halved
(ORALIS, section 3.2, Table 2, Equation 1).

The official files are for participants only and not public, so they are read in the line format.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain

import numpy as np

from medal_judges.data_prep.sources.source import source
from medal_judges.records.labelled import LabelledDialogue, Scale, mean, rescale

# Dimension of DSTC-12 -> the dimensions it averages. FED calls topic depth `depth`.
# Overall is not in Table 2. Section 3.2 has it in both sources, so it maps to itself.
TABLE: dict[str, tuple[str, ...]] = {
    "empathy": ("likeable",),
    "trust": ("consistent",),
    "skill": ("error_recovery",),
    "talent": ("topic_depth",),
    "capability": ("understanding",),
    "relevance": ("informative", "coherent"),
    "nonrepetition": ("diverse",),
    "proactivity": ("flexible",),
    "curiosity": ("inquisitive",),
    "overall": ("overall",),
}
# Section 3.1: the scales of the training set. The test set has other scales.
TRAIN_SCALES: dict[str, Scale] = (
    {"empathy": (1.0, 12.0)}
    | dict.fromkeys(("trust", "skill", "talent", "capability"), (0.0, 5.0))
    | dict.fromkeys(
        ("relevance", "nonrepetition", "proactivity", "curiosity", "overall"),
        (0.0, 100.0),
    )
)


def to_dstc12(
    row: LabelledDialogue, scales: Mapping[str, Scale] = TRAIN_SCALES
) -> LabelledDialogue:
    """Returns ``row``, from FED or ConTurE, with its labels converted to the dimensions of DSTC-12
    (ORALIS, Table 2, Equation 1).

    A new label is the mean of one or two old labels, rescaled and rounded to a whole number. It is
    left out if an old label is missing.

    Args:
        scales: Dimension of DSTC-12 -> its scale (low, high), such as ``{"trust": (0, 5)}``.
    """
    units: dict[str, float] = {}
    for rating in row.ratings():
        if rating.scale is not None and (average := mean(rating)) is not None:
            units[rating.dimension] = rescale(average, rating.scale, (0, 1))
    if "depth" in units:
        units.setdefault("topic_depth", units["depth"])
    labels = {}
    for name, parts in TABLE.items():
        if all(part in units for part in parts):
            unit = sum(units[part] for part in parts) / len(parts)
            value = rescale(unit, (0, 1), scales[name])
            labels[name] = (float(math.floor(value + 0.5)),)
    return replace(
        row,
        labels=labels,
        scales={name: scales[name] for name in labels},
        aggregated=True,
    )


@source("halve")
def assign_halves(
    rows: Iterable[LabelledDialogue], *, seed: int = 0
) -> Iterator[LabelledDialogue]:
    """Yields all ``rows`` in the same order, with one half in the split ``train`` and the other
    in ``validation``.

    Each split gets about half of the labels of each dimension (iterative stratification, Sechidis
    et al., 2011). Rows of one conversation stay together.

    Args:
        seed: Random seed of the split.
    """
    rows = list(rows)
    groups: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        groups[row.group] |= set(row.labels)
    names = sorted(groups)
    drawn = np.random.default_rng(seed).permutation(len(names))
    waiting = {names[i]: groups[names[i]] for i in drawn}
    sides: dict[str, str] = {}
    # Labels of train minus labels of validation, by dimension; ``group`` counts conversations.
    lead: Counter[str] = Counter()
    while waiting:
        labels_left = Counter(chain.from_iterable(waiting.values()))
        scarcest = min(
            labels_left, key=lambda name: (labels_left[name], name), default="group"
        )
        for group, dimensions in list(waiting.items()):
            if scarcest not in (*dimensions, "group"):
                continue
            del waiting[group]
            # By the lead of the scarcest dimension, then of all of its dimensions, then of groups.
            ahead = lead[scarcest] or sum(lead[name] for name in dimensions)
            sides[group], step = "train", 1
            if (ahead or lead["group"]) > 0:
                sides[group], step = "validation", -1
            for name in (*dimensions, "group"):
                lead[name] += step
    yield from (replace(row, split=sides[row.group]) for row in rows)


@source("map_rows")
def relabel_to_dstc12(rows: Iterable[LabelledDialogue]) -> Iterator[LabelledDialogue]:
    """Yields ``rows``, from FED or ConTurE, with their labels converted to the dimensions of
    DSTC-12. Splits do not change."""
    return map(to_dstc12, rows)


@source("map_and_halve")
def relabel_and_split(rows: Iterable[LabelledDialogue]) -> Iterator[LabelledDialogue]:
    """Yields ``rows``, from FED or ConTurE, with their labels converted to the dimensions of
    DSTC-12 and a new split: ``train`` for one half, ``validation`` for the other."""
    return assign_halves(map(to_dstc12, rows))
