"""Folders of judgements in parquet parts, as ``medal score --ray`` writes them.

parts/*.parquet hold a row a chat, in no order: ``row`` (its number in the input), ``id``, its
scores, and ``judgements``, each as the JSON of its line; of a bad row only ``problem``.
manifest.json names the parts of a run that has ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from medal_judges.errors import DataError

MANIFEST, PARTS = "manifest.json", "parts"
ROW, ID, JUDGEMENTS, PROBLEM = "row", "id", "judgements", "problem"
_BATCH = 1024  # rows


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """What the manifest of ``folder`` says; None where there is none. Raises DataError."""
    path = folder / MANIFEST
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(path, None, f"cannot be read: {error}") from error
    if not isinstance(found, dict) or not {"input", "judge", "asked"} <= found.keys():
        raise DataError(path, None, "is no manifest of medal score --ray")
    return found


def finished_parts(folder: Path) -> list[Path]:
    """The parts of a run that has ended. Raises DataError of another folder."""
    manifest = read_manifest(folder)
    if manifest is None:
        hint = f"give a file of judgements, or a folder with the {MANIFEST} of medal score --ray"
        raise DataError(folder, None, "is a folder without judgements", hint=hint)
    if "parts" not in manifest:
        hint = "the medal score --ray that writes it has not ended: the same command resumes it"
        raise DataError(folder, None, "holds only a part of its judgements", hint=hint)
    return [folder / each["file"] for each in manifest["parts"]]


def part_lines(part: Path) -> Iterator[tuple[int, str]]:
    """(Row of the part from 1, JSON of a judgement) in the order of the part. Raises DataError
    where it cannot be read."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    number = 0
    try:
        with ParquetFile(part) as file:
            for batch in file.iter_batches(_BATCH, columns=[JUDGEMENTS]):
                for lines in batch.column(0).to_pylist():
                    number += 1
                    yield from ((number, line) for line in lines)
    except (ArrowException, OSError) as error:
        raise DataError(part, number or None, f"cannot be read as parquet: {error}") from error
