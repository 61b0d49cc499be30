"""JSON Lines, plain or gzip by ending, streaming in both directions."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

from medal_judges.errors import DataError, RecordError
from medal_judges.records.validation import VALID_TEXT, require_valid_text
from medal_judges.storage.files import atomic_path

T = TypeVar("T")


Line = Any  # a dict, or an object with ``to_record``
STDIN = "-"
_HINT = "fix the line, or leave it out"
LONGEST_LINE = 1 << 26  # characters; no real dialogue is as long
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def open_text(path: str | Path, mode: str = "r") -> IO[str]:
    """Opens UTF-8 text, gzip if the name ends in .gz; ``-`` is standard input.

    Mode is ``r``, ``w`` or ``a``. CRLF is read as LF, a byte-order mark is dropped. Bytes that are
    not UTF-8 become surrogates, so that an error can name their line.
    Raises DataError if there is no such file or it may not be opened.
    """
    if str(path) == STDIN and mode == "r":
        return io.TextIOWrapper(standard_input(), "utf-8-sig", errors="surrogateescape")
    target = Path(path)
    if mode == "r" and not target.is_file():
        raise DataError(path, None, "no such file")
    how: dict[str, Any] = {"encoding": "utf-8", "newline": "\n"}
    if mode == "r":
        how = {"encoding": "utf-8-sig", "errors": "surrogateescape"}
    opener: Callable[..., Any] = gzip.open if target.suffix == ".gz" else open
    try:
        stream: IO[str] = opener(target, mode + "t", **how)
    except OSError as error:
        raise DataError(path, None, f"cannot be opened: {error.strerror}") from error
    return stream


def standard_input() -> IO[bytes]:
    """Returns the bytes of standard input. Not sys.stdin.buffer: a thread that waits for it makes
    the interpreter abort at its end."""
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except (AttributeError, OSError):  # in memory, as in a test or a notebook
        return sys.stdin.buffer


def read_records(path: str | Path, parse: Callable[[object], T]) -> Iterator[T]:
    """Yields ``parse(line)`` for each line that is not blank.

    Raises DataError with file and line number for a bad line, a file that breaks off, and damaged
    compressed data.
    """
    number = 0
    with open_text(path) as stream:
        try:
            for number, line in enumerate(limited_lines(stream), 1):
                if line.strip():
                    yield parse_line(path, number, line, parse)
        except (EOFError, zlib.error, OSError) as error:  # BadGzipFile is an OSError
            raise damaged(path, number, error) from error


def limited_lines(stream: IO[str]) -> Iterator[str]:
    """Yields lines, and only the first ``LONGEST_LINE + 1`` characters of one that is too long: a
    small compressed file could fill the memory."""
    while line := stream.readline(LONGEST_LINE + 1):
        yield line
        while len(line) > LONGEST_LINE and not line.endswith("\n"):
            line = stream.readline(LONGEST_LINE + 1)


def damaged(path: str | Path, number: int, error: Exception) -> DataError:
    """Returns the error for a file that cannot be read on after ``number`` lines."""
    problem = str(error)
    if isinstance(error, EOFError):
        problem = "the compressed file is cut short"
    elif isinstance(error, gzip.BadGzipFile) and "Not a gzipped file" in problem:
        problem = "other bytes follow the end of its gzip data" if number else "it is no gzip file"
    hint = "the file is damaged from here on; get or make it again"
    return DataError(path, number + 1, f"cannot read on: {problem}", hint=hint)


def parse_line(
    path: str | Path, number: int, line: str, parse: Callable[[object], T], *, hint: str = _HINT
) -> T:
    """Returns ``parse`` of the line's JSON value. Raises DataError that names file and line."""
    if len(line) > LONGEST_LINE and not line.endswith("\n"):
        raise DataError(path, number, f"a line of more than {LONGEST_LINE:,} characters", hint=hint)
    try:
        return parse(load_json(line))
    except RecordError as error:
        raise DataError(path, number, error.message, hint=hint) from error
    except RecursionError as error:
        raise DataError(path, number, "nested too deep", hint=hint) from error


def load_json(line: str) -> object:
    """Returns the JSON value of a line. Raises RecordError for anything that is not strict JSON."""
    try:
        line.encode("utf-8")
        value: object = json.loads(line, parse_constant=_refuse_constant)
    except UnicodeEncodeError as error:
        expected = f"UTF-8 (it is not at character {error.start + 1})"
        raise RecordError("(line)", expected, line) from error
    except json.JSONDecodeError as error:
        expected = f"valid JSON ({error.msg.removesuffix(' at')} at column {error.colno})"
        raise RecordError("(line)", expected, line.strip()) from error
    except ValueError as error:  # an integer of thousands of digits
        raise RecordError("(line)", "numbers below 1e308", line.strip()) from error
    if _SURROGATE.search(line):
        require_valid_text(value)
    return value


def _refuse_constant(name: str) -> None:
    raise RecordError("(line)", "numbers that JSON has, or null", name)


def write_records(path: str | Path, records: Iterable[Line]) -> int:
    """Writes one JSON line for each record, whole or not at all; returns how many. Parent folders
    are made. Raises RecordError as ``to_line`` does."""
    count = 0
    with atomic_path(path) as partial, open_text(partial, "w") as stream:
        for record in records:
            stream.write(to_line(record))
            count += 1
    return count


def to_line(record: Line) -> str:
    """Returns the JSON line of a dict, or of anything with ``to_record``.

    Raises RecordError for NaN and infinity (not JSON) and for half a surrogate pair (not UTF-8).
    """
    data = record if isinstance(record, Mapping) else record.to_record()
    try:
        line = json.dumps(data, ensure_ascii=False, allow_nan=False) + "\n"
        line.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RecordError(f"(record {data.get('id')!r})", VALID_TEXT, error.object) from error
    except ValueError as error:
        raise RecordError(f"(record {data.get('id')!r})", "finite numbers", str(error)) from error
    return line
