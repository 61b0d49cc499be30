"""Assignment: everybody equally, every pair equally, the same again for the same seed."""

from collections import Counter
from itertools import combinations

import pytest

from medal_judges.data_prep.annotation.project import assign_dialogues, parse_annotators


def keys(n: int, lang: str = "en") -> dict[str, str]:
    return {f"{lang}{i:03d}": lang for i in range(n)}


@pytest.mark.parametrize(
    ("people", "each", "n"), [(2, 2, 50), (3, 2, 100), (5, 3, 101), (4, 1, 9)]
)
def test_shares_and_overlaps_are_balanced(people: int, each: int, n: int) -> None:
    names = [f"p{i}" for i in range(people)]
    found = assign_dialogues(keys(n), parse_annotators(names), each, seed=0)
    loads = [len(given) for given in found.values()]
    assert sum(loads) == n * each and max(loads) - min(loads) <= 1
    assert Counter(k for given in found.values() for k in given) == dict.fromkeys(
        keys(n), each
    )
    shared = [len(set(found[a]) & set(found[b])) for a, b in combinations(names, 2)]
    expected = n * each * (each - 1) / (people * (people - 1))
    assert all(abs(count - expected) <= 0.2 * expected + 2 for count in shared)


def test_languages_go_to_those_who_read_them() -> None:
    people = parse_annotators(["ana:en,pt", "ben:en", "cruz:pt", "dao:ZH", "eva"])
    found = assign_dialogues(
        keys(20) | keys(20, "pt") | keys(20, "zh"), people, 2, seed=0
    )
    assert {key[:2] for key in found["ben"]} == {"en"}
    assert {key[:2] for key in found["cruz"]} == {"pt"}
    assert len(found["dao"]) == 20
    assert sum(map(len, found.values())) == 120


def test_medals_own_design() -> None:
    """Two for four languages, one for German and Spanish (MEDAL, section 3.5): ten people."""
    pairs = ("en", "fr", "pt", "zh")
    people = [f"{lang}{i}:{lang}" for lang in pairs for i in (1, 2)] + [
        "de1:de",
        "es1:spanish",
    ]
    langs = {key: lang for lang in (*pairs, "de", "es") for key in keys(20, lang)}
    found = assign_dialogues(langs, parse_annotators(people), 2, seed=0)
    assert {name: len(given) for name, given in found.items()} == dict.fromkeys(
        found, 20
    )
    assert len(found) == 10
    readers = Counter(key for given in found.values() for key in given)
    assert all(
        count == (1 if key[:2] in ("de", "es") else 2) for key, count in readers.items()
    )
