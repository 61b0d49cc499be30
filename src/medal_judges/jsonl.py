"""JSON Lines, plain or gzip by ending, streaming in both directions."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar

from medal_judges.dialogue import Dialogue, parse_dialogue
from medal_judges.errors import DataError, RecordError
from medal_judges.judgement import Judgement, parse_judgement
from medal_judges.labelled import LabelledDialogue, parse_labelled

T = TypeVar("T")
STDIN = "-"


@dataclass(slots=True)
class Skipped:
    """What ``--skip-bad`` left out: a count, and the first ``keep`` messages."""

    count: int = 0
    messages: list[str] = field(default_factory=list)
    keep: int = 20

    def add(self, error: DataError) -> None:
        self.count += 1
        if len(self.messages) < self.keep:
            self.messages.append(error.message)


def open_text(path: str | Path, mode: str = "r") -> IO[str]:
    """Open as UTF-8 text, gzip where the name ends in .gz; ``-`` is standard input.

    Mode is ``r``, ``w`` or ``a``. CRLF reads as LF, a byte-order mark is dropped. Bytes that are
    not UTF-8 become surrogates, so that the line they stand on can be named.
    Raises DataError when there is no such file.
    """
    if str(path) == STDIN and mode == "r":
        return io.TextIOWrapper(sys.stdin.buffer, "utf-8-sig", errors="surrogateescape")
    target = Path(path)
    if mode == "r" and not target.is_file():
        raise DataError(path, None, "no such file")
    encoding = "utf-8-sig" if mode == "r" else "utf-8"
    errors = "surrogateescape" if mode == "r" else "strict"
    if target.suffix == ".gz":
        return gzip.open(target, mode + "t", encoding=encoding, errors=errors)  # type: ignore[return-value]
    newline = None if mode == "r" else "\n"
    return open(target, mode, encoding=encoding, errors=errors, newline=newline)


def read_records(
    path: str | Path, parse: Callable[[object], T], *, skipped: Skipped | None = None
) -> Iterator[T]:
    """Stream ``parse(line)`` for each line that is not blank.

    A bad line raises DataError with file, line number, field and what was expected; with
    ``skipped`` it is counted there instead and reading goes on.
    """
    number = 0
    with open_text(path) as stream:
        try:
            for number, line in enumerate(stream, 1):
                if not line.strip():
                    continue
                try:
                    yield _parse_line(path, number, line, parse)
                except DataError as error:
                    if skipped is None:
                        raise
                    skipped.add(error)
        except (EOFError, gzip.BadGzipFile, OSError) as error:
            raise DataError(path, number + 1, f"cannot read on: {error}") from error


def _parse_line(path: str | Path, number: int, line: str, parse: Callable[[object], T]) -> T:
    try:
        line.encode("utf-8")
        return parse(json.loads(line))
    except UnicodeEncodeError as error:
        raise DataError(path, number, f"not UTF-8 at character {error.start + 1}") from error
    except json.JSONDecodeError as error:
        problem = f"not valid JSON: {error.msg} at column {error.colno}"
        raise DataError(path, number, problem, hint=_SKIP_HINT) from error
    except RecordError as error:
        raise DataError(path, number, error.message, hint=_SKIP_HINT) from error


_SKIP_HINT = "mend the line, or pass --skip-bad to leave such lines out and list them"


def _unique(
    path: str | Path, parse: Callable[[object], T], key: Callable[[T], object]
) -> Callable[[object], T]:
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


def read_dialogues(path: str | Path, *, skipped: Skipped | None = None) -> Iterator[Dialogue]:
    """Stream dialogues; labels on the line are ignored. Duplicate ids are an error."""
    return read_records(path, _unique(path, parse_dialogue, lambda d: d.id), skipped=skipped)


def read_labelled(
    path: str | Path, *, skipped: Skipped | None = None
) -> Iterator[LabelledDialogue]:
    """Stream labelled dialogues. Duplicate ids are an error."""
    return read_records(path, _unique(path, parse_labelled, lambda d: d.id), skipped=skipped)


def read_judgements(path: str | Path, *, skipped: Skipped | None = None) -> Iterator[Judgement]:
    """Stream judgements; two lines for one (id, turn) are an error."""
    key: Callable[[Judgement], object] = lambda j: (j.id, j.turn)  # noqa: E731
    return read_records(path, _unique(path, parse_judgement, key), skipped=skipped)


def write_records(path: str | Path, records: Iterable[Any]) -> int:
    """Write one JSON object a line (anything with ``to_record``, or a dict); returns the count.

    Parents are made. The file appears whole or not at all: it is written beside and renamed.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(".partial-" + target.name)
    count = 0
    with open_text(partial, "w") as stream:
        for record in records:
            stream.write(to_line(record))
            count += 1
    partial.replace(target)
    return count


def to_line(record: Any) -> str:
    """One JSON line; NaN and infinity are refused (they are not JSON)."""
    data = record if isinstance(record, dict) else record.to_record()
    return json.dumps(data, ensure_ascii=False, allow_nan=False) + "\n"
