"""How many whole oldest turns have to go."""

from __future__ import annotations

from collections.abc import Callable


def oldest_kept(turns: int, fits: Callable[[int], bool]) -> int:
    """Smallest start in [0, ``turns``] for which ``fits(start)``; ``turns`` where none does.

    ``fits`` has to stay true once it is: fewer turns are fewer tokens.
    """
    low, high = 0, turns
    if fits(0):
        return 0
    while low < high:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle + 1
    return high
