"""JSON Lines, plain or gzip by ending, streaming in both directions."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

from medal_judges.dialogue import Dialogue, parse_dialogue
from medal_judges.errors import CoverageError, DataError, RecordError
from medal_judges.fields import VALID_TEXT, require_valid_text
from medal_judges.files import atomic_path
from medal_judges.labelled import LabelledDialogue, parse_labelled

T = TypeVar("T")


class HasRecord(Protocol):
    """What can be written as a line."""

    def to_record(self) -> dict[str, Any]:
        """The line's JSON object."""


Line = Mapping[str, object] | HasRecord
STDIN = "-"
_SKIP_HINT = "fix the line, or pass --skip-bad to leave such lines out and list them"
_LONGEST = 1 << 26  # characters: no dialogue of a person and a chatbot is as long
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(slots=True)
class Skipped:
    """What ``--skip-bad`` left out beside the ``read`` lines that were right: a count, the first
    ``keep`` messages (None: all), and in the file ``listed`` every one of them, as JSON lines of
    file, line and problem. A list of an earlier run is removed, so that the file tells of this one;
    where nothing is left out there is none."""

    listed: Path | None = None
    count: int = 0
    read: int = 0
    messages: list[str] = field(default_factory=list)
    keep: int | None = 20

    def __post_init__(self) -> None:
        if self.listed is not None:
            self.listed.unlink(missing_ok=True)

    def add(self, error: DataError) -> None:
        """Count a line and list it."""
        self.count += 1
        if self.keep is None or len(self.messages) < self.keep:
            self.messages.append(error.message)
        if self.listed is not None:
            entry = {"file": error.path, "line": error.line, "problem": error.problem}
            self.listed.parent.mkdir(parents=True, exist_ok=True)
            with open_text(self.listed, "a") as stream:
                stream.write(to_line(entry))

    def summary(self) -> str:
        """How many lines were left out, the first of them, and where all are listed."""
        lines = [f"{self.count} bad lines left out", *self.messages]
        if self.listed is not None and self.count:
            lines.append(f"all of them are listed in {self.listed}")
        return "\n  ".join(lines)

    def require_rest(self) -> None:
        """Raise CoverageError (exit code 3) where not one line was right."""
        if self.count and not self.read:
            hint = f"the first: {self.messages[0]}" if self.messages else None
            raise CoverageError(f"all {self.count} lines are bad and were left out", hint=hint)


def list_beside(out: str | Path) -> Path:
    """``scored.skipped.jsonl`` for ``scored.jsonl`` or ``scored.jsonl.gz``."""
    target = Path(out)
    stem = target.name.removesuffix(".gz").removesuffix(".jsonl")
    return target.with_name(f"{stem}.skipped.jsonl")


def open_text(path: str | Path, mode: str = "r") -> IO[str]:
    """Open as UTF-8 text, gzip where the name ends in .gz; ``-`` is standard input.

    Mode is ``r``, ``w`` or ``a``. CRLF reads as LF, a byte-order mark is dropped. Bytes that are
    not UTF-8 become surrogates, so that the line they stand on can be named.
    Raises DataError when there is no such file or it may not be opened.
    """
    if str(path) == STDIN and mode == "r":
        return io.TextIOWrapper(_standard_input(), "utf-8-sig", errors="surrogateescape")
    target = Path(path)
    if mode == "r" and not target.is_file():
        raise DataError(path, None, "no such file")
    encoding, errors, newline = (
        ("utf-8-sig", "surrogateescape", None) if mode == "r" else ("utf-8", "strict", "\n")
    )
    opener: Callable[..., Any] = gzip.open if target.suffix == ".gz" else open
    try:
        stream: IO[str] = opener(
            target, mode + "t", encoding=encoding, errors=errors, newline=newline
        )
    except OSError as error:
        raise DataError(path, None, f"cannot be opened: {error.strerror}") from error
    return stream


def _standard_input() -> IO[bytes]:
    """Standard input's bytes through a buffer of our own: a thread that waits on Python's would
    make the interpreter abort where it ends first."""
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except (AttributeError, OSError):  # in memory, as in a test or a notebook
        return sys.stdin.buffer


def read_records(
    path: str | Path, parse: Callable[[object], T], *, skipped: Skipped | None = None
) -> Iterator[T]:
    """Stream ``parse(line)`` for each line that is not blank.

    A bad line raises DataError with file, line number, field and what was expected; with
    ``skipped`` it is counted there instead and reading goes on. A file that breaks off or is
    damaged in its compressed form raises in both cases: what followed is lost, and nobody can say
    how many lines that was.
    """
    number = 0
    with open_text(path) as stream:
        try:
            for number, line in enumerate(_lines(stream), 1):
                if not line.strip():
                    continue
                try:
                    parsed = parse_line(path, number, line, parse)
                except DataError as error:
                    if skipped is None:
                        raise
                    skipped.add(error)
                    continue
                if skipped is not None:
                    skipped.read += 1
                yield parsed
        except (EOFError, zlib.error, OSError) as error:  # BadGzipFile is an OSError
            raise damaged(path, number, error) from error


def _lines(stream: IO[str]) -> Iterator[str]:
    """Lines as they come; of one that is too long the first ``_LONGEST + 1`` characters, so that a
    small compressed file cannot fill the memory."""
    while line := stream.readline(_LONGEST + 1):
        yield line
        while len(line) > _LONGEST and not line.endswith("\n"):
            line = stream.readline(_LONGEST + 1)


def damaged(path: str | Path, number: int, error: Exception) -> DataError:
    """What to say of a file that cannot be read on after ``number`` lines."""
    hint = "the file is damaged from here on; get or make it again"
    problem = f"cannot read on: {error}"
    if isinstance(error, gzip.BadGzipFile) and "Not a gzipped file" in str(error):
        if number == 0:
            problem = "cannot read on: its name ends in .gz, but it is no gzip file"
            hint = "rename it, or compress it: gzip FILE"
        else:
            problem = "cannot read on: other bytes stand behind the end of its gzip data"
    elif isinstance(error, EOFError):
        problem = "cannot read on: the compressed file is cut short"
    return DataError(path, number + 1, problem, hint=hint)


def parse_line(
    path: str | Path,
    number: int,
    line: str,
    parse: Callable[[object], T],
    *,
    hint: str = _SKIP_HINT,
) -> T:
    """``parse`` of the JSON value of ``line``; raises DataError, which names file and line."""
    if len(line) > _LONGEST and not line.endswith("\n"):
        raise DataError(path, number, f"a line of more than {_LONGEST:,} characters", hint=hint)
    try:
        return parse(_load(line))
    except RecordError as error:
        raise DataError(path, number, error.message, hint=hint) from error
    except RecursionError as error:
        raise DataError(path, number, "nested too deep", hint=hint) from error


def _load(line: str) -> object:
    """The JSON value of a line; raises RecordError for anything that is not plain JSON."""
    try:
        line.encode("utf-8")
        value: object = json.loads(line, parse_constant=_refuse_constant)
    except UnicodeEncodeError as error:
        raise RecordError(
            "(line)", f"UTF-8 (it is not at character {error.start + 1})", line
        ) from error
    except json.JSONDecodeError as error:
        expected = f"valid JSON ({error.msg} at column {error.colno})"
        raise RecordError("(line)", expected, line.strip()) from error
    except ValueError as error:  # an integer of thousands of digits
        raise RecordError("(line)", "numbers below 1e308", line.strip()) from error
    if _SURROGATE.search(line):
        require_valid_text(value)
    return value


def _refuse_constant(name: str) -> None:
    raise RecordError("(line)", "numbers that JSON knows, or null", name)


def _unique(parse: Callable[[object], T], key: Callable[[T], object]) -> Callable[[object], T]:
    # 8 bytes a row instead of the id itself: a 100,000-line file must not cost its ids in memory.
    seen: set[int] = set()

    def checked(record: object) -> T:
        parsed = parse(record)
        mark = hash(key(parsed))
        if mark in seen:
            raise RecordError("id", "an id that no earlier line has", key(parsed))
        seen.add(mark)
        return parsed

    return checked


def read_dialogues(
    source: str | Path | Iterable[object], *, skipped: Skipped | None = None
) -> Iterator[Dialogue]:
    """Stream the dialogues of a file of JSON lines (.gz too), or of a list of such records.

    Labels on a line are ignored. Duplicate ids are an error. A bad line raises DataError, or is
    counted in ``skipped``; a bad record of a list raises RecordError.

    >>> from medal_judges import read_dialogues
    >>> [dialogue.id for dialogue in read_dialogues("dialogues.jsonl")]
    ['d0', 'd1', 'd2']
    >>> said = [{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello!"}]
    >>> next(read_dialogues([{"id": "d3", "dialogue": said}])).turns[1].content
    'Hello!'
    """
    parse = _unique(parse_dialogue, lambda dialogue: dialogue.id)
    if isinstance(source, str | Path):
        return read_records(source, parse, skipped=skipped)
    return map(parse, source)


def read_labelled(
    path: str | Path, *, skipped: Skipped | None = None
) -> Iterator[LabelledDialogue]:
    """Stream labelled dialogues. Duplicate ids are an error."""
    return read_records(path, _unique(parse_labelled, lambda row: row.id), skipped=skipped)


def write_records(path: str | Path, records: Iterable[Line]) -> int:
    """Write one JSON object a line (anything with ``to_record``, or a dict); returns the count.

    Parents are made. The file appears whole or not at all. Raises RecordError as ``to_line`` does.
    """
    count = 0
    with atomic_path(path) as partial, open_text(partial, "w") as stream:
        for record in records:
            stream.write(to_line(record))
            count += 1
    return count


def to_line(record: Line) -> str:
    """One JSON line, as strict as reading is.

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
