"""Triples as sentences, the embedded set, languages."""

from collections import Counter

import pytest

from medal_judges.data_prep.seeds.contexts import (
    EMBEDDED,
    Triple,
    find_feeling_word,
    find_gendered_word,
    is_gender_neutral,
    load_relations,
    read_good_triples,
    read_personas,
    to_sentences,
)


@pytest.mark.parametrize(
    ("head", "relation", "tail", "said"),
    [
        ("PersonX sings", "xReact", "calm", "PersonX sings. Now PersonX feels calm."),
        (
            "PersonX sings",
            "xWant",
            "to rest",
            "PersonX sings. Now PersonX wants to rest.",
        ),
        (
            "PersonX sings",
            "xNeed",
            "to stand up",
            "PersonX sings. First PersonX needs to stand up.",
        ),
        (
            "PersonX sings",
            "HinderedBy",
            "The hall is shut.",
            "The plan is that PersonX sings. It fails because the hall is shut.",
        ),
    ],
)
def test_sentences(head: str, relation: str, tail: str, said: str) -> None:
    assert to_sentences(Triple(head, relation, tail)) == said


def test_the_embedded_set_is_large_varied_and_neutral() -> None:
    triples, personas = list(read_good_triples(EMBEDDED)), list(read_personas(EMBEDDED))
    assert len(triples) >= 60 and len(set(map(to_sentences, triples))) == len(triples)
    assert len(personas) >= 60 and len(set(personas)) == len(personas)
    counts = Counter(triple.relation for triple in triples)
    assert (
        set(counts) == set(load_relations()["relations"]) and min(counts.values()) >= 8
    )
    assert all(is_gender_neutral(triple) for triple in triples)
    assert [p for p in personas if find_gendered_word(p)] == []
    for triple in triples:
        assert (find_feeling_word(to_sentences(triple)) is not None) == (
            triple.relation == "xReact"
        )
