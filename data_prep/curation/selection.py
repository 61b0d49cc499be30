"""The selection of one language's dialogues by a policy, and the weight of each.

``random`` is a simple random sample. ``balanced`` has two stages (MEDAL, section 5.1). First one
clean dialogue with the best overall score for each pair of user and chatbot, at random. Then, until
n are chosen: the category (an issue, or clean) of which the selection has fewest and the pool has
more, and of its dialogues the one that fits best, given how overall scores, chatbots, users and the
other issues stand so far. A level or chatbot that the selection lacks most but the category does
not have is skipped and counted.

A balanced selection over-represents what is rare, so a correlation or share computed on it is not
the pool's. Dialogues with the same labels, chatbot and user were equally likely to be chosen, so
each chosen one represents its cell: post-stratification (Holt and Smith 1979, "Post
Stratification"). A cell without a chosen dialogue counts with its nearest neighbours.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

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

Stage = Literal["seed", "balance"]
Cell = Callable[[Candidate], Hashable]

# The cost of a dialogue: for each factor, how often its value was chosen, over an even share.
# Overall and chatbot are the paper's; users are few and follow from the pairs; a context (or
# opener) that the selection already has is avoided if all else is equal.
_WEIGHTS = {"level": 1.0, "chatbot": 1.0, "user": 0.5, "issues": 0.2, "group": 0.01}

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
    """A chosen dialogue. ``weight``: how many of its language's pool it represents; ``chance``: its
    inclusion probability if the policy has one; ``stage`` and ``category``: what the balanced
    policy chose it for."""

    candidate: Candidate
    weight: float = 1.0
    chance: float | None = None
    stage: Stage | None = None
    category: str | None = None


@dataclass(frozen=True, slots=True)
class LanguageSelection:
    """The selection of one language, in the order chosen: its first k are a selection of k with as
    many seeds. ``skipped``: (category, factor, value) -> how often nothing fitted; factor
    ``category`` means that the pool had no more of it. ``unseeded``: (user, chatbot) pairs without
    a clean dialogue of the best score."""

    policy: Policy
    chosen: tuple[Selected, ...]
    skipped: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    unseeded: tuple[tuple[str, str], ...] = ()


def select(
    policy: Policy,
    pool: Sequence[Candidate],
    n: int,
    rules: LabelRules,
    *,
    seed: int = 0,
    per_context: int | None = None,
) -> LanguageSelection:
    """``n`` dialogues of ``pool`` (one language), or all if it has fewer, each with its weight; at
    most ``per_context`` of one group (``balanced`` only). The order of the pool does not matter."""
    ordered = shuffled(pool, seed)
    if policy == "random":
        drawn = ordered[:n]
        chance = len(drawn) / max(1, len(pool))
        return LanguageSelection(policy, tuple(Selected(c, 1 / chance, chance) for c in drawn))
    state = _State(ordered, rules.categories, seed, per_context)
    unseeded = state.seed_pairs(n, int(rules.overall.high))
    while len(state.chosen) < n and state.add_next():
        pass
    weights = cell_weights(pool, [each.candidate for each in state.chosen])
    weighted = (replace(c, weight=w) for c, w in zip(state.chosen, weights, strict=True))
    return LanguageSelection(policy, tuple(weighted), dict(state.skipped), unseeded)


class _State:
    """What is chosen and what is free, as arrays."""

    def __init__(
        self, pool: Sequence[Candidate], categories: Sequence[str], seed: int, limit: int | None
    ) -> None:
        self.pool, self.seed, self.limit = pool, seed, limit
        self.categories = tuple(categories)
        self.chosen: list[Selected] = []
        self.skipped: Counter[tuple[str, str, str]] = Counter()
        self.free = np.ones(len(pool), dtype=bool)
        has = [[name in c.categories for name in self.categories] for c in pool]
        self.has = np.array(has, dtype=bool).reshape(len(pool), len(self.categories))
        self.rank = [draw(seed, name) for name in self.categories]
        self.category_counts = np.zeros(len(self.categories), dtype=np.int64)
        self.factors = {
            "level": _Factor([str(c.level) for c in pool]),
            "chatbot": _Factor([c.chatbot for c in pool]),
            "user": _Factor([c.user for c in pool]),
        }
        names, self.groups = np.unique([c.group for c in pool], return_inverse=True)
        self.group_counts = np.zeros(len(names), dtype=np.int64)

    def seed_pairs(self, n: int, best: int) -> tuple[tuple[str, str], ...]:
        """Stage one; the pairs without a dialogue for it. With fewer places than pairs, chatbots
        come in turn."""
        suitable: dict[tuple[str, str], list[int]] = {}
        for i, c in enumerate(self.pool):
            rows = suitable.setdefault((c.user, c.chatbot), [])
            if c.clean and c.level == best:
                rows.append(i)
        turns: Counter[str] = Counter()
        rounds = {}
        for pair in sorted(suitable, key=lambda pair: draw(self.seed, "\n".join(pair))):
            rounds[pair] = turns[pair[1]]
            turns[pair[1]] += 1
        unseeded = []
        for pair in sorted(rounds, key=lambda pair: rounds[pair]):
            free = [i for i in suitable[pair] if self.free[i]]
            if not free:
                unseeded.append(pair)
            elif len(self.chosen) < n:
                fresh = (i for i in free if not self.group_counts[self.groups[i]])
                self.take(next(fresh, free[0]), "seed", CLEAN)
        return tuple(sorted(unseeded))

    def add_next(self) -> bool:
        """Take the next dialogue of stage two; False if none is left."""
        left = [bool(column.any()) for column in (self.has & self.free[:, None]).T]
        if not any(left):
            return False
        order = sorted(range(len(left)), key=lambda k: (int(self.category_counts[k]), self.rank[k]))
        wanted = next(k for k in order if left[k])
        for k in order[: order.index(wanted)]:
            self.skipped[self.categories[k], "category", ""] += 1
        rows = np.flatnonzero(self.has[:, wanted] & self.free)
        for name in ("level", "chatbot"):
            factor = self.factors[name]
            lacking = np.flatnonzero(factor.counts == factor.counts.min())
            if not np.isin(factor.of[rows], lacking).any():
                for value in lacking:
                    self.skipped[self.categories[wanted], name, factor.names[value]] += 1
        cost = np.zeros(len(rows))
        for name, factor in self.factors.items():
            even = max(1.0, float(factor.counts.mean()))
            cost += _WEIGHTS[name] * (factor.counts[factor.of[rows]] / even)
        share = self.category_counts / max(1.0, float(self.category_counts.mean()))
        others = self.has[rows].copy()
        others[:, wanted] = False
        cost += _WEIGHTS["issues"] * (others * share).sum(axis=1)
        cost += _WEIGHTS["group"] * (self.group_counts[self.groups[rows]] > 0)
        # The first of equals, in a random order.
        self.take(int(rows[np.argmin(cost)]), "balance", self.categories[wanted])
        return True

    def take(self, row: int, stage: Stage, category: str) -> None:
        """Choose one candidate and count it."""
        self.chosen.append(Selected(self.pool[row], stage=stage, category=category))
        self.free[row] = False
        self.category_counts += self.has[row]
        for factor in self.factors.values():
            factor.counts[factor.of[row]] += 1
        group = self.groups[row]
        self.group_counts[group] += 1
        if self.limit is not None and self.group_counts[group] >= self.limit:
            self.free[self.groups == group] = False


class _Factor:
    """A property that is to be even in the selection: its values and their counts."""

    def __init__(self, values: Sequence[str]) -> None:
        self.names, self.of = np.unique(np.array(values, dtype=object), return_inverse=True)
        self.counts: npt.NDArray[np.int64] = np.zeros(len(self.names), dtype=np.int64)


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


def covered_share(pool: Sequence[Candidate], chosen: Sequence[Candidate]) -> float | None:
    """Share of the pool whose finest cell holds a chosen dialogue: what the weights correct
    without borrowing from neighbours. None for an empty pool."""
    cells = {_CELLS[0](c) for c in chosen}
    return sum(_CELLS[0](c) in cells for c in pool) / len(pool) if pool else None
