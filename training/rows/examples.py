"""From labelled rows to what the loss reads: targets per dimension, missing ones masked.

Examples are in memory where they are few; where their rows lie in a store they are made when they
are asked for, with what the whole set is asked for as columns.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar, overload

import numpy as np

from medal_judges import __version__
from medal_judges.data_prep.sources.registry import source_of
from medal_judges.errors import ConfigError
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.rating import Rating, mean, rescale
from medal_judges.records.signature import content_hash
from medal_judges.training.config import DataEntry, Rescale
from medal_judges.training.rows.row_store import (
    ArrowRows,
    Row,
    RowStore,
    label_means,
    label_scales,
    store_folder,
    store_lock,
    write_arrow,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


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
    # Mean rating on the raw scale; of a label that its entry turns, on [0, 1] as the target is.
    human: dict[str, float] = field(default_factory=dict)
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
    rescale = _rescale(entry, name)
    if rescale == "standardise":
        means = label_means(rows, name)
        values = means[np.isfinite(means)]
        span = float(values.std()) / STANDARD_SHARE or 1.0
        return UnitMap(float(values.mean()) - 0.5 * span, span)
    scale = rescale or label_scales(rows)[name]
    if scale is None:
        raise ConfigError(
            f"{entry.source}: the scale of {name!r} has no bounds",
            hint="set rescale: standardise, or rescale: [low, high]",
        )
    return UnitMap(scale[0], scale[1] - scale[0])


def _rescale(entry: DataEntry, name: str) -> Rescale | None:
    return entry.rescale.get(name) if isinstance(entry.rescale, Mapping) else entry.rescale


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
        bounds = _rescale(entry, source_name)
        if isinstance(bounds, tuple) and bounds[0] > bounds[1]:
            human[judge_name] = UnitMap(bounds[0], bounds[1] - bounds[0])(average)
        else:
            human[judge_name] = average
        if maps is not None:
            unit, count = maps[source_name], levels.get(judge_name, 0)
            targets[judge_name] = (
                _level_shares(rating, unit, count, soft) if count else unit(average)
            )
    given = row.extra.get("comments") or {}
    comments = {judged: str(given[name]) for name, judged in names.items() if given.get(name)}
    source = source_of(entry.source)
    return TrainingExample(row.dialogue, source, targets, entry.weight, human, row.group, comments)


def _level_shares(rating: Rating, unit: UnitMap, count: int, soft: bool) -> np.ndarray:
    """Probability per level: each annotator's share with ``soft``, else the rounded mean's."""
    values = rating.given if soft else (sum(rating.given) / len(rating.given),)
    shares = np.zeros(count, dtype=np.float32)
    for value in values:
        level = rescale(unit(value), (0, 1), (0, count - 1))
        shares[int(np.floor(level + 0.5))] += 1 / len(values)
    return shares


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Segment:
    """The rows of one entry in a store: ``make`` gives the example of a row, ``names`` maps a
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
        return np.clip((self.rows.label(label) - unit.zero) / unit.span, 0.0, 1.0)


class StoredExamples(Sequence[TrainingExample]):
    """Segments of stores and lists, one after the other."""

    def __init__(self, parts: Sequence[Segment | Sequence[TrainingExample]]) -> None:
        self.parts = [part for part in parts if isinstance(part, Segment) or part]
        sizes = [len(part.rows if isinstance(part, Segment) else part) for part in self.parts]
        self._starts = np.cumsum([0, *sizes]).tolist()

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
        """What the examples depend on, for caches of what is made of them; a list's is a hash."""
        return "+".join(
            part.key
            if isinstance(part, Segment)
            else content_hash(
                [[e.dialogue.to_record(), str(e.targets), dict(e.comments)] for e in part]
            )
            for part in self.parts
        )


def in_store(examples: Sequence[TrainingExample]) -> bool:
    """Whether some of the examples lie in a store."""
    return any(isinstance(part, Segment) for part in _parts(examples))


def _parts(examples: Sequence[TrainingExample]) -> list[Segment | Sequence[TrainingExample]]:
    return examples.parts if isinstance(examples, StoredExamples) else [examples]


def _column(
    examples: Sequence[TrainingExample],
    of_segment: Callable[[Segment], np.ndarray],
    of_example: Callable[[TrainingExample], float],
) -> np.ndarray:
    columns = [
        of_segment(part) if isinstance(part, Segment) else np.array([of_example(e) for e in part])
        for part in _parts(examples)
    ]
    return np.concatenate(columns).astype(float) if columns else np.zeros(0)


def weights_of(examples: Sequence[TrainingExample]) -> np.ndarray:
    """Weight of each example [n]."""
    return _column(examples, lambda s: np.full(len(s.rows), s.weight), lambda e: e.weight)


def sources_of(examples: Sequence[TrainingExample]) -> list[str]:
    """The names of their sources, sorted."""
    names: set[str] = set()
    for part in _parts(examples):
        names |= {part.source} if isinstance(part, Segment) else {e.source for e in part}
    return sorted(names)


def targets_of(examples: Sequence[TrainingExample], name: str) -> np.ndarray:
    """Target of dimension ``name`` on [0, 1] [n], NaN where there is none; of levels their mean."""

    def target(example: TrainingExample) -> float:
        value = example.targets.get(name)
        if isinstance(value, np.ndarray):
            return float(value @ np.linspace(0, 1, len(value)))
        return np.nan if value is None else float(value)

    return _column(examples, lambda s: s.targets(name), target)


def learnt_names(examples: Sequence[TrainingExample]) -> set[str]:
    """Dimensions of which some example has a target."""
    names: set[str] = set()
    for part in _parts(examples):
        if isinstance(part, Segment):
            names |= {n for n in part.names if np.isfinite(part.targets(n)).any()}
        else:
            names |= {name for example in part for name in example.targets}
    return names


def spread(examples: Sequence[TrainingExample], count: int) -> list[TrainingExample]:
    """At most ``count`` examples, evenly over all."""
    step = max(1, len(examples) // count)
    return [examples[i] for i in range(0, len(examples), step)][:count]


# -- what a judge reads of each example, made once ----------------------------------------------


@dataclass(frozen=True, slots=True)
class RowForm(Generic[T]):
    """How an encoded example is written as a row of an Arrow file, and read back; ``schema`` as
    ``write_arrow`` takes it."""

    schema: Row
    write: Callable[[T], Row]
    read: Callable[[Row], T]


def encode_examples(
    examples: Sequence[TrainingExample],
    reader: object,
    encode: Callable[[TrainingExample], T],
    length: Callable[[T], int],
    form: RowForm[T],
) -> tuple[Sequence[T], Sequence[int]]:
    """(``encode`` of every example, its ``length``): lists where examples are in memory, else
    memory-mapped from a file of the cache. Its key: the examples, and ``reader`` (tokenizer and
    settings)."""
    if not in_store(examples):
        encoded = [encode(example) for example in examples]
        return encoded, [length(one) for one in encoded]
    assert isinstance(examples, StoredExamples)
    key = content_hash([__version__, examples.key, reader])
    path = store_folder() / f"tokens-{key}.arrow"
    lengths = path.with_suffix(".npy")
    with store_lock(path):
        if not lengths.is_file():  # it comes last: without it the other was cut short
            _write_encoded(examples, encode, length, form, path)
    return ArrowRows(path, form.read), np.load(lengths, mmap_mode="r")


def _write_encoded(
    examples: Sequence[TrainingExample],
    encode: Callable[[TrainingExample], T],
    length: Callable[[T], int],
    form: RowForm[T],
    path: Path,
) -> None:
    lengths = np.zeros(len(examples), dtype=np.int32)

    def rows() -> Iterable[Row]:
        for row, example in enumerate(examples):
            one = encode(example)
            lengths[row] = length(one)
            yield form.write(one)

    write_arrow(path, form.schema, rows())
    np.save(path.with_suffix(".npy"), lengths)


def tokenizer_key(tokenizer: PreTrainedTokenizerBase) -> str:
    """A hash of all that a tokenizer does, its chat template included."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    text = backend.to_str() if backend is not None else str(sorted(tokenizer.get_vocab().items()))
    return content_hash([text, getattr(tokenizer, "chat_template", None)])
