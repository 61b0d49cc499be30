"""Rows of chats as Ray Data reads them: each with a number that is its own, run after run."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow
from ray.data import DataContext, Dataset, read_datasource, read_parquet
from ray.data.datasource import FileBasedDatasource

from medal_judges.errors import ConfigError

ROW = "row_hash"  # the column of a row's number: of its file and its place there
LINE = "line"  # the column of a line of JSON
_PARQUET = (".parquet", ".pq")
_LINES = tuple(
    f".{name}{packed}" for name in ("jsonl", "json", "ndjson") for packed in ("", ".gz", ".zst")
)
_BLOCK = 1 << 20  # bytes: what one task judges, and what it judges again where its process dies


class _JsonLines(FileBasedDatasource):  # type: ignore[misc]
    """Lines as they are: a schema guessed from the first of them would not fit the others."""

    def _read_stream(self, f: pyarrow.NativeFile, path: str) -> Iterator[pyarrow.Table]:
        numbers: list[int] = []
        lines: list[str] = []
        size = 0
        for number, line in enumerate(io.BufferedReader(f, _BLOCK)):
            if not line.strip():
                continue
            numbers.append(_number(path, number))
            lines.append(line.decode("utf-8", "replace"))
            size += len(line)
            if size >= _BLOCK:
                yield pyarrow.table({ROW: pyarrow.array(numbers, pyarrow.uint64()), LINE: lines})
                numbers, lines, size = [], [], 0
        if lines:
            yield pyarrow.table({ROW: pyarrow.array(numbers, pyarrow.uint64()), LINE: lines})


def _number(path: str, line: int) -> int:
    return int.from_bytes(hashlib.blake2b(f"{path}:{line}".encode(), digest_size=8).digest(), "big")


def chat_rows(source: str) -> Dataset:
    """The rows of a parquet file, a JSONL file (plain or compressed) or a folder of such.

    Raises ConfigError for a file of another kind, and a folder of both kinds or of neither.
    """
    DataContext.get_current().target_max_block_size = _BLOCK
    path = Path(source)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    columns = [str(file) for file in files if file.name.endswith(_PARQUET)]
    lines = [str(file) for file in files if file.name.endswith(_LINES)]
    if bool(columns) == bool(lines):
        found = "holds both kinds" if columns else "is or holds neither"
        raise ConfigError(
            f"{source}: --ray reads parquet or JSON lines, and this {found}",
            hint=f"give files that end with {', '.join(_PARQUET + _LINES)}, of one kind",
        )
    if columns:
        return read_parquet(columns, include_row_hash=True)
    return read_datasource(_JsonLines(lines))
