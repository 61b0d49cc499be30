"""Rows of large training files lie in a file of the cache, so that a run holds none in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from medal_judges import __version__
from medal_judges.records.signature import content_hash
from medal_judges.storage.files import atomic_path, cache_folder
from medal_judges.storage.jsonl import to_line

LARGE = 20_000_000  # bytes from which a file is not read into memory; gzip: a quarter of that

Row = dict[str, Any]


class MappedRows(Sequence[Any]):
    """JSON rows of a file, memory-mapped; ``read`` converts each one when it is indexed."""

    def __init__(self, path: Path, read: Callable[[Row], Any] = dict) -> None:
        self._ends, self._path, self._read = np.load(path.with_suffix(".npy")), path, read
        self._bytes = np.memmap(path, mode="r") if len(self._ends) else np.zeros(0, np.uint8)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        end = self._ends[row]  # raises IndexError after the last
        start = self._ends[row - 1] if row else 0
        return self._read(json.loads(self._bytes[start:end].tobytes()))

    def converted(self, convert: Callable[[Any], Any]) -> MappedRows:
        """The same rows, each given to ``convert``."""
        return MappedRows(self._path, lambda row: convert(self._read(row)))


def mapped_rows(rows: Iterable[Any], key: object, read: Callable[[Row], Any] = dict) -> MappedRows:
    """``rows`` (see ``to_line``) from a file of the cache, which ``key`` identifies; they are read
    only if it does not exist. The first process writes it under a lock."""
    folder = cache_folder() / "training"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{content_hash([__version__, key])}.jsonl"
    with FileLock(path.with_suffix(".lock")):
        if not path.exists():
            _write(rows, path)
    return MappedRows(path, read)


def _write(rows: Iterable[Any], path: Path) -> None:
    ends, place = [], 0
    with atomic_path(path) as partial, partial.open("wb") as stream:
        for row in rows:
            place += stream.write(to_line(row).encode())
            ends.append(place)
        np.save(path.with_suffix(".npy"), np.array(ends, dtype=np.int64))


def is_large(path: Path) -> bool:
    """Whether a file is too large to be read into memory."""
    return path.stat().st_size * (4 if path.suffix == ".gz" else 1) >= LARGE
