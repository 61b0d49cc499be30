"""Dimension: one aspect of a dialogue, with the scale of its scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from medal_judges.config import read_yaml
from medal_judges.errors import ConfigError
from medal_judges.records.signature import Signature, content_hash
from medal_judges.records.validation import LARGEST

_MOST_LEVELS = 1001  # 0 to 1000; each is an output of a network
Kind = Literal["binary", "ordinal", "continuous"]
# Differences up to this share of a scale are none: a score depends by up to 5e-7 on the batch that
# it was computed in, and no verdict, tie or gate may depend on that.
EQUAL = 1e-5


@dataclass(frozen=True, slots=True)
class Dimension:
    """A named scale from ``low`` to ``high``.

    ``good`` is the better end of the scale: ``high`` for overall, ``low`` for an issue (label 1:
    the dialogue has the issue). The score of a ``binary`` dimension is the probability of label 1.

    >>> Dimension("overall", "ordinal", 1, 5).levels
    (1.0, 2.0, 3.0, 4.0, 5.0)
    >>> Dimension("unsafe", "binary", 0, 1, good="low").is_issue
    True
    """

    name: str
    kind: Kind
    low: float
    high: float
    good: Literal["low", "high"] = "high"
    definition: str = ""

    def __post_init__(self) -> None:
        problem = None
        if self.kind not in ("binary", "ordinal", "continuous"):
            problem = f"kind must be binary, ordinal or continuous, not {self.kind!r}"
        elif not all(
            isinstance(v, int | float) and abs(v) < LARGEST for v in (self.low, self.high)
        ):
            problem = f"low and high must be numbers below {LARGEST:g}"
        elif not self.low < self.high:
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
        """Whether label 1 of a binary dimension is a fault."""
        return self.kind == "binary" and self.good == "low"

    @property
    def levels(self) -> tuple[float, ...]:
        """The values that an annotator can give; empty for a continuous dimension."""
        if self.kind == "continuous":
            return ()
        return tuple(float(v) for v in range(int(self.low), int(self.high) + 1))

    @property
    def tolerance(self) -> float:
        """The distance up to which two scores are equal."""
        return EQUAL * (self.high - self.low)

    def to_unit(self, value: float) -> float:
        """Returns ``value`` on the scale [0, 1]."""
        return (value - self.low) / (self.high - self.low)

    def from_unit(self, value: float) -> float:
        """Inverse of ``to_unit``."""
        return self.low + value * (self.high - self.low)

    def to_record(self) -> dict[str, Any]:
        return asdict(self)


def load_rubric(name_or_path: str | Path, names: Sequence[str] = ()) -> tuple[Dimension, ...]:
    """Returns the dimensions of a rubric in configs/rubrics/ or in a YAML file; with ``names`` only
    these, in this order. Raises ConfigError."""
    entries = read_yaml(name_or_path, "rubrics").get("dimensions")
    if not isinstance(entries, list):
        raise ConfigError(f"rubric {name_or_path}: expected a mapping with a list 'dimensions'")
    try:
        dimensions = tuple(Dimension(**entry) for entry in entries)
    except TypeError as error:
        raise ConfigError(f"rubric {name_or_path}: {error}") from error
    known = {d.name: d for d in dimensions}
    if missing := [name for name in names if name not in known]:
        raise ConfigError(
            f"the rubric {name_or_path} has no dimension {missing[0]!r}",
            hint=f"it has: {', '.join(known)}",
        )
    return tuple(known[name] for name in names) if names else dimensions


@cache
def shipped_rubrics() -> tuple[tuple[Dimension, ...], ...]:
    """Returns the rubrics in configs/rubrics/, the smallest first."""
    folder = files("medal_judges.configs") / "rubrics"
    names = sorted(path.name.removesuffix(".yaml") for path in folder.iterdir())
    return tuple(sorted((load_rubric(name) for name in names), key=len))


@cache
def dimensions_of(
    signature: str, scored: tuple[str, ...], own: tuple[Dimension, ...] = ()
) -> tuple[Dimension, ...]:
    """Returns the dimensions of the judge with this ``signature``, which has their hash: a shipped
    rubric or ``own``, all of it or what is ``scored``. Empty if no rubric has the hash."""
    wanted = Signature.parse(signature).rubric
    for rubric in (own, *shipped_rubrics()):
        for part in (rubric, tuple(d for d in rubric if d.name in scored)):
            if content_hash([d.to_record() for d in part]) == wanted:
                return part
    return ()
