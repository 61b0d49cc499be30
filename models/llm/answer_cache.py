"""The cache of paid answers: one SQLite file for each model and server.

The key of an answer is a hash of the model's name and every field of the request. A failed answer
is not cached.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from medal_judges.errors import SourceError
from medal_judges.models.llm.protocol import ChatRequest, Completion

COMPLETION = TypeAdapter(Completion)
PATIENCE = 60.0  # seconds that a process waits for another one to write


def answer_key(model: object, request: ChatRequest) -> str:
    """Returns the cache key of an answer: 32 hex digits, a hash of the model's name and of all
    fields of ``request``.

    Args:
        model: The name of the model, such as ``openai/gpt-4.1-mini``.
    """
    # ASCII, because half a surrogate pair in a turn has no UTF-8.
    content = json.dumps([model, asdict(request)], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:32]


class AnswerCache:
    """A cache of answers in the SQLite file ``path``. Several processes and threads may use it at
    once. The file is created when it is first used."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(self.path, timeout=PATIENCE)
        database.execute("PRAGMA synchronous = OFF")  # a kill loses nothing
        database.execute(
            "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT)"
        )
        return database

    def find(self, keys: Iterable[str]) -> dict[str, Completion]:
        """Returns key -> cached answer, for those of ``keys`` that have an answer in the cache.

        Raises:
            SourceError: The file cannot be read.
        """
        answers = {}
        try:
            with closing(self._open()) as database:
                for key in keys:
                    query = "SELECT answer FROM answers WHERE key = ?"
                    row = database.execute(query, [key]).fetchone()
                    if row is not None:
                        with suppress(ValidationError):  # half a surrogate pair
                            answers[key] = COMPLETION.validate_json(row[0], strict=True)
        except (OSError, sqlite3.Error) as error:
            raise self._error(error) from error
        return answers

    def save_unfailed(self, key: str, answer: Completion) -> None:
        """Saves ``answer`` under ``key``, unless it is a failed answer.

        Raises:
            SourceError: The file cannot be written.
        """
        if answer.failed:
            return
        try:
            with closing(self._open()) as database, database:
                row = [key, json.dumps(asdict(answer))]
                database.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", row)
        except (OSError, sqlite3.Error) as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> SourceError:
        return SourceError(
            f"{self.path}: cached answers cannot be used: {error}",
            hint="Delete the file, or leave it out: llm.cache=false",
        )
