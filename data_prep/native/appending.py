"""A JSONL file that grows while a run goes on, and is gone on with after a kill."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from medal_judges.errors import MedalError
from medal_judges.jsonl import read_records, to_line

T = TypeVar("T")


def earlier(path: Path, parse: Callable[[object], T]) -> list[T]:
    """The records of whole lines of ``path``, none where there is no file. What a kill left of a
    last line is cut off. Raises DataError for a line that is no such record."""
    require_plain(path)
    if not path.exists():
        return []
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        os.truncate(path, data.rfind(b"\n") + 1)
    return list(read_records(path, parse))


def append(path: Path, records: Iterable[Any]) -> None:
    """Add ``records`` to ``path`` and wait for the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8", newline="\n") as stream:
        stream.writelines(to_line(record) for record in records)
        stream.flush()
        os.fsync(stream.fileno())


def require_plain(path: Path) -> None:
    """Raise MedalError for a compressed file: one cannot be cut back to whole lines."""
    if path.suffix == ".gz":
        raise MedalError(f"{path}: written line by line, so not as .gz", hint="name it .jsonl")
