"""The identity of a run: what decides its result, by content. A resume mixes no two runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medal_judges.errors import MedalError

_AGAIN = "give another --out, or --overwrite to start again from the beginning"


def content_of(name: str | Path) -> str:
    """Returns a hash of the bytes of the file or of the folder ``name``; any other name unchanged.

    A run states with it the files that it reads: two files of one name are two runs, and one file
    under two names is one.
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
    """Raises MedalError that names what differs between the run that wrote ``path``
    (``saved``) and this ``run``.

    A run is everything that decides its result: settings, signatures, and the content of the files
    that it reads (see ``content_of``), never their names.
    """
    current = json.loads(json.dumps(run))
    differences = []
    for name in {**saved, **current}:
        if saved.get(name) != current.get(name):
            values = f"there {saved.get(name)!r}, now {current.get(name)!r}"
            differences.append(f"{name}: {values}")
    if differences:
        problem = "\n    ".join([f"{path} is of another run:", *differences])
        raise MedalError(problem, hint=_AGAIN)
