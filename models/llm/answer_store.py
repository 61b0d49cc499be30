"""Kept answers: the keys that name them, and their records on disk, each read back field by field,
for a kept line is foreign text."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, TypeVar

from pydantic import TypeAdapter, ValidationError

from medal_judges.errors import RecordError, SourceError
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
)
from medal_judges.storage.journal import Journal
from medal_judges.storage.process_lock import ProcessLock

T = TypeVar("T")
logger = logging.getLogger(__name__)


# 128 bits: no two requests meet, and it fits a batch API's custom_id (64 characters).
KEY_DIGITS = 32


def chat_key(model: str, request: ChatRequest) -> str:
    """Key of an answer of ``model`` (see ``model_key``): 32 hex digits over every field."""
    return _hash("chat", model, asdict(request))


def likelihood_key(model: str, continuation: Continuation, *, joint: bool) -> str:
    """Key of a continuation's likelihood; one with the prefix's likelihood has another key."""
    return _hash("loglikelihood", model, asdict(continuation), joint)


def model_key(model: LanguageModel) -> str:
    """Hash of a model's name and fingerprint: no host, no path and no secret goes into a key."""
    return _hash(model.name, dict(model.fingerprint()))


def served_key(key: str, identity: str | None) -> str:
    """``key`` (of ``model_key``) where a server tells which weights stand behind the name."""
    return key if identity is None else _hash(key, identity)


def _hash(*parts: object) -> str:
    # ASCII: half a surrogate pair in a turn has no UTF-8, but it has an escape. Whole numbers and
    # 1.0 alike, since 0 and 0.0 ask the same.
    plain = json.loads(json.dumps(parts), parse_float=_number)
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:KEY_DIGITS]


def _number(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() else value


class AnswerStore:
    """Records by key in the journal ``path``, which need not exist yet. A key is never overwritten:
    the first line that has it and can be read counts.

    Only keys and places are held in memory, and no file stays open between calls. ``torn`` counts
    lines that are no records, ``bad`` those whose answer cannot be one.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.journal = path, Journal(path)
        self.torn = self.bad = 0
        self._places: dict[str, list[tuple[int, int]]] = {}
        self._read = 0
        self._lock = ProcessLock()

    def find(self, keys: Iterable[str], read: Callable[[object], T]) -> dict[str, T]:
        """What ``read`` makes of the records that are there, of any process that has written until
        now. A record that it raises ValueError for is passed over and counted: as if it were not
        there."""
        with self._lock:
            self.refresh()
            answers: dict[str, T] = {}
            wanted = [key for key in dict.fromkeys(keys) if key in self._places]
            if wanted:
                with self.path.open("rb") as stream:
                    for key in wanted:
                        for place in list(self._places[key]):
                            try:
                                answers[key] = read(_answer(stream, key, place))
                                break
                            except ValueError as error:
                                self._places[key].remove(place)
                                self.bad += 1
                                told = "%s: a kept answer is left out, %s; it is asked again"
                                logger.warning(told, self.path, error)
        return answers

    def append(self, records: Mapping[str, object]) -> None:
        """Write {key: record} and wait until the disk has it.

        Raises SourceError when the disk does not take it.
        """
        try:
            self.journal.append(
                {"key": key, "answer": value, "check": checksum(key, value)}
                for key, value in records.items()
            )
        except OSError as error:
            raise SourceError(f"{self.path}: an answer cannot be kept: {error}") from error
        except RecordError as error:  # half a surrogate pair, a log-probability of -inf
            logger.warning("%s: an answer is not kept: %s", self.path, error)

    def refresh(self) -> None:
        """Take note of the lines that were added since the last look."""
        with self._lock:
            try:
                for place, line in self.journal.lines(self._read):
                    self._read = place + len(line)
                    self._note(place, line)
            except OSError as error:
                raise SourceError(f"{self.path}: kept answers cannot be read: {error}") from error

    def _note(self, place: int, line: bytes) -> None:
        try:
            record = json.loads(line)
            key, _ = str(record["key"]), record["answer"]
        except (ValueError, KeyError, TypeError, RecursionError):  # also what is no UTF-8
            self.torn += 1
            logger.warning("%s: a line that is no answer is left out", self.path)
        else:
            self._places.setdefault(key, []).append((place, len(line)))

    def __len__(self) -> int:
        self.refresh()
        return sum(map(bool, self._places.values()))


def _answer(stream: IO[bytes], key: str, place: tuple[int, int]) -> object:
    offset, length = place
    stream.seek(offset)
    record = json.loads(stream.read(length))
    if not isinstance(record, dict) or record.get("key") != key:
        raise ValueError("the file was changed while it was read")
    answer: object = record.get("answer")
    if record.get("check") != checksum(key, answer):
        raise ValueError("its checksum is another")
    return answer


def checksum(key: str, answer: object) -> str:
    """12 hex digits that tell a line whose bits or fields were changed. (Against somebody who
    writes the checksum too, the folder's rights are the protection.)"""
    return _hash(key, answer)[:12]


_COMPLETION, _LIKELIHOOD = TypeAdapter(Completion), TypeAdapter(Likelihood)


def completion_of(record: object) -> Completion:
    """A completion out of the record that ``dataclasses.asdict`` made of it. Raises ValueError for
    what that cannot have written, and for a failure, which is not kept."""
    completion = _checked(_COMPLETION, record)
    if completion.finish == "failed":
        raise ValueError("it is a failure")
    return completion


def likelihood_of(record: object) -> Likelihood:
    """The same of a likelihood."""
    return _checked(_LIKELIHOOD, record)


def _checked(kind: TypeAdapter[T], record: object) -> T:
    try:
        return kind.validate_json(json.dumps(record), strict=True)
    except ValidationError as error:
        wrong = [".".join(map(str, each["loc"])) or "the record" for each in error.errors()]
        raise ValueError(f"its field {wrong[0]} is not what an answer has") from None
