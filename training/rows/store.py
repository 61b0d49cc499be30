"""Large training files are parsed once and memory-mapped, so that a run holds no rows in memory.

A store is a folder of the cache: rows.arrow (one JSON line a row), means.npy (the mean label of each
row) and facts.json. Its key is the content of the files and the settings that choose the rows. The
first process builds it under a lock; other processes and later runs map it.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

import numpy as np
from filelock import FileLock

from medal_judges import __version__
from medal_judges.data_prep.sources.cache import sha256
from medal_judges.records.labelled import LabelledDialogue, parse_labelled
from medal_judges.records.rating import Scale, mean
from medal_judges.records.signature import content_hash
from medal_judges.storage.files import atomic_path, cache_folder
from medal_judges.storage.jsonl import to_line

LARGE = 20_000_000  # bytes from which a file is not read into memory; gzip: a quarter of that

T = TypeVar("T")
Row = dict[str, Any]


class ArrowRows(Sequence[T], Generic[T]):
    """Rows of an Arrow file, memory-mapped; ``read`` converts each one when it is indexed."""

    def __init__(self, path: Path, read: Callable[[Row], T]) -> None:
        from datasets import Dataset

        self._table, self._read = Dataset.from_file(str(path)), read

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


def write_arrow(path: Path, schema: Row, rows: Iterable[Row]) -> None:
    """Write ``rows`` to ``path``. ``schema`` maps a column to its type, such as ``int32``; a list
    around a type is a list of it."""
    from datasets import Features, List, Value
    from datasets.arrow_writer import ArrowWriter

    def feature(kind: object) -> Any:
        return List(feature(kind[0])) if isinstance(kind, list) else Value(kind)

    features = Features({name: feature(kind) for name, kind in schema.items()})
    with ArrowWriter(path=str(path), features=features, writer_batch_size=500) as writer:
        for row in rows:
            writer.write(row)
        writer.finalize()


@dataclass(frozen=True, slots=True)
class RowFacts:
    """What a run needs to know of all rows of an entry: a hash of them, their languages (sorted,
    ``unknown`` among them), the scale of each label (as the first row with it states it), and the
    mean label of each row [n], NaN without one."""

    hash: str
    languages: list[str]
    scales: dict[str, Scale | None]
    means: dict[str, np.ndarray]


def row_facts(rows: Iterable[LabelledDialogue]) -> RowFacts:
    """Reads all rows once."""
    digest, languages = hashlib.sha256(), set()
    scales: dict[str, Scale | None] = {}
    means: dict[str, array[float]] = {}
    for count, row in enumerate(rows):
        digest.update(to_line(row).encode())
        languages.add(row.dialogue.lang or "unknown")
        for name in row.labels:
            if name not in means:
                means[name] = array("d", [np.nan]) * count
                scales[name] = row.scales.get(name)
        for name, column in means.items():
            rating = row.rating(name)
            value = None if rating is None else mean(rating)
            column.append(np.nan if value is None else value)
    columns = {name: np.frombuffer(column, dtype=float) for name, column in means.items()}
    return RowFacts(digest.hexdigest()[:12], sorted(languages), scales, columns)


class RowStore(ArrowRows[LabelledDialogue]):
    """Labelled rows in a folder written by ``open_store``."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "rows.arrow", _parse)
        self.folder = folder
        known = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
        scales = {k: None if v is None else (v[0], v[1]) for k, v in known["scales"].items()}
        means = dict(zip(scales, np.load(folder / "means.npy", mmap_mode="r"), strict=True))
        self.facts = RowFacts(known["hash"], known["languages"], scales, means)


def _parse(row: Row) -> LabelledDialogue:
    return parse_labelled(json.loads(row["line"]))


def is_large(path: Path) -> bool:
    """Whether a file is too large to be read into memory."""
    return path.stat().st_size * (4 if path.suffix == ".gz" else 1) >= LARGE


def store_path(name: str) -> Path:
    """A place in the cache for a store or a file of tokens; its parent folder exists."""
    folder = cache_folder() / "training"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def store_lock(path: Path) -> FileLock:
    """The lock that a process holds while it writes ``path`` of the cache."""
    return FileLock(path.with_suffix(".lock"))


def open_store(
    rows: Iterable[LabelledDialogue], files: Sequence[Path], settings: object
) -> RowStore:
    """The store of ``rows``, which are read only if it does not exist. ``files`` hold the rows, and
    ``settings`` choose them."""
    folder = store_path(content_hash([__version__, [sha256(path) for path in files], settings]))
    with store_lock(folder):
        if not folder.is_dir():
            with atomic_path(folder) as partial:
                partial.mkdir()
                _build(rows, partial)
    return RowStore(folder)


def _build(rows: Iterable[LabelledDialogue], folder: Path) -> None:
    path = folder / "rows.arrow"
    write_arrow(path, {"line": "large_string"}, ({"line": to_line(row)} for row in rows))
    facts = row_facts(ArrowRows(path, _parse))
    means = np.stack(list(facts.means.values())) if facts.means else np.zeros((0, 0))
    np.save(folder / "means.npy", means)
    known = {"hash": facts.hash, "languages": facts.languages, "scales": facts.scales}
    (folder / "facts.json").write_text(json.dumps(known), encoding="utf-8")
