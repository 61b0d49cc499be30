"""Source: origin, terms and reader of a set of labelled dialogues."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from medal_judges.reading.report import ReadingReport
from medal_judges.records.labelled import LabelledDialogue

Reader = Callable[[Path], Iterator[LabelledDialogue]]
PackageReader = Callable[[bool | None, ReadingReport | None], Iterator[LabelledDialogue]]
View = Callable[[Iterable[LabelledDialogue]], Iterator[LabelledDialogue]]


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a source.

    ``line_file`` is its name in the line format in $MEDAL_JUDGES_DATA, ``line_sha256`` its
    checksum. ``url`` is the public address, ``public_file`` the name in the cache, ``sha256`` its
    checksum, ``read`` the reader of the public form (None: not readable, ``why`` says why).
    ``view`` converts the rows of the file. ``named_only`` parts are read only if a spec names
    them. ``splits`` are the possible splits (empty: any).
    """

    name: str
    level: str
    line_file: str
    line_sha256: str | None = None
    url: str | None = None
    public_file: str | None = None
    sha256: str | None = None
    read: Reader | None = None
    why: str = ""
    view: View | None = None
    named_only: bool = False
    splits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A named set. ``package_read`` reads a set from an installed package or the Hub; its arguments
    are ``offline`` (None: as HF_HUB_OFFLINE says) and the report that counts skipped rows.
    ``labelled_by`` names the model that made the labels; None for people."""

    name: str
    title: str
    licence: str
    citation: str
    languages: tuple[str, ...]
    parts: tuple[SourceFile, ...] = ()
    notes: tuple[str, ...] = field(default=())
    package_read: PackageReader | None = None
    package: str | None = None
    labelled_by: str | None = None


def hash_split(key: str, *, seed: int, shares: Sequence[float] = (0.8, 0.1, 0.1)) -> str:
    """``train``, ``validation`` or ``test`` for ``key``, by a hash of ``key`` and ``seed`` only."""
    digest = hashlib.sha256(f"{seed}:{key}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    if place < shares[0]:
        return "train"
    return "validation" if place < shares[0] + shares[1] else "test"
