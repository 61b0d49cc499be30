"""Policies: which dialogues of one language are selected, and the weight of each.

``random`` draws a simple random sample. ``balanced`` (balanced.py) over-represents what is rare, so
a correlation or share counted on its selection is not that of the pool. Dialogues with the same
labels, chatbot and user were equally likely to be chosen, so each chosen one stands for its cell:
post-stratification (Holt and Smith 1979, "Post Stratification"). A cell of which nothing was
chosen is counted with its nearest neighbours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from medal_judges.data_prep.curation.balanced import BalancedSelection, select_balanced
from medal_judges.data_prep.curation.candidate import Candidate, LabelReading, Policy, shuffled

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


@dataclass(frozen=True, slots=True)
class Selected:
    """A dialogue of the selection. ``weight`` is how many of its language's pool it stands for;
    ``chance`` its inclusion probability, None where the policy has none (``balanced``)."""

    candidate: Candidate
    weight: float
    chance: float | None = None
    stage: str | None = None
    category: str | None = None


@dataclass(frozen=True, slots=True)
class LanguageSelection:
    """The selection of one language; ``balanced`` holds the unfilled wishes of that policy."""

    chosen: tuple[Selected, ...]
    balanced: BalancedSelection | None = None


def select(
    policy: Policy,
    pool: Sequence[Candidate],
    n: int,
    reading: LabelReading,
    *,
    seed: int = 0,
    per_context: int | None = None,
) -> LanguageSelection:
    """``n`` dialogues of ``pool`` (one language) by ``policy``, each with its weight.

    The same in every order of the pool.
    """
    if policy == "random":
        drawn = shuffled(pool, seed)[:n]
        chance = len(drawn) / max(1, len(pool))
        return LanguageSelection(tuple(Selected(c, 1 / chance, chance) for c in drawn))
    selection = select_balanced(
        pool,
        n,
        categories=reading.categories,
        best=int(reading.overall.high),
        seed=seed,
        per_context=per_context,
    )
    weights = cell_weights(pool, [pick.candidate for pick in selection.picks])
    chosen = (
        Selected(pick.candidate, weight, None, pick.stage, pick.category)
        for pick, weight in zip(selection.picks, weights, strict=True)
    )
    return LanguageSelection(tuple(chosen), selection)


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
