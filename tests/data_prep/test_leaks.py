"""Leak check: finds what is shared, in all its disguises, and lets innocent pairs pass."""

import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from medal_judges.data_prep.sources.leaks import find_leaks
from medal_judges.reading.dialogues import read_labelled
from medal_judges.records.labelled import LabelledDialogue

from ..talks import talk

SYLLABLES = ("ba", "ko", "mi", "tu", "re", "la", "so")
WORDS = ["".join(pair) for pair in product(SYLLABLES, repeat=2)]


def row(id: str, *contents: str, group: str = "") -> LabelledDialogue:
    return LabelledDialogue(talk(*contents, id=id), {}, {}, group=group or id)


def random_texts(
    generator: np.random.Generator, turns: int = 8, words: int = 20
) -> list[str]:
    return [" ".join(generator.choice(WORDS, words)) for _ in range(turns)]


def leaks(train: LabelledDialogue, *test: LabelledDialogue) -> list[tuple[str, str]]:
    return [(leak.test_id, leak.how) for leak in find_leaks([train], test)]


TALK = [
    "Hi!",
    "Hello, how are you?",
    "I went to Lyon by train.",
    "Was the café good?",
    "Very!",
]


def test_the_same_group_under_other_words() -> None:
    train, test = (
        row("a", "one", "two", group="g"),
        row("b", "three", "four", group="g"),
    )
    assert leaks(train, test) == [("b", "same group 'g'")]
    # the source of b
    assert leaks(row("g", "one", "two"), test) == [("b", "same group 'g'")]


@pytest.mark.parametrize(
    "disguise",
    [
        str.upper,
        lambda text: f"  {text}\n",
        lambda text: text.replace("!", " ..."),
        lambda text: text.replace("é", "e\u0301"),  # the accent as a letter of its own
        lambda text: text.translate(
            {ord(c): ord(c) + 0xFEE0 for c in "abcdeL"}
        ),  # wide letters
    ],
)
def test_the_same_text_in_disguise(disguise: object) -> None:
    train = row("a", *(disguise(text) for text in TALK))  # type: ignore[operator]
    assert [how for _, how in leaks(train, row("b", *TALK))] == [
        "same text, whole or as a beginning"
    ]


def test_a_shared_greeting_is_no_leak() -> None:
    one, two = row("a", *TALK[:2], "I like red."), row("b", *TALK[:2], "My dog is ill.")
    assert leaks(one, two) == []
    assert leaks(row("a", *TALK[:2]), two) == []  # two turns are a stock opening
    # but the very same row is not
    assert leaks(row("a", *TALK[:2]), row("b", *TALK[:2])) != []


def edited(
    contents: list[str], generator: np.random.Generator, edits: int
) -> list[str]:
    """``edits`` words replaced, at random places."""
    turns = [text.split() for text in contents]
    for _ in range(edits):
        turn = turns[generator.integers(len(turns))]
        turn[generator.integers(len(turn))] = "changed"
    return [" ".join(turn) for turn in turns]


def test_small_edits_are_found_among_many_innocent_rows() -> None:
    generator = np.random.default_rng(0)
    test = [row(f"t{i}", *random_texts(generator)) for i in range(200)]
    train = []
    for number, original in enumerate(test[:100]):
        texts = edited([t.content for t in original.dialogue.turns], generator, edits=3)
        train.append(row(f"a{number}", *texts))
    # three edits touch at most 15 of 156 five-word runs: Jaccard at least 141 / 171
    found = {leak.train_id: leak.test_id for leak in find_leaks(train, test)}
    assert found == {f"a{i}": f"t{i}" for i in range(100)}
    innocent = [row(f"i{i}", *random_texts(generator)) for i in range(200)]
    assert list(find_leaks(innocent, test)) == []


DATA = os.environ.get("MEDAL_JUDGES_DATA")


@pytest.mark.skipif(DATA is None, reason="MEDAL_JUDGES_DATA (human ratings) is not set")
@pytest.mark.parametrize("by_group", [True, False])
def test_conture_is_found_in_dstc9(by_group: bool) -> None:
    folder = Path(str(DATA))
    conture = list(read_labelled(folder / "conture_dialogue.jsonl.gz"))
    dstc9 = [r for r in read_labelled(folder / "dstc9.jsonl.gz") if r.split == "test"]
    if not by_group:  # by its text alone, as with files that do not know of each other
        conture = [
            LabelledDialogue(r.dialogue, r.labels, r.scales, group=r.id)
            for r in conture
        ]
    found = {leak.train_id: leak.test_id for leak in find_leaks(conture, dstc9)}
    assert len(conture) == len(found) == 119
    overlaps = {r.extra["overlaps"]: r.id for r in dstc9 if "overlaps" in r.extra}
    assert found == overlaps
