"""A lock between threads that survives being sent to, or inherited by, another process."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from weakref import WeakSet

_LOCKS: WeakSet[ProcessLock] = WeakSet()


class ProcessLock:
    """A reentrant lock of the threads of one process. Pickled it arrives as a new one, and in a
    forked child it is free: the thread that held it at the fork is not there."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[ProcessLock], tuple[()]]:
        return ProcessLock, ()

    def renew(self) -> None:
        """Forget who holds it."""
        self._lock = threading.RLock()


def _renew_all() -> None:
    for lock in list(_LOCKS):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
