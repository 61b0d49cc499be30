"""XLSX workbooks, opened with limits: XML in a zip, of which kilobytes may come to gigabytes.

openpyxl reads sheets as a stream and everything else whole; what it keeps of a sheet's XML beside
its rows is as large as a file wants it. So each part is looked through first, by a parser that
keeps nothing.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Literal
from xml.parsers import expat

from medal_judges.errors import DataError, MissingExtraError

MOST_UNPACKED = 1 << 31  # bytes of sheets and of the texts that cells share, streamed
MOST_WHOLE = 1 << 25  # bytes of all else: styles, names of sheets
MOST_SHARED_TEXTS = 1 << 22
MOST_SHARED = 1 << 27  # bytes of them
MOST_ROWS = 1 << 20  # as Excel
MOST_COLUMNS = 1000
_MOST_IN_ROW = 1 << 26  # bytes of a row, and of what stands outside of all rows
_MOST_ELEMENTS = 1 << 20  # of a row, and outside of all rows
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
# What openpyxl lets go of when it has read it.
_ROW, _TEXT = _MAIN + "row", _MAIN + "si"
_CHUNK = 1 << 16


@contextmanager
def open_workbook(path: str, file: IO[bytes]) -> Iterator[Any]:
    """openpyxl's workbook of ``file``, read-only: a cell has its value as it was stored, of a
    formula its last result.

    Raises DataError, also while its rows are read, for a file that is no workbook, is broken, or
    would come to too much; MissingExtraError without openpyxl.
    """
    try:
        from openpyxl.reader.excel import ExcelReader
    except ImportError as error:
        raise MissingExtraError("openpyxl", "annotate", "reading .xlsx") from error
    _require_workbook(path, file)
    try:
        reader = ExcelReader(file, read_only=True, data_only=True, keep_links=False)
        reader.archive = _BoundedArchive(path, file)
        with reader.archive:
            reader.read()
            yield reader.wb
    except (DataError, MissingExtraError):
        raise
    except _BROKEN as error:
        said = f"cannot read on: {type(error).__name__}: {error}"
        raise DataError(path, None, said, hint="save it again as .xlsx or .csv") from error


def rows_of(path: str, sheet: Any) -> Iterator[tuple[int, list[Any]]]:
    """(Number from 1, cells) of each row of ``sheet`` that is not empty. Raises DataError."""
    sheet.reset_dimensions()  # what a file says of its size may be wrong
    for number, cells in enumerate(sheet.iter_rows(max_col=MOST_COLUMNS, values_only=True), 1):
        if number > MOST_ROWS:  # a row may say that it is any number; those before it are made
            raise DataError(path, None, f"has a row beyond {MOST_ROWS:,}", hint=_HINT)
        if any(cell not in (None, "") for cell in cells):
            yield number, list(cells)


# What openpyxl raises for a broken part: KeyError of a part that is missing, SyntaxError of XML,
# and in between whatever its descriptors make of a value that is not what they expect.
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError),
    *(ValueError, TypeError, LookupError, AttributeError, SyntaxError, OverflowError),
    expat.ExpatError,
)
_HINT = "save it as .csv, which has no such limit"


def _require_workbook(path: str, file: IO[bytes]) -> None:
    try:
        with zipfile.ZipFile(file) as packed:
            names = packed.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise DataError(path, None, f"is no workbook: {error}", hint="save it again") from error
    finally:
        file.seek(0)
    if not any(name.lower().startswith("xl/") for name in names):
        hint = "unpack it, and give one of its files"
        raise DataError(path, None, "is a zip file, but no .xlsx workbook", hint=hint)


class _BoundedArchive(zipfile.ZipFile):
    """The parts of a workbook, none of which costs more memory than the limits say. A part is never
    more than the zip says: zipfile reads it no further."""

    def __init__(self, path: str, file: IO[bytes]) -> None:
        super().__init__(file)
        self._path = path
        self._whole = 0
        self._streamed = 0
        self._seen: set[str] = set()

    def read(self, name: str | zipfile.ZipInfo, pwd: bytes | None = None) -> bytes:
        self._whole += self._info(name).file_size
        if self._whole > MOST_WHOLE:
            raise self._refusal(f"more than {MOST_WHOLE:,} bytes beside its sheets")
        return super().read(name, pwd)

    def open(
        self,
        name: str | zipfile.ZipInfo,
        mode: Literal["r", "w"] = "r",
        pwd: bytes | None = None,
        *,
        force_zip64: bool = False,
    ) -> IO[bytes]:
        info = self._info(name)
        if info.filename not in self._seen:
            self._seen.add(info.filename)
            self._streamed += info.file_size
            if self._streamed > MOST_UNPACKED:
                raise self._refusal(f"more than {MOST_UNPACKED:,} bytes of sheets")
            with super().open(name) as stream:
                self._look_through(stream)
        return super().open(name, mode, pwd, force_zip64=force_zip64)

    def _info(self, name: str | zipfile.ZipInfo) -> zipfile.ZipInfo:
        return name if isinstance(name, zipfile.ZipInfo) else self.getinfo(name)

    def _look_through(self, stream: IO[bytes]) -> None:
        scan = _Scan()
        while chunk := stream.read(_CHUNK):
            scan.parser.Parse(chunk)
            if problem := scan.problem():
                raise self._refusal(problem)
        scan.parser.Parse(b"", True)

    def _refusal(self, what: str) -> DataError:
        return DataError(self._path, None, f"unpacks to {what}", hint=_HINT)


class _Scan:
    """Counts what a stream of XML would leave in the memory of a reader that lets go of rows and
    shared texts alone."""

    def __init__(self) -> None:
        self.parser = expat.ParserCreate(namespace_separator="}")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.EntityDeclHandler = self._entity
        self._kind = ""  # of the row or text that is open
        self._depth = 0  # inside it
        self._since = 0  # the byte at which it, or what follows it, began
        self._outside = 0  # bytes
        self._elements, self._elements_outside = 0, 0
        self._count = {_ROW: 0, _TEXT: 0}

    def problem(self) -> str | None:
        length = self.parser.CurrentByteIndex - self._since
        outside = self._outside + (0 if self._kind else length)
        if (self._kind and length > _MOST_IN_ROW) or self._elements > _MOST_ELEMENTS:
            return f"a row of more than {_MOST_IN_ROW:,} bytes or {_MOST_ELEMENTS:,} elements"
        if outside > _MOST_IN_ROW or self._elements_outside > _MOST_ELEMENTS:
            return f"more than {_MOST_IN_ROW:,} bytes or {_MOST_ELEMENTS:,} elements beside rows"
        if self._count[_ROW] > MOST_ROWS:
            return f"more than {MOST_ROWS:,} rows"
        shared = self.parser.CurrentByteIndex > MOST_SHARED and self._count[_TEXT]
        if shared or self._count[_TEXT] > MOST_SHARED_TEXTS:
            return f"more than {MOST_SHARED_TEXTS:,} texts or {MOST_SHARED:,} bytes of them"
        return None

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if self._kind:
            self._elements += 1
            self._depth += 1
        elif tag in self._count:
            self._outside += self.parser.CurrentByteIndex - self._since
            self._kind, self._depth, self._elements = tag, 0, 0
            self._since = self.parser.CurrentByteIndex
            self._count[tag] += 1
        else:
            self._elements_outside += 1

    def _end(self, tag: str) -> None:
        if self._kind and not self._depth:
            self._kind = ""
            self._since = self.parser.CurrentByteIndex
        elif self._kind:
            self._depth -= 1

    def _entity(self, *declared: object) -> None:
        raise ValueError("XML with entities of its own, which no workbook has")
