"""Where files lie and how they are written: whole or not at all, never onto what is read, by one
run at a time."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from medal_judges.errors import ConfigError, MedalError

CACHE_VARIABLE = "MEDAL_JUDGES_CACHE"
DATA_VARIABLE = "MEDAL_JUDGES_DATA"
_POLL = 0.01  # seconds between two looks at a lock that is waited for
_KEPT: list[Path] = []  # what the command of this process reads


def cache_folder() -> Path:
    """Where everything is kept that can be made or downloaded again: $MEDAL_JUDGES_CACHE, by
    default ~/.cache/medal_judges."""
    value = os.environ.get(CACHE_VARIABLE)
    return Path(value) if value else Path.home() / ".cache" / "medal_judges"


def data_folder() -> Path | None:
    """The folder of $MEDAL_JUDGES_DATA, None when it is not set."""
    value = os.environ.get(DATA_VARIABLE)
    return Path(value) if value else None


@contextmanager
def atomic_path(target: str | Path) -> Iterator[Path]:
    """A path beside ``target``, with its ending, that takes the place of ``target`` at the end.

    The caller makes a file or a folder there. Where an error is raised, or nothing was made,
    ``target`` stays as it was and nothing is left beside it. A folder replaces an earlier folder
    of that name as a whole. Parent folders are made.
    """
    target = Path(target)
    _require_unread(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".partial-{os.getpid()}-{target.name}")
    try:
        yield partial
        if partial.exists():
            try:
                partial.replace(target)
            except OSError:  # a folder cannot be renamed onto one that holds something
                if not (partial.is_dir() and target.is_dir()):
                    raise
                _exchange(partial, target)
    finally:
        if partial.is_dir():
            shutil.rmtree(partial)
        else:
            partial.unlink(missing_ok=True)


def _exchange(one: Path, other: Path) -> None:
    """Let two folders swap their names: in one step where the system can, so that a kill leaves
    either of them under each name."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE: Python has no name for them
        rename = getattr(libc, "renameat2", None)
        if rename and rename(here, os.fsencode(one), here, os.fsencode(other), swap) == 0:
            return
    earlier = other.with_name(f".earlier-{os.getpid()}-{other.name}")
    other.replace(earlier)
    one.replace(other)
    earlier.replace(one)


def atomic_write(target: str | Path, content: str | bytes) -> Path:
    """Write ``content`` to ``target``: it appears whole or not at all.

    Text is written as UTF-8; half a surrogate pair, which that cannot hold, as \\udXXX.
    """
    if isinstance(content, str):
        content = content.encode("utf-8", "backslashreplace")
    with atomic_path(target) as partial:
        partial.write_bytes(content)
    return Path(target)


@contextmanager
def only_run(out: str | Path) -> Iterator[None]:
    """Let no other run write to the file ``out``, or replace the folder of that name.

    Raises MedalError where another run holds it, also one on another machine that shares the disk.
    """
    target = Path(os.path.realpath(out))  # whichever name leads to it
    with _refusing(out), _locked(target.with_name(f".{target.name}.lock"), waits=False):
        yield


@contextmanager
def only_run_in(folder: str | Path) -> Iterator[None]:
    """Let no other run write into ``folder``, which is made. Raises MedalError, as ``only_run``."""
    with _refusing(folder), _locked(Path(folder) / ".lock", waits=False):
        yield


@contextmanager
def one_at_a_time(target: Path) -> Iterator[None]:
    """Wait until no other process makes ``target``."""
    with _locked(target.with_name(f".{target.name}.lock"), waits=True):
        yield


@contextmanager
def _locked(lock_file: Path, *, waits: bool) -> Iterator[None]:
    """Hold ``lock_file``, which the system releases when its process dies and which is removed at
    the end: filelock passes over one that lost its name while it was waited for. What a killed run
    leaves is taken over and removed by the next. Raises Timeout where it is held."""
    folder = lock_file.parent
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(lock_file, blocking=waits)
    try:
        lock.acquire(poll_interval=_POLL)
    except Timeout:
        if not lock_file.exists():  # not held: a disk that takes no file reads like that too
            with tempfile.TemporaryFile(dir=folder):
                pass
        raise
    try:
        yield
    finally:
        with suppress(OSError):  # Windows removes no open file; the next run takes it over
            lock_file.unlink()
        lock.release()
        with suppress(OSError):  # a folder that was filled stays
            for each in made:
                each.rmdir()


@contextmanager
def _refusing(out: str | Path) -> Iterator[None]:
    try:
        yield
    except Timeout:
        raise MedalError(
            f"another run is writing to {out}",
            hint="wait until it ends (the same command then resumes), or give another --out",
        ) from None


def require_other_file(
    out: str | Path, inputs: Iterable[str | Path], *, option: str = "--out"
) -> None:
    """Raise ConfigError where ``out`` is one of ``inputs``: by name, by link or by hard link.

    ``-`` (standard input, standard output) is no file. Inputs that are names of sources are files
    only where a file of that name exists.
    """
    for name in inputs:
        if "-" not in (str(out), str(name)) and is_same_file(out, name):
            raise ConfigError(
                f"{option} {out} is the file that is read ({name}); it was left as it is",
                hint=f"give another file to {option}",
            )


@contextmanager
def kept_inputs(inputs: Iterable[str | Path]) -> Iterator[None]:
    """Let nothing that is written whole take the place of one of ``inputs``, whatever the names of
    the files that a command puts into its folder: ConfigError is raised for it."""
    before = list(_KEPT)
    _KEPT.extend(Path(each) for each in inputs if Path(each).is_file())
    try:
        yield
    finally:
        _KEPT[:] = before


def _require_unread(target: Path) -> None:
    for kept in _KEPT if target.exists() else ():
        require_other_file(target, [kept], option="--out: its")


def is_same_file(a: str | Path, b: str | Path) -> bool:
    """Whether both paths lead to one file, which need not exist."""
    try:
        return os.path.samefile(a, b)
    except OSError:  # one of them does not exist (yet)
        return os.path.realpath(a) == os.path.realpath(b)
