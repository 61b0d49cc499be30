"""Resumes a file of judgements: done is what has the id and the input's hash in a file of the same
run.

While a run writes the file anew, in the order of the input, what earlier runs wrote lies in a file
beside it. So a kill loses nothing, and the file equals that of an uninterrupted run byte for byte.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from medal_judges.records.judgement import Judgement, judgement_parser
from medal_judges.storage.files import atomic_path
from medal_judges.storage.jsonl import Journal

logger = logging.getLogger(__name__)


def earlier_file(lines: Path) -> Path:
    """Returns the file beside ``lines`` for what earlier runs wrote."""
    return lines.with_name(f".earlier-{lines.name}")


class Entry(NamedTuple):
    """Where the ``rows`` lines of a dialogue begin, the hash of its ``input``, and whether each of
    them ``is_done``."""

    offset: int
    input: str | None
    rows: int
    is_done: bool


class EarlierJudgements:
    """The judgements that earlier runs wrote to the file ``lines``, by id.

    ``is_done`` says whether a judgement is not tried again. ``changed`` counts dialogues whose
    input is another one now. Raises DataError for a damaged file, which stays as it is.
    """

    def __init__(self, lines: Path, is_done: Callable[[Judgement], bool]) -> None:
        self.path = earlier_file(lines)
        self.changed = 0
        self._entries: dict[str, Entry] = {}
        offset = 0
        with atomic_path(self.path) as partial, partial.open("wb") as stream:
            for journal in (Journal(self.path), Journal(lines)):
                last_id = None
                for line, judgement in journal.parse_lines(judgement_parser()):
                    id, succeeded = judgement.id, is_done(judgement)
                    entry = Entry(offset, judgement.input, 1, succeeded)
                    if id == last_id:
                        first = self._entries[id]
                        entry = first._replace(
                            rows=first.rows + 1, is_done=first.is_done and succeeded
                        )
                    self._entries[id] = entry
                    last_id = id
                    offset += stream.write(line)
        lines.unlink(missing_ok=True)
        self._stream = self.path.open("rb")

    def take(self, id: str, input: str, rows: int) -> Entry | None:
        """Returns the earlier entry of the dialogue ``id`` with the hash ``input``, if it has the
        number of judgements ``rows``. Returns None otherwise."""
        entry = self._entries.pop(id, None)
        if entry is None:
            return None
        self.changed += entry.input != input
        if (entry.input, entry.rows, entry.is_done) == (input, rows, True):
            return entry
        return None

    def lines(self, entry: Entry) -> Iterator[bytes]:
        """Yields the lines of the dialogue of ``entry``."""
        self._stream.seek(entry.offset)
        for _ in range(entry.rows):
            yield self._stream.readline()

    def finish(self) -> None:
        """Removes the file of earlier judgements, unless some are of dialogues that the input
        lacks: those may have been paid for."""
        self._stream.close()
        if not self._entries:
            self.path.unlink()
            return
        logger.warning(
            "%d dialogues that were scored earlier are not in this input; %s holds their scores "
            "for a run that reads them again",
            len(self._entries),
            self.path,
        )
