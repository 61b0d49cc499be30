"""Examples of all entries as one sequence: in memory where they are few, made when they are asked
for where their rows lie in a store, with what the whole set is asked for as columns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar, overload

import numpy as np

from medal_judges import __version__
from medal_judges.labelled import LabelledDialogue
from medal_judges.signature import content_hash
from medal_judges.training.rows.examples import TrainingExample, UnitMap
from medal_judges.training.rows.row_store import (
    ArrowRows,
    Row,
    RowStore,
    store_folder,
    store_lock,
    write_arrow,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

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
