"""A balanced selection of one language's dialogues, and the weight of each.

Stage one (MEDAL, section 5.1) takes, for each pair of user and chatbot, a random clean dialogue
with the best overall score. Stage two takes dialogues of the category with the fewest so far.

A balanced selection has more of what is rare, so a share or correlation in it needs weights. They
are by post-stratification (Holt and Smith 1979): a chosen dialogue represents the dialogues with
the same labels, chatbot and user."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from medal_judges.data_prep.curation.pool import (
    Candidate,
    LabelRules,
    hash_to_fraction,
)

Array = npt.NDArray[Any]
# The cost of a dialogue: for each factor, how often its value was chosen, over an even share.
# Overall and chatbot are the paper's; users are few and follow from the pairs; a context (or
# opener) that the selection already has is avoided if all else is equal.
_WEIGHTS = {
    "level": 1.0,
    "chatbot": 1.0,
    "user": 0.5,
    "issues": 0.2,
    "group": 0.01,
}

# From the finest cell to the whole pool: what was not chosen joins the first that was.
_CELLS: tuple[Callable[[Candidate], Hashable], ...] = (
    lambda c: (c.categories, c.level, c.chatbot, c.user),
    lambda c: (c.categories, c.level, c.chatbot),
    lambda c: (c.categories, c.level),
    lambda c: (c.is_clean, len(c.categories), c.level),
    lambda c: (c.is_clean, c.level),
    lambda c: c.level,
    lambda c: c.is_clean,
    lambda c: None,
)


@dataclass(frozen=True, slots=True)
class Selected:
    """A selected dialogue.

    Attributes:
        candidate: The dialogue, with its categories and overall score.
        weight: The number of candidates in its language that the dialogue represents.
    """

    candidate: Candidate
    weight: float


def select_balanced(
    pool: Sequence[Candidate],
    n: int,
    rules: LabelRules,
    *,
    seed: int = 0,
) -> list[Selected]:
    """Selects ``n`` dialogues so that issues, overall scores, chatbots and users are balanced.

    A smaller ``n`` selects the beginning of the same sequence.

    Args:
        pool: The candidates of one language, in any order.
        n: The number of dialogues. Fewer are selected if fewer candidates have a category.
        rules: Names the issues to balance.
        seed: Determines which of equally good dialogues is selected.

    Returns:
        The selected dialogues with their weights, in the order of selection.
    """
    # In a random order, which depends only on the seed and the ids.
    candidates = sorted(pool, key=lambda c: (hash_to_fraction(seed, c.id), c.id))
    selection = _BalancedSelection(candidates, rules)
    selection.choose_best_for_each_pair(n, seed)
    selection.fill_balanced(n, seed)
    weights = poststratification_weights(pool, selection.chosen)
    return list(map(Selected, selection.chosen, weights))


class _BalancedSelection:
    """A balanced selection in progress. Dialogues are named by their index in ``pool``, categories
    by their index in ``categories``.

    Attributes:
        pool: The candidates.
        rules: Decides the categories of a dialogue.
        categories: ``clean`` and the names of the issues.
        chosen: The selected dialogues, in order.
        is_free: Whether each dialogue can still be selected, [dialogues].
        has: Whether each dialogue has each category, [dialogues, categories].
        category_counts: The number of selected dialogues in each category, [categories].
        factors: Field (``level``, ``chatbot`` or ``user``) -> two arrays: the index of each
            dialogue's value in that field, [dialogues], and how many selected dialogues have each
            value, [values].
        groups: The index of each dialogue's conversation in ``group_counts``, [dialogues].
        group_counts: The number of selected dialogues in each conversation, [conversations].
    """

    def __init__(self, pool: Sequence[Candidate], rules: LabelRules) -> None:
        self.pool = pool
        self.rules = rules
        self.categories = rules.categories
        self.chosen: list[Candidate] = []
        self.is_free = np.ones(len(pool), dtype=bool)
        self.has: Array = np.zeros((len(pool), len(self.categories)), dtype=bool)
        for row, candidate in enumerate(pool):
            for column, name in enumerate(self.categories):
                self.has[row, column] = name in candidate.categories
        self.category_counts = np.zeros(len(self.categories), dtype=np.int64)
        self.factors = {}
        for name in ("level", "chatbot", "user"):
            self.factors[name] = self._index_values(name)
        self.groups, self.group_counts = self._index_values("group")

    def _index_values(self, name: str) -> tuple[Array, Array]:
        """Numbers the distinct values of the field ``name``, such as ``chatbot``.

        Returns:
            The index of each dialogue's value, [dialogues], and zeros [values] in which to count
                the selected dialogues with each value.
        """
        values = [str(getattr(candidate, name)) for candidate in self.pool]
        names, value_of = np.unique(np.array(values, dtype=object), return_inverse=True)
        return value_of, np.zeros(len(names), dtype=np.int64)

    def choose(self, row: int) -> None:
        """Adds the dialogue with the index ``row`` to the selection, and updates the counts."""
        self.chosen.append(self.pool[row])
        self.is_free[row] = False
        self.category_counts += self.has[row]
        self.group_counts[self.groups[row]] += 1
        for value_of, counts in self.factors.values():
            counts[value_of[row]] += 1

    def choose_best_for_each_pair(self, n: int, seed: int) -> None:
        """Selects one dialogue for each pair of user and chatbot: without issues, and with the best
        overall score that the scale allows.

        Pairs without such a dialogue are skipped.

        Args:
            n: The maximum number of selected dialogues.
            seed: Determines the order of pairs.
        """
        suitable: dict[tuple[str, str], list[int]] = defaultdict(list)
        for row, candidate in enumerate(self.pool):
            rows = suitable[candidate.user, candidate.chatbot]
            if candidate.is_clean and candidate.level == int(self.rules.overall.high):
                rows.append(row)
        # In a random order, but every chatbot once before any of them twice.
        turns: Counter[str] = Counter()
        pairs_by_turn: dict[int, list[tuple[str, str]]] = defaultdict(list)
        for pair in sorted(
            suitable, key=lambda pair: hash_to_fraction(seed, "\n".join(pair))
        ):
            _, chatbot = pair
            pairs_by_turn[turns[chatbot]].append(pair)
            turns[chatbot] += 1
        for pair in chain.from_iterable(pairs_by_turn.values()):
            rows = suitable[pair]
            if rows and len(self.chosen) < n:
                # The first whose context is new, else the first.
                is_repeated = self.group_counts[self.groups[rows]] > 0
                self.choose(rows[int(np.argmin(is_repeated))])

    def fill_balanced(self, n: int, seed: int) -> None:
        """Adds dialogues until ``n`` are selected, each from the category with the fewest so far.

        Within a category, the dialogue that unbalances the selection least is taken.

        Args:
            n: The total number of dialogues, including those selected before.
            seed: Determines which of equally rare categories is first.
        """
        rank = [hash_to_fraction(seed, name) for name in self.categories]
        while len(self.chosen) < n:
            left = np.flatnonzero(self.has[self.is_free].any(axis=0))
            if not len(left):
                break
            category = min(
                left.tolist(), key=lambda k: (int(self.category_counts[k]), rank[k])
            )
            rows = np.flatnonzero(self.has[:, category] & self.is_free)
            # The first of equals, in a random order.
            cheapest = rows[np.argmin(self._costs(rows, category))]
            self.choose(int(cheapest))

    def _costs(self, rows: Array, category: int) -> Array:
        """Returns how much each dialogue would unbalance the selection, [rows].

        Args:
            rows: Indices of dialogues.
            category: Index of the category to fill, which adds no cost.
        """
        costs = np.zeros(len(rows))
        for name, (value_of, counts) in self.factors.items():
            costs += _WEIGHTS[name] * _relative_counts(counts)[value_of[rows]]
        issues = self.has[rows].copy()
        issues[:, category] = False
        share = _relative_counts(self.category_counts)
        costs += _WEIGHTS["issues"] * (issues * share).sum(axis=1)
        costs += _WEIGHTS["group"] * (self.group_counts[self.groups[rows]] > 0)
        return costs


def _relative_counts(counts: Array) -> Array:
    """Returns ``counts`` divided by their mean, or by 1 if that is larger."""
    return counts / max(1.0, float(counts.mean()))


def poststratification_weights(
    pool: Sequence[Candidate], chosen: Sequence[Candidate]
) -> list[float]:
    """Returns the weight of each of ``chosen``: how many dialogues of ``pool`` it represents.

    A dialogue of the pool is represented by the chosen ones that are most like it in labels,
    chatbot and user.

    Args:
        pool: All candidates of one language.
        chosen: The selected candidates.

    Returns:
        Weights in the order of ``chosen``. Their sum is the size of the pool.
    """
    weights = {candidate.id: 0.0 for candidate in chosen}
    left = list(pool)
    for cell in _CELLS:
        members = defaultdict(list)
        for candidate in chosen:
            members[cell(candidate)].append(candidate.id)
        uncovered = []
        for candidate in left:
            ids = members.get(cell(candidate))
            if ids is None:
                uncovered.append(candidate)
                continue
            for id in ids:
                weights[id] += 1 / len(ids)
        left = uncovered
    return list(weights.values())
