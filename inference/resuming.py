"""Resumes a file of judgements. A dialogue is done if a file of the same run has its id and the
hash of its input. During a run the output is written anew in the order of the input, and a file
beside it holds what earlier runs wrote. So a kill loses nothing, and the result equals the file of
an uninterrupted run byte for byte."""

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
    """Returns the path beside ``lines`` of the file that holds what earlier runs wrote."""
    return lines.with_name(f".earlier-{lines.name}")


class Entry(NamedTuple):
    """The earlier judgements of one dialogue: the ``offset`` of their first line in bytes, the hash
    of the dialogue's ``input``, the number of lines (``rows``), and whether all of them are
    done."""

    offset: int
    input: str | None
    rows: int
    is_done: bool


class EarlierJudgements:
    """The judgements that earlier runs wrote to the file ``lines``, by the id of the dialogue.

    ``is_done`` returns whether a judgement is final, so that it is not computed again. ``changed``
    counts the dialogues whose input has another hash now. Raises DataError for a damaged file,
    which is left unchanged.
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

    def take_done(self, id: str, input: str, rows: int) -> Entry | None:
        """Removes and returns the entry of the dialogue ``id``. Returns None if there is none, if
        it is not done, if its hash is not ``input``, or if it does not have ``rows`` judgements."""
        entry = self._entries.pop(id, None)
        if entry is None:
            return None
        self.changed += entry.input != input
        if (entry.input, entry.rows, entry.is_done) == (input, rows, True):
            return entry
        return None

    def lines(self, entry: Entry) -> Iterator[bytes]:
        """Yields the lines of ``entry``, each with its line feed."""
        self._stream.seek(entry.offset)
        for _ in range(entry.rows):
            yield self._stream.readline()

    def remove_if_used(self) -> None:
        """Removes the file of earlier judgements. It stays if some are of dialogues that the input
        no longer has, because those may have been paid for."""
        self._stream.close()
        if not self._entries:
            self.path.unlink()
            return
        logger.warning(
            "%d dialogues that were scored earlier are not in this input. %s keeps their scores "
            "for a run that reads them again",
            len(self._entries),
            self.path,
        )
