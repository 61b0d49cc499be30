"""Resumes a file of judgements. A dialogue counts as done if the file of an earlier run with the
same settings has its id and the hash of its input. A run writes its output anew, in input order.
Until it ends, a file beside the output keeps what earlier runs wrote. So a killed run loses
nothing, and the result is byte for byte the file of an uninterrupted run."""

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
    """Returns the path of the file that keeps the judgements of earlier runs. It is in the folder
    of ``lines``, the output."""
    return lines.with_name(f".earlier-{lines.name}")


class Entry(NamedTuple):
    """Where the earlier judgements of one dialogue are. ``offset`` is the byte at which their first
    line begins. ``rows`` is the number of lines. ``input`` is the hash of the dialogue. ``is_done``
    says whether all of the judgements are final."""

    offset: int
    input: str | None
    rows: int
    is_done: bool


class EarlierJudgements:
    """The judgements that earlier runs wrote to the file ``lines``, by the id of the dialogue.

    ``is_done`` is a function that returns whether a judgement is final. A judgement that is not
    final is computed again. The attribute ``changed`` counts the dialogues whose text or metadata
    differ from the earlier run. Raises DataError for a damaged file, and leaves it unchanged.
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
        """Removes the entry of the dialogue ``id``, and returns it if it can be used. It can if it
        is done, has the hash ``input`` and has ``rows`` judgements. Returns None in all other
        cases."""
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
        """Removes the file of earlier judgements. If some of them are about dialogues that the
        input no longer has, the file stays, because these judgements may have cost money."""
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
