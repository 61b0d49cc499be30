"""What a judge reads of each example, made once: a list where examples are few, else memory-mapped.

Files lie in the cache, keyed by the examples and by ``reader`` (tokenizer and settings); processes
and later runs share them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

import numpy as np

from medal_judges import __version__
from medal_judges.signature import content_hash
from medal_judges.training.rows.example_store import StoredExamples, in_store
from medal_judges.training.rows.examples import TrainingExample
from medal_judges.training.rows.row_store import store_folder, store_lock

T = TypeVar("T")
Row = dict[str, Any]


class Stored(Sequence[T], Generic[T]):
    """Rows of an Arrow file as ``read`` makes them, memory-mapped."""

    def __init__(self, path: Path, read: Callable[[Row], T]) -> None:
        from datasets import Dataset

        self._table = Dataset.from_file(str(path))
        self._read = read
        self.lengths = np.load(path.with_suffix(".npy"), mmap_mode="r")

    def __len__(self) -> int:
        return len(self._table)

    @overload
    def __getitem__(self, row: int) -> T: ...
    @overload
    def __getitem__(self, row: slice) -> list[T]: ...
    def __getitem__(self, row: int | slice) -> T | list[T]:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        return self._read(self._table[int(row)])


def encoded(
    examples: Sequence[TrainingExample],
    reader: Any,
    encode: Callable[[TrainingExample], T],
    length: Callable[[T], int],
    form: tuple[Callable[[T], Row], Callable[[Row], T], Callable[[], Any]],
) -> tuple[Sequence[T], Sequence[int]]:
    """(``encode`` of every example, its ``length``).

    ``form``: how an encoded example is written as a row and read back, and the rows' Features.
    """
    if not in_store(examples):
        rows = [encode(example) for example in examples]
        return rows, [length(row) for row in rows]
    assert isinstance(examples, StoredExamples)
    write, read, features = form
    key = content_hash([__version__, examples.key, reader])
    path = store_folder() / f"tokens-{key}.arrow"
    with store_lock(path):
        if not path.with_suffix(".npy").is_file():
            _build(examples, encode, length, write, features, path)
    stored = Stored(path, read)
    return stored, stored.lengths


def _build(
    examples: Sequence[TrainingExample],
    encode: Callable[[TrainingExample], T],
    length: Callable[[T], int],
    write: Callable[[T], Row],
    features: Callable[[], Any],
    path: Path,
) -> None:
    """The lengths come last: a file without them was broken off."""
    from datasets.arrow_writer import ArrowWriter

    lengths = np.zeros(len(examples), dtype=np.int32)
    with ArrowWriter(path=str(path), features=features(), writer_batch_size=500) as writer:
        for row, example in enumerate(examples):
            one = encode(example)
            lengths[row] = length(one)
            writer.write(write(one))
        writer.finalize()
    np.save(path.with_suffix(".npy"), lengths)


def tokenizer_key(tokenizer: Any) -> str:
    """A hash of all that a tokenizer does, its chat template included."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    text = backend.to_str() if backend is not None else str(sorted(tokenizer.get_vocab().items()))
    return content_hash([text, getattr(tokenizer, "chat_template", None)])
