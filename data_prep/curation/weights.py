"""Weights that turn figures of a selection into figures of the pool it was selected from.

A selection by labels over-represents what is rare, so a correlation or share counted on it is not
that of the pool. Dialogues with the same labels, chatbot and user were equally likely to be chosen,
so each chosen one stands for its cell: post-stratification (Holt and Smith 1979, "Post
Stratification"). A cell of which nothing was chosen is counted with its nearest neighbours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence

from medal_judges.data_prep.curation.candidate import Candidate

Cell = Callable[[Candidate], Hashable]

# From the finest cell to the whole pool: what was not chosen joins the first that was.
_CELLS: tuple[Cell, ...] = (
    lambda c: (c.categories, c.level, c.chatbot, c.user),
    lambda c: (c.categories, c.level, c.chatbot),
    lambda c: (c.categories, c.level),
    lambda c: (c.clean, len(c.categories), c.level),
    lambda c: (c.clean, c.level),
    lambda c: c.level,
    lambda c: c.clean,
    lambda c: None,
)


def cell_weights(pool: Sequence[Candidate], chosen: Sequence[Candidate]) -> list[float]:
    """How many dialogues of ``pool`` each of ``chosen`` stands for; they add up to the pool.

    ``chosen`` is part of ``pool``.
    """
    weights = dict.fromkeys((c.id for c in chosen), 0.0)
    left: list[Candidate] = list(pool)
    for cell in _CELLS if chosen else ():
        members = defaultdict(list)
        for c in chosen:
            members[cell(c)].append(c.id)
        uncovered = []
        for c in left:
            ids = members.get(cell(c))
            if ids is None:
                uncovered.append(c)
                continue
            for id in ids:
                weights[id] += 1 / len(ids)
        left = uncovered
    return [weights[c.id] for c in chosen]


def covered_share(pool: Sequence[Candidate], chosen: Sequence[Candidate]) -> float | None:
    """Share of the pool whose finest cell holds a chosen dialogue: what the weights correct
    without borrowing from neighbours. None for an empty pool."""
    cells = {_CELLS[0](c) for c in chosen}
    return sum(_CELLS[0](c) in cells for c in pool) / len(pool) if pool else None
