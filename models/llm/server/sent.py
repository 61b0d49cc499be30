"""Requests that were sent and have no answer: what a killed run may have spent."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

from medal_judges.config import Config
from medal_judges.errors import SourceError
from medal_judges.models.llm.cost import Amount
from medal_judges.storage.files import CACHE_VARIABLE, ProcessLock
from medal_judges.storage.jsonl import Journal

logger = logging.getLogger(__name__)


class SentLine(Config):
    """What a run may have spent on the request ``key`` so far; None: it has its answer."""

    key: str
    run: str
    sent: Amount | None


class SentRequests:
    """The journal ``path``: before a request of a known price is sent, a line with the most that it
    can have cost by then, and another line when it is answered.

    So what a killed run may have spent counts in the run that asks again.
    """

    def __init__(self, path: Path) -> None:
        self.journal = Journal(path)
        # key -> another run -> US dollars that it may have spent without having an answer
        self._open: dict[str, dict[str, float]] = {}
        self._run = uuid4().hex
        self._read = 0
        self._lock = ProcessLock()

    def lost(self, keys: Iterable[str]) -> dict[str, float]:
        """Returns what other runs may have spent on those of ``keys`` that they have sent and that
        have no answer."""
        lost = {}
        with self._lock:
            self._read_new_lines()
            for key in keys:
                lost[key] = sum(self._open.get(key, {}).values())
        return lost

    def _read_new_lines(self) -> None:
        for start, text in self.journal.lines(self._read):
            self._read = start + len(text)
            try:
                line = SentLine.model_validate_json(text)
            except ValueError:
                logger.warning("%s: a line is not a sent request", self.journal.path)
                continue
            if line.sent is None:
                self._open.pop(line.key, None)
            elif line.run != self._run:
                self._open.setdefault(line.key, {})[line.run] = line.sent

    def note(self, key: str, dollars: float | None) -> None:
        """Writes that the request may have cost ``dollars`` so far; None: it has its answer. Raises
        SourceError."""
        line = SentLine(key=key, run=self._run, sent=dollars)
        try:
            self.journal.append([line.model_dump()], sync=False)
        except OSError as error:
            raise SourceError(
                f"{self.journal.path}: what is paid cannot be noted: {error}",
                hint=f"let {CACHE_VARIABLE} name a folder that can be written",
            ) from error
