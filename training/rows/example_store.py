"""Examples of all entries as one sequence: in memory where they are few, made when they are asked
for where their rows lie in a store, with what the whole set is asked for as columns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from medal_judges.labelled import LabelledDialogue
from medal_judges.training.rows.examples import TrainingExample, UnitMap
from medal_judges.training.rows.row_store import RowStore


@dataclass(frozen=True, slots=True)
class Segment:
    """The rows of one entry in a store: ``make`` gives the TrainingExample of a row, ``names`` maps a
    dimension to the source's label, ``maps`` the label to [0, 1]."""

    rows: RowStore
    source: str
    weight: float
    make: Callable[[LabelledDialogue], TrainingExample]
    names: dict[str, str]
    maps: dict[str, UnitMap]
    key: str

    def targets(self, name: str) -> np.ndarray:
        """Target of each row on [0, 1] [n], NaN where there is none (of a class head: its mean)."""
        if name not in self.names:
            return np.full(len(self.rows), np.nan)
        label = self.names[name]
        unit = self.maps[label]
        found: np.ndarray = np.clip((self.rows.label(label) - unit.zero) / unit.span, 0.0, 1.0)
        return found


class StoredExamples(Sequence[TrainingExample]):
    """Segments of stores and lists, one after the other."""

    def __init__(self, parts: Sequence[Segment | Sequence[TrainingExample]]) -> None:
        self.parts = [part for part in parts if not isinstance(part, Sequence) or len(part)]
        self._starts = np.cumsum([0, *(self._size(part) for part in self.parts)]).tolist()

    @staticmethod
    def _size(part: Segment | Sequence[TrainingExample]) -> int:
        return len(part.rows) if isinstance(part, Segment) else len(part)

    def __len__(self) -> int:
        return int(self._starts[-1])

    @overload
    def __getitem__(self, row: int) -> TrainingExample: ...
    @overload
    def __getitem__(self, row: slice) -> list[TrainingExample]: ...
    def __getitem__(self, row: int | slice) -> TrainingExample | list[TrainingExample]:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        if not 0 <= row < len(self):
            raise IndexError(row)
        place = bisect_right(self._starts, row) - 1
        part, inside = self.parts[place], int(row - self._starts[place])
        return part.make(part.rows[inside]) if isinstance(part, Segment) else part[inside]

    @property
    def key(self) -> str:
        """What the examples depend on, for caches of what is made of them; lists come first."""
        return "+".join(
            part.key if isinstance(part, Segment) else list_key(part) for part in self.parts
        )


def list_key(examples: Sequence[TrainingExample]) -> str:
    """A hash of examples in memory."""
    from medal_judges.signature import content_hash

    records = [[e.dialogue.to_record(), str(e.targets), dict(e.comments)] for e in examples]
    return content_hash(records)


def in_store(examples: Sequence[TrainingExample]) -> bool:
    """Whether some of the examples lie in a store."""
    return isinstance(examples, StoredExamples) and any(isinstance(p, Segment) for p in examples.parts)


def _column(
    examples: Sequence[TrainingExample],
    of_segment: Callable[[Segment], np.ndarray],
    of_example: Callable[[TrainingExample], object],
) -> np.ndarray:
    parts = examples.parts if isinstance(examples, StoredExamples) else [examples]
    columns = [
        of_segment(part) if isinstance(part, Segment) else np.array([of_example(e) for e in part])
        for part in parts
    ]
    return np.concatenate(columns) if columns else np.zeros(0)


def weights_of(examples: Sequence[TrainingExample]) -> np.ndarray:
    """Weight of each example [n]."""
    return _column(examples, lambda s: np.full(len(s.rows), s.weight), lambda e: e.weight)


def sources_of(examples: Sequence[TrainingExample]) -> list[str]:
    """The names of their sources, sorted."""
    parts = examples.parts if isinstance(examples, StoredExamples) else [examples]
    names: set[str] = set()
    for part in parts:
        names |= {part.source} if isinstance(part, Segment) else {e.source for e in part}
    return sorted(names)


def targets_of(examples: Sequence[TrainingExample], name: str) -> np.ndarray:
    """Target of dimension ``name`` on [0, 1] [n], NaN where there is none; of levels their mean."""

    def one(example: TrainingExample) -> float:
        value = example.targets.get(name)
        if isinstance(value, np.ndarray):
            return float(value @ np.linspace(0, 1, len(value)))
        return np.nan if value is None else float(value)

    return _column(examples, lambda s: s.targets(name), one).astype(float)


def learnt_names(examples: Sequence[TrainingExample]) -> set[str]:
    """Dimensions of which some example has a target."""
    parts = examples.parts if isinstance(examples, StoredExamples) else [examples]
    names: set[str] = set()
    for part in parts:
        if isinstance(part, Segment):
            names |= {n for n in part.names if np.isfinite(part.targets(n)).any()}
        else:
            names |= {name for example in part for name in example.targets}
    return names


def spread(examples: Sequence[TrainingExample], count: int) -> list[TrainingExample]:
    """At most ``count`` examples, evenly over all."""
    step = max(1, len(examples) // count)
    return [examples[i] for i in range(0, len(examples), step)][:count]
