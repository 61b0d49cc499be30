"""The cache of public files: downloads, checked by SHA-256."""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import urllib.error
import urllib.request
from pathlib import Path

from medal_judges.data_prep.sources.source import SourceFile
from medal_judges.errors import SourceError
from medal_judges.storage.files import atomic_path, cache_folder

_TIMEOUT = 60


def is_offline(offline: bool | None = None) -> bool:
    """``offline`` if given, else the setting of HF_HUB_OFFLINE."""
    if offline is not None:
        return offline
    return os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in ("1", "ON", "YES", "TRUE")


def sha256(path: Path) -> str:
    """Hex SHA-256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def fetch(part: SourceFile, *, offline: bool | None = None) -> Path:
    """Returns the public file of ``part`` in the cache, and downloads it if necessary.

    Raises SourceError if offline, without a public address, if the download fails, and for another
    checksum (the download is deleted; a file that was there stays).
    """
    if part.public_file is None:
        raise SourceError(f"{part.line_file}: no public file", hint=part.why or None)
    target = cache_folder() / part.public_file
    if target.is_file():
        return require_checksum(target, part.sha256)
    if part.url is None:
        raise SourceError(
            f"{part.public_file} has no public address", hint=f"{part.why}; put it at {target}"
        )
    if is_offline(offline):
        raise SourceError(
            f"{part.public_file} is not here and the network is disabled",
            hint=f"put {part.url} at {target}, or unset --offline and HF_HUB_OFFLINE",
        )
    return _download(part.url, target, part.sha256)


def require_checksum(path: Path, checksum: str | None, url: str | None = None) -> Path:
    """Returns ``path`` if its SHA-256 is ``checksum`` or that is None; else raises SourceError.

    ``url`` is the address of a fresh download, None for a file that was there.
    """
    given = sha256(path)
    if checksum in (None, given):
        return path
    hint = "the file has changed since this version of medal-judges; deleted the download"
    raise SourceError(
        f"{url or path}: SHA-256 is {given}, expected {checksum}",
        hint=hint if url else "it is another file or version: replace it with the right one",
    )


def _download(url: str, target: Path, checksum: str | None) -> Path:
    try:
        with (
            atomic_path(target) as partial,
            urllib.request.urlopen(url.replace(" ", "%20"), timeout=_TIMEOUT) as reply,
        ):
            with open(partial, "wb") as stream:
                shutil.copyfileobj(reply, stream)
            expected = reply.headers.get("Content-Length")
            if expected is not None and partial.stat().st_size != int(expected):
                raise SourceError(
                    f"{url}: the download is incomplete", hint="run the command again"
                )
            require_checksum(partial, checksum, url)
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise SourceError(
            f"cannot fetch {url}: {error}", hint=f"put the file at {target} by hand"
        ) from error
    return target
