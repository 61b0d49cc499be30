"""What is on its way with a provider's batch API, on disk: a start that was killed is gone on with.

One small JSON file a batch. It is written before the batch is made (with a tag of its own, which
the batch carries as metadata), again when it has an id, and taken away when its last answer has
been handed on.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from filelock import FileLock

DAYS_KEPT = 29  # providers delete a batch's files after 30 days


@dataclass(slots=True)
class Job:
    """A batch: the keys of requests whose answers are still to be handed on (their custom_ids are
    the same keys), and what the provider calls it. ``tried``: its making was asked for, so that it
    may exist although ``batch``, its id, is not known."""

    keys: list[str]
    tag: str = field(default_factory=lambda: uuid.uuid4().hex)
    file: str | None = None
    batch: str | None = None
    tried: bool = False
    created: float = field(default_factory=time.time)


class Journal:
    """The jobs of one model in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Alone among all processes: two must not both upload what neither has found here. The
        system lets go of the lock when its process dies."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / "lock"):
            yield

    def jobs(self) -> list[Job]:
        """All jobs, oldest first; those too old to be fetched are taken away."""
        found = []
        for path in self.folder.glob("*.json"):
            job = Job(**json.loads(path.read_text(encoding="utf-8")))
            if time.time() - job.created > DAYS_KEPT * 86400:
                path.unlink(missing_ok=True)
            else:
                found.append(job)
        return sorted(found, key=lambda job: job.created)

    def save(self, job: Job) -> None:
        """Write ``job``, whole or not at all, and wait until the disk has it; without keys it is
        taken away."""
        path = self.folder / f"{job.tag}.json"
        if not job.keys:
            path.unlink(missing_ok=True)
            return
        partial = self.folder / f".{job.tag}.{os.getpid()}"
        with partial.open("w", encoding="utf-8") as file:
            json.dump(asdict(job), file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)

    def settle(self, job: Job, keys: Sequence[str]) -> None:
        """``keys`` need nothing more of ``job``."""
        done = set(keys)
        job.keys = [key for key in job.keys if key not in done]
        self.save(job)
