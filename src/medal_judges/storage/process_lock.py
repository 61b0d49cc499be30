"""A lock between threads that can be pickled and forked."""

from __future__ import annotations

import os
import threading
from weakref import WeakSet

_LOCKS: WeakSet[ProcessLock] = WeakSet()


class ProcessLock:
    """A reentrant lock of one process's threads. Unpickled it is a new lock, and in a forked child
    it is free, because the thread that held it does not exist there."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[ProcessLock], tuple[()]]:
        return ProcessLock, ()


def _renew_all() -> None:
    for lock in list(_LOCKS):
        lock._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
