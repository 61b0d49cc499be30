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
    """Returns a decorator that registers a function under ``name``, for use
    in configs/sources.yaml.

    The function yields labelled dialogues. It takes the path of a published file, an iterable of
    rows to convert, or nothing if it reads a package or the Hub.
    """

    def register(read: Callable[..., Rows]) -> Callable[..., Rows]:
        READERS[name] = read
        return read

    return register


class SourceFile(BaseModel):
    """One file of a data set: as published, as a copy converted to this project's JSONL, or both.

    Attributes:
        name: Name of the file in the data set, such as ``topical``.
        level: ``dialogue`` for labels on whole dialogues, ``turn`` for labels on single replies.
        line_file: Name of the converted copy in the folder $MEDAL_JUDGES_DATA.
        line_sha256: Checksum of the converted copy, None if unknown.
        url: Address of the published file. Empty if it cannot be downloaded.
        public_file: Path of the published file in the cache. Empty if there is none.
        sha256: Checksum of the published file. Empty if there is none.
        why: Why the published file cannot be read, if ``read`` is None.
        read: Registered name of the function that reads the published file. None if it cannot be
            read.
        view: Registered name of the function that converts the rows, such as ``halve`` (one half
            becomes the training split). None for no conversion.
        named_only: Whether the file is read only if its name is given, as in ``dstc12:fed``.
        splits: The splits that its rows can have. Empty means any.
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
    """A named data set.

    Attributes:
        name: The name, such as ``fed``.
        title: One line that describes the set.
        licence: The licence of the data.
        citation: The paper.
        languages: The languages of the dialogues, such as ``("en", "zh")``.
        parts: The files. Empty for a Python package or a data set on the Hub.
        notes: What users should know.
        package: The Python package or the data set on the Hub, None if the set has files.
        labelled_by: The model that made the labels, None for people.
    """

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
    """Returns whether the environment variable HF_HUB_OFFLINE forbids the network (``1``, ``on``,
    ``yes`` or ``true``)."""
    word = os.environ.get("HF_HUB_OFFLINE", "").strip().upper()
    return word in ("1", "ON", "YES", "TRUE")


def file_sha256(path: Path) -> str:
    """Returns the SHA-256 of the file ``path`` in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fetch_file(part: SourceFile) -> Path:
    """Returns the path of the published file of ``part`` in the cache, after a download if needed.

    Raises:
        SourceError: The file is not public, cannot be downloaded, or has a wrong checksum.
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
    checksum = file_sha256(path)
    if checksum != part.sha256:
        problem = f"{origin}: SHA-256 is {checksum}, expected {part.sha256}"
        raise SourceError(problem, hint=hint)
