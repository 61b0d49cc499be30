"""Bytes of a file or of standard input, decompressed, whose beginning can be looked at first."""

from __future__ import annotations

import gzip
import io
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

from medal_judges.errors import DataError
from medal_judges.storage.jsonl import STDIN, standard_input

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_OTHER = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"7z\xbc\xaf": "7-Zip", b"\x04\x22\x4d\x18": "lz4"}
_CHUNK = 1 << 16
# What a compressed table may come to, which has to be unpacked to disk before it is read.
MOST_UNPACKED = 1 << 36
# What reading on can raise: BadGzipFile is an OSError, and so are pyarrow's errors of zstd.
STREAM_ERRORS = (EOFError, zlib.error, OSError)


class PeekedStream(io.RawIOBase):
    """Bytes whose beginning can be looked at without losing it; no seeking is asked of ``raw``.

    A read gives what has arrived, so that a line of standard input is seen when it is sent.
    """

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__()
        self._raw = raw
        self._head = bytearray()

    def peek(self, enough: Callable[[bytes], bool], most: int = 1 << 20) -> bytes:
        """The beginning, until it is ``enough``, ``most`` bytes long or all there is."""
        while not enough(bytes(self._head)) and len(self._head) < most:
            chunk = self._more(_CHUNK)
            if not chunk:
                break
            self._head += chunk
        return bytes(self._head)

    def _more(self, most: int) -> bytes:
        read = getattr(self._raw, "read1", self._raw.read)
        return cast(bytes, read(most))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        size = len(buffer)
        if self._head:
            chunk = bytes(self._head[:size])
            del self._head[:size]
        else:
            chunk = self._more(size)
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


def open_bytes(path: str) -> tuple[PeekedStream, bool]:
    """(The bytes of ``path``, ``-`` for standard input, unpacked where they are gzip or zstd;
    whether they are the file as it lies on the disk).

    Compression is known by content, whatever the name. Raises DataError for no such file and for
    other kinds of compression.
    """
    if path == STDIN:
        raw: IO[bytes] = standard_input()
    else:
        if Path(path).is_dir():
            hint = f"a folder of a data set: hf:{path}:train"
            raise DataError(path, None, "is a folder, not a file", hint=hint)
        if not Path(path).is_file():
            raise DataError(path, None, "no such file")
        try:
            raw = open(path, "rb")  # noqa: SIM115 (the stream closes it)
        except OSError as error:
            raise DataError(path, None, f"cannot be opened: {error.strerror}") from error
    peeked = PeekedStream(raw)
    begin = peeked.peek(lambda head: len(head) >= 6 or b"\n" in head)
    for magic, name in _OTHER.items():
        if begin.startswith(magic):
            hint = "gzip (.gz) and zstd (.zst) are read: unpack it first"
            raise DataError(path, None, f"is compressed as {name}", hint=hint)
    if begin.startswith(GZIP):
        opened = gzip.GzipFile(fileobj=io.BufferedReader(peeked))
        return PeekedStream(cast(IO[bytes], opened)), False
    if begin.startswith(ZSTD):
        return PeekedStream(_unpacked_zstd(peeked)), False
    return peeked, path != STDIN


def _unpacked_zstd(peeked: PeekedStream) -> IO[bytes]:
    import pyarrow as pa

    stream = pa.CompressedInputStream(pa.PythonFile(io.BufferedReader(peeked), "r"), "zstd")
    return cast(IO[bytes], stream)


def text_of(stream: PeekedStream) -> io.TextIOWrapper:
    """The stream as text: UTF-8, or UTF-16 where a byte-order mark says so (Excel's Unicode text).

    Bytes that are not UTF-8 become surrogates, so that the row they stand in can be named.
    """
    begin = stream.peek(lambda head: len(head) >= 3)
    wide = begin.startswith((b"\xff\xfe", b"\xfe\xff"))
    buffered = io.BufferedReader(stream, _CHUNK)
    if wide:
        return io.TextIOWrapper(buffered, "utf-16", errors="replace", newline="")
    return io.TextIOWrapper(buffered, "utf-8-sig", errors="surrogateescape", newline="")


@contextmanager
def seekable(path: str, stream: PeekedStream, on_disk: bool) -> Iterator[BinaryIO]:
    """A file that can be read from its end: ``path`` itself, or what ``stream`` holds, written to a
    temporary file. Raises DataError where that would be larger than MOST_UNPACKED."""
    if on_disk:
        with open(path, "rb") as file:
            yield file
        return
    with tempfile.TemporaryFile() as copy:
        while chunk := stream.read(1 << 20):
            copy.write(chunk)
            if copy.tell() > MOST_UNPACKED:
                raise DataError(path, None, f"comes to more than {MOST_UNPACKED:,} bytes unpacked")
        copy.seek(0)
        yield cast(BinaryIO, copy)
