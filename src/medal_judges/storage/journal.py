"""Journal: an append-only JSONL file from which long runs resume.

A line is written when its answer is known, so a kill loses at most the line that is being written:
it has no line break, reading ignores it, and the next ``append`` cuts it off. The file survives
kill -9 at any byte and can be read, copied and joined with ``cat``.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from medal_judges.storage.files import atomic_path, only_run
from medal_judges.storage.jsonl import Line, parse_line, to_line

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
L = TypeVar("L", bound=Line)
_HINT = "restore the file, or start again from the beginning with --overwrite"


class Journal:
    """The file ``path``, which need not exist yet; gzip if its name ends in .gz.

    Several processes may append to a plain file: each block of lines is written whole, under a lock
    beside the file (on Windows a lock on the file itself would stop readers). A .gz file must have
    one writer.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_gzip = path.suffix == ".gz"
        self._checked = not self._is_gzip  # a .gz file is repaired before the first append

    def lines(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yields (offset, line) of every complete line from byte ``start`` on.

        Ignores a half-written last line and what follows the damage in a broken .gz file.
        """
        if not self.path.exists():
            return
        opener: Callable[..., Any] = gzip.open if self._is_gzip else open
        with opener(self.path, "rb") as stream:
            stream.seek(start)
            with suppress(EOFError, zlib.error, gzip.BadGzipFile):
                for line in stream:
                    if not line.endswith(b"\n"):
                        return
                    yield start, line
                    start += len(line)

    def records(self, parse: Callable[[object], T]) -> Iterator[T]:
        """Yields ``parse(line)`` of every complete line that is not blank. Raises DataError with
        file and line number for a bad line."""
        for number, (_, line) in enumerate(self.lines(), 1):
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if line.strip():
                text = line.decode("utf-8", "surrogateescape")
                yield parse_line(self.path, number, text, parse, hint=_HINT)

    def by_key(self, parse: Callable[[object], T], key: Callable[[T], K]) -> dict[K, T]:
        """Returns the records by key; the last line of a key counts."""
        return {key(record): record for record in self.records(parse)}

    def append(self, records: Iterable[Line], *, sync: bool = True) -> None:
        """Writes one line for each record (a dict, or anything with ``to_record``).

        Returns when the disk has them (``sync``), else when the system has them: then only a power
        cut can lose them. A write that fails (OSError: the disk is full) leaves none of them.
        """
        block = "".join(map(to_line, records)).encode()
        if not block:
            return
        if not self._checked and self.path.exists():
            # Behind a gzip member that was cut short nothing can be read.
            with atomic_path(self.path) as partial, gzip.open(partial, "wb") as whole:
                whole.writelines(line for _, line in self.lines())
        self._checked = True
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = only_run(self.path.with_name(f"{self.path.name}.append"), wait=True)
        with lock, self.path.open("a+b", buffering=0) as stream:
            end = size = stream.seek(0, os.SEEK_END)
            step = 1  # usually the last byte is a line break
            while end and not self._is_gzip:  # cuts off a half-written last line
                start = max(0, end - step)
                stream.seek(start)
                if cut := stream.read(end - start).rfind(b"\n") + 1:
                    end = start + cut
                    break
                end, step = start, 1 << 16
            if end < size:
                stream.truncate(end)
            left = memoryview(gzip.compress(block) if self._is_gzip else block)
            try:
                while left:  # a disk that is nearly full takes a part and refuses the rest
                    left = left[stream.write(left) or 0 :]
                if sync:
                    os.fsync(stream.fileno())
            except OSError:
                with suppress(OSError):
                    stream.truncate(end)
                raise

    def append_each(self, records: Iterable[L], every: int) -> Iterator[L]:
        """Yields ``records`` and appends them in blocks of ``every``; the rest at the end, also
        after an error or if the caller stops."""
        block: list[L] = []
        try:
            for record in records:
                block.append(record)
                if len(block) >= every:
                    full, block = block, []
                    self.append(full, sync=False)
                yield record
        finally:
            self.append(block, sync=False)

    def sync(self) -> None:
        """Waits until the disk has everything that was appended."""
        if self.path.exists():
            with self.path.open("r+b") as stream:  # Windows syncs no file that is open to be read
                os.fsync(stream.fileno())
