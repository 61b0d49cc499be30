"""``did you mean ...?`` for a name that is not known, where a known one is near to it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# Ratio of difflib: one letter more, less, other or swapped passes (trun and turn: 0.75); a word
# that merely shares letters does not (nonsense and seed: 0.5).
_NEAR = 0.7


def nearest(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """Up to ``most`` of ``known`` that ``name`` may be a slip of, the nearest first."""
    return difflib.get_close_matches(name, list(known), n=most, cutoff=_NEAR)


def did_you_mean(name: str, known: Iterable[str], most: int = 1) -> str:
    """``did you mean 'turn'? `` with a blank at its end, or nothing."""
    found = nearest(name, known, most)
    return f"did you mean {' or '.join(map(repr, found))}? " if found else ""
