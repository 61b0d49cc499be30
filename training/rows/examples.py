"""From labelled rows to what the loss reads: targets per dimension, missing ones masked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from medal_judges.dialogue import Dialogue
from medal_judges.errors import ConfigError
from medal_judges.labelled import LabelledDialogue
from medal_judges.rating import Rating, mean, rescale
from medal_judges.training.config import DataEntry
from medal_judges.training.rows.row_store import label_means, label_scales

STANDARD_SHARE = 0.2  # of the scale for one standard deviation, so that +-2.5 of them span it


@dataclass(slots=True)
class TrainingExample:
    """One row: the dialogue and its target per dimension.

    A target is a number on [0, 1], or a probability per level [levels] for ordinal and
    classification heads; a dimension that is not there is a missing label.
    """

    dialogue: Dialogue
    source: str
    targets: dict[str, float | np.ndarray]
    weight: float = 1.0
    human: dict[str, float] = field(default_factory=dict)  # mean rating, raw scale
    group: str = ""
    comments: Mapping[str, str] = field(default_factory=dict)  # a labeller's words by dimension


@dataclass(frozen=True, slots=True)
class UnitMap:
    """Linear map of one source's dimension to [0, 1]: (value - zero) / span, clipped."""

    zero: float
    span: float

    def __call__(self, value: float) -> float:
        return float(np.clip((value - self.zero) / self.span, 0.0, 1.0))


def dimension_names(
    entry: DataEntry, rows: Sequence[LabelledDialogue], judged: Sequence[str]
) -> dict[str, str]:
    """Source dimension -> judge dimension of one entry. Raises ConfigError for unknown names."""
    labels = label_scales(rows)
    if entry.dimensions is None:
        return {name: name for name in judged if name in labels}
    named = entry.dimensions
    pairs = dict(named) if isinstance(named, Mapping) else {n: n for n in named}
    for source_name, judge_name in pairs.items():
        if judge_name not in judged:
            raise ConfigError(
                f"{entry.source}: the rubric has no dimension {judge_name!r}",
                hint=f"it has: {', '.join(judged)}",
            )
        if source_name not in labels:
            raise ConfigError(
                f"{entry.source}: no row has a label {source_name!r}",
                hint=f"its labels: {', '.join(sorted(labels))}",
            )
    return pairs


def fit_unit_map(entry: DataEntry, rows: Sequence[LabelledDialogue], name: str) -> UnitMap:
    """The map of label ``name``; ``standardise`` takes mean and deviation from ``rows``."""
    if entry.rescale == "standardise":
        means = label_means(rows, name)
        values = means[np.isfinite(means)]
        span = float(values.std()) / STANDARD_SHARE or 1.0
        return UnitMap(float(values.mean()) - 0.5 * span, span)
    scale = entry.rescale or label_scales(rows)[name]
    if scale is None:
        raise ConfigError(
            f"{entry.source}: the scale of {name!r} has no bounds",
            hint="set rescale: standardise, or rescale: [low, high]",
        )
    return UnitMap(scale[0], scale[1] - scale[0])


def example_of(
    row: LabelledDialogue,
    entry: DataEntry,
    names: Mapping[str, str],
    maps: Mapping[str, UnitMap] | None,
    levels: Mapping[str, int],
    soft: bool,
) -> TrainingExample:
    """The example of one row; ``levels``: how many, of dimensions with class targets. Without
    ``maps`` it has what people said, and no targets."""
    targets: dict[str, float | np.ndarray] = {}
    human: dict[str, float] = {}
    for source_name, judge_name in names.items():
        rating = row.rating(source_name)
        average = None if rating is None else mean(rating)
        if rating is None or average is None:
            continue
        human[judge_name] = average
        if maps is not None:
            unit, count = maps[source_name], levels.get(judge_name, 0)
            targets[judge_name] = (
                _level_shares(rating, unit, count, soft) if count else unit(average)
            )
    given = row.extra.get("comments") or {}
    comments = {judged: str(given[name]) for name, judged in names.items() if given.get(name)}
    source = entry.source.split(":")[0]
    return TrainingExample(row.dialogue, source, targets, entry.weight, human, row.group, comments)


def _level_shares(rating: Rating, unit: UnitMap, count: int, soft: bool) -> np.ndarray:
    """Probability per level: each annotator's share with ``soft``, else the rounded mean's."""
    values = rating.given if soft else (sum(rating.given) / len(rating.given),)
    shares = np.zeros(count, dtype=np.float32)
    for value in values:
        level = rescale(unit(value), (0, 1), (0, count - 1))
        shares[int(np.floor(level + 0.5))] += 1 / len(values)
    return shares
