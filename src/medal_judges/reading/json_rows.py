"""Rows of JSON text: a value a line, one array (an element a row), or one value for all of it.

Nothing is held but the row at hand; a broken row costs itself alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, Any

from medal_judges.errors import RecordError
from medal_judges.storage import jsonl

# (Number of the line or element from 1, its value, or what is wrong with it)
NumberedRow = tuple[int, object]
Fields = dict[str, Any]  # of one row, values as JSON has them

_MARK = re.compile(r'[\[\]{}",\\]')
_IN_TEXT = re.compile(r'["\\]')
_CHUNK = 1 << 16


def json_lines(stream: IO[str]) -> Iterator[NumberedRow]:
    """A row for each line that is not blank."""
    for number, line in enumerate(jsonl.limited_lines(stream), 1):
        if line.strip():
            yield number, loaded(line)


def json_document(stream: IO[str]) -> Iterator[NumberedRow]:
    """The one value of a whole document."""
    text = stream.read(jsonl.LONGEST_LINE + 1)
    yield 1, loaded(text)


def json_array(stream: IO[str]) -> Iterator[NumberedRow]:
    """A row for each element of the array that is the document.

    Elements are told apart by counting brackets outside of texts, so that one that is no JSON is a
    bad row and the next is read. What stands behind the array's end is a bad row too.
    """
    number = 0
    for number, (text, whole) in enumerate(_elements(stream), 1):
        if whole:
            yield number, loaded(text)
        else:
            problem = "the array's end, a bracket ]"
            yield number, RecordError("(row)", problem, text.strip()[-60:])


def loaded(text: str) -> object:
    """The JSON value of ``text``, or the RecordError that says why there is none."""
    if len(text) > jsonl.LONGEST_LINE and not text.endswith("\n"):
        return RecordError("(line)", f"at most {jsonl.LONGEST_LINE:,} characters", text[:80])
    try:
        return jsonl.load_json(text)
    except RecordError as error:
        return error
    except RecursionError:
        return RecordError("(line)", "JSON that is not nested too deep", text[:80])


def _elements(stream: IO[str]) -> Iterator[tuple[str, bool]]:
    """(Text of an element, whether it ended) of the array; of an element that is too long its
    first jsonl.LONGEST_LINE characters and one more."""
    splitter = _Splitter()
    opened = False
    while chunk := stream.read(_CHUNK):
        if not opened:
            chunk = chunk.lstrip()
            if not chunk:
                continue
            chunk, opened = chunk[1:], True  # its bracket
        for text in splitter.feed(chunk):
            if text.strip():
                yield text, True
        if splitter.closed:
            rest = splitter.rest.strip() or stream.read(_CHUNK).strip()
            if rest:
                yield rest[:200], False
            return
    yield splitter.rest, False


class _Splitter:
    """Cuts the inside of an array at its commas, chunk by chunk."""

    def __init__(self) -> None:
        self.closed = False
        self._parts: list[str] = []
        self._length = 0
        self._depth = 0
        self._in_text = False
        self._escaped = False

    @property
    def rest(self) -> str:
        """What has come since the last cut."""
        return "".join(self._parts)

    def feed(self, chunk: str) -> Iterator[str]:
        """The elements that end in ``chunk``."""
        start = at = 0
        if self._escaped:
            at, self._escaped = 1, False
        while at < len(chunk):
            match = (_IN_TEXT if self._in_text else _MARK).search(chunk, at)
            if match is None:
                break
            at, mark = match.end(), match.group()
            if mark == "\\":
                self._escaped = at == len(chunk)
                at += 1
            elif mark == '"':
                self._in_text = not self._in_text
            elif mark in "[{":
                self._depth += 1
            elif mark in "]}" and self._depth:
                self._depth -= 1
            elif not self._depth and mark in ",]":
                self._keep(chunk[start : at - 1])
                start = at
                yield self._taken()
                if mark == "]":
                    self.closed = True
                    self._parts = [chunk[at:]]
                    return
        self._keep(chunk[start:])

    def _keep(self, text: str) -> None:
        room = jsonl.LONGEST_LINE + 1 - self._length
        if room > 0:
            self._parts.append(text[:room])
            self._length += min(room, len(text))

    def _taken(self) -> str:
        text, self._parts, self._length = self.rest, [], 0
        return text
