"""Which container a file is, by its content, and its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from medal_judges.errors import ConfigError, DataError, RecordError
from medal_judges.reading.arrow_rows import (
    ARROW_FILE,
    ARROW_STREAM,
    FEATHER_V1,
    HUB,
    PARQUET,
    arrow_rows,
    hub_rows,
    parquet_count,
    parquet_rows,
)
from medal_judges.reading.json_rows import NumberedRow, json_array, json_document, json_lines
from medal_judges.reading.sheets import ZIP, sheet_rows
from medal_judges.reading.streams import (
    STREAM_ERRORS,
    PeekedStream,
    open_bytes,
    seekable,
    text_of,
)
from medal_judges.reading.tables import delimiter_of, table_rows
from medal_judges.reading.transcripts import begins_transcript, transcript_rows
from medal_judges.storage.jsonl import STDIN, damaged, load_json

# Name (as --format takes it) -> what messages call it.
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
# Every row has every column there.
TABLES = ("csv", "tsv", "xlsx", "parquet", "arrow")
_ENDINGS = {
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **{f".{name}": name for name in ("json", "csv", "tsv", "xlsx", "parquet", "arrow")},
    ".feather": "arrow",
}
_PACKED = (".gz", ".zst")
# A file of such a name may be a transcript: its content says whether it is.
_PLAIN_ENDINGS = ("", ".txt", ".text", ".md", ".log")
# Every ending of a file of chats.
ENDINGS = tuple(_ENDINGS)
_FIRST_LINES = 1 << 20


@dataclass(frozen=True, slots=True)
class Container:
    """``kind`` is a key of CONTAINERS, ``rows`` the rows, numbered; a bad one is the RecordError
    that says why. ``rows`` raises DataError where the file cannot be read on."""

    kind: str
    rows: Iterator[NumberedRow]


def ending_of(path: str | Path) -> str | None:
    """The container that the name of ``path`` speaks of, .gz and .zst left out."""
    return _ENDINGS.get(_suffix(path))


def _suffix(path: str | Path) -> str:
    name = str(path).lower()
    for packed in _PACKED:
        name = name.removesuffix(packed)
    return Path(name).suffix


def expected_rows(path: str) -> int | None:
    """How many rows a progress bar may expect; None where only reading would tell."""
    try:
        if ending_of(path) == "parquet":
            return parquet_count(path) if Path(path).suffix == ".parquet" else None
        if ending_of(path) != "jsonl" or path == STDIN:
            return None
        stream, _ = open_bytes(path)
        with closing(stream), text_of(stream) as lines:
            return sum(1 for line in lines if line.strip())
    except (DataError, *STREAM_ERRORS):
        return None  # its reader says what is wrong


def open_container(path: str, kind: str | None = None) -> Container:
    """The container of ``path`` (a file, ``-`` or ``hf:...``); ``kind`` overrides what its content
    says. Raises DataError where there is no such file, or its content is of no known kind."""
    if path.startswith(HUB):
        return Container("hf", hub_rows(path))
    stream, on_disk = open_bytes(path)
    try:
        found = kind or _recognised(path, stream)
    except BaseException as error:
        stream.close()
        if isinstance(error, STREAM_ERRORS):
            raise damaged(path, 0, error) from error
        raise
    return Container(found.split("-")[0], _rows(path, stream, on_disk, found))


def _rows(path: str, stream: PeekedStream, on_disk: bool, kind: str) -> Iterator[NumberedRow]:
    number = 0
    try:
        with closing(stream):
            if kind in ("parquet", "arrow", "xlsx"):
                yield from _binary_rows(path, stream, on_disk, kind)
                return
            with text_of(stream) as text:
                for number, row in _TEXT[kind](text):
                    yield number, row
    except ConfigError as error:
        raise DataError(path, None, error.message, hint=error.hint) from error
    except STREAM_ERRORS as error:
        raise damaged(path, number, error) from error


def _binary_rows(
    path: str, stream: PeekedStream, on_disk: bool, kind: str
) -> Iterator[NumberedRow]:
    begin = stream.peek(lambda head: len(head) >= 6)
    if kind == "arrow" and not begin.startswith(ARROW_FILE):
        with open(path, "rb") if on_disk else closing(stream) as file:
            yield from arrow_rows(path, file, stream=True)  # type: ignore[arg-type]
        return
    with seekable(path, stream, on_disk) as file:
        if kind == "arrow":
            yield from arrow_rows(path, file, stream=False)
        else:
            yield from (parquet_rows if kind == "parquet" else sheet_rows)(path, file)


_TEXT: Mapping[str, Callable[[IO[str]], Iterator[NumberedRow]]] = {
    "jsonl": json_lines,
    "json-array": json_array,
    "json-document": json_document,
    "json": json_document,
    "csv": table_rows,
    "tsv": lambda stream: table_rows(stream, "\t"),
    "text": transcript_rows,
}


def _recognised(path: str, stream: PeekedStream) -> str:
    """The container by its first bytes, then by its first lines; the ending of the name decides
    only what these leave open."""
    begin = stream.peek(lambda head: len(head) >= 6 or b"\n" in head)
    if begin.startswith(PARQUET):
        return "parquet"
    if begin.startswith((ARROW_FILE, ARROW_STREAM)):
        return "arrow"
    if begin.startswith(ZIP):
        return "xlsx"
    if begin.startswith(FEATHER_V1):
        hint = "write it again with pyarrow.feather.write_feather(table, path, version=2)"
        raise DataError(path, None, "is a Feather file of version 1, which is not read", hint=hint)
    if b"\x00" in begin and not begin.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _unknown(path, begin)
    return _text_kind(path, stream)


def _text_kind(path: str, stream: PeekedStream) -> str:
    ending = ending_of(path)
    wide = stream.peek(lambda head: len(head) >= 2)[:2] in (b"\xff\xfe", b"\xfe\xff")
    first = _first_lines(stream, 1, wide)
    opening = first[0].lstrip()[:1] if first else ""
    if not opening:
        return "jsonl" if ending not in ("csv", "tsv") else ending
    if _suffix(path) in _PLAIN_ENDINGS and begins_transcript(first[0]):
        return "text"
    if ending == "jsonl" and (opening != "[" or _is_json(first[0])):
        return "jsonl"
    if opening == "[":
        return "json-array"
    if opening == "{":
        if _is_json(first[0]):
            return "jsonl"
        # One object over many lines, or lines of which the first is broken.
        lines = _first_lines(stream, 2, wide)
        broken = len(lines) > 1 and _is_json(lines[1]) and lines[1].lstrip().startswith("{")
        return "jsonl" if broken or len(lines) < 2 else "json-document"
    if ending in ("csv", "tsv"):
        return ending
    delimiter = delimiter_of(first[0])
    if ending is None and delimiter is None:
        raise _unknown(path, first[0].encode("utf-8", "replace"))
    if ending == "json":
        return "json-document"
    return "tsv" if delimiter == "\t" else "csv"


def _first_lines(stream: PeekedStream, count: int, wide: bool) -> list[str]:
    """The first ``count`` lines that are not blank, as far as they can be seen."""

    def lines(head: bytes) -> list[str]:
        text = head.decode("utf-16" if wide else "utf-8-sig", "replace")
        return [line for line in text.split("\n") if line.strip()]

    def enough(head: bytes) -> bool:
        ended = head.endswith(b"\n") or head.endswith(b"\n\x00")
        # Only whole lines count: a line break has come after the last of them.
        return head.count(b"\n") >= count and len(lines(head)) >= count + (not ended)

    return lines(stream.peek(enough, _FIRST_LINES))[:count]


def _is_json(line: str) -> bool:
    try:
        load_json(line)
    except (RecordError, RecursionError):
        return False
    return True


def _unknown(path: str, begin: bytes) -> DataError:
    shown = begin[:24].decode("utf-8", "backslashreplace")
    return DataError(
        path,
        None,
        f"is no file of chats that is known (it begins with {shown!r})",
        hint=f"--format says what it is: {', '.join(CONTAINERS)}",
    )
