"""An append-only file of answers: one JSON object a line, found again by key.

Why lines and not sqlite: a cache must survive kill -9 at any byte and two processes at once. A line
is appended by one ``write`` to a file opened with O_APPEND, so two processes of a machine never
write over each other, and no lock, journal or shared memory is left behind. The file can be read,
copied and joined with ``cat``. Over NFS appending is not atomic between machines (and sqlite's
write-ahead log does not work there at all): an answer can be lost to another machine's, and is then
asked again; give each machine a folder of its own where that costs too much.

Each line is written between two line breaks. A write that was torn (kill, full disk) is then at
most one line that is not whole JSON, which reading leaves out; what is written next begins on a
line of its own.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from medal_judges.errors import SourceError

logger = logging.getLogger(__name__)


class AnswerStore:
    """Records by key in the file ``path``, which need not exist yet. A key is never overwritten:
    the first line that has it and can be read counts.

    Only keys and places are held in memory. No file stays open between calls. ``torn`` counts lines
    that are no records, ``bad`` those whose answer cannot be one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = self.bad = 0
        self._places: dict[str, list[tuple[int, int]]] = {}
        self._read = 0

    def find(
        self, keys: Iterable[str], read: Callable[[Any], Any] = lambda record: record
    ) -> dict[str, Any]:
        """What ``read`` makes of the records that are there, of any process that has written until
        now. A record that it raises ValueError for is passed over and counted: as if it were not
        there."""
        self.refresh()
        answers: dict[str, Any] = {}
        wanted = [key for key in dict.fromkeys(keys) if key in self._places]
        if wanted:
            with self.path.open("rb") as stream:
                for key in wanted:
                    for place in list(self._places[key]):
                        try:
                            answers[key] = read(self._answer(stream, key, place))
                            break
                        except ValueError as error:
                            self._leave_out(key, place, error)
        return answers

    def _answer(self, stream: IO[bytes], key: str, place: tuple[int, int]) -> Any:
        offset, length = place
        stream.seek(offset)
        record = json.loads(stream.read(length))
        if not isinstance(record, dict) or record.get("key") != key:
            raise ValueError("the file was changed while it was read")
        return record.get("answer")

    def _leave_out(self, key: str, place: tuple[int, int], error: ValueError) -> None:
        self._places[key].remove(place)
        self.bad += 1
        logger.warning("%s: a kept answer is left out, %s; it is asked again", self.path, error)

    def append(self, records: Mapping[str, Any]) -> None:
        """Write {key: record} and wait until the disk has it.

        Raises SourceError when the disk does not take it.
        """
        lines = [json.dumps({"key": key, "answer": record}) for key, record in records.items()]
        if not lines:
            return
        block = "".join(f"\n{line}\n" for line in lines).encode()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                written = os.write(file, block)
                os.fsync(file)
            finally:
                os.close(file)
        except OSError as error:
            raise SourceError(f"{self.path}: an answer cannot be kept: {error}") from error
        if written != len(block):  # the next write would say why, but half a block must not pass
            raise SourceError(f"{self.path}: an answer cannot be kept: the disk is full")

    def refresh(self) -> None:
        """Take note of the lines that were added since the last look."""
        try:
            with self.path.open("rb") as stream:
                if stream.seek(0, os.SEEK_END) <= self._read:
                    return
                stream.seek(self._read)
                for line in stream:
                    if not line.endswith(b"\n"):  # being written now, or torn: look again later
                        break
                    self._note(line)
                    self._read += len(line)
        except FileNotFoundError:
            return
        except OSError as error:
            raise SourceError(f"{self.path}: kept answers cannot be read: {error}") from error

    def __len__(self) -> int:
        self.refresh()
        return sum(map(bool, self._places.values()))

    def _note(self, line: bytes) -> None:
        if line == b"\n":
            return
        try:
            record = json.loads(line)
            key, _ = str(record["key"]), record["answer"]
        except (ValueError, KeyError, TypeError, RecursionError):  # also bytes that are not UTF-8
            self.torn += 1
            logger.warning("%s: a line that was not written whole is left out", self.path)
        else:
            self._places.setdefault(key, []).append((self._read, len(line)))
