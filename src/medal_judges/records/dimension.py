"""Dimension: one aspect of a dialogue, with the scale of its scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from medal_judges.config import read_yaml
from medal_judges.errors import ConfigError, MedalError, RecordError
from medal_judges.records.validation import End, parse

_MOST_LEVELS = 1001  # 0 to 1000; each is an output of a network
Kind = Literal["binary", "ordinal", "continuous"]
# Differences up to this share of a scale are none: a score depends by up to 5e-7 on the batch that
# it was computed in, and no verdict, tie or gate may depend on that.
EQUAL = 1e-5


@dataclass(frozen=True, slots=True)
class Dimension:
    """One aspect of a dialogue that a judge scores, with its scale.

    Attributes:
        name: A name such as ``overall``.
        kind: ``ordinal``: whole numbers. ``continuous``: any number on the scale. ``binary``:
            labels are 0 or 1, and a score is the probability of 1.
        low: Lowest value of the scale.
        high: Highest value of the scale.
        good: Better end: ``high`` for a quality, ``low`` for an issue such as ``unsafe``.
        definition: Explanation for annotators and language models.

    Raises:
        ConfigError: ``low`` is not below ``high``, a binary scale is not [0, 1], or an ordinal
            scale has ends that are not whole numbers or more than 1001 levels.

    >>> Dimension("overall", "ordinal", 1, 5).levels
    (1.0, 2.0, 3.0, 4.0, 5.0)
    >>> Dimension("unsafe", "binary", 0, 1, good="low").is_issue
    True
    """

    name: str
    kind: Kind
    low: End
    high: End
    good: Literal["low", "high"] = "high"
    definition: str = ""

    def __post_init__(self) -> None:
        problem = None
        if not self.low < self.high:
            problem = f"low {self.low} is not below {self.high}"
        elif self.kind == "binary" and (self.low, self.high) != (0, 1):
            problem = "a binary dimension runs from 0 to 1"
        elif self.kind == "ordinal" and (self.low % 1 or self.high % 1):
            problem = "an ordinal scale has whole-number ends"
        elif self.kind == "ordinal" and self.high - self.low >= _MOST_LEVELS:
            problem = f"an ordinal scale has at most {_MOST_LEVELS} levels"
        if problem is not None:
            raise ConfigError(f"dimension {self.name!r}: {problem}")

    @property
    def is_issue(self) -> bool:
        """Whether the dimension is binary and label 1 means that the dialogue has a fault."""
        return self.kind == "binary" and self.good == "low"

    @property
    def levels(self) -> tuple[float, ...]:
        """All values that an annotator can choose from, in ascending order. Empty for a continuous
        dimension."""
        if self.kind == "continuous":
            return ()
        return tuple(map(float, range(int(self.low), int(self.high) + 1)))

    @property
    def tolerance(self) -> float:
        """The largest difference between two scores, in points of the scale, that still count as
        equal."""
        return EQUAL * (self.high - self.low)

    def to_unit(self, value: float) -> float:
        """Maps ``value`` linearly from [low, high] to [0, 1]."""
        return (value - self.low) / (self.high - self.low)

    def from_unit(self, value: float) -> float:
        """Maps ``value`` linearly from [0, 1] to [low, high]."""
        return self.low + value * (self.high - self.low)

    def to_record(self) -> dict[str, Any]:
        return asdict(self)


def parse_dimensions(entries: object) -> tuple[Dimension, ...]:
    """Returns the dimensions in ``entries``, a list of JSON objects with name, kind, low and high.

    Raises:
        RecordError: An entry is malformed, or a name occurs twice.
    """
    if not isinstance(entries, list):
        expected = "a list of objects with name, kind, low and high"
        raise RecordError("dimensions", expected, entries)
    dimensions: dict[str, Dimension] = {}
    for entry in entries:
        try:
            dimension = parse(Dimension, entry, "dimensions")
        except ConfigError as error:
            raise RecordError("dimensions", f"a scale ({error})", entry) from error
        if dimension.name in dimensions:
            raise RecordError("dimensions", "each name once", dimension.name)
        dimensions[dimension.name] = dimension
    return tuple(dimensions.values())


def load_rubric(
    name_or_path: str | Path, names: Sequence[str] = ()
) -> tuple[Dimension, ...]:
    """Returns the dimensions of a rubric, a named list of dimensions.

    Args:
        name_or_path: Name of a file in configs/rubrics/, such as ``medal``, or path of a YAML file.
        names: Names of the dimensions to return, in this order. Empty means all.

    Raises:
        ConfigError: The rubric is unknown or malformed, or lacks one of ``names``.
    """
    entries = read_yaml(name_or_path, "rubrics").get("dimensions") or None
    try:
        dimensions = parse_dimensions(entries)
    except RecordError as error:
        raise ConfigError(
            f"rubric {name_or_path}: {error.message}",
            hint="Write it so: - {name: polite, kind: ordinal, low: 1, high: 5, good: high}",
        ) from error
    by_name = {dimension.name: dimension for dimension in dimensions}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise ConfigError(
            f"the rubric {name_or_path} has no dimension {unknown[0]!r}",
            hint=f"Use one of: {', '.join(by_name)}",
        )
    return tuple(by_name[name] for name in names or by_name)


def merge_dimensions(
    files: Iterable[tuple[str, Iterable[Dimension]]],
) -> dict[str, Dimension]:
    """Returns the dimensions of several files together: name -> dimension.

    Args:
        files: Pairs of a file's name and the dimensions in that file.

    Raises:
        MedalError: Two files have different scales or definitions for one dimension.
    """
    merged: dict[str, Dimension] = {}
    stated_in: dict[str, str] = {}
    for file, dimensions in files:
        for dimension in dimensions:
            earlier = merged.setdefault(dimension.name, dimension)
            first_file = stated_in.setdefault(dimension.name, file)
            if earlier != dimension:
                raise MedalError(
                    f"{dimension.name!r} is not the same in {first_file} and in {file}:\n"
                    f"    {earlier.to_record()}\n    {dimension.to_record()}",
                    hint="Score both files with one judge and one rubric, or give one file",
                )
    return merged
