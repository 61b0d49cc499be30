"""Opens a file, recognises its container by its content, and reads its rows."""

from __future__ import annotations

import gzip
import io
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from medal_judges.errors import ConfigError, DataError, RecordError
from medal_judges.reading.binary_rows import (
    ARROW_FILE,
    ARROW_STREAM,
    HUB,
    PARQUET,
    ZIP,
    arrow_rows,
    hub_rows,
    sheet_rows,
)
from medal_judges.reading.text_rows import (
    NumberedRow,
    delimiter_of,
    json_array,
    json_document,
    json_lines,
    json_value,
    table_rows,
)
from medal_judges.reading.transcripts import begins_transcript, transcript_rows
from medal_judges.storage.jsonl import STDIN, damaged, standard_input

# Name in --format -> name in messages.
CONTAINERS: Mapping[str, str] = {
    "jsonl": "JSON lines",
    "json": "JSON",
    "csv": "CSV",
    "tsv": "TSV",
    "text": "plain text",
    "xlsx": "XLSX",
    "parquet": "parquet",
    "arrow": "Arrow",
    "hf": "a data set on the Hub",
}
TABLES = ("csv", "tsv", "xlsx", "parquet", "arrow")  # every row has every column
_BY_ENDING = {
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **{f".{name}": name for name in ("json", "csv", "tsv", "xlsx", "parquet", "arrow")},
    ".feather": "arrow",
}
ENDINGS = tuple(_BY_ENDING)  # of files of chats
# A file with such an ending can be a transcript.
_PLAIN_ENDINGS = ("", ".txt", ".text", ".md", ".log")
_MAGIC = {PARQUET: "parquet", ARROW_FILE: "arrow", ARROW_STREAM: "arrow", ZIP: "xlsx"}
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_CHUNK = 1 << 16
# BadGzipFile is an OSError, and so are pyarrow's errors of zstd.
_STREAM_ERRORS = (EOFError, zlib.error, OSError)


@dataclass(frozen=True, slots=True)
class Container:
    """``kind`` is a key of CONTAINERS; a bad row is the RecordError that says why. ``rows`` raises
    DataError if the file cannot be read on."""

    kind: str
    rows: Iterator[NumberedRow]


def expected_rows(path: str) -> int | None:
    """Returns how many rows a parquet file states; None for any other file."""
    if not path.endswith(".parquet") or not Path(path).is_file():
        return None
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(path).num_rows)
    except (pa.ArrowException, OSError):
        return None  # its reader says what is wrong


def open_container(path: str, kind: str | None = None) -> Container:
    """Opens ``path`` (a file, ``-`` or ``hf:...``); ``kind`` overrides what its content says.
    Raises DataError for a missing file and for content of no known kind."""
    if path.startswith(HUB):
        return Container("hf", hub_rows(path))
    stream, on_disk = _open_bytes(path)
    try:
        found = kind or _recognised(path, stream)
    except BaseException as error:
        stream.close()
        if isinstance(error, _STREAM_ERRORS):
            raise damaged(path, 0, error) from error
        raise
    return Container(found.split("-")[0], _rows(path, stream, on_disk, found))


_TEXT: Mapping[str, Callable[[IO[str]], Iterator[NumberedRow]]] = {
    "jsonl": json_lines,
    "json-array": json_array,
    "json-document": json_document,
    "json": json_document,
    "csv": table_rows,
    "tsv": lambda stream: table_rows(stream, "\t"),
    "text": transcript_rows,
}


def _rows(path: str, stream: PeekedStream, on_disk: bool, kind: str) -> Iterator[NumberedRow]:
    number = 0
    try:
        with closing(stream):
            if kind in _TEXT:
                # Bytes that are not UTF-8 become surrogates, so that their row can be named.
                wide = _begin(stream).startswith(_UTF16)
                encoding, errors = (
                    ("utf-16", "replace") if wide else ("utf-8-sig", "surrogateescape")
                )
                buffered = io.BufferedReader(stream, _CHUNK)
                with io.TextIOWrapper(buffered, encoding, errors, newline="") as text:
                    for number, row in _TEXT[kind](text):
                        yield number, row
            elif kind == "arrow" and not _begin(stream).startswith(ARROW_FILE):
                yield from arrow_rows(path, io.BufferedReader(stream), "stream")
            else:  # read from its end
                with open(path, "rb") if on_disk else tempfile.TemporaryFile() as file:
                    if not on_disk:
                        shutil.copyfileobj(stream, file, 1 << 20)
                        file.seek(0)
                    is_sheet = kind == "xlsx"
                    yield from sheet_rows(path, file) if is_sheet else arrow_rows(path, file, kind)
    except ConfigError as error:
        raise DataError(path, None, error.message, hint=error.hint) from error
    except _STREAM_ERRORS as error:
        raise damaged(path, number, error) from error


# -- recognition -----------------------------------------------------------------------------------


def _recognised(path: str, stream: PeekedStream) -> str:
    """Returns the container by the first bytes, then by the first lines, then by the ending."""
    begin = _begin(stream)
    if magic := next((magic for magic in _MAGIC if begin.startswith(magic)), None):
        return _MAGIC[magic]
    if b"\x00" in begin and not begin.startswith(_UTF16):
        raise _unknown(path, begin)
    suffix = Path(path.lower().removesuffix(".gz").removesuffix(".zst")).suffix
    ending = _BY_ENDING.get(suffix)
    lines = _first_lines(stream, begin.startswith(_UTF16))
    if not lines:
        return "jsonl" if ending not in ("csv", "tsv") else ending
    first, opening = lines[0], lines[0].lstrip()[:1]
    if suffix in _PLAIN_ENDINGS and begins_transcript(first):
        return "text"
    if ending == "jsonl" and (opening != "[" or _is_json(first)):
        return "jsonl"
    if opening == "[":
        return "json-array"
    if opening == "{":
        if _is_json(first):
            return "jsonl"
        # One object over many lines, or lines of which the first is broken.
        lines = _first_lines(stream, begin.startswith(_UTF16), 2)
        broken = len(lines) > 1 and lines[1].lstrip().startswith("{") and _is_json(lines[1])
        return "jsonl" if broken or len(lines) < 2 else "json-document"
    if ending in ("csv", "tsv"):
        return ending
    delimiter = delimiter_of(first)
    if ending is None and delimiter is None:
        raise _unknown(path, first.encode("utf-8", "replace"))
    return "json-document" if ending == "json" else "tsv" if delimiter == "\t" else "csv"


def _begin(stream: PeekedStream) -> bytes:
    return stream.peek(lambda head: len(head) >= 6 or b"\n" in head)


def _first_lines(stream: PeekedStream, wide: bool, count: int = 1) -> list[str]:
    """The first ``count`` lines that are not blank, of the first megabyte."""

    def lines(head: bytes) -> list[str]:
        text = head.decode("utf-16" if wide else "utf-8-sig", "replace")
        return [line for line in text.split("\n") if line.strip()]

    def enough(head: bytes) -> bool:
        ended = head.endswith((b"\n", b"\n\x00"))  # else the last line may go on
        return head.count(b"\n") >= count and len(lines(head)) >= count + (not ended)

    return lines(stream.peek(enough))[:count]


def _is_json(line: str) -> bool:
    return not isinstance(json_value(line), RecordError)


def _unknown(path: str, begin: bytes) -> DataError:
    shown = begin[:24].decode("utf-8", "backslashreplace")
    hint = f"--format says what it is: {', '.join(CONTAINERS)}; gzip (.gz) and zstd (.zst) are read"
    problem = f"is no file of chats that is known (it begins with {shown!r})"
    return DataError(path, None, problem, hint=hint)


# -- bytes -----------------------------------------------------------------------------------------


class PeekedStream(io.RawIOBase):
    """Bytes whose beginning can be read ahead; ``raw`` need not be seekable. A read returns what
    has arrived, so that a line of standard input is read when it is sent."""

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__()
        self._raw = raw
        self._read: Callable[[int], bytes] = getattr(raw, "read1", raw.read)
        self._head = bytearray()

    def peek(self, enough: Callable[[bytes], bool], most: int = 1 << 20) -> bytes:
        """Returns the beginning until it is ``enough``, ``most`` bytes long, or everything."""
        while not enough(bytes(self._head)) and len(self._head) < most:
            chunk = self._read(_CHUNK)
            if not chunk:
                break
            self._head += chunk
        return bytes(self._head)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        chunk = bytes(self._head[: len(buffer)]) or self._read(len(buffer))
        del self._head[: len(chunk)]
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


def _open_bytes(path: str) -> tuple[PeekedStream, bool]:
    """Returns (the bytes of ``path``, decompressed if they are gzip or zstd, by content; whether
    they are the file on disk)."""
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
    begin = _begin(peeked)
    if begin.startswith(_GZIP):
        opened = gzip.GzipFile(fileobj=io.BufferedReader(peeked))
        return PeekedStream(cast(IO[bytes], opened)), False
    if begin.startswith(_ZSTD):
        import pyarrow as pa

        packed = pa.PythonFile(io.BufferedReader(peeked), "r")
        return PeekedStream(cast(IO[bytes], pa.CompressedInputStream(packed, "zstd"))), False
    return peeked, path != STDIN
