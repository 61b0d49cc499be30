"""Journal: every answer of a run, one a line, in the order in which they came.

It is the only thing that a run needs to go on; the files of dialogues and of rejected turns are
made from it. A line is written whole when its answer arrives; what a kill leaves of a last line is
dropped, and its answer is asked for again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from medal_judges.data_prep.generation.unit import Stage
from medal_judges.errors import DataError

_STAGES = ("say", "check", "reply")


@dataclass(frozen=True, slots=True)
class Event:
    """An answer: of which unit and stage, in whose words, and what it took (Usage.to_record)."""

    id: str
    stage: Stage
    answer: str
    cut: bool = False
    usage: dict[str, float] = field(default_factory=dict)

    def to_record(self) -> dict[str, Any]:
        """The journal's line."""
        record: dict[str, Any] = {"id": self.id, "stage": self.stage, "answer": self.answer}
        return record | ({"cut": True} if self.cut else {}) | {"usage": self.usage}


class Journal:
    """The file ``path``, which need not exist yet; one process at a time writes to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stream: IO[bytes] | None = None
        self._broken: OSError | None = None

    def earlier(self) -> Iterator[Event]:
        """The events that stand there. A half-written last line is cut off the file.

        Raises DataError, with the line, for one in the middle that is no event.
        """
        if not self.path.exists():
            return
        whole = 0
        with self.path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                if not line.endswith(b"\n"):
                    break
                yield self._event(number, line)
                whole += len(line)
        os.truncate(self.path, whole)

    def _event(self, number: int, line: bytes) -> Event:
        try:
            record = json.loads(line)
            stage, answer = record["stage"], record["answer"]
            usage = record.get("usage", {})
            if stage not in _STAGES or not (isinstance(answer, str) and isinstance(usage, dict)):
                raise ValueError
            return Event(str(record["id"]), stage, answer, bool(record.get("cut")), usage)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                self.path,
                number,
                "not a line of a generation's journal",
                hint="restore the file, or begin anew with --overwrite",
            ) from error

    def append(self, event: Event) -> None:
        """Write ``event``; a kill after this loses nothing of it.

        Raises OSError where there is no room, then and ever after: a whole line behind half of one
        could not be told from it.
        """
        if self._broken is not None:
            raise self._broken
        if self._stream is None:
            # Unbuffered: a line reaches the operating system in one piece.
            self._stream = self.path.open("ab", buffering=0)
        line = json.dumps(event.to_record(), ensure_ascii=False) + "\n"
        left = memoryview(line.encode("utf-8", "replace"))
        try:
            while left:  # a disk that is nearly full takes a part and says no to the rest
                left = left[self._stream.write(left) or 0 :]
        except OSError as error:
            self._broken = error
            raise

    def sync(self) -> None:
        """Wait until the disk has it: then a power cut loses nothing either."""
        if self._stream is not None:
            os.fsync(self._stream.fileno())

    def close(self) -> None:
        """Let go of the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
