"""The selection of one language's dialogues by a policy, and the weight of each.

``random`` is a simple random sample. ``balanced`` has two stages (MEDAL, section 5.1). First one
clean dialogue with the best overall score for each pair of user and chatbot, at random. Then, until
n are chosen: the category (an issue, or clean) of which the selection has fewest and the pool has
more, and of its dialogues the one that fits best, given how overall scores, chatbots, users and the
other issues stand so far.

A balanced selection over-represents what is rare, so a correlation or share computed on it is not
the pool's. Dialogues with the same labels, chatbot and user were equally likely to be chosen, so
each chosen one represents its cell: post-stratification (Holt and Smith 1979, "Post
Stratification"). A cell without a chosen dialogue counts with its nearest neighbours.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from medal_judges.data_prep.curation.pool import (
    CLEAN,
    Candidate,
    LabelRules,
    Policy,
    draw,
    shuffled,
)

Array = npt.NDArray[Any]
# The cost of a dialogue: for each factor, how often its value was chosen, over an even share.
# Overall and chatbot are the paper's; users are few and follow from the pairs; a context (or
# opener) that the selection already has is avoided if all else is equal.
_WEIGHTS = {"level": 1.0, "chatbot": 1.0, "user": 0.5, "issues": 0.2, "group": 0.01}

# From the finest cell to the whole pool: what was not chosen joins the first that was.
_CELLS: tuple[Callable[[Candidate], Hashable], ...] = (
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
    """A chosen dialogue. ``weight``: how many of its language's pool it represents; ``chance``: its
    inclusion probability if the policy has one; ``stage`` (seed or balance) and ``category``: what
    the balanced policy chose it for."""

    candidate: Candidate
    weight: float = 1.0
    chance: float | None = None
    stage: str | None = None
    category: str | None = None


def select(
    policy: Policy, pool: Sequence[Candidate], n: int, rules: LabelRules, *, seed: int = 0
) -> list[Selected]:
    """``n`` dialogues of ``pool`` (one language), or all if it has fewer, each with its weight, in
    the order chosen: the first k are a selection of k. The order of the pool does not matter."""
    ordered = shuffled(pool, seed)
    if policy == "random":
        drawn = ordered[:n]
        chance = len(drawn) / max(1, len(pool))
        return [Selected(c, 1 / chance, chance) for c in drawn]
    chosen = _balanced(ordered, n, rules, seed)
    weights = cell_weights(pool, [each.candidate for each in chosen])
    return [replace(c, weight=w) for c, w in zip(chosen, weights, strict=True)]


def _balanced(pool: Sequence[Candidate], n: int, rules: LabelRules, seed: int) -> list[Selected]:
    categories, chosen = rules.categories, list[Selected]()
    free = np.ones(len(pool), dtype=bool)
    has: Array = np.array([[name in c.categories for name in categories] for c in pool], dtype=bool)
    has = has.reshape(len(pool), len(categories))
    category_counts = np.zeros(len(categories), dtype=np.int64)
    # Each factor that is to be even: the number of each dialogue's value, and counts of the values.
    factors: dict[str, tuple[Array, Array]] = {}
    for name in ("level", "chatbot", "user", "group"):
        values = np.array([str(getattr(c, name)) for c in pool], dtype=object)
        names, of = np.unique(values, return_inverse=True)
        factors[name] = (of, np.zeros(len(names), dtype=np.int64))
    groups, group_counts = factors.pop("group")

    def take(row: int, stage: str, category: str) -> None:
        chosen.append(Selected(pool[row], stage=stage, category=category))
        free[row] = False
        category_counts[:] += has[row]
        group_counts[groups[row]] += 1
        for of, counts in factors.values():
            counts[of[row]] += 1

    # Stage one. With fewer places than pairs, chatbots come in turn.
    suitable: dict[tuple[str, str], list[int]] = defaultdict(list)
    for i, c in enumerate(pool):
        suitable[c.user, c.chatbot] += [i] if c.clean and c.level == int(rules.overall.high) else []
    turns: Counter[str] = Counter()
    rounds = {}
    for pair in sorted(suitable, key=lambda pair: draw(seed, "\n".join(pair))):
        rounds[pair] = turns[pair[1]]
        turns[pair[1]] += 1
    for pair in sorted(rounds, key=lambda pair: rounds[pair]):
        if suitable[pair] and len(chosen) < n:
            fresh = (i for i in suitable[pair] if not group_counts[groups[i]])
            take(next(fresh, suitable[pair][0]), "seed", CLEAN)

    # Stage two.
    rank = [draw(seed, name) for name in categories]
    while len(chosen) < n and (has & free[:, None]).any():
        left = np.flatnonzero((has & free[:, None]).any(axis=0))
        wanted = min(left, key=lambda k: (int(category_counts[k]), rank[k]))
        rows = np.flatnonzero(has[:, wanted] & free)
        cost = np.zeros(len(rows))
        for name, (of, counts) in factors.items():
            cost += _WEIGHTS[name] * (counts[of[rows]] / max(1.0, float(counts.mean())))
        share = category_counts / max(1.0, float(category_counts.mean()))
        others = has[rows].copy()
        others[:, wanted] = False
        cost += _WEIGHTS["issues"] * (others * share).sum(axis=1)
        cost += _WEIGHTS["group"] * (group_counts[groups[rows]] > 0)
        # The first of equals, in a random order.
        take(int(rows[np.argmin(cost)]), "balance", categories[wanted])
    return chosen


def cell_weights(pool: Sequence[Candidate], chosen: Sequence[Candidate]) -> list[float]:
    """How many dialogues of ``pool`` each of ``chosen`` represents; the sum is the pool's size."""
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
