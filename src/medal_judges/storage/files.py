"""Folders of the package, atomic writes, and locks: one run at a time writes to a file."""

from __future__ import annotations

import ctypes
import glob
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from medal_judges.errors import ConfigError, MedalError

CACHE_VARIABLE = "MEDAL_JUDGES_CACHE"
DATA_VARIABLE = "MEDAL_JUDGES_DATA"
_INPUTS: list[Path] = []  # files that the running command reads; see protect_inputs


class PicklableLock:
    """A reentrant thread lock that can be pickled. After unpickling or in a forked process, it is a
    new, unlocked lock."""

    def __init__(self) -> None:
        self._locks: dict[int, threading.RLock] = {}  # by process

    def __enter__(self) -> None:
        self._locks.setdefault(os.getpid(), threading.RLock()).acquire()

    def __exit__(self, *error: object) -> None:
        self._locks[os.getpid()].release()

    def __reduce__(self) -> tuple[type[PicklableLock], tuple[()]]:
        return PicklableLock, ()


def cache_folder() -> Path:
    """Returns the folder for files that can be computed or downloaded again:
    ``$MEDAL_JUDGES_CACHE``, by default ``~/.cache/medal_judges``."""
    return Path(os.environ.get(CACHE_VARIABLE) or "~/.cache/medal_judges").expanduser()


def data_folder() -> Path | None:
    """Returns the folder of data sets, ``$MEDAL_JUDGES_DATA``, or None if that is not set."""
    value = os.environ.get(DATA_VARIABLE)
    return Path(value) if value else None


@contextmanager
def atomic_path(target: str | Path) -> Iterator[Path]:
    """Yields a temporary path that replaces ``target`` in one step when the context ends.

    The caller creates a file or a folder at the temporary path. After an error, or if it creates
    nothing, ``target`` stays unchanged.

    Raises:
        ConfigError: ``target`` is a device, a pipe or a file that the running command reads.
    """
    target = Path(target)
    if target.exists():
        require_safe_out(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.parent / f".partial-{os.getpid()}-{target.name}"
    try:
        yield partial
        if partial.is_dir() and target.is_dir() and any(target.iterdir()):
            _swap_names(partial, target)
        elif partial.exists():
            partial.replace(target)
    except OSError as error:  # a full disk does not always name the file
        error.filename = error.filename or str(target)
        raise
    finally:
        _remove(partial)


def _remove(path: Path) -> None:
    """Removes a file or a folder, if there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _swap_names(partial: Path, target: Path) -> None:
    """Swaps the names of the folders ``partial`` and ``target``, in one step if the system can."""
    # A rename cannot replace a folder that is not empty. In one step, a kill never leaves
    # ``target`` missing.
    names = os.fsencode(partial), os.fsencode(target)
    rename = None
    if os.name == "posix":
        rename = getattr(ctypes.CDLL(None), "renameat2", None)
    # On Linux: AT_FDCWD, RENAME_EXCHANGE.
    if rename is None or rename(-100, names[0], -100, names[1], 2) != 0:
        earlier = target.with_name(f".earlier-{os.getpid()}-{target.name}")
        target.replace(earlier)
        partial.replace(target)
        earlier.replace(partial)


def atomic_write(target: str | Path, content: str | bytes) -> Path:
    """Writes ``content`` to ``target`` and returns its path. After a crash, ``target`` is either
    complete or unchanged."""
    if isinstance(content, str):
        # Half a surrogate pair, which UTF-8 cannot encode, becomes \udXXX.
        content = content.encode("utf-8", "backslashreplace")
    with atomic_path(target) as partial:
        partial.write_bytes(content)
    return Path(target)


def write_json(target: str | Path, record: object) -> Path:
    """Writes ``record`` to the file ``target`` as JSON and returns its path.

    After a crash, ``target`` is either complete or unchanged.

    Raises:
        ValueError: ``record`` holds NaN or infinity.
    """
    text = json.dumps(record, ensure_ascii=False, indent=1, allow_nan=False)
    return atomic_write(target, text + "\n")


def read_json(path: Path) -> Any:
    """Returns the value in the JSON file ``path``. Raises OSError if the file cannot be read, and
    ValueError if it is not valid JSON."""
    return json.loads(path.read_text(encoding="utf-8"))


def read_json_if_there(path: Path, otherwise: Any) -> Any:
    """Returns the value in the JSON file ``path``, or ``otherwise`` if there is no such file."""
    if path.is_file():
        return read_json(path)
    return otherwise


@contextmanager
def output_lock(
    out: str | Path, *, folder: bool = False, wait: bool = False
) -> Iterator[None]:
    """Locks the output ``out`` during the context, so that no other run writes to it.

    Deletes the temporary files that a killed run left beside ``out``.

    Args:
        out: The file or folder to write.
        folder: Whether the run adds files to an existing folder ``out``. If false, ``out`` is
            replaced as a whole.
        wait: Whether to wait until another run releases the lock.

    Raises:
        MedalError: Another run holds the lock, and ``wait`` is false.
    """
    target = Path(os.path.realpath(out))  # a link and its target are one file
    lock_file = target.with_name(f".{target.name}.lock")
    if folder:
        lock_file = target / ".lock"
    parents = (lock_file.parent, *lock_file.parent.parents)
    created = [parent for parent in parents if not parent.exists()]
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(lock_file, blocking=wait)
    try:
        lock.acquire(poll_interval=0.01)
    except Timeout:
        # FileLock reports a disk that cannot be written in this way
        if not lock_file.exists():
            with tempfile.TemporaryFile(dir=lock_file.parent):
                pass
        hint = (
            "Wait until it ends and type the same command again, or type another --out"
        )
        raise MedalError(f"another run is writing to {out}", hint=hint) from None
    for partial in target.parent.glob(f".partial-*-{glob.escape(target.name)}"):
        _remove(partial)  # what a killed run left
    try:
        yield
    finally:
        with suppress(OSError):  # Windows does not remove an open file
            lock_file.unlink()
        lock.release()
        with suppress(OSError):  # a folder with files in it stays
            for parent in created:
                parent.rmdir()


def build_once(folder: Path, build: Callable[[Path], None]) -> Path:
    """Builds ``folder`` if it does not exist, and returns it. If several processes call this, one
    builds and the others wait.

    Args:
        build: Called with the path of a temporary folder, which it fills. That folder then becomes
            ``folder``.
    """
    if folder.is_dir():
        return folder
    with output_lock(folder, wait=True):
        if not folder.is_dir():
            with atomic_path(folder) as unfinished:
                unfinished.mkdir()
                build(unfinished)
    return folder


def require_safe_out(out: str | Path, *, option: str = "the output") -> None:
    """Checks that an output would not replace a device, a pipe or an input of the running command.

    Args:
        out: The output, a file or a folder. A link to an input is refused too.
        option: What the error calls the output, such as ``--out``.

    Raises:
        ConfigError: ``out`` is a device, a pipe or an input.
    """
    target = Path(out)
    is_special = target.exists() and not (target.is_file() or target.is_dir())
    # /dev/stdout and /dev/fd/1 are links that a file would replace.
    parent = os.path.realpath(target.parent)
    if is_special or parent == "/dev" or parent.startswith("/proc/"):
        raise ConfigError(
            f"{option} {out} is a device or a pipe, not a file",
            hint="Type the name of a file. To print it: medal ... --out FILE && cat FILE",
        )
    for name in _INPUTS:
        if target.exists() and name.exists() and target.samefile(name):
            raise ConfigError(
                f"{option} {out} is the input {name}, which was left unchanged",
                hint="Type another file or folder",
            )


@contextmanager
def protect_inputs(*inputs: str | Path) -> Iterator[None]:
    """Keeps the files that a command reads from being overwritten during the context.

    The functions of this module that write a file then raise ConfigError for such a file.

    Args:
        inputs: The files. Inputs that are not files, such as standard input, are ignored.
    """
    count = len(_INPUTS)
    _INPUTS.extend(path for path in map(Path, inputs) if path.is_file())
    try:
        yield
    finally:
        del _INPUTS[count:]
