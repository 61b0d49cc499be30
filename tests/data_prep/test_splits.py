"""Splits of conversations: the same on every machine."""

import pytest

from medal_judges.data_prep.sources.source import hash_split

# key -> first digits of what `printf '0:KEY' | sha256sum` says: splits may never move
KEYS = {"a": "9df3", "b": "e021", "c": "be08", "dialogue-7": "5edb", "été": "a82d", "10": "6ac5"}


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
