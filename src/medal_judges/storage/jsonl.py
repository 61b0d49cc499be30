"""JSON Lines, plain or gzip by the file's ending: files of records, and the journal of a run."""

from __future__ import annotations

import gzip
import io
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
_HINT = "Correct the line, or delete it"
_RESTORE = "Restore the file, or start again from the beginning with --overwrite"
# Text that is unpacked: bytes that are always read, and how often its size it may have.
ALWAYS_READ, RATIO = 1 << 22, 100
LONGEST_LINE = 1 << 26  # characters; no real dialogue is as long
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def open_text(path: str | Path, mode: Literal["r", "w", "a"] = "r") -> IO[str]:
    """Opens the file ``path`` as UTF-8 text, and as gzip if its name ends in ``.gz``.

    Bytes that are not UTF-8 are read as surrogates (invalid characters). So an error can name their
    line.

    Args:
        mode: ``r`` reads, ``w`` writes a new file, ``a`` appends.

    Raises:
        DataError: The file does not exist or cannot be opened.
    """
    how: dict[str, Any] = {"encoding": "utf-8", "newline": "\n"}
    if mode == "r":
        how = {"encoding": "utf-8-sig", "errors": "surrogateescape"}
        if not Path(path).is_file():
            raise DataError(path, None, "no such file. Check the path")
    opener: Any = Gzip if Path(path).suffix == ".gz" else open
    try:
        return io.TextIOWrapper(opener(path, mode + "b"), **how)
    except OSError as error:
        raise DataError(
            path, None, f"check the file, it cannot be opened: {error.strerror}"
        ) from error


class Gzip(gzip.GzipFile):
    """A gzip file that guards against decompression bombs.

    The first 4 MB can always be read. After that, reading raises OSError once the unpacked text is
    more than 100 times as long as the packed bytes read so far.
    """

    fileobj: Any

    def read1(self, size: int = -1) -> bytes:
        """Returns the next unpacked bytes.

        Args:
            size: The most bytes to return. -1 returns as many as are ready.

        Raises:
            OSError: The file unpacks to more than 100 times its size.
        """
        if self.tell() > max(ALWAYS_READ, RATIO * self.fileobj.tell()):
            raise OSError(f"it unpacks to {RATIO} times its size. Gunzip it first")
        return super().read1(size)


def open_standard_input() -> IO[bytes]:
    """Returns standard input as a binary stream."""
    # While a thread waits for sys.stdin.buffer, the interpreter aborts when it exits.
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except (AttributeError, OSError):  # in memory, as in a test or a notebook
        return sys.stdin.buffer


def read_records(path: str | Path, parse: Callable[[object], T]) -> Iterator[T]:
    """Yields ``parse(value)`` for the JSON value of each line in the file ``path``. Blank lines are
    skipped.

    Args:
        parse: Converts a JSON value. It raises RecordError for a bad one.

    Raises:
        DataError: A line is bad, or the file is missing or damaged. The error names the line.
    """
    number = 0
    with open_text(path) as stream:
        try:
            for number, line in enumerate(cut_long_lines(stream), 1):
                if line.strip():
                    yield parse_line(path, number, line, parse)
        except (EOFError, zlib.error, OSError) as error:  # BadGzipFile is an OSError
            raise damage_error(path, number, error) from error


def cut_long_lines(stream: IO[str]) -> Iterator[str]:
    """Yields the lines of ``stream``. A line of more than 67,108,865 characters is cut to that
    length, so that no line fills the memory."""
    while line := stream.readline(LONGEST_LINE + 1):
        yield line
        while len(line) > LONGEST_LINE and not line.endswith("\n"):
            line = stream.readline(LONGEST_LINE + 1)


def damage_error(path: str | Path, number: int, error: Exception) -> DataError:
    """Returns the DataError for a file that is damaged after some lines.

    Args:
        path: The file.
        number: Number of lines or rows that could be read.
        error: The exception at the next one.
    """
    hint = "The file is damaged from here on. Download or create it again"
    return DataError(
        path, number + 1, f"cannot be read any further: {error}", hint=hint
    )


def parse_line(
    path: str | Path,
    number: int,
    line: str,
    parse: Callable[[object], T],
    *,
    hint: str = _HINT,
) -> T:
    """Returns ``parse(value)`` for the JSON value of one line of a file.

    Args:
        path: The file, which an error names.
        number: Number of the line from 1, which an error names.
        line: Text of the line.
        parse: Converts the JSON value. It raises RecordError for a bad one.
        hint: Last sentence of an error: what the user can do.

    Raises:
        DataError: The line is too long, is not valid JSON, or is refused by ``parse``.
    """
    if len(line) > LONGEST_LINE and not line.endswith("\n"):
        raise DataError(
            path, number, f"a line of more than {LONGEST_LINE:,} characters", hint=hint
        )
    try:
        return parse(parse_json(line))
    except RecordError as error:
        raise DataError(path, number, error.message, hint=hint) from error
    except RecursionError as error:
        raise DataError(
            path, number, "values are nested too deep", hint=hint
        ) from error


def parse_json(line: str, *, nan_is_null: bool = False) -> object:
    """Returns the value of the JSON text ``line``.

    Args:
        nan_is_null: Whether NaN and infinity become None instead of an error.

    Raises:
        RecordError: The text is not valid JSON, or an object has a key twice.
    """

    def refuse(name: str) -> None:
        if not nan_is_null:
            raise RecordError("(line)", "a finite number, or null", name)

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
    """Writes one JSON line for each of ``records`` to the file ``path``, and returns the number of
    lines.

    The file appears complete or not at all.

    Args:
        records: Dicts, or objects whose method ``to_record`` returns a dict.

    Raises:
        RecordError: A record holds NaN, infinity or text that UTF-8 cannot encode.
    """
    count = 0
    with atomic_path(path) as partial, open_text(partial, "w") as stream:
        for record in records:
            stream.write(json_line(record))
            count += 1
    return count


def json_line(record: Line) -> str:
    """Returns ``record`` as a line of JSON, with its line break.

    Args:
        record: A dict, or an object whose method ``to_record`` returns a dict.

    Raises:
        RecordError: ``record`` holds NaN, infinity or text that UTF-8 cannot encode.
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
    """An append-only JSONL file, from which an interrupted run resumes.

    Only one process may append at a time. Readers ignore a half-written last line.

    Attributes:
        path: The file.
        run: The settings and hashes of inputs that decide the results: ``{"seed": 0, "input":
            "3f2a..."}``. They are saved in the first line, and ``require_same_run`` raises
            MedalError if the file has others. None saves none.
    """

    def __init__(self, path: Path, run: Mapping[str, Any] | None = None) -> None:
        self.path = path
        self.run = run

    def offsets_and_lines(self) -> Iterator[tuple[int, bytes]]:
        """Yields a pair for each complete line: the byte at which it begins in the file, and its
        bytes. Ignores a half-written last line."""
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
        """Yields a pair for each complete line that is not blank: the bytes of the line, and
        ``parse(value)`` for its JSON value.

        Args:
            parse: Converts a JSON value. It raises RecordError for a bad one.

        Raises:
            DataError: A line is not valid JSON or is refused by ``parse``.
        """
        for number, (_, line) in enumerate(self.offsets_and_lines(), 1):
            text = line.decode("utf-8", "surrogateescape")
            if text.strip():
                yield line, parse_line(self.path, number, text, parse, hint=_RESTORE)

    def read_records(self, parse: Callable[[object], T]) -> Iterator[T]:
        """Yields ``parse(value)`` for the JSON value of each complete line that is not blank.

        Args:
            parse: Converts a JSON value. It raises RecordError for a bad one.

        Raises:
            DataError: A line is not valid JSON or is refused by ``parse``.
        """
        for _, record in self.parse_lines(parse):
            yield record

    def require_same_run(self) -> None:
        """Checks that the file was written with the settings and inputs in ``run``. A file that
        does not exist passes.

        Raises:
            MedalError: The settings or inputs differ.
        """
        for _, line in self.offsets_and_lines():
            text = line.decode("utf-8", "replace")
            saved: Any = parse_line(self.path, 1, text, lambda record: record)
            require_same_run(self.path, saved.get("run", {}), self.run or {})
            return

    def append(self, records: Iterable[Line], *, sync: bool = True) -> None:
        """Appends one JSON line for each of ``records``. If that fails, the file stays unchanged.

        A half-written last line is removed first. The settings in ``run`` are added to the first
        line of the file.

        Args:
            records: Dicts, or objects whose method ``to_record`` returns a dict.
            sync: Whether to wait until the lines are on the disk. Without it, a power cut can lose
                them.

        Raises:
            OSError: The lines cannot be written, for example to a full disk.
        """
        lines = list(map(json_line, records))
        if not lines:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b", buffering=0) as stream:
            end = _cut_half_line(stream, stream.seek(0, os.SEEK_END))
            if self.run is not None and not end:
                lines[0] = json_line({**json.loads(lines[0]), "run": self.run})
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
        """Waits until all appended lines are on the disk."""
        if self.path.exists():
            # Windows cannot sync a read-only file
            with self.path.open("r+b") as stream:
                os.fsync(stream.fileno())


def _cut_half_line(stream: IO[bytes], size: int) -> int:
    """Removes a half-written last line from ``stream``, a file of ``size`` bytes, and returns the
    new size."""
    stream.seek(max(0, size - 1))
    if stream.read(1) not in (b"", b"\n"):
        stream.seek(0)
        size = stream.read().rfind(b"\n") + 1
        stream.truncate(size)
    return size
