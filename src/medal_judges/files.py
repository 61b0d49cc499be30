"""Where files lie and how they are written: whole or not at all, never onto what is read, by one
run at a time."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from medal_judges.errors import ConfigError, MedalError
from medal_judges.signature import content_hash

CACHE_VARIABLE = "MEDAL_JUDGES_CACHE"
DATA_VARIABLE = "MEDAL_JUDGES_DATA"


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


def lock_of(path: str | Path) -> FileLock:
    """The lock of an output, whichever name leads to it. The system releases it when its process
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
            hint="wait until it ends (the same command then resumes), or give another --out",
        ) from None
    try:
        yield
    finally:
        lock.release()


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


def is_same_file(a: str | Path, b: str | Path) -> bool:
    """Whether both paths lead to one file, which need not exist."""
    try:
        return os.path.samefile(a, b)
    except OSError:  # one of them does not exist (yet)
        return os.path.realpath(a) == os.path.realpath(b)
