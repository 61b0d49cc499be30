"""Drawing by hash: which items, in which order. The same for the same seed on every machine,
whatever the order of a file's lines, and asking for more keeps the first ones."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def rank(seed: int, what: str, item: str) -> bytes:
    """Place of ``item`` in the draw ``what``: 16 bytes to sort by."""
    return hashlib.blake2b(f"{seed}\0{what}\0{item}".encode(), digest_size=16).digest()


def drawn(
    stream: Iterable[T],
    count: int,
    *,
    seed: int,
    what: str,
    name: Callable[[T], str],
    fit: Callable[[T], bool],
) -> list[T]:
    """The ``count`` different ``fit`` items of lowest rank, in that order; all where there are
    fewer.

    ``name`` is what an item is known and ranked by; items of one name count once. Holds ``count``
    items at a time, however long the stream, and asks ``fit`` only of what would be drawn.
    """
    lowest: list[tuple[int, str]] = []  # a heap with the highest rank on top
    held: dict[str, T] = {}
    for item in stream:
        known_by = name(item)
        place = -int.from_bytes(rank(seed, what, known_by), "big")
        full = len(lowest) >= count
        if (full and place <= lowest[0][0]) or known_by in held or not fit(item):
            continue
        if full:
            del held[heapq.heapreplace(lowest, (place, known_by))[1]]
        else:
            heapq.heappush(lowest, (place, known_by))
        held[known_by] = item
    return [held[known_by] for _, known_by in sorted(lowest, reverse=True)]


def rounds(
    items: Sequence[T], count: int, *, seed: int, what: str, name: Callable[[T], str]
) -> list[T]:
    """``count`` items: all in their order, then all in another one, and so on."""
    found = list(items[:count])
    turn = 1
    while len(found) < count:
        again = sorted(items, key=lambda item: rank(seed, f"{what} {turn}", name(item)))
        found += again[: count - len(found)]
        turn += 1
    return found


def balanced(values: Sequence[T], count: int, *, seed: int, what: str) -> list[T]:
    """``count`` values; at every length each came as often as any other, up to one."""
    places = list(range(len(values)))
    order: list[T] = []
    turn = 0
    while len(order) < count:
        mixed = sorted(places, key=lambda i: rank(seed, f"{what} {turn}", str(i)))
        order += [values[i] for i in mixed]
        turn += 1
    return order[:count]
