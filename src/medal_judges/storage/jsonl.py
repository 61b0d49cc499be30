"""JSON Lines, plain or gzip by the file's ending: files of records, and the journal of a run."""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Literal, TypeVar

from medal_judges.errors import DataError, RecordError
from medal_judges.records.validation import require_valid_text
from medal_judges.storage.files import atomic_path
from medal_judges.storage.runs import require_same_run

T = TypeVar("T")
Line = Any  # a dict, or an object with ``to_record``
STDIN = "-"  # standard input
_HINT = "fix the line, or leave it out"
_RESTORE = "restore the file, or start again from the beginning with --overwrite"
LONGEST_LINE = 1 << 26  # characters; no real dialogue is as long
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def open_text(path: str | Path, mode: Literal["r", "w", "a"] = "r") -> IO[str]:
    """Opens the UTF-8 text of ``path`` in ``mode``, gzip if the name ends in .gz.

    Reading drops a byte-order mark, and turns bytes that are not UTF-8 into surrogates, so that an
    error can name their line. Raises DataError if there is no such file or it cannot be opened.
    """
    how = {"encoding": "utf-8", "newline": "\n"}
    if mode == "r":
        how = {"encoding": "utf-8-sig", "errors": "surrogateescape"}
        if not Path(path).is_file():
            raise DataError(path, None, "no such file")
    opener: Callable[..., Any] = gzip.open if Path(path).suffix == ".gz" else open
    try:
        stream: IO[str] = opener(path, mode + "t", **how)
    except OSError as error:
        raise DataError(path, None, f"cannot be opened: {error.strerror}") from error
    return stream


def standard_input() -> IO[bytes]:
    """Returns the bytes of standard input. Does not use sys.stdin.buffer: if a thread waits for it,
    the interpreter aborts when it exits."""
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except (AttributeError, OSError):  # in memory, as in a test or a notebook
        return sys.stdin.buffer


def read_records(path: str | Path, parse: Callable[[object], T]) -> Iterator[T]:
    """Yields ``parse(line)`` for each line of ``path`` that is not blank.

    Raises DataError with file and line number for a bad line and for damaged compressed data.
    """
    number = 0
    with open_text(path) as stream:
        try:
            for number, line in enumerate(limited_lines(stream), 1):
                if line.strip():
                    yield parse_line(path, number, line, parse)
        except (EOFError, zlib.error, OSError) as error:  # BadGzipFile is an OSError
            raise damage_error(path, number, error) from error


def limited_lines(stream: IO[str]) -> Iterator[str]:
    """Yields the lines of ``stream``. Of a line above ``LONGEST_LINE`` characters it yields only
    the first ``LONGEST_LINE + 1``, because a small compressed file could fill the memory."""
    while line := stream.readline(LONGEST_LINE + 1):
        yield line
        while len(line) > LONGEST_LINE and not line.endswith("\n"):
            line = stream.readline(LONGEST_LINE + 1)


def damage_error(path: str | Path, number: int, error: Exception) -> DataError:
    """Returns the error for a file that cannot be read any further after ``number`` lines."""
    hint = "the file is damaged from here on; download or create it again"
    return DataError(path, number + 1, f"cannot read on: {error}", hint=hint)


def parse_line(
    path: str | Path,
    number: int,
    line: str,
    parse: Callable[[object], T],
    *,
    hint: str = _HINT,
) -> T:
    """Returns ``parse`` of the JSON value of ``line``. Raises DataError that names the file
    ``path`` and the line ``number``, with ``hint``."""
    if len(line) > LONGEST_LINE and not line.endswith("\n"):
        raise DataError(
            path, number, f"a line of more than {LONGEST_LINE:,} characters", hint=hint
        )
    try:
        return parse(load_json(line))
    except RecordError as error:
        raise DataError(path, number, error.message, hint=hint) from error
    except RecursionError as error:
        raise DataError(path, number, "nested too deep", hint=hint) from error


def load_json(line: str, *, nan_is_null: bool = False) -> object:
    """Returns the JSON value of the text ``line``; NaN and infinity are null if ``nan_is_null``.

    Raises RecordError for text that is not strict JSON, and for a key that an object has twice:
    json would drop its first value.
    """

    def refuse(name: str) -> None:
        if not nan_is_null:
            raise RecordError("(line)", "numbers that JSON has, or null", name)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            raise RecordError("(line)", "each key of an object once", pairs)
        return made

    try:
        line.encode("utf-8")
        value: object = json.loads(line, parse_constant=refuse, object_pairs_hook=once)
    except UnicodeEncodeError as error:
        expected = f"UTF-8 (it is not at character {error.start + 1})"
        raise RecordError("(line)", expected, line) from error
    except ValueError as error:  # also an integer of thousands of digits
        raise RecordError("(line)", f"valid JSON ({error})", line.strip()) from error
    if _SURROGATE.search(line):
        require_valid_text(value)
    return value


def write_records(path: str | Path, records: Iterable[Line]) -> int:
    """Writes one JSON line for each of ``records`` to ``path`` and returns their number. The file
    appears whole or not at all. Parent folders are created. Raises RecordError as ``to_line``
    does."""
    count = 0
    with atomic_path(path) as partial, open_text(partial, "w") as stream:
        for record in records:
            stream.write(to_line(record))
            count += 1
    return count


def to_line(record: Line) -> str:
    """Returns the JSON line of ``record``, a dict, or an object with ``to_record``.

    Raises RecordError for NaN and infinity (not JSON) and for half a surrogate pair (not UTF-8).
    """
    data = record if isinstance(record, Mapping) else record.to_record()
    try:
        line = json.dumps(data, ensure_ascii=False, allow_nan=False) + "\n"
        line.encode("utf-8")
    except ValueError as error:
        expected = "finite numbers, and text that UTF-8 can encode"
        raise RecordError(f"(record {data.get('id')!r})", expected, error) from error
    return line


class Journal:
    """The append-only JSONL file ``path``, from which long runs resume.

    Its first line states the ``run`` (see ``require_same_run``). Each line is written as soon as
    its record is known, so kill -9 loses at most the line that is being written: without its line
    break it is ignored when the file is read, and cut off by the next ``append``. One process
    appends at a time: a run locks its output.
    """

    def __init__(self, path: Path, run: Mapping[str, Any] | None = None) -> None:
        self.path = path
        self.run = run

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yields (offset, line) of every complete line. Ignores a half-written last line."""
        if not self.path.exists():
            return
        start = 0
        with self.path.open("rb") as stream:
            for line in stream:
                if not line.endswith(b"\n"):
                    return
                yield start, line
                start += len(line)

    def parse_lines(self, parse: Callable[[object], T]) -> Iterator[tuple[bytes, T]]:
        """Yields (line, ``parse(line)``) of every complete line that is not blank. Raises DataError
        with file and line number for a bad line."""
        for number, (_, line) in enumerate(self.lines(), 1):
            text = line.decode("utf-8", "surrogateescape")
            if text.strip():
                yield line, parse_line(self.path, number, text, parse, hint=_RESTORE)

    def records(self, parse: Callable[[object], T]) -> Iterator[T]:
        """Yields ``parse(line)`` for every line, as ``parse_lines`` does, without its number."""
        for _, record in self.parse_lines(parse):
            yield record

    def require_run(self) -> None:
        """Raises MedalError if the file is of another run."""
        for _, line in self.lines():
            text = line.decode("utf-8", "replace")
            saved: Any = parse_line(self.path, 1, text, lambda record: record)
            require_same_run(self.path, saved.get("run", {}), self.run or {})
            return

    def append(self, records: Iterable[Line], *, sync: bool = True) -> None:
        """Writes one line for each record (a dict, or an object with ``to_record``).

        With ``sync`` it returns when they are on the disk, else when the system has them: then only
        a power cut can lose them. If the write fails (OSError: the disk is full), the file is
        unchanged.
        """
        lines = list(map(to_line, records))
        if not lines:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b", buffering=0) as stream:
            end = _cut_half_line(stream, stream.seek(0, os.SEEK_END))
            if self.run is not None and not end:
                lines[0] = to_line({**json.loads(lines[0]), "run": self.run})
            left = memoryview("".join(lines).encode())
            try:
                # a disk that is nearly full writes a part first, then fails
                while left:
                    left = left[stream.write(left) or 0 :]
                if sync:
                    os.fsync(stream.fileno())
            except OSError as error:
                with suppress(OSError):
                    stream.truncate(end)
                error.filename = str(self.path)
                raise

    def sync(self) -> None:
        """Waits until everything that was appended is on the disk."""
        if self.path.exists():
            # Windows cannot sync a read-only file
            with self.path.open("r+b") as stream:
                os.fsync(stream.fileno())


def _cut_half_line(stream: IO[bytes], size: int) -> int:
    """Cuts off what follows the last line break of a file of ``size`` bytes. Returns its size."""
    stream.seek(max(0, size - 1))
    if stream.read(1) not in (b"", b"\n"):
        stream.seek(0)
        size = stream.read().rfind(b"\n") + 1
        stream.truncate(size)
    return size
