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

    Runs compare these hashes of their inputs. A renamed file counts as the same, a changed file
    does not.
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
    """Checks that a file was written by a run with the same settings and inputs.

    Args:
        path: The file, which the error names.
        saved: Settings of the run that wrote the file: ``{"seed": 0, "input": "3f2a..."}``.
        run: Settings of the present run, in the same form.

    Raises:
        MedalError: ``saved`` and ``run`` differ. The error lists the differences.
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
