"""Training examples: a dialogue with a target for each labelled dimension.

Examples of small files are in memory. Those of large files are made when they are indexed, and only
what is needed of all of them at once is in memory, as arrays.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from medal_judges import __version__
from medal_judges.data_prep.sources.registry import source_of
from medal_judges.errors import ConfigError
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.rating import mean, rescale
from medal_judges.records.signature import content_hash
from medal_judges.training.config import DataEntry
from medal_judges.training.rows.store import (
    ArrowRows,
    Row,
    RowFacts,
    RowStore,
    store_lock,
    store_path,
    write_arrow,
)

if TYPE_CHECKING:
    from medal_judges.models.tokenizer_file import AnyTokenizer

STANDARD_SHARE = 0.2  # of the scale for one standard deviation, so that +-2.5 of them span it


@dataclass(slots=True)
class TrainingExample:
    """One labelled dialogue. A target is a number on [0, 1], or a probability per level [levels]
    for ordinal and classification heads; a missing dimension is a missing label."""

    dialogue: Dialogue
    source: str
    targets: dict[str, float | np.ndarray]
    weight: float = 1.0
    # Mean rating on the raw scale; on [0, 1] as the target if the entry inverts the scale.
    human: dict[str, float] = field(default_factory=dict)
    group: str = ""
    comments: Mapping[str, str] = field(default_factory=dict)  # an annotator's words by dimension


@dataclass(frozen=True, slots=True)
class UnitMap:
    """Linear map of one source's label to [0, 1]: (value - zero) / span, clipped."""

    zero: float
    span: float

    def __call__(self, value: Any) -> Any:
        """The mapped number, or the mapped array."""
        return np.clip((value - self.zero) / self.span, 0.0, 1.0)


def dimension_names(entry: DataEntry, labels: Iterable[str], judged: list[str]) -> dict[str, str]:
    """Label -> dimension of the judge. Raises ConfigError for unknown names."""
    named = entry.dimensions
    if named is None:
        return {name: name for name in judged if name in labels}
    pairs = dict(named) if isinstance(named, Mapping) else {n: n for n in named}
    for label, dimension in pairs.items():
        if dimension not in judged:
            raise ConfigError(
                f"{entry.source}: the rubric has no dimension {dimension!r}",
                hint=f"it has: {', '.join(judged)}",
            )
        if label not in labels:
            raise ConfigError(
                f"{entry.source}: no row has a label {label!r}",
                hint=f"its labels: {', '.join(sorted(labels))}",
            )
    return pairs


def fit_unit_map(entry: DataEntry, facts: RowFacts, label: str) -> UnitMap:
    """The map of ``label``; ``standardise`` computes it from the labels themselves."""
    bounds = entry.bounds(label)
    if bounds == "standardise":
        values = facts.means[label][np.isfinite(facts.means[label])]
        span = float(values.std()) / STANDARD_SHARE or 1.0
        return UnitMap(float(values.mean()) - 0.5 * span, span)
    scale = bounds or facts.scales[label]
    if scale is None:
        raise ConfigError(
            f"{entry.source}: the scale of {label!r} has no bounds",
            hint="set rescale: standardise, or rescale: [low, high]",
        )
    return UnitMap(scale[0], scale[1] - scale[0])


@dataclass(frozen=True, slots=True)
class ExampleMaker:
    """Makes the examples of one entry. ``names`` maps a label to the judge's dimension, ``maps`` a
    label to [0, 1] (None: examples without targets), ``levels`` a dimension with a target per level
    to their number. With ``soft`` such a target is each annotator's share, else the mean's level.
    """

    entry: DataEntry
    names: Mapping[str, str]
    maps: Mapping[str, UnitMap] | None
    levels: Mapping[str, int]
    soft: bool

    def __call__(self, row: LabelledDialogue) -> TrainingExample:
        targets: dict[str, float | np.ndarray] = {}
        human: dict[str, float] = {}
        for label, dimension in self.names.items():
            rating = row.rating(label)
            average = None if rating is None else mean(rating)
            if rating is None or average is None:
                continue
            human[dimension] = average
            bounds = self.entry.bounds(label)
            if isinstance(bounds, tuple) and bounds[0] > bounds[1]:
                human[dimension] = float(UnitMap(bounds[0], bounds[1] - bounds[0])(average))
            if self.maps is None:
                continue
            unit, count = self.maps[label], self.levels.get(dimension, 0)
            if not count:
                targets[dimension] = float(unit(average))
                continue
            values = rating.given if self.soft else (sum(rating.given) / len(rating.given),)
            shares = np.zeros(count, dtype=np.float32)
            for value in values:
                level = rescale(float(unit(value)), (0, 1), (0, count - 1))
                shares[int(np.floor(level + 0.5))] += 1 / len(values)
            targets[dimension] = shares
        given = row.extra.get("comments") or {}
        return TrainingExample(
            row.dialogue,
            source_of(self.entry.source),
            targets,
            self.entry.weight,
            human,
            row.group,
            {name: str(given[label]) for label, name in self.names.items() if given.get(label)},
        )


# -- examples that are not all in memory ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Segment:
    """The rows of one entry in a store, and what makes the example of a row."""

    rows: RowStore
    make: ExampleMaker
    key: str

    def targets(self) -> dict[str, np.ndarray]:
        """Target of each row on [0, 1] [n] by dimension, NaN without a label."""
        assert self.make.maps is not None
        means, maps = self.rows.facts.means, self.make.maps
        return {name: maps[label](means[label]) for label, name in self.make.names.items()}


class StoredExamples(Sequence[TrainingExample]):
    """Segments of stores, and lists of examples, one after the other.

    ``key`` identifies the examples in the cache of what is made of them.
    """

    def __init__(self, parts: Iterable[Segment | list[TrainingExample]]) -> None:
        self.parts = [part for part in parts if isinstance(part, Segment) or part]
        self.sizes = [len(p.rows if isinstance(p, Segment) else p) for p in self.parts]
        self._starts = np.cumsum([0, *self.sizes]).tolist()

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
        number = bisect_right(self._starts, row) - 1
        part, inside = self.parts[number], int(row - self._starts[number])
        return part.make(part.rows[inside]) if isinstance(part, Segment) else part[inside]

    @property
    def key(self) -> str:
        return "+".join(
            part.key
            if isinstance(part, Segment)
            else content_hash(
                [[e.dialogue.to_record(), str(e.targets), dict(e.comments)] for e in part]
            )
            for part in self.parts
        )


def _parts(examples: Sequence[TrainingExample]) -> list[Any]:
    return examples.parts if isinstance(examples, StoredExamples) else [examples]


def weights_of(examples: Sequence[TrainingExample]) -> np.ndarray:
    """Weight of each example [n]."""
    columns = [
        np.full(len(part.rows), part.make.entry.weight)
        if isinstance(part, Segment)
        else np.array([e.weight for e in part], dtype=float)
        for part in _parts(examples)
    ]
    return np.concatenate(columns)


def sources_of(examples: Sequence[TrainingExample]) -> list[str]:
    """The names of their sources, sorted."""
    names: set[str] = set()
    for part in _parts(examples):
        if isinstance(part, Segment):
            names.add(source_of(part.make.entry.source))
        else:
            names |= {e.source for e in part}
    return sorted(names)


def targets_of(examples: Sequence[TrainingExample]) -> dict[str, np.ndarray]:
    """Target of each example on [0, 1] [n] for each dimension that has one, NaN where an example
    has none; the mean of a target per level."""
    columns: dict[str, np.ndarray] = {}
    start = 0
    for part in _parts(examples):
        if isinstance(part, Segment):
            size, found = len(part.rows), part.targets()
        else:
            size, found = len(part), {}
            for row, example in enumerate(part):
                for name, target in example.targets.items():
                    if isinstance(target, np.ndarray):
                        target = float(target @ np.linspace(0, 1, len(target)))
                    found.setdefault(name, np.full(size, np.nan))[row] = target
        for name, column in found.items():
            whole = columns.setdefault(name, np.full(len(examples), np.nan))
            whole[start : start + size] = column
        start += size
    return {name: column for name, column in columns.items() if np.isfinite(column).any()}


def spread(examples: Sequence[TrainingExample], count: int) -> list[TrainingExample]:
    """At most ``count`` examples, evenly over all."""
    step = max(1, len(examples) // count)
    return [examples[i] for i in range(0, len(examples), step)][:count]


def encode_examples(
    examples: Sequence[TrainingExample],
    reader: object,
    encode: Callable[[TrainingExample], Row],
    length: Callable[[Row], int],
    schema: Row,
) -> tuple[Sequence[Row], Sequence[int]]:
    """(``encode`` of every example, its ``length``): lists if the examples are in memory, else
    memory-mapped from a file of the cache with columns of ``schema`` (see ``write_arrow``). Its key
    is the examples and ``reader``, the tokenizer and its settings."""
    if not isinstance(examples, StoredExamples):
        encoded = [encode(example) for example in examples]
        return encoded, [length(row) for row in encoded]
    path = store_path(f"tokens-{content_hash([__version__, examples.key, reader])}.arrow")
    lengths = path.with_suffix(".npy")
    with store_lock(path):
        if not lengths.is_file():  # written last: without it the tokens are not complete
            _write_encoded(examples, encode, length, schema, path)
    return ArrowRows(path, dict), np.load(lengths, mmap_mode="r")


def _write_encoded(
    examples: Sequence[TrainingExample],
    encode: Callable[[TrainingExample], Row],
    length: Callable[[Row], int],
    schema: Row,
    path: Any,
) -> None:
    lengths = np.zeros(len(examples), dtype=np.int32)

    def rows() -> Iterable[Row]:
        for number, example in enumerate(examples):
            row = encode(example)
            lengths[number] = length(row)
            yield row

    write_arrow(path, schema, rows())
    np.save(path.with_suffix(".npy"), lengths)


def tokenizer_key(tokenizer: AnyTokenizer) -> str:
    """A hash of all that a tokenizer does, its chat template included."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    text = backend.to_str() if backend is not None else str(sorted(tokenizer.get_vocab().items()))
    return content_hash([text, getattr(tokenizer, "chat_template", None)])
