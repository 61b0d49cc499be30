"""Rows of large files: parsed once, then memory-mapped, so that a run holds none of them.

A store is a folder of the cache, keyed by the file's content and the entry's settings: rows.arrow
(one JSON line a row, read through ``datasets``), the mean label of each row by dimension as arrays
on disk, and facts.json. Whoever comes first builds it under a lock; other processes and later runs
map what is there.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
from filelock import FileLock

from medal_judges import __version__
from medal_judges.data_prep.sources.cache import sha256
from medal_judges.files import cache_folder
from medal_judges.jsonl import to_line
from medal_judges.labelled import LabelledDialogue, parse_labelled
from medal_judges.rating import Scale, mean
from medal_judges.signature import content_hash

LARGE = 20_000_000  # bytes (of gzip: 5 million) from which a file is not read into memory
_GZIP = 4


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """What is known of all rows without reading them: a hash of them, their languages, and the
    scale of each label as the first row with it states it."""

    hash: str
    languages: tuple[str, ...]
    scales: dict[str, Scale | None]


class RowStore(Sequence[LabelledDialogue]):
    """Labelled rows in a folder made by ``open_store``; each is parsed when it is asked for."""

    def __init__(self, folder: Path) -> None:
        from datasets import Dataset

        self.folder = folder
        self._lines = Dataset.from_file(str(folder / "rows.arrow")).data.column("line")
        record = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
        scales = {k: None if v is None else (v[0], v[1]) for k, v in record["scales"].items()}
        self.facts = StoreFacts(record["hash"], tuple(record["languages"]), scales)
        self._files = {name: f"label-{place}.npy" for place, name in enumerate(scales)}

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, row: int) -> LabelledDialogue: ...
    @overload
    def __getitem__(self, row: slice) -> list[LabelledDialogue]: ...
    def __getitem__(self, row: int | slice) -> LabelledDialogue | list[LabelledDialogue]:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        return parse_labelled(json.loads(self._lines[row].as_py()))

    def label(self, name: str) -> np.ndarray:
        """Mean label of each row [n]; NaN where it has none."""
        return np.asarray(np.load(self.folder / self._files[name], mmap_mode="r"))


def is_large(path: Path) -> bool:
    """Whether a file is better not read into memory."""
    return path.stat().st_size * (_GZIP if path.suffix == ".gz" else 1) >= LARGE


def open_store(rows: Iterable[LabelledDialogue], files: Sequence[Path], settings: Any) -> RowStore:
    """The store of ``rows``, which are read only where it is not there yet. Its key: the content of
    ``files``, and ``settings``, by which the rows were chosen."""
    key = content_hash([__version__, [sha256(path) for path in files], settings])
    folder = store_folder() / key
    folder.parent.mkdir(parents=True, exist_ok=True)
    with store_lock(folder):
        if not (folder / "facts.json").is_file():
            _build(rows, folder)
    return RowStore(folder)


def store_lock(path: Path) -> FileLock:
    """Held while ``path`` of the cache is made."""
    return FileLock(path.with_suffix(".lock"))


def store_folder() -> Path:
    """Where stores lie: beside the data, or where $MEDAL_JUDGES_CACHE says."""
    return cache_folder() / "training"


def _build(rows: Iterable[LabelledDialogue], folder: Path) -> None:
    """Write the store whole or not at all."""
    from datasets import Features, Value
    from datasets.arrow_writer import ArrowWriter

    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    digest, languages, scales = hashlib.sha256(), set(), {}
    labels: dict[str, array[float]] = {}
    schema = Features({"line": Value("large_string")})
    with ArrowWriter(
        path=str(partial / "rows.arrow"), features=schema, writer_batch_size=500
    ) as writer:
        for count, row in enumerate(rows):
            line = to_line(row)
            digest.update(line.encode())
            writer.write({"line": line})
            languages.add(row.dialogue.lang or "unknown")
            for name, scale in ((n, row.scales.get(n)) for n in row.labels):
                if name not in labels:
                    labels[name], scales[name] = array("d", [np.nan]) * count, scale
            for name, column in labels.items():
                rating = row.rating(name)
                value = None if rating is None else mean(rating)
                column.append(np.nan if value is None else value)
        writer.finalize()
    for place, column in enumerate(labels.values()):
        np.save(partial / f"label-{place}.npy", np.frombuffer(column, dtype=float))
    record = {"hash": digest.hexdigest()[:12], "languages": sorted(languages), "scales": scales}
    (partial / "facts.json").write_text(json.dumps(record), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    partial.replace(folder)


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


def label_names(rows: Sequence[LabelledDialogue]) -> set[str]:
    """Names of all labels of the rows."""
    if isinstance(rows, RowStore):
        return set(rows.facts.scales)
    return {name for row in rows for name in row.labels}


def label_means(rows: Sequence[LabelledDialogue], name: str) -> np.ndarray:
    """Mean label of each row [n]; NaN where it has none."""
    if isinstance(rows, RowStore):
        return rows.label(name)
    ratings = [row.rating(name) for row in rows]
    values = [None if rating is None else mean(rating) for rating in ratings]
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def label_scale(rows: Sequence[LabelledDialogue], name: str) -> Scale | None:
    """The scale that the first row with the label states."""
    if isinstance(rows, RowStore):
        return rows.facts.scales[name]
    return next((row.scales.get(name) for row in rows if name in row.labels), None)
