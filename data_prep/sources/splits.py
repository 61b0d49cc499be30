"""Splits by conversation, never by turn; the same on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

_NAMES = ("train", "validation", "test")


def hash_split(key: str, *, seed: int, shares: Sequence[float] = (0.8, 0.1, 0.1)) -> str:
    """``train``, ``validation`` or ``test`` for ``key``, by a hash of it and ``seed``.

    Depends on nothing but the key: adding rows or changing their order moves no other row.
    """
    digest = hashlib.sha256(f"{seed}:{key}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    if place < shares[0]:
        return _NAMES[0]
    return _NAMES[1] if place < shares[0] + shares[1] else _NAMES[2]
