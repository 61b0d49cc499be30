"""Weights against brute force: over many seeds each dialogue must count for one."""

from collections import Counter

import pytest

from medal_judges.data_prep.curation.pool import label_rules
from medal_judges.data_prep.curation.selection import cell_weights, select
from medal_judges.stats.weights import effective_size

from .rows import candidate

READING = label_rules()


def test_each_chosen_dialogue_stands_for_its_cell() -> None:
    pool = [candidate(f"c{i}") for i in range(6)]
    pool += [candidate(f"r{i}", "repetitive", level=3) for i in range(3)]
    chosen = [pool[0], pool[1], pool[6]]
    assert cell_weights(pool, chosen) == [3, 3, 3]
    assert effective_size([3, 3, 3]) == pytest.approx(3)


def test_a_cell_nothing_was_chosen_of_joins_its_nearest() -> None:
    pool = [
        candidate("a"),
        candidate("b", chatbot="B"),  # same labels, other chatbot: joins a
        candidate("r", "repetitive", level=3),
        candidate("i", "irrelevant", level=3),  # one issue, same level: joins r
        candidate("u", "unsafe", "irrelevant", level=2),  # not clean: joins r before a
    ]
    chosen = [pool[0], pool[2]]
    assert cell_weights(pool, chosen) == [2, 3]
    assert cell_weights(pool, []) == []


def test_balanced_weights_count_every_dialogue_once_on_average() -> None:
    """E[weight of i, 0 where not chosen] = 1 for all i, by 3,000 seeds, where all cells are hit."""
    pool = [candidate(f"a{i}") for i in range(7)]
    pool += [candidate(f"b{i}", chatbot="B") for i in range(3)]
    pool += [candidate(f"r{i}", "repetitive", level=3) for i in range(5)]
    pool += [candidate(f"s{i}", "unsafe", level=2, chatbot="B") for i in range(2)]
    total: Counter[str] = Counter()
    seeds = 3000
    for seed in range(seeds):
        found = select("balanced", pool, 6, READING, seed=seed)
        for c in found:
            total[c.candidate.id] += c.weight
    for c in pool:
        assert total[c.id] / seeds == pytest.approx(1, abs=0.15)
