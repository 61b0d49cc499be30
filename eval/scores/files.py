"""Reading of files of judgements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medal_judges.errors import ConfigError, MedalError
from medal_judges.records.dimension import Dimension, merge_dimensions
from medal_judges.records.judgement import Judgement
from medal_judges.storage.judgements import (
    holds_judgements,
    read_frame,
    read_judgements,
    to_frame,
)

if TYPE_CHECKING:
    from pandas import DataFrame

_ENDING = re.compile(r"(\.jsonl|\.parquet|\.csv)?(\.gz)?\Z")


def count_skipped_lines(scores: Path) -> int:
    """Returns how many input lines ``medal score`` could not read.

    Args:
        scores: The file of scores that ``medal score`` wrote. The unread lines are in a file beside
            it, such as scores.skipped.jsonl.
    """
    path = scores.with_name(f"{_ENDING.sub('', scores.name)}.skipped.jsonl")
    if not path.is_file():
        return 0
    return len(path.read_bytes().splitlines())


def read_all_judgements(files: Sequence[Path]) -> Iterator[Judgement]:
    """Yields the judgements of all ``files``, file by file.

    Raises:
        DataError: A file is missing, or a line of it is not a judgement.
        MedalError: Two files judge the same dialogue or turn, or define a dimension differently.
    """
    file_of: dict[int, Path] = {}
    parts: list[tuple[str, Sequence[Dimension]]] = []
    for path in files:
        for judgement in read_judgements(path):
            part = (str(path), judgement.dimensions)
            if not parts or parts[-1] != part:
                parts.append(part)
                merge_dimensions(parts)
            key = hash((judgement.id, judgement.turn))
            if len(files) > 1 and file_of.setdefault(key, path) != path:
                raise MedalError(
                    f"{judgement.id!r} is in {file_of[key]} and in {path}",
                    hint="Give one file at a time, or give the chats ids that differ",
                )
            yield judgement


def read_score_frame(files: Sequence[Path]) -> DataFrame:
    """Reads the judgements of all ``files`` into one table, with a row for each judgement.
    Explanations are left out.

    Raises:
        ConfigError: The first line of a file has no scores.
        DataError: A file is missing, or a line of it is not a judgement.
        MedalError: Two files judge the same dialogue or turn, or define a dimension differently.
    """
    for path in files:
        if path.is_file() and path.stat().st_size and not holds_judgements(path):
            raise ConfigError(
                f"{path}: its first line has no scores",
                hint=f"If it holds chats, score them. Type: medal score {path} --out scores.jsonl",
            )
    if len(files) == 1:
        return read_frame(files[0])
    return to_frame(read_all_judgements(files))
