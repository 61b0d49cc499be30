"""Chats as Ray Data reads them: a task a file, by the reader of all other commands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow
from ray.data import DataContext, Dataset, Datasource, ReadTask, read_datasource
from ray.data.block import BlockMetadata

from medal_judges.errors import ConfigError, DataError
from medal_judges.reading.containers import open_container
from medal_judges.reading.dialogues import dialogues_of
from medal_judges.reading.options import ReadOptions
from medal_judges.reading.report import ReadingReport
from medal_judges.storage.jsonl import to_line
from medal_judges.storage.judgement_parts import PROBLEM, ROW

CHAT = "chat"  # the column of a dialogue, as one process sends it to another; null for a bad row
FILE_ROWS = 1 << 40  # a row's number is that of its file times this, and its place there
_BLOCK = 1 << 20  # bytes: what one task judges, and what it judges again where its process dies
_READERS = 8  # files that are read at a time
_ROWS = 256  # that are handed on together
_Row = tuple[str | None, str | None]  # a dialogue in JSON, or what is wrong with a bad row


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file as it stood when the run began: bytes, and when it was written (ns since 1970)."""

    path: str
    bytes: int
    modified: int

    @classmethod
    def of(cls, path: str | Path) -> InputFile:
        """``path`` as it stands. Raises DataError where it is gone."""
        try:
            found = Path(path).stat()
        except OSError as error:
            raise DataError(path, None, f"cannot be read: {error.strerror}") from error
        return cls(str(path), found.st_size, found.st_mtime_ns)

    def require_unchanged(self) -> None:
        """Raise DataError where the file is another by now: rows that are read again, because a
        machine was lost, would not be those of the first time."""
        if InputFile.of(self.path) != self:
            hint = "let nothing write to it, and start again with --overwrite or another --out"
            raise DataError(self.path, None, "was changed while it was judged", hint=hint)


def input_files(source: str, chats: ReadOptions) -> list[InputFile]:
    """The file ``source``, or all files under the folder of that name, by name; those that begin
    with . or _ are passed over, as by Spark and Ray.

    Raises DataError for a file of no known kind, ConfigError for a folder without any.
    """
    root = Path(source)
    found = [root] if not root.is_dir() else sorted(_chat_files(root))
    if not found:
        raise ConfigError(f"{source}: there is no file in this folder", hint="give files of chats")
    for path in found:
        open_container(str(path), chats.container).rows.close()  # type: ignore[attr-defined]
    return [InputFile.of(path.absolute()) for path in found]


def _chat_files(root: Path) -> Iterator[Path]:
    for path in root.rglob("*"):
        hidden = any(part.startswith((".", "_")) for part in path.relative_to(root).parts)
        if not hidden and path.is_file():
            yield path


def chat_rows(files: Sequence[InputFile], chats: ReadOptions) -> Dataset:
    """A row for each chat of ``files``, and for each bad row: its number (by file and place, run
    after run the same) and its record or its problem."""
    DataContext.get_current().target_max_block_size = _BLOCK
    return read_datasource(
        _ChatFiles(files, chats),
        override_num_blocks=len(files),
        ray_remote_args={"num_cpus": 0},  # judges may hold all cores
        concurrency=_READERS,
    )


class _ChatFiles(Datasource):  # type: ignore[misc]
    """A file is read as a whole by one task: rows that belong together, ids that are numbered, and
    the form of rows that do not state it, are those of a run by one process."""

    def __init__(self, files: Sequence[InputFile], chats: ReadOptions) -> None:
        super().__init__()
        self._files, self._chats = files, chats

    def estimate_inmemory_data_size(self) -> int:
        return sum(file.bytes for file in self._files)

    def get_read_tasks(self, *args: object, **options: object) -> list[ReadTask]:
        return [self._task(number, file) for number, file in enumerate(self._files)]

    def _task(self, number: int, file: InputFile) -> ReadTask:
        chats = self._chats
        about = BlockMetadata(
            num_rows=None, size_bytes=file.bytes, input_files=[file.path], exec_stats=None
        )
        return ReadTask(lambda: _blocks(number, file, chats), about)


@dataclass(slots=True)
class _BadRows(ReadingReport):
    """Keeps the bad rows since the last look."""

    found: list[DataError] = field(default_factory=list)

    def add(self, error: DataError) -> None:
        self.found.append(error)


def _blocks(number: int, file: InputFile, chats: ReadOptions) -> Iterator[pyarrow.Table]:
    rows: list[_Row] = []
    first = number * FILE_ROWS
    for row in _rows(file, chats):
        rows.append(row)
        if len(rows) == _ROWS:
            yield _table(first, rows)
            first, rows = first + len(rows), []
    file.require_unchanged()
    if rows:
        yield _table(first, rows)


def _rows(file: InputFile, chats: ReadOptions) -> Iterator[_Row]:
    """The dialogues and bad rows of ``file``, in order."""
    file.require_unchanged()
    report = _BadRows(keep=0, strict=chats.strict)
    for dialogue in dialogues_of(file.path, chats, report):
        yield from _problems(report)
        yield json.dumps(dialogue.to_record()), None
    yield from _problems(report)


def _problems(report: _BadRows) -> Iterator[_Row]:
    for error in report.found:
        yield None, to_line({"file": error.path, "line": error.line, "problem": error.problem})
    report.found.clear()


def _table(first: int, rows: Sequence[_Row]) -> pyarrow.Table:
    dialogues, problems = zip(*rows, strict=True)
    numbers = range(first, first + len(rows))
    return pyarrow.table(
        {
            ROW: pyarrow.array(numbers, pyarrow.int64()),
            CHAT: pyarrow.array(dialogues, pyarrow.string()),
            PROBLEM: pyarrow.array(problems, pyarrow.string()),
        }
    )
