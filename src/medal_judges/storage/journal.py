"""The one way in which long runs resume: an append-only JSONL file, one line for each thing asked.

A line is written when its answer is known, so a kill loses at most the line that was being written:
it has no line break yet, reading leaves it out, and the next ``append`` cuts it off. Lines, not a
database: the file survives kill -9 at any byte and can be read, copied and joined with ``cat``.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from medal_judges.storage.files import atomic_path, one_at_a_time
from medal_judges.storage.jsonl import Line, parse_line, to_line

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
L = TypeVar("L", bound=Line)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HINT = "restore the file, or start again from the beginning with --overwrite"


class Journal:
    """The file ``path``, which need not exist yet; gzip where its name ends in .gz.

    Several processes may append to one plain file: each block of lines goes there whole, under a
    lock beside it, which is there while a block is written. (Not on the file: Windows would then
    let nobody read it.) A .gz file has one writer.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._whole = path.suffix != ".gz"  # a .gz file is looked through before the first append
        self._stream: IO[bytes] | None = None  # while it is kept open
        self._keeps = False

    def lines(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """(offset, line) of every complete line from byte ``start`` on, none without a file.

        A half-written last line and what follows the break in a damaged .gz file are left out.
        """
        if not self.path.exists():
            return
        opener: Callable[..., Any] = gzip.open if self.path.suffix == ".gz" else open
        with opener(self.path, "rb") as stream:
            stream.seek(start)
            with suppress(EOFError, zlib.error, gzip.BadGzipFile):
                for line in stream:
                    if not line.endswith(b"\n"):
                        return
                    yield start, line
                    start += len(line)

    def records(self, parse: Callable[[object], T]) -> Iterator[T]:
        """``parse(line)`` of every complete line that is not blank.

        Raises DataError with file and line number for a line that is no such record.
        """
        for number, (_, line) in enumerate(self.lines(), 1):
            if number == 1:
                line = line.removeprefix(_BYTE_ORDER_MARK)
            if line.strip():
                yield parse_line(self.path, number, _text(line), parse, hint=_HINT)

    def by_key(self, parse: Callable[[object], T], key: Callable[[T], K]) -> dict[K, T]:
        """The records by what was asked; the last line of a key counts."""
        return {key(record): record for record in self.records(parse)}

    def append(self, records: Iterable[Line], *, sync: bool = True) -> None:
        """Write one line for each record (a dict, or anything with ``to_record``).

        Returns when the disk has them (``sync``), else when the system has them: then only a power
        cut can lose them. A write that fails (OSError: the disk is full) leaves none of them.
        """
        block = "".join(map(to_line, records)).encode()
        if not block:
            return
        if not self._whole:
            self._drop_damage()
        with self._appending() as stream:
            end = _whole_end(stream) if self.path.suffix != ".gz" else stream.seek(0, os.SEEK_END)
            left = memoryview(gzip.compress(block) if self.path.suffix == ".gz" else block)
            try:
                while left:  # a disk that is nearly full takes a part and refuses the rest
                    left = left[stream.write(left) or 0 :]
                if sync:
                    os.fsync(stream.fileno())
            except OSError:
                with suppress(OSError):
                    stream.truncate(end)
                raise

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Keep the file open between appends: for a run that appends often."""
        before, self._keeps = self._keeps, True
        try:
            yield
        finally:
            self._keeps = before
            if not before and self._stream is not None:
                self._stream.close()
                self._stream = None

    @contextmanager
    def _appending(self) -> Iterator[IO[bytes]]:
        """The open file, to which nobody else appends meanwhile."""
        with one_at_a_time(self.path.with_name(f"{self.path.name}.append")), self._opened() as file:
            yield file

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        if not self._keeps:
            with self._open() as stream:
                yield stream
            return
        if self._stream is not None and not self._named():  # it was removed or replaced meanwhile
            self._stream.close()
            self._stream = None
        self._stream = self._stream or self._open()
        yield self._stream

    def _open(self) -> IO[bytes]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self.path.open("a+b", buffering=0)

    def _named(self) -> bool:
        """Whether the open file is still the one of this name."""
        assert self._stream is not None
        try:
            return os.path.samestat(os.fstat(self._stream.fileno()), os.stat(self.path))
        except OSError:
            return False

    def append_each(self, records: Iterable[L], every: int) -> Iterator[L]:
        """``records`` as they come; they are appended ``every`` so many, and where an error or the
        caller ends them."""
        block: list[L] = []
        with self.kept_open():
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
        """Wait until the disk has everything that was appended."""
        if self.path.exists():
            with self.path.open("r+b") as stream:  # Windows syncs no file that is open to be read
                os.fsync(stream.fileno())

    def _drop_damage(self) -> None:
        """Write a .gz file again up to its last complete line: behind a member that was cut short
        nothing can be read."""
        if self.path.exists():
            with atomic_path(self.path) as partial, gzip.open(partial, "wb") as stream:
                stream.writelines(line for _, line in self.lines())
        self._whole = True


def _text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")


def _whole_end(stream: IO[bytes]) -> int:
    """Cut a half-written last line off the file; returns where it then ends."""
    end = size = stream.seek(0, os.SEEK_END)
    step = 1  # the last byte says whether there is anything to cut
    while end:
        start = max(0, end - step)
        stream.seek(start)
        if cut := stream.read(end - start).rfind(b"\n") + 1:
            end = start + cut
            break
        end, step = start, 1 << 16
    if end < size:
        stream.truncate(end)
    return end
