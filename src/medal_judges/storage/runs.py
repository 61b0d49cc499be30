"""The identity of a run: the content of everything that decides its result. A run resumes a file
only if a run of the same identity wrote it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medal_judges.errors import MedalError

_AGAIN = "Type another --out, or --overwrite to start again from the beginning"


def hash_or_name(name: str | Path) -> str:
    """Returns a hash of the content of the file or folder ``name``. Returns ``name`` itself if
    there is no such file or folder.

    The identity of a run has these hashes of the files that it reads. So a changed file makes it
    another run, and a renamed file does not.
    """
    path = Path(name)
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
    elif not path.is_file():
        return str(name)
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(path)} {file.stat().st_size}\n".encode())
        with file.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()[:12]


def require_same_run(
    path: str | Path, saved: Mapping[str, Any], run: Mapping[str, Any]
) -> None:
    """Raises MedalError if ``saved``, the run that wrote the file ``path``, differs from ``run``.
    The error lists the differences.

    A run is a mapping of everything that determines its result: settings, signatures, and hashes of
    the files that it reads.
    """
    current = json.loads(json.dumps(run))
    differences = []
    for name in {**saved, **current}:
        if saved.get(name) != current.get(name):
            values = f"there {saved.get(name)!r}, now {current.get(name)!r}"
            differences.append(f"{name}: {values}")
    if differences:
        problem = "\n    ".join(
            [f"{path} was written by a run with other settings:", *differences]
        )
        raise MedalError(problem, hint=_AGAIN)
