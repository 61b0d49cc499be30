"""Splits: by conversation or chatbot, the same whatever the order of the rows."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from medal_judges.data_prep.sources.splits import hash_split, split_rows
from medal_judges.dialogue import Dialogue, Turn
from medal_judges.errors import ConfigError
from medal_judges.labelled import LabelledDialogue

# key -> first digits of what `printf '0:KEY' | sha256sum` says: splits may never move
KEYS = {"a": "9df3", "b": "e021", "c": "be08", "dialogue-7": "5edb", "été": "a82d", "10": "6ac5"}


def make_rows(seed: int, groups: int = 300, bots: int = 11) -> list[LabelledDialogue]:
    """Rows of ``groups`` conversations, one to five rows each, in a random order."""
    generator = np.random.default_rng(seed)
    rows = []
    for group in range(groups):
        models = {"assistant": f"bot-{generator.integers(bots)}"}
        for number in range(generator.integers(1, 6)):
            dialogue = Dialogue(f"{group}-{number}", (Turn("assistant", "x"),), models=models)
            rows.append(LabelledDialogue(dialogue, {}, {}, group=f"g{group}"))
    return [rows[i] for i in generator.permutation(len(rows))]


def ids(parts: dict[str, list[LabelledDialogue]]) -> dict[str, set[str]]:
    return {name: {row.id for row in rows} for name, rows in parts.items()}


@pytest.mark.parametrize("seed", range(5))
def test_no_group_is_cut_and_no_row_lost(seed: int) -> None:
    rows = make_rows(seed)
    parts = split_rows(rows, seed=seed)
    homes = defaultdict(set)
    for name, members in parts.items():
        for row in members:
            homes[row.group].add(name)
    assert all(len(names) == 1 for names in homes.values())
    assert sum(map(len, parts.values())) == len(rows)
    assert list(parts) == ["train", "validation", "test"]


@pytest.mark.parametrize("by", ["group", "chatbot"])
def test_the_order_of_rows_does_not_matter_and_stays(by: str) -> None:
    rows = make_rows(0)
    parts = split_rows(rows, seed=3, by=by)  # type: ignore[arg-type]
    other = split_rows(rows[::-1], seed=3, by=by)  # type: ignore[arg-type]
    assert ids(parts) == ids(other)
    assert parts["train"] == other["train"][::-1]


def test_a_row_keeps_its_split_when_others_come_or_go() -> None:
    rows = make_rows(1)
    whole, half = ids(split_rows(rows, seed=0)), ids(split_rows(rows[::2], seed=0))
    assert all(half[name] <= whole[name] for name in whole)


@pytest.mark.parametrize("by", ["group", "chatbot"])
def test_seeds_differ_and_zero_is_one_of_them(by: str) -> None:
    rows = make_rows(2)
    found = [ids(split_rows(rows, seed=s, by=by)) for s in (0, 1, 2, 0)]  # type: ignore[arg-type]
    assert found[0] == found[3]
    assert found[0] != found[1] != found[2] != found[0]


def test_shares_are_met_within_chance() -> None:
    names = [hash_split(f"key-{i}", seed=0, shares=(0.6, 0.3, 0.1)) for i in range(10_000)]
    for name, share in (("train", 0.6), ("validation", 0.3), ("test", 0.1)):
        # 5 standard errors of a share of 10,000 draws
        assert abs(names.count(name) / 10_000 - share) < 5 * (share * (1 - share) / 10_000) ** 0.5
    assert {hash_split(str(i), seed=0, shares=(0, 0, 1)) for i in range(50)} == {"test"}


@pytest.mark.parametrize(("key", "digits"), KEYS.items())
def test_the_split_of_a_key_is_that_of_its_hash(key: str, digits: str) -> None:
    place = int(digits, 16) / 16**4
    wanted = "train" if place < 0.8 else "validation" if place < 0.9 else "test"
    assert hash_split(key, seed=0) == wanted


@pytest.mark.parametrize("seed", range(5))
def test_by_chatbot_holds_whole_chatbots_out(seed: int) -> None:
    parts = split_rows(make_rows(seed), seed=seed, by="chatbot", shares=(0.6, 0.2, 0.2))
    bots = {name: {row.dialogue.chatbot for row in rows} for name, rows in parts.items()}
    assert [len(bots[name]) for name in ("train", "validation", "test")] == [7, 2, 2]
    assert not bots["train"] & bots["test"] and not bots["validation"] & bots["test"]


def test_a_row_without_a_chatbot_is_an_error() -> None:
    row = LabelledDialogue(Dialogue("lonely", (Turn("user", "x"),)), {}, {}, group="g")
    with pytest.raises(ConfigError, match="'lonely'"):
        split_rows([*make_rows(0), row], seed=0, by="chatbot")


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.8, 0.1, 0.2), (1.2, -0.1, -0.1)])
def test_shares_that_are_none(shares: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="add up to 1"):
        split_rows(make_rows(0), seed=0, shares=shares)
