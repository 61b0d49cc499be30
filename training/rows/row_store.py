"""Large training files: parsed once, then memory-mapped, so that a run holds no rows of them.

A store is a folder of the cache, keyed by the file's content and the entry's settings: rows.arrow
(one JSON line a row), the mean label of each row by dimension as arrays, and facts.json. Whoever
comes first makes it under a lock; other processes and later runs map what is there.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
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

LARGE = 20_000_000  # bytes (of gzip: 5 million) from which a file is not read into memory
_GZIP = 4

T = TypeVar("T")
Row = dict[str, Any]


class ArrowRows(Sequence[T], Generic[T]):
    """Rows of an Arrow file as ``read`` makes them, memory-mapped."""

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
    """``schema``: of each column its type, such as ``int32``, in as many lists as it is nested."""
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
    """What is known of all rows without reading them: a hash of them, their languages, and the
    scale of each label as the first row with it states it."""

    hash: str
    languages: tuple[str, ...]
    scales: dict[str, Scale | None]


class RowStore(ArrowRows[LabelledDialogue]):
    """Labelled rows in a folder made by ``open_store``; each is parsed when it is asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "rows.arrow", lambda row: parse_labelled(json.loads(row["line"])))
        self.folder = folder
        record = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
        scales = {k: None if v is None else (v[0], v[1]) for k, v in record["scales"].items()}
        self.facts = RowFacts(record["hash"], tuple(record["languages"]), scales)

    def label(self, name: str) -> np.ndarray:
        """Mean label of each row [n]; NaN where it has none."""
        column = list(self.facts.scales).index(name)
        return np.asarray(np.load(self.folder / f"label-{column}.npy", mmap_mode="r"))


def is_large(path: Path) -> bool:
    """Whether a file is better not read into memory."""
    return path.stat().st_size * (_GZIP if path.suffix == ".gz" else 1) >= LARGE


def open_store(
    rows: Iterable[LabelledDialogue], files: Sequence[Path], settings: object
) -> RowStore:
    """The store of ``rows``, which are read only where it is not there yet. Its key: the content of
    ``files``, and ``settings``, by which the rows were chosen."""
    key = content_hash([__version__, [sha256(path) for path in files], settings])
    folder = store_folder() / key
    with store_lock(folder):
        if not folder.is_dir():
            _build(rows, folder)
    return RowStore(folder)


def store_folder() -> Path:
    """Where stores lie."""
    return cache_folder() / "training"


def store_lock(path: Path) -> FileLock:
    """Held while ``path`` of the cache is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path.with_suffix(".lock"))


def _build(rows: Iterable[LabelledDialogue], folder: Path) -> None:
    digest, languages = hashlib.sha256(), set()
    scales: dict[str, Scale | None] = {}
    labels: dict[str, array[float]] = {}

    def lines() -> Iterable[Row]:
        for count, row in enumerate(rows):
            line = to_line(row)
            digest.update(line.encode())
            languages.add(row.dialogue.lang or "unknown")
            for name in row.labels:
                if name not in labels:
                    labels[name] = array("d", [np.nan]) * count
                    scales[name] = row.scales.get(name)
            for name, column in labels.items():
                column.append(_mean_label(row, name))
            yield {"line": line}

    with atomic_path(folder) as partial:
        partial.mkdir()
        write_arrow(partial / "rows.arrow", {"line": "large_string"}, lines())
        for number, column in enumerate(labels.values()):
            np.save(partial / f"label-{number}.npy", np.frombuffer(column, dtype=float))
        facts = RowFacts(digest.hexdigest()[:12], tuple(sorted(languages)), scales)
        (partial / "facts.json").write_text(json.dumps(asdict(facts)), encoding="utf-8")


def _mean_label(row: LabelledDialogue, name: str) -> float:
    rating = row.rating(name)
    value = None if rating is None else mean(rating)
    return np.nan if value is None else value


def rows_hash(rows: Sequence[LabelledDialogue]) -> str:
    """Revision of a set of rows: a hash of ids, texts and labels."""
    if isinstance(rows, RowStore):
        return rows.facts.hash
    digest = hashlib.sha256()
    for row in rows:
        digest.update(to_line(row).encode())
    return digest.hexdigest()[:12]


def languages_of(rows: Sequence[LabelledDialogue]) -> list[str]:
    """The rows' languages, ``unknown`` among them, sorted."""
    if isinstance(rows, RowStore):
        return list(rows.facts.languages)
    return sorted({row.dialogue.lang or "unknown" for row in rows})


def label_scales(rows: Sequence[LabelledDialogue]) -> dict[str, Scale | None]:
    """Each label of the rows, and its scale as the first row with it states it."""
    if isinstance(rows, RowStore):
        return rows.facts.scales
    scales: dict[str, Scale | None] = {}
    for row in rows:
        for name in row.labels:
            scales.setdefault(name, row.scales.get(name))
    return scales


def label_means(rows: Sequence[LabelledDialogue], name: str) -> np.ndarray:
    """Mean label of each row [n]; NaN where it has none."""
    if isinstance(rows, RowStore):
        return rows.label(name)
    return np.array([_mean_label(row, name) for row in rows], dtype=float)
