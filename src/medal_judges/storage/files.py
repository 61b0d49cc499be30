"""Folders of the package, atomic writes, and locks: one run at a time writes to a file."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakSet

from filelock import FileLock, Timeout

from medal_judges.errors import ConfigError, MedalError

CACHE_VARIABLE = "MEDAL_JUDGES_CACHE"
DATA_VARIABLE = "MEDAL_JUDGES_DATA"
CSV, PARQUET = (".csv", ".csv.gz"), ".parquet"
_READ: list[Path] = []  # the inputs of this process's command


def cache_folder() -> Path:
    """Returns the folder for what can be made or downloaded again: $MEDAL_JUDGES_CACHE, by default
    ~/.cache/medal_judges."""
    value = os.environ.get(CACHE_VARIABLE)
    return Path(value) if value else Path.home() / ".cache" / "medal_judges"


def data_folder() -> Path | None:
    """Returns the folder of $MEDAL_JUDGES_DATA, None if it is not set."""
    value = os.environ.get(DATA_VARIABLE)
    return Path(value) if value else None


@contextmanager
def atomic_path(target: str | Path) -> Iterator[Path]:
    """Yields a path beside ``target`` that replaces ``target`` at the end.

    The caller makes a file or a folder there. After an error, or if nothing was made, ``target`` is
    unchanged and nothing is left beside it. A folder replaces an earlier folder as a whole. Parent
    folders are made.
    """
    target = Path(target)
    if target.exists():
        require_other_file(target, _READ, option="--out: its")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".partial-{os.getpid()}-{target.name}")
    try:
        yield partial
        if partial.is_dir() and target.is_dir() and any(target.iterdir()):
            # No rename replaces a folder that holds something: the two swap their names, in one
            # step if the system can (Linux: AT_FDCWD, RENAME_EXCHANGE), so that a kill leaves one
            # of them under each name.
            names = os.fsencode(partial), os.fsencode(target)
            rename = getattr(ctypes.CDLL(None), "renameat2", None) if os.name == "posix" else None
            if rename is None or rename(-100, names[0], -100, names[1], 2) != 0:
                earlier = target.with_name(f".earlier-{os.getpid()}-{target.name}")
                target.replace(earlier)
                partial.replace(target)
                earlier.replace(partial)
        elif partial.exists():
            partial.replace(target)
    finally:
        if partial.is_dir():
            shutil.rmtree(partial)
        else:
            partial.unlink(missing_ok=True)


def atomic_write(target: str | Path, content: str | bytes) -> Path:
    """Writes ``content`` to ``target``, whole or not at all. Text is written as UTF-8; half a
    surrogate pair, which UTF-8 cannot hold, as \\udXXX."""
    if isinstance(content, str):
        content = content.encode("utf-8", "backslashreplace")
    with atomic_path(target) as partial:
        partial.write_bytes(content)
    return Path(target)


@contextmanager
def only_run(out: str | Path, *, folder: bool = False, wait: bool = False) -> Iterator[None]:
    """Lets no other run write to the file ``out`` or replace the folder of that name; with
    ``folder``, write into the folder ``out``, which is made.

    The lock is a file beside or in ``out``. The system releases it when its process dies; the next
    run then takes it over. If another run holds it, also one on another machine that shares the
    disk, waits for its end (``wait``) or raises MedalError.
    """
    target = Path(os.path.realpath(out))  # the same for every link to it
    lock_file = target / ".lock" if folder else target.with_name(f".{target.name}.lock")
    parents = (lock_file.parent, *lock_file.parent.parents)
    made = [each for each in parents if not each.exists()]
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(lock_file, blocking=wait)
    try:
        lock.acquire(poll_interval=0.01)
    except Timeout:
        if not lock_file.exists():  # not held: a disk that takes no file looks the same
            with tempfile.TemporaryFile(dir=lock_file.parent):
                pass
        raise MedalError(
            f"another run is writing to {out}",
            hint="wait until it ends (the same command then resumes), or give another --out",
        ) from None
    try:
        yield
    finally:
        with suppress(OSError):  # Windows removes no open file; the next run takes it over
            lock_file.unlink()
        lock.release()
        with suppress(OSError):  # a folder that was filled stays
            for each in made:
                each.rmdir()


def require_other_file(
    out: str | Path, inputs: Iterable[str | Path], *, option: str = "--out"
) -> None:
    """Raises ConfigError if ``out`` is one of ``inputs``: by name, by link or by hard link.

    ``-`` (standard input or output) is no file. Inputs may be names of sources.
    """
    for name in inputs:
        if "-" in (str(out), str(name)):
            continue
        try:
            same = os.path.samefile(out, name)
        except OSError:  # one of them does not exist (yet)
            same = os.path.realpath(out) == os.path.realpath(name)
        if same:
            raise ConfigError(
                f"{option} {out} is the file that is read ({name}); it was left unchanged",
                hint=f"give another file to {option}",
            )


@contextmanager
def protected_inputs(inputs: Iterable[str | Path]) -> Iterator[None]:
    """Lets no atomic write replace one of ``inputs``, whatever a command names the files in its
    output folder; raises ConfigError instead."""
    before = list(_READ)
    _READ.extend(Path(each) for each in inputs if Path(each).is_file())
    try:
        yield
    finally:
        _READ[:] = before


def is_table(path: str | Path) -> bool:
    """Returns whether judgements are written to ``path`` as parquet or CSV, by its ending.

    Raises ConfigError for other kinds of tables.
    """
    name = str(path).lower()
    if name.endswith((".tsv", ".xlsx", ".arrow", ".feather", ".parquet.gz", ".ods")):
        raise ConfigError(
            f"judgements cannot be written to {path}",
            hint="name a file that ends in .jsonl, .jsonl.gz, .parquet, .csv or .csv.gz",
        )
    return name.endswith((*CSV, PARQUET))


# -- locks of one process --------------------------------------------------------------------------

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
