"""Parquet and CSV of judgements from the journal beside them.

A table is written whole, when a run ends; until then its judgements are JSON lines in
``scores.csv.jsonl`` for ``scores.csv``, which a killed run resumes from. A parquet file holds all
of them, so that its journal goes; a CSV does not, and keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from medal_judges.errors import DataError, MedalError
from medal_judges.records.judgement import Judgement, parse_judgement
from medal_judges.storage.journal import Journal
from medal_judges.storage.judgements import PARQUET, is_table, read_judgements, write_judgements


@contextmanager
def journal_behind(out: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """The file of JSON lines that a run appends to: ``out`` itself, of a table the one beside it,
    from which the table is made where the run ends without an error.

    Raises MedalError where ``out`` is there and cannot be resumed: it is no table of judgements, or
    a CSV that lost something and whose journal is gone.
    """
    if not is_table(out):
        yield out
        return
    journal = out.with_name(f"{out.name}.jsonl")
    restored = _restored(out, journal, overwrite)
    try:
        yield journal
    except MedalError:
        if restored is not None and journal.exists() and journal.stat().st_size == restored:
            journal.unlink()  # refused, or stopped before it did anything: all of it is in OUT
        raise
    write_judgements(out, _Lines(journal))
    if out.suffix == PARQUET:
        journal.unlink()


class _Lines:
    """The judgements of a journal, as often as they are asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[Judgement]:
        return Journal(self._path).records(parse_judgement)


def _restored(out: Path, journal: Path, overwrite: bool) -> int | None:
    """Write the journal again from a finished table; its size, None where it was there or there is
    no table."""
    if not out.exists() or out.stat().st_size == 0:
        return None
    try:
        if overwrite:
            next(read_judgements(out), None)  # nothing but judgements is replaced
            return None
        if journal.exists():
            return None
        Journal(journal).append(read_judgements(out))
    except DataError as error:
        lossy = "CSV does not" in error.problem
        back = f"put {journal.name} back beside it, " if lossy else ""
        raise MedalError(
            f"{out} is there and cannot be resumed; it was left as it was:\n    {error.problem}",
            hint=f"{back}give another --out, or --overwrite to start again",
        ) from error
    return journal.stat().st_size if journal.exists() else None
