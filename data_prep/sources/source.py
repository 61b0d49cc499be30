"""Source: origin, terms and files of a set of labelled dialogues; download of its public files."""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from medal_judges.errors import SourceError
from medal_judges.reading.dialogues import ReadingReport
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.storage.files import atomic_path, cache_folder

Rows = Iterator[LabelledDialogue]
_TIMEOUT = 60


@dataclass(
    frozen=True,
    slots=True,
    kw_only=True,
)
class SourceFile:
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
    read: Callable[[Path], Rows] | None = None
    view: Callable[[Iterable[LabelledDialogue]], Rows] | None = None
    named_only: bool = False
    splits: Sequence[str] = ()


@dataclass(
    frozen=True,
    slots=True,
    kw_only=True,
)
class Source:
    """A named set. ``package_read`` reads a set from an installed package or the Hub; its arguments
    are ``offline`` (None: the setting of HF_HUB_OFFLINE) and the report that counts skipped rows.
    ``labelled_by`` names the model that made the labels; None for people."""

    name: str
    title: str
    licence: str
    citation: str
    languages: Sequence[str]
    parts: Sequence[SourceFile] = ()
    notes: Sequence[str] = ()
    package: str | None = None
    package_read: Callable[[bool | None, ReadingReport | None], Rows] | None = None
    labelled_by: str | None = None


def is_offline(offline: bool | None = None) -> bool:
    """``offline`` if given, else the setting of HF_HUB_OFFLINE."""
    if offline is not None:
        return offline
    return os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in (
        "1",
        "ON",
        "YES",
        "TRUE",
    )


def sha256(path: Path) -> str:
    """Hex SHA-256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def fetch(part: SourceFile, *, offline: bool | None = None) -> Path:
    """Returns the path of the cached public file of ``part``; downloads it first if necessary.

    Raises SourceError if offline, without a public file, if the download fails, and for another
    checksum (the download is deleted; a file that was there stays).
    """
    if not part.public_file:
        raise SourceError(f"{part.line_file}: no public file", hint=part.why)
    target = cache_folder() / part.public_file
    if target.is_file():
        if (checksum := sha256(target)) != part.sha256:
            raise SourceError(
                f"{target}: SHA-256 is {checksum}, expected {part.sha256}",
                hint="it is another file or version: replace it with the right one",
            )
        return target
    if is_offline(offline):
        raise SourceError(
            f"{part.public_file} is not here and the network is disabled",
            hint=f"put {part.url} at {target}, or with a network: medal data fetch NAME, without "
            "--offline and HF_HUB_OFFLINE",
        )
    try:
        with (
            atomic_path(target) as partial,
            urllib.request.urlopen(part.url, timeout=_TIMEOUT) as reply,
        ):
            with open(partial, "wb") as stream:
                shutil.copyfileobj(reply, stream)
            if (checksum := sha256(partial)) != part.sha256:
                raise SourceError(
                    f"{part.url}: SHA-256 is {checksum}, expected {part.sha256}",
                    hint="the download is incomplete, or the file has changed since this version "
                    "of medal-judges; deleted the download",
                )
    except (http.client.HTTPException, OSError) as error:
        raise SourceError(
            f"cannot fetch {part.url}: {error}",
            hint=f"put the file at {target} by hand",
        ) from error
    return target
