"""Leak check: a training set may not share a dialogue with its test set.

A dialogue is shared if both have the same ``group``, the same normalised text or beginning
(turn-level rows are prefixes of dialogues), or nearly the same text by word 5-grams.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from medal_judges.errors import LeakError
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.labelled import LabelledDialogue

THRESHOLD = 0.7  # minimum Jaccard similarity of word 5-grams of a near-duplicate
_ORDER = 5
_MIN_TURNS = 3  # shorter beginnings ("hi", "hello") are shared by chance
_MIN_SHINGLES = 20
_NOT_A_WORD = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Leak:
    """A training row whose dialogue is also in the test set.

    Attributes:
        train_id: Id of the training row.
        test_id: Id of the test row.
        how: How the two match, such as ``near-duplicate, Jaccard 0.83``.
    """

    train_id: str
    test_id: str
    how: str


def require_no_leaks(
    train: Iterable[LabelledDialogue], test: Sequence[LabelledDialogue]
) -> None:
    """Raises LeakError, with the first five examples, if ``train`` and ``test`` share
    a dialogue."""
    leaks = list(find_leaks(train, test))
    if not leaks:
        return
    examples = [
        f"    {leak.train_id} ~ {leak.test_id}: {leak.how}" for leak in leaks[:5]
    ]
    raise LeakError(
        f"{len({leak.train_id for leak in leaks})} training rows are also in the held-out rows:"
        "\n" + "\n".join(examples),
        hint="Split by conversation (`group`), or remove these rows from training",
    )


def find_leaks(
    train: Iterable[LabelledDialogue], test: Sequence[LabelledDialogue]
) -> Iterator[Leak]:
    """Yields a Leak for each row of ``train`` that shares its dialogue with a row of ``test``.

    Two rows share a dialogue if they have the same ``group`` (conversation) or the same text, or if
    one text of at least three turns is the beginning of the other. They also share it if their word
    5-grams have a Jaccard similarity of 0.7 or more.
    """
    groups = {row.group: row for row in sorted(test, key=_is_ungrouped, reverse=True)}
    texts: dict[int, str] = {}  # hash of a text -> id of its row
    beginnings: dict[int, str] = {}
    for row in test:
        hashes = _running_hashes(row.dialogue)
        texts.setdefault(hashes[-1], row.id)
        for beginning in hashes[_MIN_TURNS - 1 :]:
            beginnings.setdefault(beginning, row.id)
    find_nearest = _nearest_row_finder(test)
    for row in train:
        relative = groups.get(row.group)
        hashes = _running_hashes(row.dialogue)
        starts = (texts[start] for start in hashes[_MIN_TURNS - 1 :] if start in texts)
        equal = (
            texts.get(hashes[-1]) or beginnings.get(hashes[-1]) or next(starts, None)
        )
        # Rows without a group have their id as group; two files may share ids by chance.
        if relative is not None and not (
            _is_ungrouped(row) and _is_ungrouped(relative)
        ):
            yield Leak(row.id, relative.id, f"same group {row.group!r}")
        elif equal is not None:
            yield Leak(row.id, equal, "same text, whole or as a beginning")
        else:
            similarity, id = find_nearest(row.dialogue)
            if similarity >= THRESHOLD:
                yield Leak(row.id, id, f"near-duplicate, Jaccard {similarity:.2f}")


def _is_ungrouped(row: LabelledDialogue) -> bool:
    return row.group == row.id


def _nearest_row_finder(
    rows: Sequence[LabelledDialogue],
) -> Callable[[Dialogue], tuple[float, str]]:
    """Returns a function that finds the row of ``rows`` most similar to a dialogue.

    Returns:
        A function that takes a dialogue. It returns the highest Jaccard similarity (of word
            5-grams, on [0, 1]) and the id of the row that has it.
    """
    sizes: list[int] = []  # of the rows, in shingles
    owners: dict[int, list[int]] = defaultdict(list)  # shingle -> numbers of its rows
    for number, row in enumerate(rows):
        shingles = _ngram_hashes(row.dialogue)
        sizes.append(len(shingles))
        for shingle in shingles:
            owners[shingle].append(number)

    def find_nearest(dialogue: Dialogue) -> tuple[float, str]:
        searched = _ngram_hashes(dialogue)
        common: Counter[int] = Counter()
        for shingle in searched & owners.keys():
            common.update(owners[shingle])
        highest = (0.0, "")
        for number, count in common.items():
            similarity = count / (len(searched) + sizes[number] - count)
            highest = max(highest, (similarity, rows[number].id))
        return highest

    return find_nearest


@lru_cache(1 << 15)  # copies of one chat, with injected issues, share most turns
def _normalise(text: str) -> str:
    """Returns ``text`` in Unicode form NFKC and lower case, with one space in place of each run of
    spaces and punctuation."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(_NOT_A_WORD.sub(" ", folded).split())


def _running_hashes(dialogue: Dialogue) -> list[int]:
    """Returns for each turn a hash of all turns up to and including this turn."""
    texts = (_normalise(turn.content) for turn in dialogue.turns)
    return list(
        accumulate(texts, lambda before, text: hash((before, text)), initial=0)
    )[1:]


def _ngram_hashes(dialogue: Dialogue) -> set[int]:
    """Returns hashes of all word 5-grams of ``dialogue`` (character 5-grams if its text has no
    spaces). The set is empty if there are fewer than 20, because such short texts are alike by
    chance."""
    words = " ".join(_normalise(turn.content) for turn in dialogue.turns).split()
    if words and sum(map(len, words)) / len(words) > 15:
        words = list("".join(words))
    ngrams = zip(*(words[start:] for start in range(_ORDER)), strict=False)
    shingles = set(map(hash, ngrams))
    if len(shingles) < _MIN_SHINGLES:
        shingles.clear()
    return shingles
