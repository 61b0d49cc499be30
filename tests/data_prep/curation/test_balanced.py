"""The two-stage selection: small pools where it is forced, and what always holds."""

import random
from collections import Counter

import numpy as np
import pytest
from scipy.stats import entropy

from medal_judges.data_prep.curation.pool import Candidate, load_label_rules
from medal_judges.data_prep.curation.report import _count_values
from medal_judges.data_prep.curation.selection import Selected, select_balanced

from .rows import candidate, labelled_pool


def chosen(pool: list[Candidate], n: int, seed: int = 0) -> list[Selected]:
    return select_balanced(pool, n, load_label_rules(), seed=seed)


def ids(selection: list[Selected]) -> list[str]:
    return [pick.candidate.id for pick in selection]


@pytest.fixture(scope="module")
def pool() -> list[Candidate]:
    """2,000 dialogues of one language, issues as rare as in the paper."""
    from medal_judges.records.labelled import parse_labelled

    reading = load_label_rules()
    read = map(reading.to_candidate, map(parse_labelled, labelled_pool(12_000, 3)))
    return [c for c in read if c.lang == "fr"]


@pytest.mark.parametrize("seed", range(8))
def test_a_pool_with_one_answer(seed: int) -> None:
    """A clean five of each chatbot; then the only unsafe one and, of the repetitive ones, that of
    the rarer chatbot with the score nobody has."""
    rows = [
        candidate("a1"),
        candidate("a2"),
        candidate("a4", level=4),
        candidate("b1", chatbot="B"),
        candidate("x", "unsafe", level=3),
        candidate("r1", "repetitive", level=5),
        candidate("r2", "repetitive", level=4, chatbot="B"),
    ]
    found = chosen(rows, 4, seed)
    assert {c for c in ids(found) if c in ("a1", "a2")} and len(found) == 4
    assert set(ids(found)) - {"a1", "a2"} == {"b1", "x", "r2"}


def test_neither_order_nor_run_changes_the_selection(pool: list[Candidate]) -> None:
    mixed = list(pool)
    random.Random(1).shuffle(mixed)
    assert ids(chosen(pool, 100)) == ids(chosen(mixed, 100))
    assert ids(chosen(pool, 100, seed=1)) != ids(chosen(pool, 100))


def test_every_pair_with_a_clean_five_is_seeded(pool: list[Candidate]) -> None:
    pairs = {(c.user, c.chatbot) for c in pool if c.is_clean and c.level == 5}
    seeds = [pick.candidate for pick in chosen(pool, 100)[:16]]
    assert len(pairs) == 16
    assert {(c.user, c.chatbot) for c in seeds} == pairs
    assert all(c.is_clean and c.level == 5 for c in seeds)


def test_far_more_even_than_chance(pool: list[Candidate]) -> None:
    picks = [pick.candidate for pick in chosen(pool, 100)]
    for factor, least in {"categories": 0.9, "level": 0.8, "chatbot": 0.95}.items():
        in_pool, selected = _count_values(pool, factor), _count_values(picks, factor)
        most = np.log(len(in_pool))  # of values that are equally frequent
        even = entropy([selected[value] for value in in_pool]) / most
        even_pool = entropy([*in_pool.values()]) / most
        assert even > least and even > even_pool - 0.01
        if factor == "categories":
            # What is rare is taken whole; of the rest there is as much as of any.
            for value, count in in_pool.items():
                assert selected[value] == count or selected[value] >= 11


READING = load_label_rules()


def test_balanced_weights_count_every_dialogue_once_on_average() -> None:
    """E[weight of i, 0 where not chosen] = 1 for all i, by 3,000 seeds, where all cells are hit."""
    pool = [candidate(f"a{i}") for i in range(7)]
    pool += [candidate(f"b{i}", chatbot="B") for i in range(3)]
    pool += [candidate(f"r{i}", "repetitive", level=3) for i in range(5)]
    pool += [candidate(f"s{i}", "unsafe", level=2, chatbot="B") for i in range(2)]
    total: Counter[str] = Counter()
    seeds = 3000
    for seed in range(seeds):
        found = select_balanced(pool, 6, READING, seed=seed)
        for c in found:
            total[c.candidate.id] += c.weight
    for c in pool:
        assert total[c.id] / seeds == pytest.approx(1, abs=0.15)
