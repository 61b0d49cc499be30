"""The files of a source, their readers by name, and the download of public files."""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import BaseModel

from medal_judges.errors import SourceError
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.storage.files import DATA_VARIABLE, atomic_path, cache_folder

Rows = Iterator[LabelledDialogue]
_TIMEOUT = 60
# Name in sources.yaml -> reader. It takes the path of a public file, the rows of a view, or nothing
# for a source from a package or the Hub.
READERS: dict[str, Callable[..., Rows]] = {}


def source(name: str) -> Callable[[Callable[..., Rows]], Callable[..., Rows]]:
    """Registers the decorated function as the reader or the view ``name``."""

    def register(read: Callable[..., Rows]) -> Callable[..., Rows]:
        READERS[name] = read
        return read

    return register


class SourceFile(BaseModel):
    """One file of a source.

    ``line_file`` is its name in the line format in $MEDAL_JUDGES_DATA, ``line_sha256`` its
    checksum. ``url`` is the public address, ``public_file`` the name in the cache, ``sha256`` its
    checksum, ``read`` the reader of the public form. Without one, ``why`` says why. ``view``
    converts the rows of the file. ``named_only`` parts are read only if a spec names them.
    ``splits`` are the possible splits (empty: any).
    """

    name: str
    level: str
    line_file: str
    line_sha256: str | None = None
    url: str = ""
    public_file: str = ""
    sha256: str = ""
    why: str = ""
    read: str | None = None
    view: str | None = None
    named_only: bool = False
    splits: tuple[str, ...] = ()


class Source(BaseModel):
    """A named set. ``package`` says where a set without parts comes from; its reader has its name.
    ``labelled_by`` names the model that made the labels; None for people."""

    name: str
    title: str
    licence: str
    citation: str
    languages: tuple[str, ...]
    parts: tuple[SourceFile, ...] = ()
    notes: tuple[str, ...] = ()
    package: str | None = None
    labelled_by: str | None = None


def is_offline() -> bool:
    """Returns the setting of HF_HUB_OFFLINE."""
    word = os.environ.get("HF_HUB_OFFLINE", "").strip().upper()
    return word in ("1", "ON", "YES", "TRUE")


def sha256(path: Path) -> str:
    """Returns the SHA-256 of the file ``path`` in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fetch(part: SourceFile) -> Path:
    """Returns the path of the cached public file of ``part``. Downloads it first if necessary.

    Raises SourceError if offline, without a public file, if the download fails, and if the checksum
    is another one (the download is deleted, and a file that was there stays).
    """
    if not part.public_file:
        raise SourceError(f"{part.line_file}: no public file", hint=part.why)
    target = cache_folder() / part.public_file
    if target.is_file():
        hint = "It is another file or version. Replace it with the right one"
        _require_checksum(target, part, str(target), hint)
        return target
    if is_offline():
        raise SourceError(
            f"{part.public_file} is not here and the network is disabled",
            hint=f"Put {part.line_file} (line format) into the folder that ${DATA_VARIABLE} "
            "names, or with a network and without HF_HUB_OFFLINE type: medal data fetch NAME",
        )
    try:
        with (
            atomic_path(target) as partial,
            urllib.request.urlopen(part.url, timeout=_TIMEOUT) as reply,
        ):
            with open(partial, "wb") as stream:
                shutil.copyfileobj(reply, stream)
            hint = "The download is incomplete, or the file has changed since this version of "
            hint += "medal-judges. The download was deleted. Type the command again"
            _require_checksum(partial, part, part.url, hint)
    except (http.client.HTTPException, OSError) as error:
        hint = f"Put the file at {target} by hand"
        raise SourceError(f"cannot fetch {part.url}: {error}", hint=hint) from error
    return target


def _require_checksum(path: Path, part: SourceFile, origin: str, hint: str) -> None:
    checksum = sha256(path)
    if checksum != part.sha256:
        problem = f"{origin}: SHA-256 is {checksum}, expected {part.sha256}"
        raise SourceError(problem, hint=hint)
