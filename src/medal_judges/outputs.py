"""Checks of where a command writes, before it writes: never onto what it reads."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from medal_judges.errors import ConfigError


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
