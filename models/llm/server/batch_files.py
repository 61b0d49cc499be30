"""A batch on the wire and on disk: the lines of its upload and of its results, and the journal by
which a run that was killed resumes."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock

from medal_judges.errors import RecordError
from medal_judges.models.llm.server.errors import Clean, is_transient, words
from medal_judges.models.llm.server.wire import get
from medal_judges.storage.journal import Journal

ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
MAX_REQUESTS = 50_000
MAX_BYTES = 200_000_000
DAYS_KEPT = 29  # providers delete a batch's files after 30 days


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What a batch says of one request: the ``body`` of a chat completion, or the ``reason`` why
    there is none with the HTTP ``status`` where it has one; ``transient`` where the request may be
    answered in another batch."""

    key: str
    body: Mapping[str, object] | None = None
    reason: str = ""
    status: int | None = None
    transient: bool = False


def request_line(key: str, body: Mapping[str, object]) -> bytes:
    """One line of the upload; ``key`` comes back beside the answer."""
    record = {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": body}
    return json.dumps(record).encode() + b"\n"


def split(
    lines: Iterable[tuple[str, bytes]],
    *,
    max_requests: int = MAX_REQUESTS,
    max_bytes: int = MAX_BYTES,
) -> Iterator[tuple[list[str], bytes]]:
    """(key, line) pairs as (keys, file) within a provider's limits, in order.

    A line that is longer than ``max_bytes`` is a file of its own: the provider says what it thinks
    of that.
    """
    keys: list[str] = []
    parts: list[bytes] = []
    size = 0
    for key, line in lines:
        if keys and (len(keys) == max_requests or size + len(line) > max_bytes):
            yield keys, b"".join(parts)
            keys, parts, size = [], [], 0
        keys.append(key)
        parts.append(line)
        size += len(line)
    if keys:
        yield keys, b"".join(parts)


def read_results(content: bytes, clean: Clean = str) -> Iterator[BatchResult]:
    """Results in an output or error file; lines that are none are left out (their requests then
    count as unanswered). ``clean`` takes the key out of what the server says."""
    for line in content.split(b"\n"):
        try:
            record = json.loads(line)
            key = str(record["custom_id"])
        except (ValueError, KeyError, TypeError):
            continue
        response, error = get(record, "response"), get(record, "error")
        status, body = get(response, "status_code"), get(response, "body")
        if error is None and status == 200 and isinstance(body, Mapping):
            yield BatchResult(key, body)
            continue
        said = error if isinstance(error, Mapping) else get(body, "error")
        told = [str(part) for part in (get(said, "code"), get(said, "message")) if part]
        head = f"HTTP {status}" if status is not None else "in the batch"
        reason = words(f"{head}: {': '.join(told) or 'no reason given'}", clean)
        # Without a status the batch itself failed it (expired, a server's error).
        known = status if isinstance(status, int) else None
        yield BatchResult(key, None, reason, known, known is None or is_transient(known))


def _object(record: object) -> dict[str, Any]:
    if not isinstance(record, dict) or "tag" not in record:
        raise RecordError("tag", "the tag of a batch", record)
    return record


@dataclass(slots=True)
class BatchJob:
    """A batch: the keys of requests whose answers are still to be handed on (their custom_ids are
    the same keys), and what the provider calls it. ``tried``: its making was asked for, so that it
    may exist although ``batch``, its id, is not known."""

    keys: list[str]
    tag: str = field(default_factory=lambda: uuid.uuid4().hex)
    file: str | None = None
    batch: str | None = None
    tried: bool = False
    created: float = field(default_factory=time.time)


class BatchJournal:
    """What one model has under way with a provider's batch API, in ``folder``.

    A job is written before its batch is made (with a tag of its own, which the batch carries as
    metadata) and again when it has an id, and each answer that was handed on is noted. Where
    nothing is under way there is no file.
    """

    def __init__(self, folder: Path) -> None:
        self.journal = Journal(folder / "batches.jsonl")
        folder.mkdir(parents=True, exist_ok=True)
        # Alone among all processes: two must not both upload what neither has noted here. The
        # system lets go of the lock when its process dies.
        self.lock = FileLock(folder / "lock")

    def jobs(self) -> list[BatchJob]:
        """All jobs, oldest first; those too old to be fetched are left out."""
        jobs: dict[str, BatchJob] = {}
        done: dict[str, set[str]] = {}
        for record in self.journal.records(_object):
            if "done" in record:
                done.setdefault(record["tag"], set()).update(record["done"])
            else:
                jobs[record["tag"]] = BatchJob(**record)
        oldest = time.time() - DAYS_KEPT * 86400
        for job in jobs.values():
            job.keys = [key for key in job.keys if key not in done.get(job.tag, ())]
        open_jobs = [job for job in jobs.values() if job.keys and job.created > oldest]
        return sorted(open_jobs, key=lambda job: job.created)

    def save(self, job: BatchJob) -> None:
        """Write ``job`` and wait until the disk has it."""
        self.journal.append([asdict(job)])

    def settle(self, job: BatchJob, keys: Sequence[str]) -> None:
        """``keys`` need nothing more of ``job``."""
        done = set(keys)
        job.keys = [key for key in job.keys if key not in done]
        with self.lock:
            self.journal.append([{"tag": job.tag, "done": list(keys)}])
            if not job.keys and not self.jobs():
                self.journal.path.unlink(missing_ok=True)
