"""One process at a time writes to an output: the second is refused, not mixed with the first."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from medal_judges.errors import MedalError
from medal_judges.signature import content_hash


def lock_of(path: str | Path) -> FileLock:
    """The lock of an output, whichever name leads to it. The system lets go of it when its process
    dies.

    It lies in this machine's temporary folder, so that nothing is left beside the output: processes
    of other machines that write to a shared disk are not held off by it.
    """
    user = os.getuid() if hasattr(os, "getuid") else "user"
    folder = Path(tempfile.gettempdir()) / f"medal-judges-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return FileLock(folder / f"{content_hash(os.path.realpath(path))}.lock", blocking=False)


@contextmanager
def only_run(out: str | Path) -> Iterator[None]:
    """Hold the lock of ``out``. Raises MedalError where another process holds it."""
    lock = lock_of(out)
    try:
        lock.acquire()
    except Timeout:
        raise MedalError(
            f"another run is writing to {out}",
            hint="wait until it ends (the same command then goes on after it), or give another "
            "--out",
        ) from None
    try:
        yield
    finally:
        lock.release()
