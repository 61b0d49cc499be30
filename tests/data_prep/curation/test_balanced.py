"""The two-stage selection: small pools where it is forced, and what always holds."""

import random
from collections import Counter

import pytest

from medal_judges.data_prep.curation.pool import CLEAN, Candidate, label_rules
from medal_judges.data_prep.curation.report import factor_balances
from medal_judges.data_prep.curation.selection import Selected, select

from .rows import candidate, labelled_pool


def chosen(pool: list[Candidate], n: int, seed: int = 0) -> list[Selected]:
    return select("balanced", pool, n, label_rules(), seed=seed)


def ids(selection: list[Selected]) -> list[str]:
    return [pick.candidate.id for pick in selection]


@pytest.fixture(scope="module")
def pool() -> list[Candidate]:
    """2,000 dialogues of one language, issues as rare as in the paper."""
    from medal_judges.records.labelled import parse_labelled

    reading = label_rules()
    read = (reading.read(parse_labelled(row)) for row in labelled_pool(12_000, seed=3))
    return [c for c in read if c.lang == "fr"]


@pytest.mark.parametrize("seed", range(8))
def test_a_pool_with_one_answer(seed: int) -> None:
    """A clean five of each chatbot; then the only unsafe one and, of the repetitive ones, that of
    the rarer chatbot with the score nobody has."""
    rows = [
        candidate("a1"), candidate("a2"), candidate("a4", level=4), candidate("b1", chatbot="B"),
        candidate("x", "unsafe", level=3),
        candidate("r1", "repetitive", level=5), candidate("r2", "repetitive", level=4, chatbot="B"),
    ]  # fmt: skip
    found = chosen(rows, 4, seed)
    assert {c for c in ids(found) if c in ("a1", "a2")} and len(found) == 4
    assert set(ids(found)) - {"a1", "a2"} == {"b1", "x", "r2"}
    assert [pick.stage for pick in found] == ["seed", "seed", "balance", "balance"]


def test_which_of_equals_is_taken_depends_on_the_seed_alone() -> None:
    rows = [candidate("a1"), candidate("a2"), candidate("a3")]
    taken = Counter(ids(chosen(rows, 1, seed))[0] for seed in range(600))
    assert set(taken) == {"a1", "a2", "a3"}
    assert all(150 < count < 250 for count in taken.values())


def test_contexts_not_chosen_yet_are_preferred() -> None:
    rows = [candidate(f"c{i}", group=f"g{i % 4}") for i in range(40)]
    assert {pick.candidate.group for pick in chosen(rows, 4)} == {"g0", "g1", "g2", "g3"}


def test_n_different_dialogues_or_the_whole_pool(pool: list[Candidate]) -> None:
    for n in (1, 50, 100):
        assert len(set(ids(chosen(pool, n)))) == n
    few = pool[:30]
    assert sorted(ids(chosen(few, 100))) == sorted(c.id for c in few)
    assert ids(chosen([], 100)) == []


def test_neither_order_nor_run_changes_the_selection(pool: list[Candidate]) -> None:
    mixed = list(pool)
    random.Random(1).shuffle(mixed)
    assert ids(chosen(pool, 100)) == ids(chosen(mixed, 100))
    assert ids(chosen(pool, 100, seed=1)) != ids(chosen(pool, 100))


def test_a_smaller_selection_is_the_beginning_of_a_larger(pool: list[Candidate]) -> None:
    assert ids(chosen(pool, 100))[:60] == ids(chosen(pool, 60))


def test_every_pair_with_a_clean_five_is_seeded(pool: list[Candidate]) -> None:
    pairs = {(c.user, c.chatbot) for c in pool if c.clean and c.level == 5}
    seeds = [pick.candidate for pick in chosen(pool, 100) if pick.stage == "seed"]
    assert len(seeds) == len(pairs) == 16
    assert {(c.user, c.chatbot) for c in seeds} == pairs
    assert all(c.clean and c.level == 5 for c in seeds)


def test_far_more_even_than_chance(pool: list[Candidate]) -> None:
    reading = label_rules()
    picks = [pick.candidate for pick in chosen(pool, 100)]
    factors = factor_balances(pool, picks, 100, reading)
    for name, least in (("category", 0.9), ("level", 0.85), ("chatbot", 0.95), ("user", 0.99)):
        assert factors[name]["evenness"] > least
    for name in ("category", "level"):
        assert factors[name]["evenness"] > factors[name]["evenness_of_pool"] + 0.3
    issues = [v for v in factors["category"]["values"] if v["value"] != CLEAN]
    for value in issues:  # what is rare is taken whole; of the rest there is as much as of any
        assert value["selected"] == value["pool"] or value["selected"] >= 11
