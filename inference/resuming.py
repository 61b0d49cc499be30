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
    """Returns the path of the file that keeps the judgements of earlier runs. For the output
    ``scores.jsonl``, it is ``.earlier-scores.jsonl`` in the same folder.

    Args:
        lines: The JSONL file to which the present run writes.
    """
    return lines.with_name(f".earlier-{lines.name}")


class EarlierDialogue(NamedTuple):
    """A dialogue that an earlier run scored, and where its judgements are in the file of that run.

    Attributes:
        offset: The byte of the file at which its first judgement begins.
        input: The hash of the dialogue and its copied metadata, None if unknown.
        rows: The number of its judgements, which are consecutive lines of the file.
        is_done: Whether all of its judgements are final, so that it need not be scored again.
    """

    offset: int
    input: str | None
    rows: int
    is_done: bool


class EarlierJudgements:
    """The judgements of earlier runs, found by the id of a dialogue.

    The constructor moves the file ``lines`` aside, so that a run can write it anew.

    Args:
        lines: The JSONL file of judgements. It need not exist.
        is_done: A function that returns whether a judgement is final. A dialogue is scored again
            unless all of its judgements are final.

    Attributes:
        path: The file to which the judgements were moved.
        changed: The number of dialogues so far whose text or metadata differ from the earlier run.

    Raises:
        DataError: The file is damaged. It stays unchanged.
    """

    def __init__(self, lines: Path, is_done: Callable[[Judgement], bool]) -> None:
        self.path = earlier_file(lines)
        self.changed = 0
        self._entries: dict[str, EarlierDialogue] = {}
        offset = 0
        with atomic_path(self.path) as partial, partial.open("wb") as stream:
            for journal in (Journal(self.path), Journal(lines)):
                last_id = None
                for line, judgement in journal.parse_lines(judgement_parser()):
                    id, succeeded = judgement.id, is_done(judgement)
                    entry = EarlierDialogue(offset, judgement.input, 1, succeeded)
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

    def take_done(self, id: str, input: str, rows: int) -> EarlierDialogue | None:
        """Removes the entry of the dialogue ``id``, and returns it if all of its judgements can be
        used again.

        Args:
            input: The hash of the dialogue as it is now.
            rows: The number of judgements that the present run needs of this dialogue.

        Returns:
            The entry. None if no earlier run scored the dialogue, it has changed, another number of
                judgements is needed, or one of them is not final.
        """
        entry = self._entries.pop(id, None)
        if entry is None:
            return None
        self.changed += entry.input != input
        if (entry.input, entry.rows, entry.is_done) == (input, rows, True):
            return entry
        return None

    def lines(self, entry: EarlierDialogue) -> Iterator[bytes]:
        """Yields the lines with the judgements of ``entry``, each with its line feed."""
        self._stream.seek(entry.offset)
        for _ in range(entry.rows):
            yield self._stream.readline()

    def close_and_remove_if_used_up(self) -> None:
        """Closes the file of earlier judgements. Deletes it if every dialogue in it was also in the
        new input.

        Otherwise keeps the file, and logs a warning with the number of dialogues that were not in
        the new input.
        """
        self._stream.close()
        # Judgements that were not used may have cost money.
        if not self._entries:
            self.path.unlink()
            return
        logger.warning(
            "%d dialogues that were scored earlier are not in this input. %s keeps their scores "
            "for a run that reads them again",
            len(self._entries),
            self.path,
        )
